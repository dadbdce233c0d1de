"""What the model says of quantities it was not set to, beside their measurements: how far it describes this job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simulators.calibration.draws import Draw
from simulators.model import Prediction
from simulators.snapshot import Snapshot

MODEL_ERROR = 0.25
"""Relative deviation allowed to a single quantity beside the step: the model is a model."""
FLOOR = {"staleness_mean": 0.5, "in_flight": 8.0, "rollout_latency_s": 1.0, "queue_depth": 16.0}
"""Absolute deviation that says nothing, in the unit of the signal."""

TOLD: Mapping[str, Callable[[Prediction], float | None]] = {
    "staleness_mean": lambda p: None if p.staleness is None else p.staleness.mean,
    "inflight_rollouts": lambda p: p.in_flight,
    "rollout_latency_s": lambda p: p.rollout_s,
}
"""Signals that a prediction has an answer to."""


@dataclass(frozen=True, slots=True)
class Residual:
    signal: str
    measured: float
    predicted: float

    @property
    def relative(self) -> float:
        """(predicted - measured) over the larger of the two."""
        scale = max(abs(self.measured), abs(self.predicted))
        return 0.0 if scale <= 0.0 else (self.predicted - self.measured) / scale


def log_likelihood(draw: Draw, snapshot: Snapshot) -> float:
    """Normal, each quantity with the model's own error."""
    total = 0.0
    for signal, told in TOLD.items():
        measured, predicted = snapshot.get(signal), told(draw.now)
        if measured is None or predicted is None:
            continue
        deviation = MODEL_ERROR * max(measured, predicted) + FLOOR.get(signal, 0.0)
        total -= 0.5 * ((predicted - measured) / deviation) ** 2 if deviation > 0.0 else 0.0
    return total


def residuals_of(draws: Sequence[Draw], snapshot: Snapshot) -> tuple[Residual, ...]:
    found = []
    for signal, told in TOLD.items():
        measured = snapshot.get(signal)
        answers = [(draw.weight, value) for draw in draws if (value := told(draw.now)) is not None]
        if measured is not None and answers:
            mean = sum(w * v for w, v in answers) / sum(w for w, _ in answers)
            found.append(Residual(signal, measured, mean))
    return tuple(found)
