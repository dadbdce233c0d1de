"""A proposal with all that a guardrail may know, and the words in which it answers."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from policies.base import Direction, Interval
from policies.control import HoldCode, View
from policies.settings import knobs_of, merged
from simulators.plant import Setpoints


@dataclass(frozen=True, slots=True)
class Limits:
    """The guardrails' parameters."""

    stale_s: float = 600.0
    """Evidence older than this is none."""
    coverage_min: float = 0.9
    """Share of the engines that must report."""
    deadband_frac: float = 0.02
    """A gain under this is noise, whatever the model says."""
    confirm_starved: int = 2
    """Ticks in a row that must want a move which relieves a starving trainer."""
    confirm_shrink: int = 6
    """The same for all other moves: quick to relieve, slow to shrink."""
    payback_ratio: float = 2.0
    """A gain must be worth this many times its cost within the horizon."""
    trusted_moves: int = 3
    """Good moves after which a split may go further than one lattice step."""
    reversals_max: int = 1
    """Changes of direction of one knob within the memory: more are an oscillation."""
    memory_settles: float = 12.0
    """Settling times for which a move is remembered by the oscillation guard."""
    donor_load_max: float = 1.05
    """The giving side's work over its capacity after the move: above, it has become the bottleneck."""
    auto_data_changing: tuple[str, ...] = ()
    """Data-changing knobs that may be turned in `auto`."""

    def __post_init__(self) -> None:
        least = {
            "stale_s": 1.0,
            "coverage_min": 0.0,
            "deadband_frac": 0.0,
            "confirm_starved": 1,
            "confirm_shrink": self.confirm_starved,
            "payback_ratio": 1.0,
            "trusted_moves": 0,
            "reversals_max": 0,
            "memory_settles": 3.0,
            "donor_load_max": 0.5,
        }
        for name, number in asdict(self).items():
            if name in least and not number >= least[name]:
                raise ValueError(f"guardrails.{name}={number} must be >= {least[name]:g}")


@dataclass(frozen=True, slots=True)
class PastMove:
    at_s: float
    knob: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class Freeze:
    """No move of this knob until then."""

    knob: str
    until_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's: of no knob, all of them; of no direction, both."""

    knob: str | None = None
    direction: Direction | None = None
    author: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A proposal with all that the guardrails may know."""

    view: View
    changes: Setpoints
    gain_frac: Interval | None
    limits: Limits = field(default_factory=Limits)
    step_frac: float = 1.0
    """Share of the way that is left of the proposal after narrowing."""
    settle_s: float = 0.0
    agreed: int = 1
    """Ticks in a row, this one included, with a proposal in the same direction."""
    last_move_s: float | None = None
    recent: tuple[PastMove, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    pauses: tuple[Pause, ...] = ()
    good_moves: int = 0
    alarm: str = ""
    """Why the model's learning is in doubt since the last move."""
    blanked: str = ""
    """What the picture shows besides the job at work."""

    @property
    def knobs(self) -> tuple[str, ...]:
        return knobs_of(self.changes)

    @property
    def then(self) -> Setpoints:
        return merged(self.view.in_force, self.changes)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one guardrail says: `code` holds; `changes` narrows."""

    reason: str
    code: HoldCode | None = None
    changes: Setpoints | None = None
    step_frac: float = 1.0
    """Share of the way that the narrowed proposal goes."""


Guard = Callable[[Case], Ruling]


OK = Ruling("")


def cost_s(view: View, knobs: tuple[str, ...]) -> float:
    """Seconds of the whole job's work that turning these costs: done at once, the dearest pays for all."""
    return max((c.cost_s for k in knobs if (c := view.capability(k)) is not None), default=0.0)
