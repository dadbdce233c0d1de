"""What would help a simulated job: another split, better tasks, a shorter tail, more in flight; asked of the model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import log, sqrt
from statistics import NormalDist

from policies.base import Interval, SplitCurve, SplitPoint
from simulators.event_state import Job
from simulators.legality import divides
from simulators.model import Prediction

TAIL_MEANS = 1.5
"""The tail begins at this many mean response lengths."""
MORE_IN_FLIGHT = 1.25
"""How many times as many rollouts in flight are tried."""

Ask = Callable[[Job], Prediction]
"""The model's answer to one job; the same seeds for each, so that differences have little noise."""


@dataclass(frozen=True, slots=True)
class Lever:
    """One change with its gain in useful rollouts per second, as a share of now."""

    name: str
    change: str
    bound: Interval | None
    """By rates of today scaled to the split: deterministic, so an upper bound. None where it is no split."""
    simulated_frac: float | None
    error_frac: float | None
    note: str = ""


def levers(job: Job, curve: SplitCurve | None, ask: Ask) -> tuple[Lever, ...]:
    """All that apply to this job, each alone. Nothing where the job as it is makes no progress."""
    now = ask(job)
    if now.useful_rollouts_per_s <= 0.0:
        return ()
    splits = (_split(point, job, now, ask) for point in _best_splits(job, curve))
    return (*splits, *(_asked(lever, now, ask) for lever in _others(job)))


def _best_splits(job: Job, curve: SplitCurve | None) -> list[SplitPoint]:
    """The best split by the bound, and the best that no framework's divisibility rule forbids."""
    if curve is None:
        return []
    others = [p for p in curve.points if p.gpus_trainer != curve.current_gpus_trainer and p.throughput.mean > 1.0]
    sure = [p for p in others if divides(job.topology, job.setpoints, p.gpus_trainer) is not False]
    best = [max(points, key=lambda p: p.throughput.mean) for points in (others, sure) if points]
    return list(dict.fromkeys(best))


def _split(point: SplitPoint, job: Job, now: Prediction, ask: Ask) -> Lever:
    knobs = replace(job.setpoints, gpus_trainer=point.gpus_trainer, gpus_generator=point.gpus_generator, engines=None)
    gain, error = _gain(ask(replace(job, setpoints=knobs)), now)
    rates = point.throughput
    bound = Interval(rates.low - 1.0, rates.mean - 1.0, rates.high - 1.0)
    return Lever(
        "split", f"{point.gpus_trainer} + {point.gpus_generator} GPUs", bound, gain, error, _legality(point, job)
    )


def _legality(point: SplitPoint, job: Job) -> str:
    topology, batch = job.topology, job.setpoints.batch_rollouts
    if divides(topology, job.setpoints, point.gpus_trainer) is not False:
        return f"legal: its ranks divide {batch} rollouts"
    ranks = point.gpus_trainer // (topology.trainer_gpu_step or 1)
    rule = "not legal here" if topology.batch_must_divide else "legal only where a framework does not demand it"
    return f"{rule}: {ranks} ranks do not divide {batch} rollouts"


def _others(job: Job) -> Iterator[tuple[str, str, Job]]:
    """(name, change, the job changed) of what no GPU buys."""
    work, knobs = job.workload, job.setpoints
    wasted = work.solve.always_frac + work.solve.never_frac
    if wasted > 0.0:
        solve = replace(work.solve, always_frac=0.0, never_frac=0.0)
        change = f"no prompts that all or none solve ({wasted:.0%} now)"
        yield "acceptance", change, replace(job, workload=replace(work, solve=solve))
    cut = round(TAIL_MEANS * work.response.mean_tokens)
    if work.response.sigma > 0.0 and (work.response.max_tokens is None or cut < work.response.max_tokens):
        response = replace(work.response, max_tokens=cut)
        what = "each turn's response" if work.turns.mean > 1.0 else "responses"
        change = f"cut {what} at {cut:,} tokens ({_beyond(work.response.sigma):.0%} of them)"
        yield "tail", change, replace(job, workload=replace(work, response=response))
    if knobs.max_in_flight is not None:
        more = round(MORE_IN_FLIGHT * knobs.max_in_flight)
        yield (
            "in flight",
            f"{knobs.max_in_flight:,} -> {more:,}",
            replace(job, setpoints=replace(knobs, max_in_flight=more)),
        )


def _beyond(sigma: float) -> float:
    """Share of a lognormal law beyond TAIL_MEANS of its mean."""
    return 1.0 - NormalDist().cdf((log(TAIL_MEANS) + sigma * sigma / 2.0) / sigma)


def _asked(lever: tuple[str, str, Job], now: Prediction, ask: Ask) -> Lever:
    name, change, job = lever
    then = ask(job)
    gain, error = _gain(then, now)
    return Lever(name, change, None, gain, error, _beside(then, now))


def _gain(then: Prediction, now: Prediction) -> tuple[float | None, float | None]:
    if then.stopped is not None:
        return None, None
    errors = [p.standard_error_frac for p in (then, now)]
    known = [e for e in errors if e is not None]
    return then.useful_rollouts_per_s / now.useful_rollouts_per_s - 1.0, sqrt(
        sum(e * e for e in known)
    ) if known else None


def _beside(then: Prediction, now: Prediction) -> str:
    """What the change does besides: to staleness, and to which rollouts are kept."""
    if then.stopped is not None:
        return then.stopped
    said = []
    if then.staleness is not None and now.staleness is not None:
        said.append(f"staleness {now.staleness.mean:.1f} -> {then.staleness.mean:.1f}")
    if then.kept_length_ratio is not None and abs(then.kept_length_ratio - (now.kept_length_ratio or 1.0)) > 0.005:
        said.append(f"kept over attempted length {then.kept_length_ratio:.2f}")
    return ", ".join(said)
