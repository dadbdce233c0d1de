"""What people tell the controller: how far it may go, and the commands between its ticks. Data only."""

from dataclasses import dataclass
from enum import StrEnum

from policies.base import Direction


class ControlMode(StrEnum):
    """How far the controller may go."""

    OBSERVE = "observe"
    """It watches and learns; nobody is told what to do."""
    ADVISE = "advise"
    """It says what it would do."""
    APPROVE = "approve"
    """It asks; a person confirms."""
    AUTO = "auto"
    """It acts, knob by knob, once its forecasts have earned it."""


class CommandKind(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    APPROVE = "approve"
    MODE = "mode"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Command:
    """What a person (or a kill file) tells the controller; of no knob: all of them, of no direction: both."""

    kind: CommandKind
    knob: str | None = None
    direction: Direction | None = None
    decision_id: str | None = None
    """Of an approval."""
    mode: ControlMode | None = None
    """Of a change of mode."""
    author: str = ""
