"""Bounds as a prediction has to keep them: narrower by what is seen beyond what the model says, and by its scatter.

    limit for predictions = limit x said / (mean + 1.28 sigma of the last steps),   never wider than the limit

A model's mean under the limit is no promise: it may be too young a mean, and half of all steps are above any mean.
# said 8.0, seen 9.0 +- 1.5 a step, limit 16: predictions up to 11.7
"""

from collections.abc import Sequence
from dataclasses import replace

from policies.beliefs import CENTRAL_80
from policies.objective import Objective, StalenessBound
from policies.readings import level
from simulators.model import Prediction
from simulators.plant import Bounds
from simulators.signals import TINY
from simulators.snapshot import Row

STEPS = 16
"""The last so many steps tell how old rollouts are."""


def for_predictions(bounds: Bounds, objective: Objective, rows: Sequence[Row], said: Prediction | None) -> Bounds:
    """`rows` ran on the setting in force, of which the model says `said`; without either the bounds are as they are."""
    mean = objective.staleness is StalenessBound.MEAN
    name = "staleness_mean" if mean else "staleness_max"
    seen = level([row.values[name] for row in rows[-STEPS:] if name in row.values])
    if bounds.staleness_max is None or seen is None or said is None or said.staleness is None:
        return bounds
    age = said.staleness.mean if mean else said.staleness.maximum
    oldest = seen.mean + CENTRAL_80 * seen.sigma
    if age is None or age <= TINY or oldest <= age:
        return bounds
    return replace(bounds, staleness_max=bounds.staleness_max * age / oldest)
