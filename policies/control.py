"""The words of control: all that an author of a policy, a guardrail or an actuator needs. Data only.

Observation -> View -> Proposal or Hold -> (guardrails) -> (gate) -> Decision -> Receipt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Protocol

from policies.base import Interval
from policies.beliefs import Beliefs
from policies.objective import Objective, Violation, violations
from policies.settings import of_all, with_trainer, without
from policies.unmodelled import with_quota
from simulators.model import PlantModel, Prediction
from simulators.plant import Bounds, Change, Inventory, Observation, Setpoints, Topology
from simulators.snapshot import Snapshot
from simulators.workload import Workload

Memory = Mapping[str, float | str]
"""What a policy wants to know again at its next tick; it becomes part of the state."""
REVIEW_S = "review_s"
"""In a policy's memory: until this second it holds, whatever it sees, and no model is made for it."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What an actuator can do to one knob."""

    knob: str
    change: Change = Change.HOT
    actuation_s: float = 0.0
    """From the order until it is in force: a prior until it is measured."""
    cost_s: float = 0.0
    """What one change costs, in seconds of the whole job's work: restarts, lost trainer time, aborted tokens."""
    data_changing: bool = False
    """True when it changes which rollouts are trained: in `auto` only where listed."""
    gives_up_s: float = 0.0
    """After this its actuator itself takes back what has not come true; 0: a new order does."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One plausible job: a model with its workload. Several from a posterior are equally likely."""

    model: PlantModel
    workload: Workload
    structure: str = "calibrated"
    """Draws of another name come from a structurally different model (a hidden tail, linear rates, serial)."""
    doubt: float = 0.0
    """Variance of ln(generator's rate / trainer's) by what it was fitted to; of a central draw."""
    simulator: PlantModel | None = None
    """The same job under a model that takes longer and is right where this one is weak; of a central draw."""


class Modeller(Protocol):
    """Calibrated models of the job at hand. Pure: the same observation and seed give the same draws."""

    def central(self, seen: Observation) -> Draw | None: ...

    def why_not(self, seen: Observation) -> str:
        """Why there is no central one, where there is none."""
        ...

    def draws(self, seen: Observation, count: int, seed: int) -> Sequence[Draw]: ...


@dataclass(frozen=True, slots=True)
class View:
    """All that a policy may know. A decision is a function of this and nothing else."""

    now_s: float
    snapshot: Snapshot
    in_force: Setpoints
    topology: Topology
    inventory: Inventory = field(default_factory=Inventory)
    bounds: Bounds = field(default_factory=Bounds)
    objective: Objective = field(default_factory=Objective)
    beliefs: Beliefs = field(default_factory=Beliefs)
    missing: int = 0
    """Generator GPUs that the setting in force counts on and that are gone."""
    pending: Setpoints | None = None
    """Ordered and not yet in force."""
    capabilities: tuple[Capability, ...] = ()
    locked: frozenset[str] = frozenset()
    """Knobs that may be proposed and not turned now: what they would gain is told where no other knob would."""
    refused: Setpoints | None = None
    """What the models refused when the same was wanted last: a nearer setting of that way may pass."""
    horizon_s: float = inf
    """What is left of the run, or the half-life of its drift where that is shorter: later gains do not count."""
    model: PlantModel | None = None
    no_model: str = ""
    """Why there is none, where one was asked for."""
    workload: Workload | None = None
    doubt: float = 0.0
    """Of the model: variance of ln(generator's rate / trainer's)."""
    simulator: PlantModel | None = None
    """The same job by simulation, to be asked of a few settings where the model is weak. Its answers, or that there was
    none in time, are part of the tick: asked again it says the same, in a replay too."""
    memory: Memory = field(default_factory=dict)

    @property
    def begins(self) -> bool:
        """True where the job is known not to have ended a step: nothing was measured that a move could be held against.

        Rows that are missing do not say so: a controller may come late, and a trainer may be silent.
        """
        return self.inventory.steps_done == 0 and not self.snapshot.rows

    def predicted(self, settings: Setpoints) -> Prediction | None:
        """What the model says of a setting, on the GPUs that are there; None without one. Raises ValueError."""
        if self.model is None or self.workload is None:
            return None
        return self.model.predict(self.topology, self.workload, without(settings, self.missing))

    def simulated(self, settings: Setpoints) -> Prediction | None:
        """The same by simulation; None where there is none, or none in time."""
        if self.simulator is None or self.workload is None:
            return None
        try:
            return self.simulator.predict(self.topology, self.workload, without(settings, self.missing))
        except ValueError:
            return None

    def broken(self, settings: Setpoints, prediction: Prediction | None = None) -> tuple[Violation, ...]:
        """The hard bounds that a setting breaks, by what is predicted of it."""
        then = with_quota(of_all(settings, self.topology), self.snapshot)
        return violations(self.objective, self.bounds, then, prediction)

    def capability(self, knob: str) -> Capability | None:
        return next((c for c in self.capabilities if c.knob == knob), None)


