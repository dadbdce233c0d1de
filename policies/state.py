"""State: all that the controller remembers, as one frozen value. Restart = the last one written; replay = a fold."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from policies.base import Direction, Interval
from policies.beliefs import Beliefs
from policies.change_tests import Cusum
from policies.commands import ControlMode
from policies.control import Memory
from policies.guardrails.case import Freeze, PastMove, Pause
from policies.moves import Move
from policies.probation import Probation
from policies.readings import Level
from policies.scorecard import Scorecard
from simulators.plant import Setpoints

STATE_VERSION = 1
"""Rises when a field changes its meaning; tuner/journal.py refuses a newer one and migrates an older one."""
RECENT_MOVES = 16
"""Moves remembered by the oscillation guard."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the proposals of the last ticks had in common."""

    knob: str
    direction: Direction
    ticks: int
    refused: Setpoints | None = None
    """What the models refused of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A move that waits for a person."""

    decision_id: str
    changes: Setpoints
    reason: str
    expires_s: float
    gain_frac: Interval | None = None
    approved: bool = False


@dataclass(frozen=True, slots=True)
class Undertaking:
    """What a move in flight will be judged by."""

    knobs: tuple[str, ...]
    predicted: Interval | None = None
    work: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    health: Mapping[str, Level] = field(default_factory=dict)
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class State:
    version: int = STATE_VERSION
    mode: ControlMode = ControlMode.ADVISE
    tick: int = 0
    at_s: float | None = None
    """Of the last tick: time never runs back."""
    stopped: bool = False
    """By a command of the last tick: the loop ends. A restart runs again."""
    accepted: Setpoints | None = None
    """The settings that we stand by; None before the first look."""
    beliefs: Beliefs = field(default_factory=Beliefs)
    tests: Mapping[str, Cusum] = field(default_factory=dict)
    """Change tests by side."""
    move: Move | None = None
    undertaking: Undertaking | None = None
    undone: Move | None = None
    """The last move that came to nothing, until the next begins: what it ordered may come into force yet."""
    probation: Probation | None = None
    moved_s: float | None = None
    """When the last move ended: steps after it belong to the setting in force alone."""
    missing: int = 0
    """Generator GPUs that were gone at the last look."""
    in_force_s: float | None = None
    """Since when the setting in force is."""
    kept_moves: int = 0
    """Moves that probation let stand, no loss being likelier or to be shown, since the last bad one."""
    alarm: str = ""
    """A shift of the model's learning after a move, until learning is back, or stands where it is, or `resume`."""
    alarmed_at: Mapping[str, Level] = field(default_factory=dict)
    """Where learning stood before that move."""
    calm_s: float | None = None
    """Since when learning was without a shift when the last alarm ended: steps before are no yardstick."""
    alarms: int = 0
    """Moves that were taken back for it: each one's knob rests twice as long as the one before."""
    wanted: Wanted | None = None
    recent: tuple[PastMove, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    pauses: tuple[Pause, ...] = ()
    asked: Asked | None = None
    scorecard: Scorecard = field(default_factory=Scorecard)
    actuation_s: Mapping[str, float] = field(default_factory=dict)
    """Measured from order to in force, by knob; the largest so far."""
    memory: Memory = field(default_factory=dict)
    """The policy's."""
    cursors: Mapping[str, str] = field(default_factory=dict)
    """How far each source was read, by its name: a restart goes on from there."""
