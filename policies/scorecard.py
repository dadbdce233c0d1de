"""Honesty: how good the controller's own forecasts are, what follows for its intervals, and what it may do.

Every no-move forecast ("the rate in one settling time, if nothing is done") is scored when its time has come:
- **coverage**: share of 80 % intervals that held; **bias**: mean error in half-widths; **interval score** (Gneiting and
  Raftery 2007): (high - low) + 2/alpha x (distance outside), alpha = 0.2, relative to the forecast;
- **conformal scale**: the finite-sample 80 % quantile of |error| / half-width over the last forecasts. Intervals are
  multiplied by it, so that they cover 80 % whatever the reason they did not (Vovk; Lei et al. 2018);
- **demotion**: a bet of 1 against honesty, at the odds of intervals that hold as often as not, grows to DEMOTE_AT:

      S = max(1, S) x (0.5 / 0.8 where one held, 0.5 / 0.2 where one missed)

  As a test at each forecast for one in so many *histories* would demote everybody in the end, this one asks for the
  run: honest intervals come to DEMOTE_AT once in that many forecasts at most (Shin, Ramdas and Rinaldo 2023).
# S: 8 misses in a row 1,526 -> demoted | 7 misses 610 -> stays | 30, every second missed: 808 or 1,292 | 4 of 5 hold: 1

A **shadow** is a move that was not made (observe, advise). It was good when one settling time later, on rates measured
since, the same move is still wanted, and the forecast for *no* move held. Enough good shadows of a knob unlock `auto`.
What it promised, on which rate, and the rate that came without it are kept beside the verdict.
"""

from dataclasses import dataclass, replace
from math import ceil, log
from statistics import fmean

from policies.base import Direction, Interval
from policies.readings import level, rate_series
from simulators.signals import TINY
from simulators.snapshot import Snapshot

CENTRAL = 0.8
"""All intervals are central and hold so much."""
MEMORY = 50
"""Forecasts remembered: older ones were made in another world."""
SCALE_MIN, SCALE_MAX = 0.5, 5.0
"""A scale outside says that something else is wrong."""
SCALE_FORECASTS_MIN = 9
"""With fewer, the 80 % quantile of a finite sample is its maximum: no scale yet."""
WRONG = 0.5
"""Share of intervals that hold of a controller that should not act."""
DEMOTE_AT = 1000.0
SHADOWS_TO_UNLOCK = 5
SHADOW_SHARE = 0.8
"""Share of good ones among the last shadows of a knob that unlocks it."""
SHADOW_MEMORY = 20


@dataclass(frozen=True, slots=True)
class Forecast:
    """The mean rate from `made_s` to `due_s`, if nothing is done."""

    made_s: float
    due_s: float
    rate: Interval
    """As the belief has it."""
    scale: float = 1.0
    """By which its half-width was multiplied when it was given out."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A move that was not made."""

    decision_id: str
    knob: str
    direction: Direction
    due_s: float
    made_s: float | None = None
    promised: Interval | None = None
    """Its predicted gain."""
    rate_then: float | None = None
    """Useful rollouts per second that the gain was promised on."""


@dataclass(frozen=True, slots=True)
class PastShadow:
    """A shadow that came due."""

    shadow: Shadow
    good: bool
    rate_since: float | None
    """What was made without the move, from then until it was due; None: no step ended."""

    @property
    def promised_rate(self) -> float | None:
        """What would have been made with it, by its promise: on the rate that came, drift and all."""
        promised = self.shadow.promised
        return None if promised is None or self.rate_since is None else self.rate_since * (1.0 + promised.mean)


@dataclass(frozen=True, slots=True)
class Scorecard:
    open: tuple[Forecast, ...] = ()
    errors: tuple[float, ...] = ()
    """Signed log errors in half-widths of the unscaled interval, newest last."""
    held: tuple[bool, ...] = ()
    """Whether the interval that was given out, scale and all, held the truth."""
    scores: tuple[float, ...] = ()
    """Interval scores, relative to the forecast."""
    shadows: tuple[Shadow, ...] = ()
    good: tuple[tuple[str, bool], ...] = ()
    """(knob, whether its shadow was good), newest last."""
    past: tuple[PastShadow, ...] = ()
    """The same shadows with their rates."""


def forecasted(card: Scorecard, forecast: Forecast) -> Scorecard:
    """One more open forecast; they follow each other, so that no two speak of the same steps."""
    if not forecast.rate.low > TINY or (card.open and forecast.made_s < card.open[-1].due_s):
        return card
    return replace(card, open=(*card.open, forecast)[-MEMORY:])


