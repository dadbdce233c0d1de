"""Setpoints as wishes: which knobs differ, in which direction, what is there after a change, what is met.

In a wish a field of `None` means *leave it*; in what is in force it means *unknown*.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from policies.base import Direction
from simulators.legality import generator_gpus
from simulators.plant import Inventory, Setpoints, Topology

SPLIT = "gpus_trainer"
"""The knob that moves GPUs between the two sides: named by the trainer's share, the generator has the rest."""
ACTED: Mapping[str, tuple[str, ...]] = {
    SPLIT: ("gpus_trainer", "gpus_generator", "engines"),
    "prefill_decode_split": ("gpus_prefill", "gpus_decode"),
    "oversampling_ratio": ("oversampling_ratio",),
    "max_in_flight": ("max_in_flight", "max_in_flight_per_engine"),
}
"""The knobs a controller may turn, each with its setpoints (the first gives the direction). All others are advice."""

GPUS_OF = ("gpus_trainer", "gpus_generator", "gpus_prefill", "gpus_decode", "engines")
"""Setpoints that say who has which GPUs."""

NAMES = tuple(f.name for f in fields(Setpoints))
_read = attrgetter(*NAMES)


def is_self_tuned(knob: str, topology: Topology) -> bool:
    """True where the framework's own controller moves it, or a part of it: one owner for each knob."""
    return not set(ACTED.get(knob, (knob,))).isdisjoint(topology.self_tuned)


def values(settings: Setpoints) -> dict[str, Any]:
    """Field by field what is said."""
    return {name: value for name, value in zip(NAMES, _read(settings), strict=True) if value is not None}


def merged(now: Setpoints, wish: Setpoints) -> Setpoints:
    """What is in force once the wish is."""
    return replace(now, **values(wish))


def difference(now: Setpoints, then: Setpoints) -> Setpoints:
    """The wish that turns `now` into `then`."""
    before = values(now)
    return Setpoints(**{n: v for n, v in values(then).items() if before.get(n) != v})


def knobs_of(wish: Setpoints) -> tuple[str, ...]:
    """The knobs that a wish turns: those of ACTED in their order, then single fields that are advice only.

    What goes with the engines is part of the split: a total in flight (each engine has as many as before) and the GPUs
    that decode, unless those that prefill change too.
    """
    named = values(wish)
    if any(part in named for part in ACTED[SPLIT]):
        named.pop("max_in_flight", None)
        if "gpus_prefill" not in named:
            named.pop("gpus_decode", None)
    acted = tuple(knob for knob, parts in ACTED.items() if any(part in named for part in parts))
    owned = {part for knob in acted for part in ACTED[knob]}
    return (*acted, *(name for name in named if name not in owned))


def direction(now: Setpoints, wish: Setpoints, knob: str) -> Direction:
    """Up or down by the knob's first known part; SET where either end is unknown or both are alike."""
    before, after = values(now), values(wish)
    for part in ACTED.get(knob, (knob,)):
        if part in before and part in after and before[part] != after[part]:
            return Direction.UP if after[part] > before[part] else Direction.DOWN
    return Direction.SET


def met(in_force: Setpoints, wish: Setpoints) -> bool:
    """Every wished field is in force; an unknown one is not."""
    seen = values(in_force)
    return all(seen.get(name) == value for name, value in values(wish).items())


def gpus(settings: Setpoints) -> int | None:
    """All GPUs of both sides, of a divided generator those of its pools too; None where one side is unknown."""
    generator = generator_gpus(settings)
    if settings.gpus_trainer is None or generator is None:
        return None
    return settings.gpus_trainer + generator


def missing_of(in_force: Setpoints, there: Inventory) -> int:
    """Generator GPUs that the setting in force counts on and that are gone: a node lost, not a knob turned."""
    if in_force.gpus_generator is None or there.gpus_generator is None:
        return 0
    return max(0, in_force.gpus_generator - there.gpus_generator)


def without(settings: Setpoints, missing: int) -> Setpoints:
    """What runs under a setting while so many of the generator's GPUs are gone; of two pools the decoders lose them."""
    if not missing or settings.gpus_generator is None:
        return settings
    decode = settings.gpus_decode
    return replace(
        settings,
        gpus_generator=max(0, settings.gpus_generator - missing),
        gpus_decode=None if decode is None else max(0, decode - missing),
        engines=None,
    )


def with_trainer(now: Setpoints, topology: Topology, gpus_trainer: int) -> Setpoints:
    """The wish that gives the trainer so many GPUs and the generator all others, in-flight per engine kept.

    Under a fixed total in flight more engines would only run emptier, so that total moves with them.
    Of a generator with prefill engines the decoding ones take the change.
    # 64 : 192, 1536 in flight; 48 for the trainer -> 48 : 208, 1664 in flight
    """
    total = gpus(now)
    if total is None or not now.gpus_generator:
        raise ValueError("cannot split GPUs: gpus_trainer or gpus_generator in force is not known")
    generator = total - gpus_trainer
    wish, decode = Setpoints(gpus_trainer=gpus_trainer, gpus_generator=generator), generator
    if now.gpus_decode is not None:
        decode = max(0, now.gpus_decode + generator - now.gpus_generator)
        wish = replace(wish, gpus_decode=decode)
    if now.engines is not None and topology.gpus_per_engine:
        wish = replace(wish, engines=decode // topology.gpus_per_engine)
    if now.max_in_flight is not None:
        wish = replace(wish, max_in_flight=max(1, round(now.max_in_flight * generator / now.gpus_generator)))
    return wish


def with_in_flight(now: Setpoints, topology: Topology, total: int) -> Setpoints:
    """The wish that lets so many rollouts be in flight: each engine's own limit goes up with it where it would bind.

    One that binds already is another matter: rollouts at their tools count in the total, and in no engine.
    # 32 in all, 2 engines of at most 16: 40 in all, at most 20 each | of at most 64, or of 8: 40 in all
    """
    each, engines = now.max_in_flight_per_engine, engines_of(now, topology)
    if each is None or not engines or each * engines >= total or each * engines < (now.max_in_flight or 0):
        return Setpoints(max_in_flight=total)
    return Setpoints(max_in_flight=total, max_in_flight_per_engine=-(-total // engines))


def most_in_flight(now: Setpoints, topology: Topology) -> int | None:
    """The limit of all rollouts in flight; where only each engine has one, of all engines together."""
    each, engines = now.max_in_flight_per_engine, engines_of(now, topology)
    if now.max_in_flight is not None or each is None or engines is None:
        return now.max_in_flight
    return each * engines


def of_all(now: Setpoints, topology: Topology) -> Setpoints:
    """The same, with the limit of all in flight told where only each engine has one: a bound is one on all of them."""
    return replace(now, max_in_flight=most_in_flight(now, topology))


def engines_of(now: Setpoints, topology: Topology) -> int | None:
    """Engines that decode, by what is said of them or by their GPUs; None where neither is known."""
    of = now.gpus_decode if now.gpus_decode is not None else now.gpus_generator
    if now.engines is not None:
        return now.engines
    return None if of is None or not topology.gpus_per_engine else of // topology.gpus_per_engine
