"""What a snapshot's rows say to the loop: rates step by step, levels with their noise, readings for the beliefs."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, sqrt
from statistics import fmean

from policies.beliefs import Reading
from policies.estimators import phase_s
from simulators.plant import Mode, Observation, Setpoints, Topology
from simulators.signals import TINY
from simulators.snapshot import Row, Snapshot

ENVIRONMENT = ("engines", "sandbox_quota")
"""What a step ran on: steps on anything else say nothing of how fast the job is now."""
ROWS_MIN = 4
"""Fewer steps have no level: their noise is not known."""
NOISE_VARIANCE = 0.01
"""Of a rate's logarithm, where too few steps tell: 10 %."""
NOISE_FLOOR = 0.0004
"""2 %: rounded seconds and unequal batches are never better."""
WAITING_FRAC = 0.05
"""A trainer that waits more than this has a slower generator: what that delivers is all it can."""
GATED_MAX = 0.5
"""A generator that is held back for more than this was not seen at work: its rate is a lower bound only."""

WORK = ("tokens", "rollouts", "length", "usable", "outside")
WORK_STEPS = 20
"""The last so many steps of a stretch speak for it: more are another job, by drift."""
LATENCIES = ("rollout_p99_s", "slowest_s", "rollout_latency_s")


@dataclass(frozen=True, slots=True)
class Level:
    """What a signal was over some steps."""

    mean: float
    sigma: float
    n: int
    walk: float = 0.0
    """Variance that its own wandering adds in each step to come; 0 where it is not looked for."""


def level(series: Sequence[float]) -> Level | None:
    """None under ROWS_MIN values."""
    if len(series) < ROWS_MIN:
        return None
    middle = fmean(series)
    sigma = sqrt(sum((x - middle) ** 2 for x in series) / (len(series) - 1))
    return Level(middle, sigma, len(series))


def kept_rows(snapshot: Snapshot, since_s: float | None = None, until_s: float | None = None) -> list[Row]:
    """Trainer steps in (since, until] that speak for the job. Between two times a step without one does not count."""
    dropped = {d.step for d in snapshot.window.dropped}
    return [row for row in snapshot.rows if row.step not in dropped and _inside(row.time_s, since_s, until_s)]


def step_lengths_s(snapshot: Snapshot) -> list[float]:
    """Of the newest steps that count; of a snapshot without rows the one that its signals tell; empty: not known."""
    known = [row.values.get("step_s", 0.0) for row in kept_rows(snapshot)[-WORK_STEPS:]]
    return [seconds for seconds in known or [snapshot.get("step_s") or 0.0] if seconds > TINY]


def of_one_setting(snapshot: Snapshot) -> list[Row]:
    """The newest steps that ran on the same number of engines and under the same quota of sandboxes: no move, no lost
    node and no change of the provider's mind among them.

    Steps from before the first scrape in view are of an unknown number, and left in.
    """
    rows = with_engines(kept_rows(snapshot), snapshot.engine_rows)
    now = {name: row.values[name] for row in rows for name in ENVIRONMENT if name in row.values}
    different = [i for i, row in enumerate(rows) if any(row.values.get(n, v) != v for n, v in now.items())]
    return rows[different[-1] + 1 :] if different else rows


def with_engines(rows: Sequence[Row], engine_rows: Sequence[Row]) -> list[Row]:
    """The steps, each with what the engines said of themselves meanwhile: a trainer's own row does not hold it.

    The mean of the scrapes within the step; of a step shorter than the scrapes are apart, the last one before its end.
    # step of 3 s that ends at 60 s, scrapes at 57, 58, 59, 60 with 8, 10, 12, 14 running -> 12
    """
    scrapes = [(row.time_s, row.values) for row in engine_rows if row.time_s is not None]
    times = [time_s for time_s, _ in scrapes]
    found: list[Row] = []
    for row in rows:
        if row.time_s is None or not scrapes or "engines" in row.values:
            found.append(row)
            continue
        end = bisect_right(times, row.time_s)
        begin = bisect_right(times, row.time_s - row.values.get("step_s", 0.0))
        meanwhile = [values for _, values in scrapes[max(0, min(begin, end - 1)) : end]]
        found.append(replace(row, values={**_means(meanwhile), **row.values}))
    return found


def _means(many: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for values in many for name in values)
    return {name: fmean(values[name] for values in many if name in values) for name in names}


def _inside(time_s: float | None, since_s: float | None, until_s: float | None) -> bool:
    if time_s is None:
        return since_s is None and until_s is None
    return (since_s is None or time_s > since_s) and (until_s is None or time_s <= until_s)


def rate_series(snapshot: Snapshot, since_s: float | None = None, until_s: float | None = None) -> list[float]:
    """Useful rollouts per second of each kept step."""
    rates = (row_rate(row.values) for row in kept_rows(snapshot, since_s, until_s))
    return [rate for rate in rates if rate is not None]


def trained_per_s(values: Mapping[str, float]) -> float | None:
    """Trained rollouts per second of one step."""
    rate = values.get("gen_samples_per_s")
    return _over(values.get("batch_rollouts"), values.get("step_s")) if rate is None else rate


def row_rate(values: Mapping[str, float]) -> float | None:
    """Trained rollouts with advantage per second of one step."""
    rate = trained_per_s(values)
    return None if rate is None else rate * (1.0 - values.get("zero_adv_frac", 0.0))


