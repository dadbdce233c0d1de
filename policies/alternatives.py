"""The alternatives of a decision: what a review looks at and every next step of each knob, with its gain or why not.

A law keeps what is best of each knob and drops the rest; whoever asks afterwards wants to know what became of the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from policies.control import View, split_to
from policies.objective import worsened
from policies.options import CLIMBS, FLIGHT_STEP, asked, keeping, next_ratios, splits
from policies.outlook import Outlook
from policies.settings import SPLIT, gpus, knobs_of, merged, with_in_flight
from simulators.legality import legal_sizes, refusal, steps
from simulators.plant import Mode, Setpoints


@dataclass(frozen=True, slots=True)
class Alternative:
    changes: Setpoints
    gain_frac: float | None
    """By the model, as a share of now; None where it cannot be."""
    why_not: str = ""
    """What keeps it from being done, whatever it gains; empty where nothing does."""


def alternatives(view: View) -> tuple[Alternative, ...]:
    """The best first, then what cannot be; none without a model that runs the setting in force."""
    here = asked(view, Setpoints())
    if here is None:
        return ()
    ask = keeping(view, here[1])
    climbed = [o for climb in CLIMBS if (o := climb(view, ask, here[0])) is not None]
    best = [o.changes for o in (*splits(view, ask, here[0], Outlook()), *climbed)]
    found = [_weighed(view, changes, here[0]) for changes in dict.fromkeys((*best, *_next_steps(view)))]
    return tuple(sorted(found, key=lambda a: (bool(a.why_not), -(a.gain_frac or 0.0))))


def _weighed(view: View, changes: Setpoints, now: float) -> Alternative:
    why = _illegal(view, changes)
    if why:
        return Alternative(changes, None, why)
    then = merged(view.in_force, changes)
    try:
        was, will = view.predicted(view.in_force), view.predicted(then)
    except ValueError as error:
        return Alternative(changes, None, f"the model cannot run it: {error}")
    worse = worsened(view.broken(view.in_force, was), view.broken(then, will))
    there = asked(view, changes)
    gain = None if there is None else there[0] / now - 1.0
    if worse:
        return Alternative(changes, gain, worse[0].reason)
    if gain is None:
        return Alternative(changes, None, "nothing useful would be trained")
    locked = view.locked.intersection(knobs_of(changes))
    return Alternative(changes, gain, f"{min(locked)} is only advised here" if locked else "")


def _illegal(view: View, changes: Setpoints) -> str:
    trainer = changes.gpus_trainer
    if trainer is None or trainer in legal_sizes(view.topology, view.in_force, view.bounds):
        return ""
    return refusal(view.topology, view.in_force, view.bounds, trainer) or "off the lattice of splits"


def _next_steps(view: View) -> Iterator[Setpoints]:
    """One step of each knob that can be turned here, either way."""
    now, able = view.in_force, {c.knob for c in view.capabilities}
    total, prefill, unit = gpus(now), now.gpus_prefill, view.topology.gpus_per_engine
    if SPLIT in able and total is not None and now.gpus_trainer and now.gpus_generator:
        stride = max(steps(view.topology, total)) if view.topology.mode is Mode.OVERLAPPED else 0
        sizes = {now.gpus_trainer - stride, now.gpus_trainer + stride} - {now.gpus_trainer}
        yield from (split_to(view, size) for size in sorted(sizes) if 0 < size < total)
    if "prefill_decode_split" in able and prefill and now.gpus_decode and unit:
        pool = prefill + now.gpus_decode
        wanted = (size for size in (prefill - unit, prefill + unit) if 0 < size < pool)
        yield from (Setpoints(gpus_prefill=size, gpus_decode=pool - size) for size in wanted)
    if "oversampling_ratio" in able:
        yield from (Setpoints(oversampling_ratio=ratio) for ratio in next_ratios(now))
    if "max_in_flight" in able and now.max_in_flight:
        totals = (max(1, round(now.max_in_flight * FLIGHT_STEP**way)) for way in (-1, 1))
        yield from (with_in_flight(now, view.topology, n) for n in totals if n != now.max_in_flight)
    elif "max_in_flight" in able and now.max_in_flight_per_engine:
        each = now.max_in_flight_per_engine
        sizes = {max(1, round(each * FLIGHT_STEP**way)) for way in (-1, 1)} - {each}
        yield from (Setpoints(max_in_flight_per_engine=n) for n in sorted(sizes))
