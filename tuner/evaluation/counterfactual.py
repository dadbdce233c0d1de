"""What a move truly gained: the job as it was at that moment, simulated on at either setting with the same draws.

What was measured after a move holds the drift meanwhile and the noise of two short means: an error as wide as what was
promised, which no promise can fail against. A scenario is known to the last number, so its workload and its stations
are frozen where the move was ordered, and both settings are run on from there by the event engine, each pair with the
same prompts, lengths and rewards. Pairs are added until the error of their mean is small against the promised interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from policies.base import Interval
from simulators.event_model import EventModel
from simulators.event_state import Job
from simulators.model import PlantModel
from simulators.plant import Setpoints
from simulators.reduced import ReducedModel, scale_of
from simulators.scenario import Scenario, job_at

BATCHES, WARM_UP_BATCHES = 40, 12
"""Of one run: a pair differs by the settings and by what is left of chance."""
PAIRS_MIN, PAIRS_MAX = 3, 40
SMALL = 1.0 / 8.0
"""Of the promised width: such a standard error puts one interval of a hundred wrongly in or out (80 % intervals have
nearly all their mass within three half-widths, and a tenth of it within an eighth of an end)."""


@dataclass(frozen=True, slots=True)
class Turned:
    """A change of settings, and where the job was."""

    step: int
    at_s: float
    origin: Setpoints
    goal: Setpoints


def true_gain(scenario: Scenario, turned: Turned, predicted: Interval) -> tuple[float, float] | None:
    """(gain in useful rollouts per second, standard error of that); a setting that cannot run loses all. None where
    the job stood still before."""
    jobs = [job_at(scenario, turned.step, turned.at_s, setting) for setting in (turned.origin, turned.goal)]
    gains: list[float] = []
    while len(gains) < PAIRS_MAX:
        before, after = (_useful_per_s(job, len(gains), scale_of(jobs[0])) for job in jobs)
        if not before > 0.0:
            return None
        gains.append(after / before - 1.0)
        if len(gains) >= PAIRS_MIN and _error(gains) <= SMALL * (predicted.high - predicted.low):
            break
    return fmean(gains), _error(gains)


def _error(gains: Sequence[float]) -> float:
    return stdev(gains) / sqrt(len(gains))


def _useful_per_s(job: Job, seed: int, scale: int) -> float:
    exact = EventModel(job.stations, seed, BATCHES, 1, WARM_UP_BATCHES)
    model: PlantModel = ReducedModel(exact, scale) if scale > 1 else exact
    try:
        return model.predict(job.topology, job.workload, job.setpoints).useful_rollouts_per_s
    except ValueError:
        return 0.0
