"""Where a study begins: the best of an earlier one, and the analytic model's favourites.

Half a millisecond an answer: a lattice of a few thousand points is asked whole, another is climbed by coordinates. (A
climb alone is not enough: the best points lie along a bound, where no single coordinate can be moved.) The model is
wrong here and there: its favourites are tried first, not believed, and the sampler goes on from what simulation makes
of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState

from tuner.errors import ConfigError
from tuner.studies.objectives import OBJECTIVES, excess_of, values_of
from tuner.studies.samplers import MODEL_ERROR_FRAC
from tuner.studies.space import Dimension, Point, Space, Value
from tuner.studies.trials import Problem, measure
from tuner.studies.workers import BY_MODEL, Basis

FAVOURITES = 3
"""So many points are tried first, at least."""
FAVOURED_FRAC = 0.25
"""Share of the trials that begin at the model's favourites; the others are the sampler's."""
ASKED = 3000
"""Answers for which a lattice is asked whole: some seconds."""
SWEEPS = 3
CASES = 6
"""Possible jobs that are asked; a recording has more than a climb needs."""
FIRST = 8
"""Values of a lattice that are asked first; then the neighbourhood of the best, in halving strides."""

Worth = Callable[[Point], float | None]


@dataclass(frozen=True, slots=True)
class Liked:
    """What the model says of a space."""

    first: tuple[Point, ...] = ()
    """Its favourites, the best first."""
    worth: tuple[Point, ...] = ()
    """Of a lattice that was asked whole: all points that its error leaves in the race, the best first."""


def liked(problem: Problem, basis: Basis, trials: int) -> Liked:
    """What the model likes, for a study of so many trials; nothing where no model is asked."""
    cases = [i for i in problem.levels[0] if not problem.cases[i].simulated][:CASES]
    if not cases:
        return Liked()
    seen: dict[tuple[tuple[str, Value], ...], tuple[float, bool, bool]] = {}
    weights, here = [problem.cases[i].weight for i in cases], [basis.here[i] for i in cases]
    sign = 1.0 if OBJECTIVES[problem.objectives[0]].better == "maximize" else -1.0
    most = problem.cases[cases[0]].scenario.bounds.staleness_max or 0.0

    def worth(point: Point) -> float | None:
        key = tuple(sorted(point.items()))
        if key not in seen:
            there = [measure(problem.space, problem.cases[i], basis.marks[i], point) for i in cases]
            excess = excess_of(there, here)
            kept = all(value <= 0.0 for value in excess.values())
            near = all(value <= most * BY_MODEL.get(name, 0.0) for name, value in excess.items())
            seen[key] = sign * values_of(problem.objectives, weights, there, here)[0], kept, near
        value, kept, _ = seen[key]
        return value if kept else None

    size = problem.space.size
    whole = size is not None and not problem.space.conditional and size * len(cases) <= ASKED
    if whole:
        for point in problem.space.points():
            worth(point)
    else:
        for start in _starts(problem.space):
            _climb(problem.space, start, worth)
    ordered = sorted(seen.items(), key=lambda pair: -pair[1][0])
    first = [dict(key) for key, (_, kept, _) in ordered if kept][: max(FAVOURITES, int(FAVOURED_FRAC * trials))]
    if not whole or not first:
        return Liked(tuple(first))
    best = max(value for value, kept, _ in seen.values() if kept)
    floor = best - MODEL_ERROR_FRAC * abs(1.0 + best if sign > 0.0 else best)
    return Liked(tuple(first), tuple(dict(key) for key, (value, _, near) in ordered if near and value >= floor))


def earlier(storage: BaseStorage, name: str, space: Space) -> list[Point]:
    """The best points of another study in the same storage, as far as this space holds their coordinates."""
    names = optuna.get_all_study_names(storage)
    if name not in names:
        raise ConfigError(f"--begin-from {name}: no such study there; known: {', '.join(names) or 'none'}")
    study = optuna.load_study(study_name=name, storage=storage)
    sign = -1.0 if study.directions[0] is StudyDirection.MAXIMIZE else 1.0
    done = [
        t for t in study.get_trials(deepcopy=False) if t.values and not any(v > 0.0 for v in t.constraints.values())
    ]
    done.sort(key=lambda t: (t.state is not TrialState.COMPLETE, sign * t.values[0], t.number))
    points: list[Point] = [{d.name: t.params[d.name] for d in space.dimensions if _known(d, t.params)} for t in done]
    return [point for i, point in enumerate(points) if point and point not in points[:i]][:FAVOURITES]


def _known(d: Dimension, params: Mapping[str, Value]) -> bool:
    return d.name in params and d.holds(params[d.name])


def _starts(space: Space) -> list[Point]:
    """Today's settings, and for each condition the other way with the middle of what hangs on it."""
    now = space.now()
    found = [now]
    for d in space.dimensions:
        if d.only_if is not None and d.name not in now:
            found.append({**now, d.only_if[0]: d.only_if[1], d.name: d.values[len(d.values) // 2]})
    return found


def _climb(space: Space, start: Point, worth: Worth) -> None:
    here, best = dict(start), worth(start)
    for _ in range(SWEEPS):
        before = best
        for d in space.dimensions:
            if (
                d.name not in here
                or not d.values
                or any(c.only_if and c.only_if[0] == d.name for c in space.dimensions)
            ):
                continue
            value, best = _along(d, here, best, worth)
            here[d.name] = value
        if best == before:
            return


def _along(d: Dimension, here: Point, best: float | None, worth: Worth) -> tuple[Value, float | None]:
    """The best value of one coordinate, the others as they are."""
    values: Sequence[Value] = d.values
    stride = 1 if d.choices else max(1, len(values) // FIRST)
    place, asked = values.index(here[d.name]), list(range(0, len(values), stride))
    while True:
        for i in asked:
            found = worth({**here, d.name: values[i]})
            if found is not None and (best is None or found > best):
                place, best = i, found
        if stride == 1:
            return values[place], best
        stride = (stride + 1) // 2
        asked = [i for i in (place - stride, place + stride) if 0 <= i < len(values)]
