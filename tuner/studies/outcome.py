"""Outcome: the best of a study, chosen on seeds the search has not seen, and compared on scenarios nobody has.

The best of 200 looks better on its own seeds than it is: the few that lead are asked again on others, the best of these
is taken, and its gain is told on a third kind. What is within noise is said to be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from policies.base import Interval
from policies.settings import SPLIT, gpus
from tuner.studies.cases import Case
from tuner.studies.figures import importances, simulations
from tuner.studies.finding import Search, basis_of, measured
from tuner.studies.objectives import OBJECTIVES, Measured, central, excess_of, ratios
from tuner.studies.space import Dimension, Point, Space, Value
from tuner.studies.storage import DONE, WHY, Ledger
from tuner.studies.workers import NOTES, Basis, Job

CHOICES = 5
"""So many of the leading points are asked again."""
GAINS = ("useful", "worst")
"""Objectives of which a setting that brings nothing is left as it is."""


@dataclass(frozen=True, slots=True)
class Told:
    """One trial as pictures and JSON show it."""

    number: int
    state: str
    point: Mapping[str, Value]
    values: tuple[float, ...]
    level: int
    feasible: bool
    why: str | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One recommended value."""

    name: str
    now: Value | None
    value: Value | None
    low: Value | None
    high: Value | None
    """The ends of what does as well within noise; None: unknown."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A point on cases that nothing was chosen on, against another, pair by pair."""

    name: str
    point: Mapping[str, Value]
    gain: Interval
    cases: tuple[tuple[str, float], ...]
    """(case, gain) of each."""
    staleness: tuple[float | None, float | None]
    """There and here."""
    waste_frac: tuple[float | None, float | None]
    broken: tuple[str, ...]
    """Bounds that it breaks and the settings in force keep."""


@dataclass(frozen=True, slots=True)
class Outcome:
    study: str
    storage: str
    objectives: tuple[str, ...]
    sampler: str
    seed: int
    policy: str | None
    counts: Mapping[str, int]
    levels: tuple[int, ...]
    """How many trials reached each level of care."""
    size: int | None
    """Points of the lattice."""
    simulations: int
    trials: tuple[Told, ...]
    best: Told | None
    """The trial that was chosen."""
    point: Mapping[str, Value]
    """Its point, with today's value wherever another brings nothing."""
    settings: tuple[Setting, ...]
    front: tuple[Told, ...]
    """Pareto-best trials, of several objectives."""
    searched_gain: Interval | None
    """On the cases of the search: what the best of many looks like there."""
    against_now: Compared | None
    against_default: Compared | None
    """An even split's gain over today, or none."""
    unseen: bool
    doubt: bool
    importances: Mapping[str, float]
    space: tuple[Dimension, ...]
    gpus_total: int | None
    """Of both sides, where the study is of one job."""


def outcome_of(search: Search, job: Job, ledger: Ledger, workers: int = 1) -> Outcome:
    """What the study found so far."""
    trials = list(map(_read, ledger.trials()))
    finished = ledger.trials(*DONE)
    top = _leading(trials, search.objectives)
    best, point = _chosen(search, top, workers)
    study = ledger.study()
    front = tuple(_read(t) for t in study.best_trials) if len(search.objectives) > 1 and finished else ()
    basis = basis_of(search.space, search.cohorts.scoring, workers)
    there = None if best is None else compared("tuned", search, point, basis, workers)
    default = default_of(search.space)
    counts = ledger.counts()
    levels = tuple(sum(t.level >= i for t in trials if t.state in _FINISHED) for i in range(len(job.problem.levels)))
    return Outcome(
        ledger.name,
        job.where.url,
        search.objectives,
        job.chooser.sampler,
        search.seed,
        search.space.policy,
        {state.name.lower(): counts[state] for state in TrialState},
        levels,
        search.space.size,
        simulations(job, levels),
        tuple(trials),
        best,
        point,
        () if best is None else _settings(search.space, best, point, finished),
        front,
        None if best is None else _searched(best, job, finished, search.cohorts.draws),
        there,
        None if default is None else compared("default", search, default, basis, workers),
        search.cohorts.unseen,
        search.cohorts.draws,
        importances(ledger, finished, len(search.objectives)),
        search.space.dimensions,
        gpus(search.cohorts.searching[0].scenario.setpoints),
    )


_FINISHED = tuple(state.name.lower() for state in DONE)


def notes_of(trial: FrozenTrial) -> Mapping[str, Any]:
    found: Mapping[str, Any] = trial.user_attrs.get(NOTES, {})
    return found


def _read(trial: FrozenTrial) -> Told:
    feasible = not any(value > 0.0 for value in trial.constraints.values())
    notes = notes_of(trial)
    return Told(
        trial.number,
        trial.state.name.lower(),
        dict(trial.params),
        tuple(trial.values or ()),
        int(notes.get("level", -1)),
        feasible,
        trial.user_attrs.get(WHY) or notes.get("stopped"),
    )