def work_series(
    snapshot: Snapshot, since_s: float | None = None, until_s: float | None = None
) -> Mapping[str, Sequence[float]]:
    """Step by step what was done in (since, until], and what it was like.

    `tokens` and `rollouts` trained per second; tokens of a rollout (`length`), share of the dispatched rollouts that
    was kept (`usable`), seconds outside the model (`outside`): what drifts by itself.
    """
    series: dict[str, list[float]] = {name: [] for name in WORK}
    for row in kept_rows(snapshot, since_s, until_s):
        for name, value in _work(row.values).items():
            if value is not None:
                series[name].append(value)
    return series


def _work(values: Mapping[str, float]) -> dict[str, float | None]:
    tokens, batch, step = (values.get(name) for name in ("tokens_total", "batch_rollouts", "step_s"))
    return {
        "tokens": _over(tokens, step),
        "rollouts": _over(batch, step, values.get("gen_samples_per_s")),
        "length": _over(tokens, batch, values.get("resp_len_mean")),
        "usable": _over(values.get("accepted"), values.get("dispatched")),
        "outside": values.get("non_generation_mean_s"),
    }


def readings(values: Mapping[str, float], topology: Topology, batch: float | None) -> dict[str, Reading]:
    """The service rates that one step shows, by side.

    Trainer: batch over busy seconds, whatever the generator did. Generator: what it delivers is its capacity only
    where nothing held it back; else its rate is that over the share in which it was not, or at least that.
    # batch 512, step 128 s: trainer waits 41 s -> trainer 512/87 = 5.9/s, generator 512/128 = 4/s
    #   trainer waits 1 s, generator gated 26 s -> generator 4/(1 - 0.2) = 5/s | gating not logged -> at least 4/s
    """
    batch = values.get("batch_rollouts", batch)
    step, wait = values.get("step_s"), values.get("trainer_wait_s")
    busy = values.get("trainer_busy_s")
    if busy is None and step is not None and wait is not None:
        busy = step - wait
    found: dict[str, Reading] = {}
    trainer = values.get("train_samples_per_s") or _over(batch, busy)
    if trainer is not None:
        found["trainer"] = Reading(trainer, NOISE_VARIANCE)
    generator = _generator(values, topology, batch)
    if generator is not None:
        found["generator"] = generator
    return found


def _generator(values: Mapping[str, float], topology: Topology, batch: float | None) -> Reading | None:
    if topology.mode is Mode.SERIAL:
        rate = _over(batch, phase_s(values, "rollout_s"))
        return None if rate is None else Reading(rate, NOISE_VARIANCE)
    step = values.get("step_s")
    rate = values.get("gen_samples_per_s") or _over(batch, step)
    if rate is None:
        return None
    gated = _over(values.get("generator_wait_s"), step, values.get("generator_idle_frac"))
    waits = _over(values.get("trainer_wait_s"), step, values.get("trainer_idle_frac"))
    if gated is not None:
        return (
            Reading(rate / (1.0 - gated), NOISE_VARIANCE)
            if gated < GATED_MAX
            else Reading(rate, NOISE_VARIANCE, at_least=True)
        )
    return Reading(rate, NOISE_VARIANCE, at_least=waits is None or waits < WAITING_FRAC)


def _over(above: float | None, below: float | None, otherwise: float | None = None) -> float | None:
    return above / below if above is not None and below is not None and below > TINY else otherwise


def settling_s(snapshot: Snapshot, in_force: Setpoints, actuation_s: float) -> float:
    """actuation + max(2 x p95 group latency, W/B steps): what was started under the old setting is gone by then.

    W/B: rollouts in flight over a batch, 1 where not known. The largest known latency stands for the p95 of a group.
    # actuation 60 s, slowest rollout 300 s, 2 batches in flight, steps of 128 s -> 60 + max(600, 256) = 660 s
    """
    step = snapshot.get("step_s") or 0.0
    slow = max((snapshot.get(name) or 0.0 for name in LATENCIES), default=0.0)
    return actuation_s + max(2.0 * slow, batches_in_flight(snapshot, in_force) * step, step)


def batches_in_flight(snapshot: Snapshot, in_force: Setpoints) -> float:
    """Rollouts in flight over a batch: the steps that it takes until all of them are other ones; 1 where not known."""
    in_flight = snapshot.get("inflight_rollouts") or in_force.max_in_flight
    batch = snapshot.get("batch_rollouts") or in_force.batch_rollouts
    return in_flight / batch if in_flight and batch else 1.0


def blank_reason(seen: Observation, steps_min: int = ROWS_MIN) -> str:
    """What the newest picture shows besides the job at work; empty: nothing.

    A move before `steps_min` steps could not be judged by what was before: only models may speak for it then.
    """
    if seen.inventory.syncing:
        return "a weight sync is under way"
    rows, dropped = seen.snapshot.rows, {d.step: d.why for d in seen.snapshot.window.dropped}
    if rows and rows[-1].step in dropped:
        return f"the newest step holds {dropped[rows[-1].step]}"
    known = len(kept_rows(seen.snapshot))
    return f"only {known} steps are known, {steps_min} needed" if known < steps_min else ""


def noise_variance(rates: Sequence[float]) -> float:
    """Of the logarithm of one reading, from neighbouring ones: a drift does not count as noise."""
    logs = [log(rate) for rate in rates if rate > TINY]
    if len(logs) < ROWS_MIN:
        return NOISE_VARIANCE
    steps = [b - a for a, b in pairwise(logs)]
    return max(NOISE_FLOOR, sum(d * d for d in steps) / len(steps) / 2.0)
