"""The gate: is the gain larger than the cost, by the models we have, with the probability we ask for?

On each draw from the calibration's posterior both settings are predicted by the *same* model (paired: what the draws
have in common cancels), and

    win = value(then) / value(now) - 1  >  cost_s / horizon_s,   no hard bound broken, or broken further.

P(win) >= 0.9 over at least 30 calibrated draws *and* on each structurally different model that was asked, one at least.
This checks arithmetic, not reality: probation does that.
# horizon 2 h, cost 90 s -> a gain of 1.25 % breaks even; 27 of 30 draws pass, 26 hold
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot

from policies.allocation import quantile
from policies.base import Interval
from policies.beliefs import CENTRAL_80
from policies.control import Draw, GateVerdict
from policies.objective import Objective, value, violations, worsened
from policies.settings import merged, without
from simulators.plant import Bounds, Setpoints, Topology
from simulators.signals import TINY

CALIBRATED = "calibrated"
LOST = -1.0
"""The gain where a model says that the setting cannot run."""
EVENLY = 30
"""Quantiles that stand for each structure: as many as there are draws at least."""
MODELS = 0.006
"""Standard deviation of a gain between two models that both are right: of nine tenths of random jobs they tell gains
within 1 % of each other (tests/laws/test_analytic_against_events.py)."""


@dataclass(frozen=True, slots=True)
class GateLimits:
    probability_min: float = 0.9
    draws_min: int = 30
    structures_min: int = 1
    """Structurally different models that must agree."""


@dataclass(frozen=True, slots=True)
class Question:
    """Is it worth changing `now` by `changes`?"""

    topology: Topology
    now: Setpoints
    changes: Setpoints
    cost_s: float
    """Seconds of the whole job's work that the change costs."""
    horizon_s: float
    """Seconds over which a gain counts."""
    bounds: Bounds
    objective: Objective
    missing: int = 0
    """Generator GPUs that are gone."""


def confirm(question: Question, draws: Sequence[Draw], limits: GateLimits) -> GateVerdict:
    """The verdict, with the gain's 80 % interval over the calibrated draws around its median: a mean may lie outside of
    it, where a few of the drawn jobs lose all."""
    q = question
    settings = (q.now, merged(q.now, q.changes))
    tried = {name: [_tried(q, settings, d) for d in draws if d.structure == name] for name in _structures(draws)}
    gains = {name: [gain for gain, _ in found] for name, found in tried.items()}
    own = gains.pop(CALIBRATED, [])
    if len(own) < limits.draws_min:
        return GateVerdict(False, f"{len(own)} calibrated draws, {limits.draws_min} needed", draws=len(own))
    cost = question.cost_s / max(question.horizon_s, TINY)
    chance = _share_above(own, cost)
    others = {name: _share_above(found, cost) for name, found in gains.items()}
    gain = _over_structures([own, *gains.values()])
    words = f"gain {gain.mean:+.1%} ({gain.low:+.1%}..{gain.high:+.1%}), cost {cost:.2%}, P(gain > cost) {chance:.0%}"
    doubters = [name for name, share in others.items() if share < limits.probability_min]
    if chance < limits.probability_min:
        passed, why = False, f"{words}: under {limits.probability_min:.0%}"
    elif len(others) < limits.structures_min:
        passed, why = False, f"{words}, but {len(others)} structurally different models were asked"
    elif doubters:
        lost = next((f": {reason}" for _, reason in tried[doubters[0]] if reason), "")
        passed, why = False, f"{words}, but the {doubters[0]} model gives {others[doubters[0]]:.0%}{lost}"
    else:
        passed, why = True, words
    return GateVerdict(passed, why, chance, gain, len(own), others)


def _over_structures(found: Iterable[Sequence[float]]) -> Interval:
    """Middle and 80 % interval of a gain over all that was asked. Nobody knows which structure is the true one, so each
    has equal odds, however many draws it has; who lost told no gain.

    # thirty draws at 5 %, three of a simulator at 8 %: +6.5 % (+5..+8)
    """
    known = [sorted(kept) for gains in found if (kept := [gain for gain in gains if gain > LOST])]
    evenly = sorted(quantile(gains, (k + 0.5) / EVENLY) for gains in known for k in range(EVENLY))
    return Interval(*(quantile(evenly, share) for share in (0.1, 0.5, 0.9))) if evenly else Interval(LOST, LOST, LOST)


def as_models_know(gain: Interval) -> Interval:
    """However well draws agree, no model knows a gain better than two right ones do: that comes to each side.

    # +4 % (+3.9..+4) -> +4 % (+3.2..+4.8)
    """
    own = CENTRAL_80 * MODELS
    low, high = (hypot(side, own) for side in (gain.mean - gain.low, gain.high - gain.mean))
    return Interval(gain.mean - low, gain.mean, gain.mean + high)


def _structures(draws: Iterable[Draw]) -> list[str]:
    return sorted({d.structure for d in draws})


def _tried(q: Question, settings: tuple[Setpoints, Setpoints], draw: Draw) -> tuple[float, str]:
    """(relative gain, "") of one draw from the first setting to the second; (LOST, why) where that cannot run, breaks a
    bound that the first one kept, or breaks one further."""
    now, then = settings
    try:
        was = draw.model.predict(q.topology, draw.workload, without(now, q.missing))
        will = draw.model.predict(q.topology, draw.workload, without(then, q.missing))
    except ValueError as error:
        return LOST, str(error)
    worse = worsened(violations(q.objective, q.bounds, now, was), violations(q.objective, q.bounds, then, will))
    worth = value(q.objective, was, now)
    if worse:
        return LOST, f"{', '.join(v.constraint for v in worse)} would be broken: {worse[0].reason}"
    if not worth > TINY:
        return LOST, "nothing useful is trained now"
    gain = value(q.objective, will, then) / worth - 1.0
    return (gain, "") if gain == gain else (LOST, "no gain can be reckoned")


def _share_above(gains: Sequence[float], cost: float) -> float:
    return sum(gain > cost for gain in gains) / len(gains) if gains else 0.0
