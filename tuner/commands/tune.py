"""`equipoise tune`: searches a job's settings, or a policy's parameters, before a run or overnight from a recording."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from policies.estimators import estimate
from policies.prospects import prospects_of
from simulators.plant import Bounds
from simulators.scenario import Scenario
from tuner.charter import policy_named
from tuner.commands.base import Ask, read
from tuner.errors import ConfigError
from tuner.evaluation.tasks import QUICK, sized
from tuner.report.progress import Progress
from tuner.scenario_files import load
from tuner.studies.cases import BLOCK, PER_STUDY, POLICY_DRAWS, Cohorts, lightest, of_draws, of_stories, trend_of
from tuner.studies.knobs import USUAL, JobFacts, parameters_of, space_of
from tuner.studies.objectives import OBJECTIVES
from tuner.studies.space import Space

if TYPE_CHECKING:
    from tuner.studies.finding import Crew, Search

STORAGE = "sqlite:///equipoise-studies.db"
TRIALS, SEEDS, POLICY_SEEDS = 100, 3, 1
"""Without a stated number."""
MOST_STORIES = 15
"""A policy is searched on no more scenarios than two thirds of these, the lightest; all others are held out."""
PARAMETERS = "policy"
"""The knob that stands for all parameters of `--policy`."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line said."""

    scenarios: tuple[str, ...] = ()
    source: Ask | None = None
    hold_out: tuple[str, ...] = ()
    knobs: tuple[str, ...] = ()
    policy: str | None = None
    objectives: tuple[str, ...] = ("useful",)
    trials: int = TRIALS
    seeds: int | None = None
    seed: int = 0
    sampler: str = "auto"
    storage: str = STORAGE
    study: str | None = None
    begin_from: str | None = None
    jobs: int = 1
    ray: str | None = None
    trial_timeout_s: float | None = None
    json: bool = False
    html: Path | None = None
    out: Path | None = None


def run(wish: Wish) -> None:
    """Prints what was found, and writes fragment and report where they are asked for."""
    _demand_extra()
    from tuner.report import tuned as reporting  # noqa: PLC0415  (Optuna is an extra)
    from tuner.studies import finding  # noqa: PLC0415
    from tuner.studies.opening import Where, speaking  # noqa: PLC0415
    from tuner.studies.outcome import outcome_of  # noqa: PLC0415

    _check(wish)
    search, title = _search(wish)
    where, crew = Where(wish.storage, wish.study or title), _crew(wish)
    began = time.monotonic()
    saying = reporting.Saying()
    progress = Progress(sys.stderr, time.monotonic, saying)
    tell = reporting.teller(progress, saying, wish.objectives[0], wish.trials)
    try:
        with speaking(where):
            job = finding.prepared(search, where, wish.jobs)
            ledger = finding.run(job, crew, tell)
            outcome = outcome_of(search, job, ledger, wish.jobs)
    finally:
        progress.clear()
    told = reporting.tuned(outcome, time.monotonic() - began)
    if wish.out is not None:
        wish.out.write_text(reporting.fragment(told), encoding="utf-8")
    if wish.html is not None:
        html_room().write(wish.html, page_room().render_tuned(told))
    sys.stdout.write(reporting.to_json(told) + "\n" if wish.json else reporting.render(told))


def _demand_extra() -> None:
    if find_spec("optuna") is None:
        raise ConfigError("tune needs Optuna, which is not installed: pip install 'equipoise[tune]'")


def _check(wish: Wish) -> None:
    if wish.html is not None:
        html_room().check_target(wish.html)
    if wish.out is not None and (wish.out.is_dir() or not wish.out.parent.is_dir()):
        raise ConfigError(f"--out {wish.out}: must be a file in a folder that is there")
    for name, number in (("--trials", wish.trials), ("--jobs", wish.jobs), ("--seeds", wish.seeds or 1)):
        if number < 1:
            raise ConfigError(f"{name} {number}: at least 1")
    if wish.trial_timeout_s is not None and not wish.trial_timeout_s > 0.0:
        raise ConfigError(f"--trial-timeout {wish.trial_timeout_s:g}: must be above 0 seconds")
    if not 0 <= wish.seed < BLOCK // PER_STUDY:
        raise ConfigError(f"--seed {wish.seed}: must be from 0 to {BLOCK // PER_STUDY - 1}")
    for name in wish.objectives:
        if name not in OBJECTIVES:
            raise ConfigError(f"--objective {name}: unknown; known: {', '.join(OBJECTIVES)}")
    if (wish.source is None) == (not wish.scenarios):
        raise ConfigError("name what to search on: either --scenario FILE|DIR|NAME or --from SOURCE")


def _search(wish: Wish) -> "tuple[Search, str]":
    """The search, and what its study is called where it has no name."""
    cohorts, job, place = _recording(wish) if wish.source is not None else _stories(wish)
    space = _space(wish, job)
    from tuner.studies.finding import Search  # noqa: PLC0415

    search = Search(cohorts, space, wish.objectives, wish.trials, wish.seed, wish.sampler, begin_from=wish.begin_from)
    if wish.trial_timeout_s is not None:
        search = replace(search, timeout_s=wish.trial_timeout_s)
    what = ",".join([*([wish.policy] if wish.policy else []), *(wish.knobs or (() if wish.policy else USUAL))])
    return search, f"{what} for {','.join(wish.objectives)} on {place}, seed {wish.seed}"


