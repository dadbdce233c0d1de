"""What a run broke: how far each of its steps was beyond each hard bound, by what the job really did.

A cap on work in progress bounds the mean staleness, and bias is a ratio of means: both are taken over a block of steps,
and are broken beyond two errors of that mean (batch means: by how its steps scatter). What strict order or discarding
promise, GPUs, sizes and quotas hold in every step.

# 16 steps with 84 % +- 1 % of the attempted length kept, bound 90 %: all 16 are 4 % beyond it | 89 % +- 1 %: none is
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean, stdev

from policies.objective import CHANCE, Constraint, StalenessBound, objective_of, violations
from policies.settings import gpus
from simulators.plant import Bounds
from simulators.scenario import Scenario
from simulators.signals import TINY
from simulators.step_log import Rollouts, StepLog

BLOCK_STEPS = 16
"""Of one mean: four times as sure as that of a step."""
FEWEST = 4
"""Steps that have a mean with an error; fewer at the end of a run belong to the block before."""
START_QUOTA = "sandbox-starts"
DIGITS = 4
"""As exact as anybody reads it."""


def excesses(scenario: Scenario, log: Sequence[StepLog]) -> dict[str, tuple[float, ...]]:
    """By bound, how far the steps are beyond it that are beyond it at all."""
    found: dict[str, list[float]] = {}
    for place, block in enumerate(_blocks(log)):
        for name, excess in _of_block(scenario, block, filling=place == 0):
            if excess > TINY:
                found.setdefault(name, []).extend([excess] * len(block))
        for name, excess in (pair for entry in block for pair in _of_step(scenario, entry)):
            if excess > TINY:
                found.setdefault(name, []).append(excess)
    return {name: tuple(float(f"{excess:.{DIGITS}g}") for excess in found[name]) for name in sorted(found)}


def beyond(ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """Steps further beyond a bound than any of theirs: what whoever did nothing broke as far is nobody's fault."""
    counts = {name: sum(excess > max(theirs.get(name, ()), default=0.0) for excess in ours[name]) for name in ours}
    return {name: count for name, count in counts.items() if count}


def _blocks(log: Sequence[StepLog]) -> Iterator[Sequence[StepLog]]:
    starts = list(range(0, max(1, len(log) - FEWEST + 1), BLOCK_STEPS))
    for start, end in zip(starts, [*starts[1:], len(log)], strict=True):
        yield log[start:end]


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
    fleet, flight = job.stations.sandboxes, shown.get("inflight_rollouts")
    quota = job.setpoints.sandbox_quota or (fleet.live_limit if fleet is not None else None)
    if fleet is not None and quota is not None and flight is not None:
        yield Constraint.SANDBOX_QUOTA, flight - quota


def _of_block(scenario: Scenario, block: Sequence[StepLog], *, filling: bool) -> Iterator[tuple[str, float]]:
    bounds, admission = scenario.bounds, scenario.stations.admission
    if objective_of(admission).staleness is StalenessBound.MEAN and bounds.staleness_max is not None:
        ages = [entry.row.values["staleness_mean"] for entry in block if "staleness_mean" in entry.row.values]
        if ages:
            yield Constraint.STALENESS, fmean(ages) - CHANCE * _error(ages) - bounds.staleness_max
    yield from _biases(bounds, block)
    fleet = block[0].job.stations.sandboxes if block else None
    if fleet is not None and fleet.starts_per_s_limit is not None and not filling:
        asked = sum(entry.row.values.get("dispatched", 0.0) for entry in block)
        seconds = sum(entry.row.values.get("step_s", 0.0) for entry in block)
        yield START_QUOTA, (asked - CHANCE * sqrt(asked)) / max(TINY, seconds) - fleet.starts_per_s_limit


def _biases(bounds: Bounds, block: Sequence[StepLog]) -> Iterator[tuple[str, float]]:
    trained = sum((entry.trained for entry in block), Rollouts())
    attempted = sum((entry.attempted for entry in block), Rollouts())
    for name, of in ((Constraint.LENGTH_BIAS, _length), (Constraint.SOLVE_BIAS, _solved)):
        whole = _ratio(of(trained), of(attempted))
        parts = [ratio for e in block if (ratio := _ratio(of(e.trained), of(e.attempted))) is not None]
        if whole is not None:
            yield name, bounds.kept_over_attempted_min - whole - CHANCE * _error(parts)


def _length(of: Rollouts) -> float | None:
    return of.response_tokens / of.count if of.count else None


def _solved(of: Rollouts) -> float | None:
    return of.solved / of.count if of.count else None


def _ratio(kept: float | None, attempted: float | None) -> float | None:
    return kept / attempted if kept is not None and attempted else None


def _error(values: Sequence[float]) -> float:
    """Standard error of their mean; of one value alone nothing is known, and it is all that there is."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
