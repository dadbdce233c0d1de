"""Lending: verl's dynamic schedule. The trainer lends one step of GPUs while its next batch is not ready.

    give back  when  buffered >= ratio x required                     required: rollouts of the next batch
    ratio     += clip(waited / step, 0.02, 0.1)  when the trainer waited,  -= 0.02 when not;  kept in [0.1, 0.9]
    lend       when  buffered < ratio x required and  saved time > what a switch costs (10 s where no actuator says it)

States: home -> lent -> home. `saved time`: the waiting that the lent step takes away, by rates linear in GPUs.
(verl-project/verl, experimental/fully_async_policy/dynamic_schedule: its ratio has no lower clamp; ours has.)

# ratio 0.30, required 512: buffered 100, lent, waited 20 s of 128 -> ratio 0.40, stays lent (100 < 205)
#                           buffered 300, lent, waited 0           -> ratio 0.28, gives back (300 >= 143)
"""

from dataclasses import dataclass, replace

from policies.base import Interval
from policies.control import Hold, Memory, Proposal, View, split_to
from policies.laws.parameters import demand_bounds, within
from policies.settings import SPLIT
from simulators.legality import legal_sizes
from simulators.plant import Mode
from simulators.signals import TINY

SWITCH_PRIOR_S = 10.0
"""Cost of a switch before one was measured (verl's own)."""
WAITED_FRAC = 0.02
"""A trainer that waits less than this share of the step did not wait."""
RATIO_MIN, RATIO_MAX = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class Lending:
    ratio: float = within(0.3, 0.1, 0.9)
    """Share of the next batch in the buffer at which GPUs go back: where it starts."""
    raise_max_frac: float = within(0.1, 0.02, 0.3)
    lower_frac: float = within(0.02, 0.0, 0.1)

    def __post_init__(self) -> None:
        demand_bounds(self)

    def decide(self, view: View) -> Proposal | Hold:
        now, snapshot = view.in_force, view.snapshot
        if view.topology.mode is Mode.SERIAL:
            return Hold("a serial job has no split to move: overlap is its first lever")
        if now.gpus_trainer is None or now.gpus_generator is None:
            return Hold("the split in force is not known", memory=view.memory)
        step, wait, required = snapshot.get("step_s"), snapshot.get("trainer_wait_s"), now.batch_rollouts
        buffered = snapshot.get("queue_depth")
        if step is None or wait is None or buffered is None or not required:
            return Hold("needs step_s, trainer_wait_s, queue_depth and the batch size", memory=view.memory)
        waited = wait / max(step, TINY)
        ratio = self._ratio(float(view.memory.get("ratio", self.ratio)), waited)
        home = int(view.memory.get("home", now.gpus_trainer))
        memory: Memory = {"ratio": ratio, "home": float(home)}
        if now.gpus_trainer < home:
            return self._lent(view, home, buffered >= ratio * required, memory)
        return self._at_home(view, waited * step, buffered < ratio * required, memory)

    def _ratio(self, ratio: float, waited: float) -> float:
        if waited > WAITED_FRAC:
            ratio += min(self.raise_max_frac, max(0.02, waited))
        else:
            ratio -= self.lower_frac
        return min(RATIO_MAX, max(RATIO_MIN, ratio))

    def _lent(self, view: View, home: int, enough: bool, memory: Memory) -> Proposal | Hold:
        if not enough:
            return Hold("lent: the next batch is not ready", memory=memory)
        wish = split_to(view, home)
        step = (home - (view.in_force.gpus_trainer or home)) / max(1, home)
        return Proposal(wish, "the next batch is ready: GPUs go back", Interval(step / 2.0, step, step), memory)

    def _at_home(self, view: View, wait_s: float, gap: bool, memory: Memory) -> Proposal | Hold:
        now = view.in_force.gpus_trainer or 0
        lent = max((t for t in legal_sizes(view.topology, view.in_force, view.bounds) if t < now), default=None)
        if lent is None or not gap:
            why = "the next batch is nearly ready" if lent is not None else "no smaller legal trainer"
            return Hold(f"at home: {why}", memory=memory)
        saved_s = wait_s * (now - lent) / max(1, view.in_force.gpus_generator or 1)
        cost_s = self._switch_s(view)
        if saved_s <= cost_s:
            return Hold(f"lending saves {saved_s:.1f} s a step and a switch costs {cost_s:.1f} s", memory=memory)
        share = saved_s / max(TINY, view.snapshot.get("step_s") or 1.0)
        proposal = Proposal(split_to(view, lent), "the trainer waits: lend one step")
        return replace(proposal, gain_frac=Interval(share / 2.0, share, share), memory=memory)

    def _switch_s(self, view: View) -> float:
        """What a switch costs: as the actuator says or measured, else the prior."""
        capability = view.capability(SPLIT)
        return capability.cost_s if capability is not None and capability.cost_s > 0.0 else SWITCH_PRIOR_S