def _space(wish: Wish, job: JobFacts) -> Space:
    if wish.policy is None:
        return space_of(job, wish.knobs)
    law = policy_named(wish.policy)
    own = parameters_of(law)
    if not own:
        raise ConfigError(f"--policy {wish.policy}: declares no bounds of its parameters; docs/tuning.md shows how")
    knobs = tuple(name for name in wish.knobs if name != PARAMETERS)
    settings = space_of(job, knobs).dimensions if knobs else ()
    return Space((*own, *settings), wish.policy)


def _stories(wish: Wish) -> tuple[Cohorts, JobFacts, str]:
    named, apart = _named(wish.scenarios, "--scenario"), _named(wish.hold_out, "--hold-out")
    if wish.policy is None or set(wish.knobs) - {PARAMETERS}:
        _demand_one_job([*named, *apart])
    seeds = wish.seeds or (SEEDS if wish.policy is None else POLICY_SEEDS)
    first = named[0][1]
    facts = JobFacts(first.topology, first.setpoints, first.bounds, first.stations)
    place = ",".join(name for name, _ in named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
    if wish.policy is None:
        return of_stories(named, seeds, wish.seed, apart), facts, place
    cut, cut_apart = ([(name, sized(s, QUICK)) for name, s in stories] for stories in (named, apart))
    light, heavy = lightest(cut, MOST_STORIES)
    if heavy and not apart:
        seen = of_stories(light, seeds, wish.seed)
        kept = {case.name for case in seen.searching}
        light, cut_apart = [s for s in light if s[0] in kept], [s for s in cut if s[0] not in kept]
    return of_stories(light if not apart else cut, seeds, wish.seed, cut_apart), facts, place


def _named(words: Sequence[str], option: str) -> list[tuple[str, Scenario]]:
    paths: list[str] = []
    for word in dict.fromkeys(words):
        folder = Path(word)
        inside = sorted(map(str, folder.glob("*.toml"))) if folder.is_dir() else [word]
        if not inside:
            raise ConfigError(f"{option} {word}: there is no scenario (*.toml) in this folder")
        paths += inside
    found = [load(path) for path in paths]
    names = [named.name for named in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{option}: two scenarios are named {twice}; rename one of the files")
    return [(named.name, named.scenario) for named in found]


def _demand_one_job(named: Sequence[tuple[str, Scenario]]) -> None:
    first_name, first = named[0]
    for name, scenario in named[1:]:
        if (scenario.topology, scenario.setpoints) != (first.topology, first.setpoints):
            raise ConfigError(
                f"--scenario: {first_name} and {name} are different jobs ([topology] or [setpoints] differ), and "
                "settings are of one job; name scenarios of one, or tune a policy over all: --policy predictive"
            )


def _recording(wish: Wish) -> tuple[Cohorts, JobFacts, str]:
    """The possible jobs behind the recording, all of which reproduce what it shows."""
    if wish.source is None or wish.hold_out:
        raise ConfigError("--hold-out: goes with --scenario; of a recording, every third possible job is held out")
    if wish.policy is not None and set(wish.knobs) - {PARAMETERS}:
        raise ConfigError(
            "--knobs: of a recording either settings or a policy's parameters; leave one of --knobs and --policy out"
        )
    reading, config = read(wish.source)
    bounds = config.to_bounds() if config is not None else Bounds()
    snapshot = estimate(reading.topology, reading.setpoints, reading.snapshot)
    prospects = prospects_of(reading.topology, reading.setpoints, snapshot)
    if prospects.calibration is None:
        raise ConfigError(f"--from {' '.join(wish.source.sources)}: cannot be calibrated: {prospects.why_not}")
    draws = prospects.calibration.draws
    name = Path(wish.source.sources[0]).stem if wish.source.sources else "sources"
    facts = JobFacts(
        reading.topology,
        reading.setpoints,
        bounds,
        draws[0].stations,
        snapshot.get("inflight_rollouts"),
    )
    if wish.policy is None:
        return of_draws(name, draws, bounds, wish.seed), facts, name
    return of_draws(name, draws[:POLICY_DRAWS], bounds, wish.seed, trend_of(snapshot)), facts, name


def _crew(wish: Wish) -> "Crew":
    if wish.ray is not None:
        if find_spec("ray") is None:
            raise ConfigError("--ray needs Ray, which is not installed: pip install 'equipoise[tune]'")
        from tuner.studies import ray  # noqa: PLC0415

        return ray.crew(wish.ray)
    from tuner.studies import workers  # noqa: PLC0415

    return workers.work if wish.jobs == 1 else workers.crew(wish.jobs)


def html_room() -> ModuleType:
    """jinja2 is loaded only for those who ask for a report."""
    from tuner.report import html  # noqa: PLC0415

    return html


def page_room() -> ModuleType:
    from tuner.report import tuned_html  # noqa: PLC0415

    return tuned_html
