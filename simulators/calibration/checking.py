"""A gain checked by simulation where the analytic model should not decide alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from simulators.calibration.draws import Draw
from simulators.calibration.what_if import WEAK_WIDTH_FRAC, Answer, Spread
from simulators.event_model import EventModel
from simulators.model import Prediction

BATCHES, WARM_UP_FRAC = 60, 1.0 / 6.0
"""Trainer steps that are simulated, and how many before them, as a share, are thrown away."""
BATCHES_MIN = 16
"""Of fewer a mean says nothing."""
SHARES = (0.15, 0.5, 0.85)
"""Which draws are simulated, in the order of their gains."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Means over the draws that were simulated."""

    simulated_gain: float
    analytic_gain: float
    ratio: float
    """Simulated over analytic (1 + gain)."""
    scatter: float
    """Half of what the ratio varies by between the draws."""
    decided: float
    """What was added to the interval because the analytic model is weak: simulation decides now."""

    def corrects(self, gain: Spread) -> Spread:
        """(1 + gain) is multiplied by the ratio, and the interval widened by its scatter."""
        mean = (1.0 + gain.mean) * self.ratio - 1.0
        low = (1.0 + gain.low + self.decided) * max(0.0, self.ratio - self.scatter) - 1.0
        high = (1.0 + gain.high - self.decided) * (self.ratio + self.scatter) - 1.0
        return Spread(min(low, mean), mean, max(high, mean))


def checked(answer: Answer, draws: Sequence[Draw], most_turns: float = inf) -> Checked | None:
    """What simulation says of a low, a middle and a high draw; None where none runs, or none in `most_turns`.

    Both settings see the same prompts, lengths and rewards, so their noise cancels for the greater part.
    """
    order = sorted(range(len(draws)), key=lambda i: _gain(draws[i].now, answer.jobs[i].now))
    chosen = sorted({order[round(share * (len(order) - 1))] for share in SHARES})
    both = [job for i in chosen for job in (draws[i], answer.jobs[i])]
    if (batches := _batches(most_turns / len(chosen), both)) < BATCHES_MIN:
        chosen, batches = [order[len(order) // 2]], _batches(most_turns, both)
    if batches < BATCHES_MIN:
        return None
    pairs = [
        (_gain(draws[i].now, answer.jobs[i].now), _simulated_gain(draws[i], answer.jobs[i], batches)) for i in chosen
    ]
    known = [(analytic, simulated) for analytic, simulated in pairs if simulated is not None]
    if not known:
        return None
    ratios = [(1.0 + simulated) / (1.0 + analytic) for analytic, simulated in known]
    analytic, simulated = (fmean(values) for values in zip(*known, strict=True))
    decided = WEAK_WIDTH_FRAC if answer.weak and len(known) > 1 else 0.0
    return Checked(simulated, analytic, fmean(ratios), (max(ratios) - min(ratios)) / 2.0, decided)


def _batches(most_turns: float, jobs: Sequence[Draw]) -> int:
    """So many of two settings are that many turns, with their warm-up and what is started ahead of the trainer."""
    turns = max(_turns_per_batch(job) for job in jobs)
    ahead = 1.0 + max(job.setpoints.staleness_bound or 1.0 for job in jobs)
    return int(min(float(BATCHES), (most_turns / (2.0 * turns) - ahead) / (1.0 + WARM_UP_FRAC)))


def _turns_per_batch(job: Draw) -> float:
    started = (job.setpoints.batch_rollouts or 1) * (job.setpoints.oversampling_ratio or 1.0)
    return started * max(1.0, job.values.turns)


def _gain(now: Prediction, then: Prediction) -> float:
    return then.useful_rollouts_per_s / now.useful_rollouts_per_s - 1.0


def _simulated_gain(now: Draw, then: Draw, batches: int) -> float | None:
    """None where one of the two stands still or cannot be simulated."""
    try:
        before, after = _simulated(now, batches), _simulated(then, batches)
    except (ValueError, ArithmeticError):
        return None
    if before.stopped or after.stopped or before.useful_rollouts_per_s <= 0.0:
        return None
    return _gain(before, after)


def _simulated(draw: Draw, batches: int) -> Prediction:
    model = EventModel(draw.stations, batches=batches, warm_up_batches=round(WARM_UP_FRAC * batches))
    return model.predict(draw.topology, draw.workload, draw.setpoints)
