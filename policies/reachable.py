"""The settings that a job's actuators reach: what a clairvoyant may choose from."""

from dataclasses import replace

from policies.objective import Objective, violations
from policies.settings import merged, with_trainer
from simulators.legality import lattice, refusal
from simulators.plant import Setpoints, TrainerResize
from simulators.scenario import Scenario


def settings_of(scenario: Scenario, most: int) -> tuple[Setpoints, ...]:
    """At most about `most` legal settings that this job's actuators reach, the starting one first."""
    start, movable = scenario.setpoints, {move.knob for move in scenario.move}
    found = _splits(scenario) if {"gpus_trainer", "gpus_generator"} <= movable else [start]
    if {"gpus_prefill", "gpus_decode"} <= movable:
        found = [other for setting in found for other in _prefills(scenario, setting)]
    flights = _flights(start) if "max_in_flight" in movable and start.max_in_flight else (1.0,)
    kept = _thinned(found, max(1, most // len(flights)), start)
    wider = [_in_flight(setting, factor) for factor in flights for setting in kept]
    legal = [s for s in wider if not violations(Objective(), scenario.bounds, s)]
    return tuple(dict.fromkeys([start, *legal]))


def _flights(start: Setpoints) -> tuple[float, ...]:
    return (1.0, 0.6, 1.5)


def _in_flight(setting: Setpoints, factor: float) -> Setpoints:
    now = setting.max_in_flight
    return setting if now is None else replace(setting, max_in_flight=max(1, round(now * factor)))


def _splits(scenario: Scenario) -> list[Setpoints]:
    start, topology = scenario.setpoints, scenario.topology
    if topology.trainer_resize is TrainerResize.IMPOSSIBLE or not start.gpus_trainer or not start.gpus_generator:
        return [start]
    sizes = lattice(topology, start, scenario.bounds)
    legal = [t for t in sizes if refusal(topology, start, scenario.bounds, t) is None]
    return [merged(start, with_trainer(start, topology, t)) for t in sorted({*legal, start.gpus_trainer})]


def _prefills(scenario: Scenario, setting: Setpoints) -> list[Setpoints]:
    unit, pool = scenario.topology.gpus_per_engine or 1, setting.gpus_generator or 0
    return [replace(setting, gpus_prefill=p, gpus_decode=pool - p) for p in range(unit, pool, unit)]


def _thinned(found: list[Setpoints], most: int, start: Setpoints) -> list[Setpoints]:
    """Evenly spread, the start and its neighbours among them."""
    if len(found) <= most:
        return found
    here = found.index(start) if start in found else 0
    near = {i for i in range(here - 2, here + 3) if 0 <= i < len(found)}
    stride = len(found) / max(1, most - len(near))
    spread = {int(i * stride) for i in range(max(0, most - len(near)))}
    return [found[i] for i in sorted(near | spread)]
