"""One question to the calibrated model: these settings instead of today's; what then, what limits, is it legal."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policies.base import Interval
from policies.prospects import Prospects, Value, interval
from simulators.analytic import AnalyticModel
from simulators.calibration import Answer, Draw, ask
from simulators.calibration.checking import Checked, checked
from simulators.calibration.completion import SIDES_ASSUMED
from simulators.compiled import is_warm
from simulators.event_state import Job
from simulators.legality import refusal
from simulators.limits import binding_limits
from simulators.model import Prediction
from simulators.plant import Bounds

LIMITS_SHOWN = 3
GPUS = frozenset({"gpus_trainer", "gpus_generator"})


@dataclass(frozen=True, slots=True)
class State:
    """Means over the possible jobs behind the data. Rates are per second of wall time."""

    step_s: float
    rollouts_per_s: float
    useful_rollouts_per_s: float
    trainer_idle_frac: float
    generator_busy_frac: float
    staleness_mean: float | None


@dataclass(frozen=True, slots=True)
class Limiter:
    """A limit that, raised alone, makes the job faster."""

    name: str
    now: float
    raised: float
    gain_frac: float


@dataclass(frozen=True, slots=True)
class Gpus:
    """A question may take more GPUs than there are, or leave some to nobody: never without saying so."""

    has: int
    """Of the whole job."""
    used: int
    """Of both sides together, today."""
    asked: int
    """Of both sides together, after the change."""


@dataclass(frozen=True, slots=True)
class Reply:
    settings: Mapping[str, Value]
    now: State
    then: State
    gain_frac: Interval
    limits: tuple[Limiter, ...]
    """After the change, the strongest first."""
    illegal: tuple[str, ...]
    """Why the job cannot have these settings; empty: nothing known speaks against them."""
    gpus: Gpus | None
    """None where the sources count no GPUs."""
    stopped: str | None
    parameters: tuple[str, ...]
    unidentified: tuple[str, ...]
    assumed: tuple[str, ...]
    weak: tuple[str, ...]
    simulated: str | None
    """What simulation said where the queueing model is weak; None: not needed, or not to be had at once."""
    residuals: Mapping[str, tuple[float, float]]
    """Measured and predicted value of what the model was not set to."""


def reply(prospects: Prospects, settings: Mapping[str, Value], bounds: Bounds) -> Reply | None:
    """None where nothing could be calibrated (prospects.why_not says why). ValueError: these settings make no job."""
    calibration = prospects.calibration
    if calibration is None:
        return None
    if GPUS & settings.keys() and _sides_made_up(calibration.assumed):
        raise ValueError(
            "the sources do not say how many GPUs each side has; state gpus_trainer and gpus_generator in a job file "
            "(`equipoise init` writes one) or add the resolved configuration"
        )
    answer = ask(calibration.draws, *prospects.changes(settings))
    first, today = answer.jobs[0], calibration.draws[0]
    used = used_gpus(today)
    gpus = Gpus(max(today.topology.gpus_total or 0, used), used, used_gpus(first))
    found = checked(answer, calibration.draws) if answer.weak and is_warm() else None
    return Reply(
        settings=settings,
        now=_state(answer.now),
        then=_state(answer.then),
        gain_frac=interval(answer.gain if found is None else found.corrects(answer.gain)),
        limits=_limits(answer, calibration.assumed),
        illegal=tuple(_illegal(first, gpus, settings, bounds)),
        gpus=None if _sides_made_up(calibration.assumed) else gpus,
        stopped=answer.stopped,
        parameters=tuple(p.sentence() for p in calibration.parameters if p not in calibration.unidentified),
        unidentified=tuple(p.sentence() for p in calibration.unidentified),
        assumed=calibration.assumed,
        weak=answer.weak,
        simulated=None if found is None else simulated(found),
        residuals={r.signal: (r.measured, r.predicted) for r in calibration.residuals},
    )


def simulated(found: Checked) -> str:
    return f"simulated {found.simulated_gain:+.1%} where the queueing model says {found.analytic_gain:+.1%}"


def _state(predictions: Iterable[tuple[float, Prediction]]) -> State:
    known = list(predictions)
    ages = [(w, p.staleness.mean) for w, p in known if p.staleness is not None]
    return State(
        step_s=_mean((w, p.step_s) for w, p in known),
        rollouts_per_s=_mean((w, p.rollouts_per_s) for w, p in known),
        useful_rollouts_per_s=_mean((w, p.useful_rollouts_per_s) for w, p in known),
        trainer_idle_frac=_mean((w, p.trainer_idle_frac) for w, p in known),
        generator_busy_frac=_mean((w, p.generator_busy_frac) for w, p in known),
        staleness_mean=_mean(ages) if ages else None,
    )


def _mean(values: Iterable[tuple[float, float]]) -> float:
    pairs = list(values)
    return sum(w * v for w, v in pairs) / sum(w for w, _ in pairs)


def _limits(answer: Answer, assumed: Iterable[str]) -> tuple[Limiter, ...]:
    """Mean gain of raising each limit alone; a limit that a possible job has not counts there as no gain.

    Counts of GPUs that were made up are nobody's limits.
    """
    made_up = GPUS if _sides_made_up(assumed) else frozenset()
    sums: dict[str, tuple[float, float, float]] = {}
    for job in answer.jobs:
        for limit in binding_limits(AnalyticModel, _job(job)):
            if limit.name in made_up:
                continue
            now, raised, gain = sums.get(limit.name, (limit.now, limit.raised, 0.0))
            sums[limit.name] = (now, raised, gain + job.weight * limit.gain_frac)
    found = [Limiter(name, *numbers) for name, numbers in sums.items()]
    return tuple(sorted(found, key=lambda limit: -limit.gain_frac)[:LIMITS_SHOWN])


def _sides_made_up(assumed: Iterable[str]) -> bool:
    return any(said.startswith(SIDES_ASSUMED) for said in assumed)


def _job(draw: Draw) -> Job:
    return Job(draw.topology, draw.stations, draw.workload, draw.setpoints)


def used_gpus(draw: Draw) -> int:
    """Of both sides together; sides that take turns on the same GPUs use them once."""
    sides = (draw.setpoints.gpus_trainer or 0, draw.setpoints.gpus_generator or 0)
    return max(sides) if draw.shared_gpus and draw.setpoints.overlap is False else sum(sides)


def _illegal(job: Draw, gpus: Gpus, settings: Mapping[str, Value], bounds: Bounds) -> Iterable[str]:
    topology, then = job.topology, job.setpoints
    if then.overlap is not False and then.gpus_trainer and GPUS & settings.keys():
        why = refusal(topology, then, bounds, then.gpus_trainer)
        if why is not None:
            yield why
    for name, most in (("max_in_flight", bounds.max_in_flight_max), ("staleness_bound", bounds.staleness_max)):
        value = settings.get(name)
        if value is not None and most is not None and value > most:
            yield f"{name}={value:g} is above the bound {most:g}"
    if bounds.gpus_total_max is not None and gpus.asked > max(gpus.has, bounds.gpus_total_max):
        yield f"{gpus.asked} GPUs are more than the bound gpus_total_max={bounds.gpus_total_max}"
