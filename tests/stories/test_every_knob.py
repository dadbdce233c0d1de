"""Every knob in a study of its own: what is tried reaches the simulated job, and a bound stays a constraint."""

from dataclasses import replace
from pathlib import Path

import pytest
from optuna.trial import FrozenTrial

from simulators.scenario import Horizon, Scenario
from simulators.stations import Admission, Plug, PrefillPool
from tests.stories.study_run import LOPSIDED
from tuner.scenario_files import load
from tuner.studies.cases import of_stories
from tuner.studies.finding import Search, prepared, run
from tuner.studies.knobs import KNOBS, JobFacts, space_of
from tuner.studies.opening import Where
from tuner.studies.space import LIMITED
from tuner.studies.storage import DONE

pytestmark = pytest.mark.slow
AIMS = ("useful", "staleness", "waste", "cost")
"""With several objectives every trial is measured on all cases."""
DIMENSIONS = {
    "split": {"gpus_trainer"},
    "prefill": {"gpus_prefill"},
    "concurrency": {"max_in_flight"},
    "oversampling": {"oversampling_ratio"},
    "staleness": {"staleness_bound"},
    "sync": {"sync_interval"},
    "group": {"group_size"},
    "batch": {"batch_rollouts"},
}


def job() -> Scenario:
    """One that has every knob: prefill engines of its own, and admission that follows its staleness bound."""
    scenario = load(str(LOPSIDED)).scenario
    knobs = replace(scenario.setpoints, gpus_prefill=4, gpus_decode=18, staleness_bound=2, sync_interval=1)
    pool = PrefillPool(gpus_per_engine=1, prefill_s_per_token=1e-4)
    stations = replace(scenario.stations, prefill=pool, admission=Admission(Plug.WIP_CAP))
    free = replace(scenario.bounds, staleness_max=None)
    return replace(scenario, setpoints=knobs, stations=stations, bounds=free, horizon=Horizon(steps=12))


def studied(scenario: Scenario, knobs: list[str], trials: int, folder: Path) -> list[FrozenTrial]:
    facts = JobFacts(scenario.topology, scenario.setpoints, scenario.bounds, scenario.stations)
    search = Search(of_stories([("job", scenario)], seeds=1), space_of(facts, knobs), AIMS, trials)
    return run(prepared(search, Where(f"sqlite:///{folder}/s.db", "s"))).trials(*DONE)


def test_all_knobs_are_looked_at_here() -> None:
    assert DIMENSIONS.keys() == KNOBS.keys()


@pytest.mark.parametrize("knob", DIMENSIONS)
def test_what_a_study_tries_of_a_knob_reaches_the_job(knob: str, tmp_path: Path) -> None:
    trials = studied(job(), [knob], 6, tmp_path)
    assert all(t.params.keys() == DIMENSIONS[knob] for t in trials)
    assert len({tuple(t.params.values()) for t in trials}) >= 3
    assert len({tuple(t.values) for t in trials}) >= 2, "another value, another outcome"


def test_a_limit_has_a_size_only_where_there_is_one(tmp_path: Path) -> None:
    scenario = job()
    free = replace(scenario, setpoints=replace(scenario.setpoints, max_in_flight=None))
    trials = studied(free, ["concurrency"], 8, tmp_path)
    assert {t.params[LIMITED] for t in trials} == {True, False}
    assert all(("max_in_flight" in t.params) == t.params[LIMITED] for t in trials)


def test_a_broken_bound_is_a_constraint_and_leaves_the_values_as_measured(tmp_path: Path) -> None:
    lopsided = load(str(LOPSIDED)).scenario
    rare = replace(lopsided, setpoints=replace(lopsided.setpoints, sync_interval=4), horizon=Horizon(steps=12))
    found: list[dict[object, FrozenTrial]] = []
    limit: float | None = None
    for name in ("free", "bounded"):
        (tmp_path / name).mkdir()
        story = replace(rare, bounds=replace(rare.bounds, staleness_max=limit))
        found.append({t.params["sync_interval"]: t for t in studied(story, ["sync"], 8, tmp_path / name)})
        limit = (found[0][4].values[1] + found[0][1].values[1]) / 2.0
    free, bounded = found
    assert free[1].values[1] > limit > free[4].values[1], "what publishes every version has older rollouts"
    for interval, trial in bounded.items():
        assert (trial.constraints.get("staleness", 0.0) > 0.0) == (free[interval].values[1] > limit)
        assert trial.values == free[interval].values


@pytest.mark.parametrize("first", [5, 8])
def test_a_lattice_of_fewer_points_than_trials_is_tried_whole_and_once(first: int, tmp_path: Path) -> None:
    begun = [t.params["sync_interval"] for t in studied(job(), ["sync"], first, tmp_path)]
    assert len(set(begun)) == first
    points = [t.params["sync_interval"] for t in studied(job(), ["sync"], 20, tmp_path)]
    assert sorted(points) == list(range(1, 9))
