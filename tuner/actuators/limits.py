"""What no actuator does, whoever asks: values out of this world, out of bounds, off the lattice, or another's knob."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from policies.settings import gpus, merged, values
from simulators.legality import generator_gpus, refusal, refused_pools, steps
from simulators.plant import Setpoints, Topology, TrainerResize
from tuner.actuators.site import Site, owned
from tuner.lookup import LARGEST

HALVES = ("gpus_trainer", "gpus_generator")
POOLS = ("gpus_prefill", "gpus_decode")


def refusals(site: Site, in_force: Setpoints, wish: Setpoints, knobs: tuple[str, ...]) -> Mapping[str, str]:
    """Each wished setpoint that is not to be set, with the reason; empty: the wish is legal.

    # trainer 64, generator 192, engines of 8: generator 180 -> "gpus_generator=180 is not a multiple of 8 per engine"
    """
    own, wished = owned(knobs), values(wish)
    before = merged(site.in_force, in_force)
    found: dict[str, str] = {}
    for name, value in wished.items():
        why = (
            _not_ours(name, own, knobs)
            or _impossible(name, value)
            or _self_tuned(site, name)
            or _out(site, name, value)
        )
        if why:
            found[name] = why
    return found or dict(_of_the_split(site, before, wished, own))


def _not_ours(name: str, own: frozenset[str], knobs: tuple[str, ...]) -> str | None:
    return None if name in own else f"this actuator turns {', '.join(knobs) or 'nothing'}, not {name}"


def _impossible(name: str, value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if not 0 <= value < LARGEST or (value == 0 and name not in MAY_BE_ZERO):
        return f"{name}={value} is no setting of a job"
    if name == "oversampling_ratio" and value < 1.0:
        return f"oversampling_ratio={value} must be >= 1: a batch would never fill"
    return None


MAY_BE_ZERO = ("staleness_bound",)


def _self_tuned(site: Site, name: str) -> str | None:
    if name not in owned(site.topology.self_tuned):
        return None
    return f"{name} is moved by {site.topology.framework or 'the framework'} itself; only its bounds are set"


def _out(site: Site, name: str, value: Any) -> str | None:
    bounds = site.bounds
    highest = {
        "max_in_flight": ("max_in_flight_max", bounds.max_in_flight_max),
        "staleness_bound": ("staleness_max", bounds.staleness_max),
        "gpus_trainer": ("gpus_trainer_max", bounds.gpus_trainer_max),
    }
    key, most = highest.get(name, ("", None))
    return f"{name}={value} is above the bound {key}={most}" if most is not None and value > most else None


def _of_the_split(
    site: Site, before: Setpoints, wished: Mapping[str, Any], own: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the GPUs of both sides, and of both pools, once the wish is in force."""
    asked = [name for name in (*HALVES, *POOLS) if name in wished]
    after = replace(before, **wished)
    # One pool of a hand that turns no more than the pools: part of a split, the rest of which is another hand's.
    part = asked in (["gpus_prefill"], ["gpus_decode"]) and "gpus_generator" not in own
    why = None if not asked else _over_budget(site, before, replace(after, gpus_trainer=0) if part else after)
    if why is None and "gpus_trainer" in wished and wished["gpus_trainer"] != before.gpus_trainer:
        why = _trainer(site, before, after)
    if why is None and "gpus_generator" in wished:
        why = _generator(site.topology, wished)
    if why is None and asked:
        why = refused_pools(site.topology, before, replace(after, gpus_generator=None) if part else after)
    if why is not None:
        yield from ((name, why) for name in asked)


def _over_budget(site: Site, before: Setpoints, after: Setpoints) -> str | None:
    """An unknown side counts as none; what is over the budget already may shrink in steps."""
    generator = generator_gpus(after) or 0
    most, total, was = site.bounds.gpus_total_max or site.topology.gpus_total, generator, gpus(before)
    total += after.gpus_trainer or 0
    if most is None or total <= most or (was is not None and total <= was):
        return None
    return f"{after.gpus_trainer or 0} + {generator} GPUs are over the budget of {most}"


def _trainer(site: Site, before: Setpoints, after: Setpoints) -> str | None:
    size = after.gpus_trainer or 0
    if before.gpus_trainer is not None and site.topology.trainer_resize is TrainerResize.IMPOSSIBLE:
        return f"the checkpoint of {before.gpus_trainer} GPUs cannot be resumed on {size}"
    return refusal(_with_a_total(site.topology, after, size), after, site.bounds, size)


def _with_a_total(topology: Topology, after: Setpoints, size: int) -> Topology:
    """Where nobody knows the generator's GPUs, one engine's stand for them: the trainer's own rules still hold."""
    if after.gpus_generator is not None or topology.gpus_total is not None:
        return topology
    return replace(topology, gpus_total=size + steps(topology, size)[0])


def _generator(topology: Topology, wished: Mapping[str, Any]) -> str | None:
    size, engine, engines = wished["gpus_generator"], topology.gpus_per_engine, wished.get("engines")
    if engine and size % engine:
        return f"gpus_generator={size} is not a multiple of {engine} per engine"
    if engine and engines is not None and engines * engine != size:
        return f"gpus_generator={size} is not {engines} engines of {engine}"
    return None
