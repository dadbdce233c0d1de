"""Rules: what one controller goes by, fixed while it runs."""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from policies.control import Capability, Modeller, Policy
from policies.gate import GateLimits
from policies.guardrails.case import Limits
from policies.objective import Objective
from simulators.plant import Bounds, Topology

DRIFT_S = 6 * 3600.0
APPROVAL_S = 1800.0
FREEZE_S = 3600.0


class Foreign(StrEnum):
    """What to do when somebody else turns a knob: never fight."""

    ADOPT = "adopt"
    PAUSE = "pause"
    """Adopt it and leave that knob alone until told to resume."""


@dataclass(frozen=True, slots=True)
class Rules:
    policy: Policy
    topology: Topology
    bounds: Bounds = field(default_factory=Bounds)
    objective: Objective = field(default_factory=Objective)
    capabilities: tuple[Capability, ...] = ()
    limits: Limits = field(default_factory=Limits)
    gate: GateLimits | None = field(default_factory=GateLimits)
    """None: the law's word is enough (for the plain laws that others are measured against)."""
    modeller: Modeller | None = None
    ends_s: float = inf
    """When the run ends."""
    horizon_s: float = DRIFT_S
    """The half-life of the job's drift: a gain is not counted for longer, but where the job has stood still for longer.
    What has lasted for a time is likely to last as long again (Gott 1993)."""
    foreign: Foreign = Foreign.ADOPT
    approval_s: float = APPROVAL_S
    """A question to a person expires after this."""
    freeze_s: float = FREEZE_S
    """How long a knob rests after a move that failed or was reverted."""
    earn_auto: bool = True
    """`auto` acts only on knobs whose shadows were good."""
    probation: bool = True
    """Moves are judged and reverted when bad."""
    seed: int = 0
