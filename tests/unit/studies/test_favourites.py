"""Where a study begins, and which points it tries: the analytic model's word on a whole lattice costs no trial."""

from collections.abc import Sequence
from pathlib import Path

import optuna

from tuner.scenario_files import load
from tuner.studies.cases import of_stories
from tuner.studies.favourites import Liked, liked
from tuner.studies.finding import Search, basis_of
from tuner.studies.knobs import JobFacts, space_of
from tuner.studies.levels import problem_of
from tuner.studies.samplers import fresh_of, quiet, sampler_of
from tuner.studies.space import Dimension, Point, Space
from tuner.studies.trials import measure

SCENARIO = load(str(Path(__file__).parents[2] / "data" / "tuning" / "lopsided.toml")).scenario
FACTS = JobFacts(SCENARIO.topology, SCENARIO.setpoints, SCENARIO.bounds, SCENARIO.stations)
LATTICE = Space((Dimension("x", 0, 5, 1, whole=True, now=3), Dimension("y", 0, 2, 1, whole=True, now=1)))

POINTS = list(LATTICE.points())


def said(objective: str, trials: int = 40) -> tuple[Liked, list[float]]:
    """What the model likes, and the rate in its words of each favourite."""
    search = Search(of_stories([("story", SCENARIO)], 1), space_of(FACTS, ["split"]), (objective,), trials)
    problem = problem_of(search.space, search.cohorts.searching, search.objectives)
    basis = basis_of(search.space, problem.cases[:1], 1)
    found = liked(problem, basis, trials)
    told = [measure(search.space, problem.cases[0], basis.marks[0], point) for point in found.first]
    return found, [m.useful_per_gpu_h if objective == "useful" else m.waste_frac or 0.0 for m in told]


def test_the_best_of_the_whole_lattice_comes_first() -> None:
    found, rates = said("useful")
    assert rates == sorted(rates, reverse=True)
    assert len(found.first) == 10
    assert [p for p in found.worth if p in found.first][:3] == list(found.first[:3])


def test_of_an_objective_that_is_to_be_small_the_smallest_comes_first() -> None:
    _, wastes = said("waste")
    assert wastes == sorted(wastes)


def tried(trials: int, worth: Sequence[Point] = ()) -> list[Point]:
    """The points that are chosen after ten which were tried before; the best is the last of the lattice."""
    quiet()
    study = optuna.create_study(direction="maximize")
    for number in range(10 + trials):
        if number < 10:
            study.enqueue_trial(dict(POINTS[number]))
        study.sampler = fresh_of(sampler_of("tpe", LATTICE, 0, number), LATTICE, worth)
        study.optimize(lambda t: t.suggest_int("x", 0, 5) + t.suggest_int("y", 0, 2), n_trials=1)
    return [trial.params for trial in study.trials[10:]]


def test_no_point_of_a_lattice_is_tried_twice() -> None:
    found = tried(8)
    assert all(point in found for point in POINTS[10:]), found


def test_what_the_model_rules_out_is_tried_last() -> None:
    assert sorted(point["x"] for point in tried(2, worth=[POINTS[11], POINTS[13]])) == sorted(
        [POINTS[11]["x"], POINTS[13]["x"]]
    )
