"""A gain checked by simulation where the analytic model should not decide alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from simulators.calibration.draws import Draw
from simulators.calibration.what_if import WEAK_WIDTH_FRAC, Answer, Spread
from simulators.event_model import EventModel
from simulators.model import Prediction

BATCHES, WARM_UP = 60, 10
"""Trainer steps that are simulated, and that are thrown away before."""
SHARES = (0.15, 0.5, 0.85)
"""Which draws are simulated, in the order of their gains."""


@dataclass(frozen=True, slots=True)
class Checked:
    gain: Spread
    simulated_gain: float
    analytic_gain: float
    """Means over the draws that were simulated."""


def checked(answer: Answer, draws: Sequence[Draw]) -> Checked | None:
    """The interval corrected by what simulation says of a low, a middle and a high draw; None where none runs.

    (1 + gain) is multiplied by the mean of simulated over analytic (1 + gain) and widened by the scatter of that ratio.
    Both settings see the same prompts, lengths and rewards, so their noise cancels for the greater part.
    """
    order = sorted(range(len(draws)), key=lambda i: _gain(draws[i].now, answer.jobs[i].now))
    chosen = sorted({order[round(share * (len(order) - 1))] for share in SHARES})
    pairs = [(_gain(draws[i].now, answer.jobs[i].now), _simulated_gain(draws[i], answer.jobs[i])) for i in chosen]
    known = [(analytic, simulated) for analytic, simulated in pairs if simulated is not None]
    if not known:
        return None
    ratios = [(1.0 + simulated) / (1.0 + analytic) for analytic, simulated in known]
    centre, scatter = fmean(ratios), (max(ratios) - min(ratios)) / 2.0
    narrow = WEAK_WIDTH_FRAC if answer.weak else 0.0  # simulation decides now
    mean = (1.0 + answer.gain.mean) * centre - 1.0
    low = (1.0 + answer.gain.low + narrow) * max(0.0, centre - scatter) - 1.0
    high = (1.0 + answer.gain.high - narrow) * (centre + scatter) - 1.0
    analytic, simulated = (fmean(values) for values in zip(*known, strict=True))
    return Checked(Spread(min(low, mean), mean, max(high, mean)), simulated, analytic)


def _gain(now: Prediction, then: Prediction) -> float:
    return then.useful_rollouts_per_s / now.useful_rollouts_per_s - 1.0


def _simulated_gain(now: Draw, then: Draw) -> float | None:
    """None where one of the two stands still or cannot be simulated."""
    try:
        before, after = _simulated(now), _simulated(then)
    except ValueError:
        return None
    if before.stopped or after.stopped or before.useful_rollouts_per_s <= 0.0:
        return None
    return _gain(before, after)


def _simulated(draw: Draw) -> Prediction:
    model = EventModel(draw.stations, batches=BATCHES, warm_up_batches=WARM_UP)
    return model.predict(draw.topology, draw.workload, draw.setpoints)