def split_to(view: View, gpus_trainer: int) -> Setpoints:
    """The wish for another split, the total in flight moved with the engines where it can be turned."""
    wish = with_trainer(view.in_force, view.topology, gpus_trainer)
    return wish if view.capability("max_in_flight") is not None else replace(wish, max_in_flight=None)


class HoldCode(StrEnum):
    """Why nothing is done: the closed set that metrics and alerts count."""

    POLICY = "policy"
    """The control law wants nothing."""
    STOPPED = "stopped"
    PAUSED = "paused"
    OBSERVING = "observing"
    MOVING = "moving"
    """A move is under way: its next leg is awaited."""
    PROBATION = "probation"
    """A move is being judged."""
    STRANDED = "stranded"
    """A move could be neither finished nor undone: its way home is tried again, more and more rarely."""
    STALE = "stale"
    """No evidence, or too old, or of too few."""
    CONTRADICTORY = "contradictory"
    """Signals that cannot all be true: which of them is wrong is not guessed."""
    BLANKED = "blanked"
    """A weight sync, an evaluation, a checkpoint or a start-up is in the picture."""
    UNHEALTHY = "unhealthy"
    """The model's learning is in doubt."""
    ILLEGAL = "illegal"
    BOUND = "bound"
    """A hard bound: staleness, bias, quota."""
    DONOR = "donor"
    """The side that gives would become the slower one."""
    DEADBAND = "deadband"
    UNCONFIRMED = "unconfirmed"
    SETTLING = "settling"
    PAYBACK = "payback"
    OSCILLATION = "oscillation"
    FROZEN = "frozen"
    BUDGET = "budget"
    GATE = "gate"
    """The models do not confirm the gain."""
    LOCKED = "locked"
    """`auto` has not been earned for this knob."""
    FAULT = "fault"
    """The control law itself failed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a policy would change, and why. May be wrong: the guardrails and the gate come after it."""

    changes: Setpoints
    """Only what changes; `None` stays."""
    reason: str
    gain_frac: Interval | None = None
    """Predicted gain of the objective, as a share of now."""
    memory: Memory = field(default_factory=dict)

    def __post_init__(self) -> None:
        _demand_reason(self.reason)


@dataclass(frozen=True, slots=True)
class Hold:
    """The null proposal; doing nothing is a decision and has a reason."""

    reason: str
    code: HoldCode = HoldCode.POLICY
    memory: Memory = field(default_factory=dict)

    def __post_init__(self) -> None:
        _demand_reason(self.reason)


def _demand_reason(reason: str) -> None:
    if not reason.strip():
        raise ValueError("a proposal and a hold need a reason: say in one sentence, with numbers, why")


class Policy(Protocol):
    """A control law: pure, with its parameters as fields of a frozen dataclass."""

    def decide(self, view: View) -> Proposal | Hold: ...


@dataclass(frozen=True, slots=True)
class GuardStep:
    """What one guardrail said."""

    guard: str
    passed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What the models said: how likely the move gains more than it costs."""

    passed: bool
    reason: str
    probability: float | None = None
    """Of gain over cost among the calibrated draws."""
    gain_frac: Interval | None = None
    draws: int = 0
    structures: Mapping[str, float] = field(default_factory=dict)
    """The same probability for each structurally different model that was asked."""


class Action(StrEnum):
    HOLD = "hold"
    ADVISE = "advise"
    ASK = "ask"
    """Waits for a person's approval until it expires."""
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a move: its gain as predicted and as realised."""

    decision_id: str
    good: bool | None
    """None: too little was seen to tell."""
    predicted: Interval | None = None
    realised: Interval | None = None

    @property
    def verdict(self) -> str:
        """In words: what is kept because its loss is not certain is not called good for that."""
        if self.good is None:
            return "undecided"
        if not self.good:
            return "bad"
        return "good" if self.realised is not None and self.realised.low > 0.0 else "no clear loss"


@dataclass(frozen=True, slots=True)
class Decision:
    """What we stand by at one tick."""

    decision_id: str
    """Of the move that an order belongs to; a new one for each new proposal."""
    at_s: float
    action: Action
    reason: str
    code: HoldCode | None = None
    """Of a hold."""
    order: Setpoints | None = None
    """What is to be in force now: one leg of a move; None: nothing is ordered."""
    proposed: Setpoints | None = None
    """What the policy wanted, before the guardrails narrowed it."""
    changes: Setpoints | None = None
    """The whole move that was advised, asked for or begun."""
    gain_frac: Interval | None = None
    trail: tuple[GuardStep, ...] = ()
    verdict: GateVerdict | None = None
    expires_s: float | None = None
    outcome: Outcome | None = None
    """The verdict on an earlier move, at the tick that gave it."""
    notes: tuple[str, ...] = ()
    """What happened beside: commands taken, foreign changes, alarms."""
