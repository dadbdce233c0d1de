"""A proposal with all that a guardrail may know, and the words in which it answers."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from policies.base import Direction, Interval
from policies.control import HoldCode, View
from policies.readings import trained_per_s
from policies.settings import knobs_of, merged, most_in_flight
from simulators.plant import Change, Setpoints


@dataclass(frozen=True, slots=True)
class Limits:
    """The guardrails' parameters."""

    stale_s: float = 600.0
    """Evidence older than this is none; what comes once a step may be three steps old."""
    coverage_min: float = 0.9
    """Share of the engines that must report."""
    deadband_frac: float = 0.02
    """A gain under this is noise, whatever the model says."""
    confirm_starved: int = 2
    """Ticks in a row that must want a move which relieves a starving trainer."""
    confirm_shrink: int = 6
    """The same for all other moves: quick to relieve, slow to shrink."""
    confirm_first: int = 1
    """The same before the job's first step has ended."""
    payback_ratio: float = 2.0
    """A gain must be worth this many times its cost within the horizon."""
    trusted_moves: int = 1
    """Moves that probation let stand, after which a split may go further than one lattice step."""
    reversal_settles: float = 3.0
    """No knob turns back within so many settling times, except by probation."""
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
            "confirm_first": 1,
            "payback_ratio": 1.0,
            "trusted_moves": 0,
            "reversal_settles": 0.0,
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
    settle_s: float = 0.0
    """Its settling time."""


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

    def stops(self, knob: str, towards: Direction) -> bool:
        return self.knob in (None, knob) and self.direction in (None, towards)


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
    in_force_s: float | None = None
    """Since when the setting in force is; None: since the start."""
    recent: tuple[PastMove, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    pauses: tuple[Pause, ...] = ()
    kept_moves: int = 0
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


def cost_s(view: View, changes: Setpoints) -> float:
    """Seconds of the whole job's work that these changes cost: done at once, the dearest pays for all.

    Besides what the actuators state: a restart loses what is in flight, and a larger limit in flight takes as much work
    into stock as it lets start; both are half done on average (Little's law makes seconds of them).
    # 1,664 in flight at 1.7/s: a restart 1,200 s + 489 s | 2,080 instead: 416 / 2 / 1.7 = 122 s
    """
    found = [c for knob in knobs_of(changes) if (c := view.capability(knob)) is not None]
    stated = max((c.cost_s for c in found), default=0.0)
    limit, wider = (most_in_flight(s, view.topology) for s in (view.in_force, merged(view.in_force, changes)))
    then = (wider if wider != limit else None) or view.snapshot.get("inflight_rollouts") or limit or 0
    restarts = any(c.change is Change.RESTART for c in found)
    stock = then if restarts else max(0.0, then - (limit or then))
    rate = _made_per_s(view)
    return stated + (stock / 2.0 / rate if rate else 0.0)


def _made_per_s(view: View) -> float | None:
    """Rollouts that the generator finishes per second, those too that are not trained or teach nothing."""
    known = {name: signal.value for name, signal in view.snapshot.signals.items()}
    rate, dispatched, accepted = trained_per_s(known), known.get("dispatched"), known.get("accepted")
    return rate * max(1.0, dispatched / accepted) if rate and dispatched and accepted else rate
