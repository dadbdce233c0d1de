"""What a run broke: how far each of its steps was beyond each hard bound, by what the job really did.

A cap on work in progress bounds the mean staleness, and bias is a ratio of means: both are taken over a block of steps,
and are broken beyond two errors of that mean (batch means: by how its steps scatter). What strict order or discarding
promise, GPUs, sizes and quotas hold in every step.

# 16 steps with 84 % +- 1 % of the attempted length kept, bound 90 %: all 16 are 4 % beyond it | 89 % +- 1 %: none is
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, hypot, sqrt
from statistics import fmean, stdev

from policies.objective import CHANCE, Constraint, StalenessBound, objective_of, violations
from policies.settings import gpus
from simulators.event_state import Job
from simulators.plant import Bounds
from simulators.scenario import Scenario
from simulators.signals import TINY
from simulators.step_log import Rollouts, StepLog

BLOCK_STEPS = 16
"""Of one mean: four times as sure as that of a step."""
FEWEST = 4
"""Steps that have a mean with an error; fewer at the end of a run belong to the block before."""
ROUNDING = 1e-6
"""No excess of anything that is counted here."""
START_QUOTA = "sandbox-starts"
DIGITS = 4
"""As exact as anybody reads it."""


Excess = tuple[float, float]
"""How far a step is beyond a bound, in the bound's unit, with the standard error of that."""


def excesses(scenario: Scenario, log: Sequence[StepLog]) -> dict[str, tuple[Excess, ...]]:
    """By bound, of the steps that are beyond it by more than chance, how far."""
    found: dict[str, list[Excess]] = {}
    for start, end in _blocks(log):
        block = log[start:end]
        means = (*_of_block(scenario, block, filling=start == 0), *_biases(scenario.bounds, log, start, end))
        for name, excess, error in means:
            if excess - CHANCE * error > ROUNDING:
                found.setdefault(name, []).extend([_read(excess, error)] * len(block))
    for name, excess in (*(pair for entry in log for pair in _of_step(scenario, entry)), *_of_quota(log)):
        if excess > ROUNDING:
            found.setdefault(name, []).append(_read(excess, 0.0))
    return {name: tuple(found[name]) for name in sorted(found)}


def _read(excess: float, error: float) -> Excess:
    return float(f"{excess:.{DIGITS}g}"), float(f"{error:.{DIGITS}g}")


def surely(found: Iterable[Excess]) -> float:
    """The largest of them, less what may be chance."""
    return max((excess - CHANCE * error for excess, error in found), default=0.0)


def beyond(ours: Mapping[str, Sequence[Excess]], theirs: Mapping[str, Sequence[Excess]]) -> dict[str, int]:
    """Steps that are surely further beyond a bound than any of theirs: what was broken as far without us is no fault of
    ours."""
    counts = {name: _further(ours[name], max(theirs.get(name, ()), default=(0.0, 0.0))) for name in ours}
    return {name: count for name, count in counts.items() if count}


def _further(ours: Sequence[Excess], most: Excess) -> int:
    return sum(excess - CHANCE * hypot(error, most[1]) > most[0] for excess, error in ours)


def _blocks(log: Sequence[StepLog]) -> Iterator[tuple[int, int]]:
    starts = list(range(0, max(1, len(log) - FEWEST + 1), BLOCK_STEPS))
    yield from zip(starts, [*starts[1:], len(log)], strict=True)


def _of_step(scenario: Scenario, entry: StepLog) -> Iterator[tuple[str, float]]:
    bounds, shown, job = scenario.bounds, entry.row.values, entry.job
    objective = objective_of(job.stations.admission)
    start = gpus(scenario.setpoints)
    most = min((n for n in (bounds.gpus_total_max, start) if n is not None), default=None)
    for broken in violations(
        objective, replace(bounds, gpus_total_max=most), replace(job.setpoints, sandbox_quota=None)
    ):
        yield broken.constraint, broken.excess
    oldest, limit = shown.get("staleness_max"), bounds.staleness_max
    if objective.staleness is StalenessBound.MAXIMUM and oldest is not None and limit is not None:
        yield Constraint.STALENESS, oldest - limit


def _of_quota(log: Sequence[StepLog]) -> Iterator[tuple[str, float]]:
    """Each rollout in flight wants a sandbox. A quota that falls below what is in flight is broken by whoever lowered
    it: then nothing counts but more than there was."""
    quota, most, granted = None, 0.0, 0.0
    for entry in log:
        knobs, flight = entry.job.setpoints, entry.row.values.get("inflight_rollouts", 0.0)
        if (now := _quota(entry.job)) != quota:
            quota, granted = now, most
        if quota is not None:
            yield Constraint.SANDBOX_QUOTA, flight - max(quota, granted)
        most = max(knobs.max_in_flight or 0.0, flight)


def _quota(job: Job) -> int | None:
    fleet = job.stations.sandboxes
    return None if fleet is None else job.setpoints.sandbox_quota or fleet.live_limit


def _of_block(scenario: Scenario, block: Sequence[StepLog], *, filling: bool) -> Iterator[tuple[str, float, float]]:
    bounds, admission = scenario.bounds, scenario.stations.admission
    if objective_of(admission).staleness is StalenessBound.MEAN and bounds.staleness_max is not None:
        ages = [entry.row.values["staleness_mean"] for entry in block if "staleness_mean" in entry.row.values]
        if ages:
            yield Constraint.STALENESS, fmean(ages) - bounds.staleness_max, _error(ages)
    fleet = block[0].job.stations.sandboxes if block else None
    if fleet is not None and fleet.starts_per_s_limit is not None and not filling:
        asked = sum(entry.row.values.get("dispatched", 0.0) for entry in block)
        seconds = sum(entry.row.values.get("step_s", 0.0) for entry in block)
        seconds = max(TINY, seconds)
        yield START_QUOTA, asked / seconds - fleet.starts_per_s_limit, sqrt(asked) / seconds


def _biases(bounds: Bounds, log: Sequence[StepLog], start: int, end: int) -> Iterator[tuple[str, float, float]]:
    """What is trained was begun as many steps before as it is old: it is held against what was attempted then or since,
    whichever is nearest. Lengths that grow or swing meanwhile are no bias."""
    block = log[start:end]
    ages = [entry.row.values.get("staleness_mean", 0.0) for entry in block]
    shifts = range(min(len(block) - 1, ceil(fmean(ages))) + 1) if ages else ()
    for name, of in ((Constraint.LENGTH_BIAS, _length), (Constraint.SOLVE_BIAS, _solved)):
        kept = of(_sum(entry.trained for entry in block))
        then = [of(_sum(entry.attempted for entry in log[max(0, start - back) : end - back])) for back in shifts]
        wholes = [ratio for attempted in then if (ratio := _ratio(kept, attempted)) is not None]
        parts = [ratio for e in block if (ratio := _ratio(of(e.trained), of(e.attempted))) is not None]
        if wholes:
            yield name, bounds.kept_over_attempted_min - max(wholes), _error(parts)


def _sum(parts: Iterable[Rollouts]) -> Rollouts:
    return sum(parts, Rollouts())


def _length(of: Rollouts) -> float | None:
    return of.response_tokens / of.count if of.count else None


def _solved(of: Rollouts) -> float | None:
    return of.solved / of.count if of.count else None


def _ratio(kept: float | None, attempted: float | None) -> float | None:
    return kept / attempted if kept is not None and attempted else None


def _error(values: Sequence[float]) -> float:
    """Standard error of their mean; of one value alone nothing is known, and it is all that there is."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
