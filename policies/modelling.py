"""NominalModeller: models of the job at hand. The structure is what its file states; the rates follow its metrics.

The central one is the job as fitted (policies/fitted.py). Of the others each differs by what is not known: both sides'
speeds, what is to come of their ratio (policies/outlook.py), and the trainer's exponent before its first resize.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, isfinite, sqrt

from policies.beliefs import EXPONENT_HIGH, EXPONENT_LOW, EXPONENT_MEAN
from policies.control import Draw
from policies.delivered import Fitted
from policies.fitted import brought, fit, read, why_not
from policies.outlook import Outlook, to_come
from policies.settings import values
from policies.sides import hinged, with_engine_factor, with_trainer_factor
from policies.tails import widest
from simulators.analytic import AnalyticModel
from simulators.event_state import Job
from simulators.model import PlantModel, Prediction
from simulators.plant import Observation, Setpoints, Topology
from simulators.signals import TINY
from simulators.streams import normal_quantile, seed_key, uniform
from simulators.workload import Workload

OTHERS = 10
"""Draws of the other structure: the same jobs as the first of the calibrated ones, but for it."""
GPUS = ("gpus_trainer", "gpus_generator", "gpus_prefill", "gpus_decode", "engines")
"""Who has them is always seen, never assumed."""
DRAWN = ("trainer", "engine", "delivered", "outlook", "exponent")
"""What is drawn of a job: the axes of the sequence below."""
EVEN = 1.1127757
"""The positive root of x^7 = x + 1: of it an even sequence in up to six dimensions is made (Roberts 2018)."""
AHEAD_STEPS, TREND_SHARE = 16.0, 0.5
"""A move is judged about so many steps after it was decided; half of a trend is expected to go on until then."""


@dataclass(frozen=True, slots=True)
class StatedJob:
    """A model of settings: what a plant does not say of them (how large a batch or a group is) is as stated."""

    model: PlantModel
    stated: Setpoints

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        unsaid = {n: v for n, v in values(self.stated).items() if n not in GPUS and getattr(setpoints, n) is None}
        return self.model.predict(topology, workload, replace(setpoints, **unsaid) if unsaid else setpoints)


@dataclass(frozen=True, slots=True)
class NominalModeller:
    job: Job
    """As its file states it; features that no metric shows (shared clocks, uneven engines, staircases) are left out."""

    def central(self, seen: Observation) -> Draw | None:
        """The job as it is now; None while neither its steps nor its engines were seen, or where it is not this job."""
        fitted = fit(self.job, seen)
        if fitted is None:
            return None
        return replace(_drawn(fitted, (1.0, 1.0), EXPONENT_MEAN), doubt=fitted.doubt.ratio)

    def why_not(self, seen: Observation) -> str:
        return why_not(self.job, seen)

    def draws(self, seen: Observation, count: int, seed: int) -> Sequence[Draw]:
        """`count` equally likely jobs, and some of another structure: the tail hidden, at the same rates."""
        found = read(self.job, seen)
        fitted = None if found is None else brought(found)
        if found is None or fitted is None:
            return ()
        key = seed_key(seed)
        outlook = to_come(seen.snapshot, AHEAD_STEPS, TREND_SHARE)
        own = [_sampled(fitted, outlook, key, i) for i in range(count)]
        tail = widest(found.job.workload, found.job.setpoints.group_size or 1, seen)
        wide = brought(replace(found, job=replace(found.job, workload=tail)))
        hidden = () if wide is None else (_sampled(wide, outlook, key, i) for i in range(OTHERS))
        return (*own, *(replace(draw, structure="hidden-tail") for draw in hidden))


def _sampled(fitted: Fitted, outlook: Outlook, key: int, index: int) -> Draw:
    """One possible job, as it is now or as its ratio of both rates is to become: the trainer's factor carries that.

    Both sides are drawn as they were known before what is delivered was looked at, and are brought to it then, each
    reading with an error of its own (an ensemble update: Burgers, van Leeuwen and Evensen 1998).
    """
    doubt = fitted.doubt
    drawn = {name: _even(key, place, index) for place, name in enumerate(DRAWN)}
    engine = sqrt(doubt.engine) * normal_quantile(drawn["engine"])
    trainer = sqrt(doubt.trainer) * normal_quantile(drawn["trainer"])
    noise = sqrt(doubt.noise) * normal_quantile(drawn["delivered"]) if isfinite(doubt.noise) else 0.0
    short = noise - doubt.engine_share * engine - doubt.trainer_share * trainer
    of_engine, of_trainer = doubt.gains()
    engine, trainer = engine + of_engine * short, trainer + of_trainer * short
    trainer += outlook.mean + hypot(outlook.sigma, sqrt(doubt.misfit)) * normal_quantile(drawn["outlook"])
    exponent = EXPONENT_LOW + (EXPONENT_HIGH - EXPONENT_LOW) * drawn["exponent"]
    return _drawn(fitted, (exp(engine), exp(trainer)), exponent)


def _even(key: int, place: int, index: int) -> float:
    """In (0, 1): the `index`-th point of an additive recurrence, from where the key says.

    So few draws must not leave it to chance how many of them are extreme.
    """
    start: float = uniform(key, place, 0, 0, 0)
    return min(1.0 - TINY, max(TINY, (start + (index + 1) * EVEN ** -(place + 1)) % 1.0))


def _drawn(fitted: Fitted, factors: tuple[float, float], exponent: float) -> Draw:
    """The fitted job with the seconds of engines and trainer multiplied; another exponent is hinged at the size in
    force, where it was read."""
    engine, slower = factors
    job = with_engine_factor(with_trainer_factor(fitted.job, slower), engine)
    trainer = hinged(job.stations.trainer, job.setpoints.gpus_trainer or 1, exponent)
    return Draw(StatedJob(AnalyticModel(replace(job.stations, trainer=trainer)), job.setpoints), job.workload)
