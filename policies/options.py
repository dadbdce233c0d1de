"""The settings next to the one in force, knob by knob, and what the model says that they are worth.

Each knob's lattice is climbed from where it stands (policies/climbing.py): one hill is assumed. Of prefill and decode
there are two where contexts outgrow the decoders' KV, one with enough of it and one with a pool that does without:
there that lattice is looked over.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, exp, inf, isfinite, log
from statistics import fmean

from policies.climbing import climbed, nearest_best
from policies.control import View, split_to
from policies.objective import Violation, value, worsened
from policies.outlook import Outlook, at
from policies.settings import SPLIT, engines_of, gpus, merged, with_in_flight
from policies.stages import first_most, way
from simulators.analytic.weak import OUTGROWN
from simulators.legality import legal_sizes
from simulators.plant import Mode, Setpoints
from simulators.signals import TINY

FLIGHT_STEP, FLIGHT_STEPS = 1.25, 4
"""One step of the limit in flight, and how many of them one change may take."""
RATIO_STEP, RATIO_MAX = 0.125, 2.0
"""One step of the oversampling ratio, and how far it goes."""
NEAR_FRAC, NEAR_LEAST, NEAR_MOST = 0.8, 3, 6
"""By a model that is some percent off: so near to the best a setting is simulated, so many at least and at most."""
COARSE = 32
"""Parts of a lattice below which no climb looks where the model is some percent off, and what is near is simulated."""
LOOKED_OVER = 9
"""Parts of a lattice in whose middles it is looked at before it is climbed: at an end one pool has next to nothing."""


Ask = Callable[[Setpoints], float | None]
"""What a change is worth; None where it is out of the question."""


@dataclass(frozen=True, slots=True)
class Option:
    """A setting with what the model says of it."""

    changes: Setpoints
    worth: float
    points: tuple[tuple[float, float], ...] = ()
    """(ln of generator over trainer GPUs, ln of worth) of all splits that were asked for."""
    first_step: float = inf
    """Gain of the furthest first step on the way (policies/stages.py): too small a one can never be proved."""


def asked(view: View, changes: Setpoints) -> tuple[float, tuple[Violation, ...]] | None:
    """(the objective there, the hard bounds that it breaks); None where the model cannot run it."""
    then = merged(view.in_force, changes)
    try:
        prediction = view.predicted(then)
    except ValueError:
        return None
    if prediction is None:
        return None
    broken = view.broken(then, prediction)
    worth = value(view.objective, prediction, then)
    return (worth, broken) if isfinite(worth) and worth > TINY else None


def keeping(view: View, broken: tuple[Violation, ...]) -> Ask:
    """What a change is worth; None where it cannot run, breaks a bound, or breaks one further that is `broken` now."""

    def ask(changes: Setpoints) -> float | None:
        found = asked(view, changes)
        return None if found is None or worsened(broken, found[1]) else found[0]

    return ask


def named(changes: Setpoints) -> str:
    parts = []
    if changes.gpus_trainer is not None:
        parts.append(f"{changes.gpus_trainer} : {changes.gpus_generator} GPUs")
    if changes.gpus_prefill is not None:
        parts.append(f"{changes.gpus_prefill} GPUs of prefill, {changes.gpus_decode} of decode")
    if changes.oversampling_ratio is not None:
        parts.append(f"oversampling {changes.oversampling_ratio:g}")
    if changes.max_in_flight is not None and changes.gpus_trainer is None:
        parts.append(f"{changes.max_in_flight} in flight")
    elif changes.max_in_flight_per_engine is not None:
        parts.append(f"{changes.max_in_flight_per_engine} in flight an engine")
    return ", ".join(parts)


def splits(view: View, ask: Ask, now: float, drift: Outlook) -> tuple[Option, ...]:
    """Every split that was asked for on the side of the best one, by what is to come."""
    start, total = view.in_force.gpus_trainer, gpus(view.in_force)
    if view.topology.mode is Mode.SERIAL or view.capability(SPLIT) is None or not start or total is None:
        return ()
    if not view.in_force.gpus_generator:
        return ()
    sizes = sorted({start, *legal_sizes(view.topology, view.in_force, view.bounds)})
    worths = climbed(sizes, start, lambda t: now if t == start else ask(split_to(view, t)))
    if len(worths) < 2:
        return ()
    points = tuple(sorted((log((total - t) / t), log(worth)) for t, worth in worths.items()))

    def later_of(t: int) -> float:
        return fmean(exp(at(points, log((total - t) / t) + d)) for d in drift.shifts)

    best = max(worths, key=lambda t: (later_of(t), -abs(t - start)))
    side = sorted((t for t in worths if (t - start) * (best - start) > 0), key=lambda t: abs(t - start))
    if not side:
        return ()
    passed = way(sizes, start, side[-1])
    reach = passed[first_most(passed, start, total) - 1]

    def first(then: int) -> float:
        return later_of(min(reach, then, key=lambda t: abs(t - start))) / later_of(start) - 1.0

    return tuple(Option(split_to(view, t), worths[t], points, first(t)) for t in side)


def _prefills(view: View, ask: Ask, now: float) -> Option | None:
    start, decode, unit = view.in_force.gpus_prefill, view.in_force.gpus_decode, view.topology.gpus_per_engine
    if view.capability("prefill_decode_split") is None or not start or not decode or not unit:
        return None
    pool = start + decode
    sizes = sorted({*range(unit, pool, unit), start})

    def wish(prefill: int) -> Setpoints:
        return Setpoints(gpus_prefill=prefill, gpus_decode=pool - prefill)

    def worth(prefill: int) -> float | None:
        return now if prefill == start else ask(wish(prefill))

    parts = min(LOOKED_OVER, len(sizes))
    looks = [(2 * part + 1) * len(sizes) // (2 * parts) for part in range(parts)]
    hills = _outgrown(view, (wish(start),))
    worths = dict(climbed(sizes, start, worth, looks, COARSE) if hills else climbed(sizes, start, worth))
    if not hills:
        asked = sorted(worths)
        spot = asked.index(_best(worths))
        hills = _outgrown(view, map(wish, asked[max(0, spot - 1) : spot + 2]))
        unseen = [sizes[look] for look in looks if hills and sizes[look] not in worths]
        worths.update((place, told) for place in unseen if (told := worth(place)) is not None)
    if hills:
        apart = {start, _best(worths), *(sizes[look] for look in looks)}
        worths = dict(_simulated(view, {p: worths[p] for p in worths if p in apart}, start, wish))
    best = _best(worths)
    return None if best == start else Option(wish(best), worths[best])


def _best(worths: Mapping[int, float]) -> int:
    return max(worths, key=lambda spot: worths[spot])


def _simulated(
    view: View, worths: Mapping[int, float], start: int, wish: Callable[[int], Setpoints]
) -> Mapping[int, float]:
    """The few best and the one in force, by simulation, where caches that are outgrown leave the model some percent
    off, now and then by half; in terms of what it says of the one in force. No answer is a no, as at the gate: without
    one the setting in force is all there is.
    """
    if view.simulator is None:
        return worths
    found: dict[int, float] = {}
    ranked = sorted(worths, key=lambda p: -worths[p])
    for place in dict.fromkeys((start, *ranked[:NEAR_MOST])):
        near = worths[place] >= NEAR_FRAC * worths[ranked[0]] or place in (start, *ranked[:NEAR_LEAST])
        if not near and _best(found) != next(reversed(found)):  # while the last one is the best, one more may be better
            break
        then = merged(view.in_force, wish(place))
        told = view.simulated(then)
        if told is None or not isfinite(worth := value(view.objective, told, then)):
            return {start: worths[start]}
        found[place] = worth
    return {p: worths[start] * worth / found[start] for p, worth in found.items()} if found[start] > TINY else worths


def _outgrown(view: View, wishes: Iterable[Setpoints]) -> bool:
    """At one of these at least: next to where caches are outgrown the model is off as well."""
    told = (view.predicted(merged(view.in_force, wish)) for wish in wishes)
    return any(prediction is not None and OUTGROWN in prediction.weak for prediction in told)


def _ratios(view: View, ask: Ask, now: float) -> Option | None:
    """All of them are looked at: starting a little more than is kept hides the slowest rollouts, starting much more
    gives the longest up, and between these two hills may be a valley."""
    return _of_ratios(view, ask, now, lambda ratio: Setpoints(oversampling_ratio=ratio))


def _started(view: View, ask: Ask, now: float) -> Option | None:
    """More started with as much more in flight: under a limit in flight neither may gain without the other."""
    start, total = view.in_force.oversampling_ratio or 1.0, view.in_force.max_in_flight
    if view.capability("max_in_flight") is None or not total:
        return None
    most = max(total, view.bounds.max_in_flight_max or inf)

    def wish(ratio: float) -> Setpoints | None:
        flights = max(1, round(total * ratio / start))
        more = with_in_flight(view.in_force, view.topology, flights)
        return replace(more, oversampling_ratio=ratio) if flights <= most else None

    return _of_ratios(view, ask, now, wish)


def _of_ratios(view: View, ask: Ask, now: float, wish: Callable[[float], Setpoints | None]) -> Option | None:
    if view.capability("oversampling_ratio") is None:
        return None
    start = view.in_force.oversampling_ratio or 1.0
    ratios = ratios_from(start)
    spot, worths = ratios.index(start), {ratios.index(start): now}
    for place, ratio in enumerate(ratios):
        changes = wish(ratio) if place != spot else None
        worth = None if changes is None else ask(changes)
        if worth is not None:
            worths[place] = worth
    least = nearest_best(worths, spot)
    best = wish(ratios[least])
    return None if least == spot or best is None else Option(best, worths[least])


def next_ratios(in_force: Setpoints) -> list[float]:
    """One step down and up, as far as they go; the last step down is what is left to 1."""
    start = in_force.oversampling_ratio or 1.0
    ratios = ratios_from(start)
    spot = ratios.index(start)
    return [ratio for ratio in ratios[max(0, spot - 1) : spot + 2] if ratio != start]


def ratios_from(start: float) -> list[float]:
    """Whole steps from this one down to 1 and up to the highest; the last one either way is what is left."""
    most = max(start, RATIO_MAX)
    steps = ceil((most - 1.0) / RATIO_STEP)
    return sorted({max(1.0, min(most, start + k * RATIO_STEP)) for k in range(-steps, steps + 1)})


def _flights(view: View, ask: Ask, now: float) -> Option | None:
    start = view.in_force.max_in_flight
    return _of_limits(view, ask, now, start, lambda total: with_in_flight(view.in_force, view.topology, total))


def _engine_flights(view: View, ask: Ask, now: float) -> Option | None:
    """Each engine's own limit: where a job states no other, and where it binds below that of all."""
    each, engines = view.in_force.max_in_flight_per_engine, engines_of(view.in_force, view.topology)
    if not each or not engines or each * engines >= (view.in_force.max_in_flight or inf):
        return None  # where the limit of all binds first, it takes this one along
    return _of_limits(view, ask, now, each, lambda limit: Setpoints(max_in_flight_per_engine=limit))


def _of_limits(view: View, ask: Ask, now: float, start: int | None, wish: Callable[[int], Setpoints]) -> Option | None:
    """The nearest good one of the limits in flight a few steps up and down."""
    if view.capability("max_in_flight") is None or not start:
        return None
    steps = range(-FLIGHT_STEPS, FLIGHT_STEPS + 1)
    sizes = sorted({max(1, round(start * FLIGHT_STEP**k)) for k in steps} | {start})
    worths = climbed(sizes, start, lambda n: now if n == start else ask(wish(n)))
    least = nearest_best(worths, start)
    return None if least == start else Option(wish(least), worths[least])


CLIMBS = (_prefills, _ratios, _flights, _engine_flights, _started)
"""Of the knobs beside the split, each by itself, and of two that go together."""