def _leading(trials: Sequence[Told], objectives: Sequence[str]) -> list[Told]:
    """The best points by the first objective, each once: the most carefully measured first."""
    better = OBJECTIVES[objectives[0]].better == "maximize"
    whole = [t for t in trials if t.state in _FINISHED and t.feasible and t.values]
    ordered = sorted(whole, key=lambda t: (-t.level, -t.values[0] if better else t.values[0], t.number))
    seen: dict[tuple[tuple[str, Value], ...], Told] = {}
    for trial in ordered:
        seen.setdefault(tuple(sorted(trial.point.items())), trial)
    return list(seen.values())[:CHOICES]


def _chosen(search: Search, top: Sequence[Told], workers: int) -> tuple[Told | None, Point]:
    """The best of those that lead, on other seeds, and its point without what brings nothing."""
    cases, name = search.cohorts.choosing, search.objectives[0]
    if not top:
        return None, {}
    basis = basis_of(search.space, cases, workers)
    weights = [case.weight for case in cases]
    scored = []
    for trial in top:
        there = measured(search.space, cases, basis.marks, trial.point, workers)
        if not any(value > 0.0 for value in excess_of(there, basis.here).values()):
            scored.append((OBJECTIVES[name].of(weights, ratios(there, basis.here), there), trial, there))
    if not scored:
        return None, {}
    pick = max if OBJECTIVES[name].better == "maximize" else min
    _, best, there = pick(scored, key=lambda one: one[0])
    if search.space.policy is not None or name not in GAINS:
        return best, best.point
    return best, _plain(search, best.point, (there, basis, workers))


def _plain(search: Search, point: Point, known: tuple[Sequence[Measured], Basis, int]) -> Point:
    """Each setting back to today's unless that is surely worse: what brings nothing is not recommended."""
    there, basis, workers = known
    cases, now = search.cohorts.choosing, search.space.now()
    for d in search.space.dimensions:
        if d.name not in point or point[d.name] == now.get(d.name) or d.name not in now:
            continue
        wish = {**point, d.name: now[d.name]}
        hanging = {
            o.name for o in search.space.dimensions if o.only_if is not None and wish.get(o.only_if[0]) != o.only_if[1]
        }
        wish = {name: value for name, value in wish.items() if name not in hanging}
        plainer = measured(search.space, cases, basis.marks, wish, workers)
        gap = central(ratios(plainer, there), [case.weight for case in cases], doubt=False)
        no_worse = gap.high >= 0.0 if isfinite(gap.high) else gap.mean >= 0.0
        if no_worse and not any(v > 0.0 for v in excess_of(plainer, basis.here).values()):
            point, there = wish, plainer
    return point


def compared(name: str, search: Search, point: Point, basis: Basis, workers: int) -> Compared:
    """A point against today's settings on the scoring cohort."""
    cases: Sequence[Case] = search.cohorts.scoring
    there = measured(search.space, cases, basis.marks, point, workers)
    logs, weights = ratios(there, basis.here), [case.weight for case in cases]
    gains = tuple((f"{case.name}, seed {case.seed}", exp(x) - 1.0) for case, x in zip(cases, logs, strict=True))
    broken = tuple(n for n, value in excess_of(there, basis.here).items() if value > 0.0)
    stale = OBJECTIVES["staleness"].of
    waste = OBJECTIVES["waste"].of
    return Compared(
        name,
        dict(point),
        central(logs, weights, search.cohorts.draws),
        gains,
        (stale(weights, logs, there), stale(weights, logs, basis.here)),
        (waste(weights, logs, there), waste(weights, logs, basis.here)),
        broken,
    )


def default_of(space: Space) -> Point | None:
    """Half of the GPUs on each side, as a rule of thumb has it; a policy's defaults are what it starts from."""
    split = next((d for d in space.dimensions if d.name == SPLIT), None)
    if space.policy is not None or split is None:
        return None
    middle = (split.low + split.high) / 2.0
    return {SPLIT: min(split.values, key=lambda v: abs(float(v) - middle))}


def _searched(best: Told, job: Job, finished: Sequence[FrozenTrial], doubt: bool) -> Interval:
    trial = next(t for t in finished if t.number == best.number)
    weights = [job.problem.cases[i].weight for i in job.problem.levels[best.level]]
    return central(notes_of(trial)["ratios"], weights, doubt)


def _settings(space: Space, best: Told, point: Point, finished: Sequence[FrozenTrial]) -> tuple[Setting, ...]:
    """The point value by value, with the ends of what does as well: points whose cases differ by no more than noise."""
    own = notes_of(next(t for t in finished if t.number == best.number))["ratios"]
    alike = [best.point, point]
    for trial in finished:
        logs = notes_of(trial).get("ratios", ())
        if trial.state is TrialState.COMPLETE and len(logs) == len(own) > 1:
            gap = central([a - b for a, b in zip(logs, own, strict=True)], [1.0] * len(own), doubt=False)
            if gap.high >= 0.0 and not any(v > 0.0 for v in trial.constraints.values()):
                alike.append(trial.params)
    found = []
    for d in space.dimensions:
        values = [float(p[d.name]) for p in alike if d.name in p]
        whole = d.whole or isinstance(point.get(d.name), int)
        low, high = (min(values), max(values)) if values else (None, None)
        ends = (int(v) if whole and v is not None else v for v in (low, high))
        found.append(Setting(d.name, d.now, point.get(d.name), *ends))
    return tuple(found)
