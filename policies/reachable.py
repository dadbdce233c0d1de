"""The settings that a job's actuators reach: what a clairvoyant may choose from, and which are next to which."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

from policies.objective import Objective, violations
from policies.options import FLIGHT_STEP, FLIGHT_STEPS, ratios_from
from policies.settings import merged, values, with_in_flight, with_trainer
from simulators.legality import legal_sizes
from simulators.plant import Setpoints, TrainerResize
from simulators.scenario import Scenario

CLIMB_MAX = 200
"""Steps of one climb: more than any lattice is wide."""
FLIGHT_MOVES = 2
"""Changes of the limit in flight, one after another, that lead to where a law may end."""

TOGETHER = (("gpus_trainer", "gpus_generator"), ("gpus_prefill", "gpus_decode"))
"""What one knob turns at once: GPUs that leave one go to the other."""

Spot = tuple[int, int, int]
"""(trainer GPUs, prefill GPUs or 0, steps of the limit in flight): a setting by its place on the lattices."""


@dataclass(frozen=True)
class Reach:
    """All that the actuators of one job reach from where it starts."""

    scenario: Scenario

    @cached_property
    def movable(self) -> frozenset[str]:
        return frozenset(move.knob for move in self.scenario.move)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Legal trainer sizes, sorted."""
        start, topology, bounds = self.scenario.setpoints, self.scenario.topology, self.scenario.bounds
        now = start.gpus_trainer or 0
        if topology.trainer_resize is TrainerResize.IMPOSSIBLE or not now or not start.gpus_generator:
            return (now,)
        if not {"gpus_trainer", "gpus_generator"} <= self.movable:
            return (now,)
        return tuple(sorted({now, *legal_sizes(topology, start, bounds)}))

    @property
    def start(self) -> Spot:
        return (self.scenario.setpoints.gpus_trainer or 0, self.scenario.setpoints.gpus_prefill or 0, 0)

    def setting(self, spot: Spot) -> Setpoints:
        trainer, prefill, steps = spot
        start = self.scenario.setpoints
        if spot == self.start:
            return start
        moved = trainer != start.gpus_trainer
        found = merged(start, with_trainer(start, self.scenario.topology, trainer)) if moved else start
        if prefill:
            pool = (found.gpus_prefill or 0) + (found.gpus_decode or 0)
            found = replace(found, gpus_prefill=prefill, gpus_decode=pool - prefill)
        if not steps:
            return found
        if found.max_in_flight is None:
            each = max(1, round((found.max_in_flight_per_engine or 1) * FLIGHT_STEP**steps))
            return replace(found, max_in_flight_per_engine=each)
        total = max(1, round(found.max_in_flight * FLIGHT_STEP**steps))
        if "max_in_flight_per_engine" not in self.movable:
            return replace(found, max_in_flight=total)
        return merged(found, with_in_flight(found, self.scenario.topology, total))

    @cached_property
    def ratios(self) -> tuple[float, ...]:
        """Oversampling ratios beside the starting one; cheap, and so looked at after the rest."""
        if "oversampling_ratio" not in self.movable:
            return ()
        start = self.scenario.setpoints.oversampling_ratio or 1.0
        return tuple(ratio for ratio in ratios_from(start) if ratio != start)

    def around(self, spot: Spot) -> Iterator[Spot]:
        """The legal spots one step away, knob by knob."""
        trainer, prefill, steps = spot
        here = self.sizes.index(trainer)
        near = [(t, prefill, steps) for t in self.sizes[max(0, here - 1) : here + 2]]
        if prefill and {"gpus_prefill", "gpus_decode"} <= self.movable:
            unit = self.scenario.topology.gpus_per_engine or 1
            near += [(trainer, prefill + unit, steps), (trainer, prefill - unit, steps)]
        knob = "max_in_flight" if self.scenario.setpoints.max_in_flight else "max_in_flight_per_engine"
        if knob in self.movable and values(self.scenario.setpoints).get(knob):
            near += [(trainer, prefill, k) for k in (steps - 1, steps + 1) if abs(k) <= FLIGHT_MOVES * FLIGHT_STEPS]
        yield from (other for other in near if other != spot and self._legal(other))

    def _legal(self, spot: Spot) -> bool:
        unit, found = self.scenario.topology.gpus_per_engine or 1, self.setting(spot)
        if found.gpus_prefill is not None and min(found.gpus_prefill, found.gpus_decode or 0) < unit:
            return False
        return not violations(Objective(), self.scenario.bounds, found)


def in_one_change(now: Setpoints, then: Setpoints) -> bool:
    """A change of the limit in flight goes FLIGHT_STEPS at most, a law's like a clairvoyant's."""
    before, after = (s.max_in_flight or s.max_in_flight_per_engine for s in (now, then))
    if not before or not after:
        return True
    return abs(log(after / before)) < (FLIGHT_STEPS + 0.5) * log(FLIGHT_STEP)


def half_turned(scenario: Scenario) -> list[str]:
    """A sentence for each knob of which one part has an actuator and another has none: nobody can turn it."""
    movable, knobs = {move.knob for move in scenario.move}, values(scenario.setpoints)
    pairs = [(a, b) for pair in TOGETHER for a, b in (pair, pair[::-1]) if a in movable and b not in movable]
    found = [f"{a} has a [[move]] and {b} has none, so neither is turned" for a, b in pairs]
    if "max_in_flight" in movable and "max_in_flight_per_engine" in knobs.keys() - movable:
        found.append("max_in_flight_per_engine has no [[move]], so more in flight is refused where it binds")
    return found


def climbed(reach: Reach, start: Spot, worth: Callable[[Setpoints], float]) -> tuple[Spot, dict[Spot, float]]:
    """(the best spot uphill from `start`, all that were looked at). One hill is assumed."""
    known = {start: worth(reach.setting(start))}
    best = start
    for _ in range(CLIMB_MAX):
        for spot in reach.around(best):
            if spot not in known:
                known[spot] = worth(reach.setting(spot))
        better = max(known, key=lambda spot: known[spot])
        if better == best:
            break
        best = better
    return best, known