def scored(card: Scorecard, now_s: float, snapshot: Snapshot) -> Scorecard:
    """The card after what is due was compared with the steps since it was made; without steps it is dropped."""
    for forecast in (f for f in card.open if f.due_s <= now_s):
        actual = level(rate_series(snapshot, forecast.made_s, forecast.due_s))
        if actual is not None and actual.mean > TINY:
            card = _compared(card, forecast, actual.mean)
    return replace(card, open=tuple(f for f in card.open if f.due_s > now_s))


def _compared(card: Scorecard, forecast: Forecast, actual: float) -> Scorecard:
    error = _error(forecast.rate, actual)
    return replace(
        card,
        errors=(*card.errors, error)[-MEMORY:],
        held=(*card.held, abs(error) <= forecast.scale)[-MEMORY:],
        scores=(*card.scores, interval_score(forecast.rate, actual) / forecast.rate.mean)[-MEMORY:],
    )


def void_forecasts(card: Scorecard) -> Scorecard:
    """A move begins: what was forecast for *no* move can no longer be compared."""
    return replace(card, open=())


def _error(rate: Interval, actual: float) -> float:
    half = max(TINY, log(rate.high / rate.low) / 2.0)
    return log(actual / rate.mean) / half


def interval_score(rate: Interval, actual: float) -> float:
    """Width plus a penalty for what lies outside: smaller is better, and honest intervals are best."""
    outside = max(0.0, rate.low - actual) + max(0.0, actual - rate.high)
    return rate.high - rate.low + 2.0 / (1.0 - CENTRAL) * outside


def coverage(card: Scorecard) -> float | None:
    """Share of intervals that held."""
    return sum(card.held) / len(card.held) if card.held else None


def bias(card: Scorecard) -> float | None:
    """Mean signed error in half-widths: over 0, the job does better than forecast."""
    return sum(card.errors) / len(card.errors) if card.errors else None


def conformal_scale(card: Scorecard) -> float:
    """What every half-width is multiplied by: the ceil(0.8 (n + 1))-th smallest |error|; 1 until there are enough.

    # n 9 -> the 8th | n 19 -> the 16th | n 50 -> the 41st
    """
    n = len(card.errors)
    if n < SCALE_FORECASTS_MIN:
        return 1.0
    ordered = sorted(abs(e) for e in card.errors)
    return min(SCALE_MAX, max(SCALE_MIN, ordered[min(n, ceil(CENTRAL * (n + 1))) - 1]))


def demoted(card: Scorecard) -> str | None:
    """Why the controller may only advise, after too many wrong forecasts; None while they are honest enough.

    What a scale has learned from is forgiven with the hits that follow.
    """
    stake, since = 1.0, 0
    for i, held in enumerate(card.held):
        if stake <= 1.0:
            stake, since = 1.0, i
        stake *= WRONG / CENTRAL if held else (1.0 - WRONG) / (1.0 - CENTRAL)
    if stake < DEMOTE_AT:
        return None
    n, held_n = len(card.held) - since, sum(card.held[since:])
    return f"only {held_n} of the last {n} forecasts held; honest 80 % intervals come to this once in {stake:.0f}"


def shadowed(card: Scorecard, shadow: Shadow) -> Scorecard:
    """One more move that was not made; one open shadow per knob."""
    if any(s.knob == shadow.knob for s in card.shadows):
        return card
    return replace(card, shadows=(*card.shadows, shadow))


def settled_shadow(card: Scorecard, shadow: Shadow, good: bool, snapshot: Snapshot) -> Scorecard:
    came = rate_series(snapshot, shadow.made_s, shadow.due_s)
    past = PastShadow(shadow, good, fmean(came) if came else None)
    return replace(
        card,
        shadows=tuple(s for s in card.shadows if s != shadow),
        good=(*card.good, (shadow.knob, good))[-SHADOW_MEMORY:],
        past=(*card.past, past)[-SHADOW_MEMORY:],
    )


def unlocked(card: Scorecard, knob: str) -> bool:
    """True when the knob's last shadows were good often enough to act."""
    last = [good for name, good in card.good if name == knob][-SHADOWS_TO_UNLOCK:]
    return len(last) == SHADOWS_TO_UNLOCK and sum(last) >= SHADOW_SHARE * SHADOWS_TO_UNLOCK
