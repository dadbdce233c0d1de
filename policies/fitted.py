"""The job at hand: its stated structure brought to what its metrics show, with the doubt that is left.

A job file says how a job is built (engine, trainer, plug, sandboxes) and roughly how fast it is. What drifts is read
from the steps in view (policies/following.py): response length, turns, tool answers and times, usable share, the
trainer's seconds against its formula, and the engine's seconds per token against f(b) + m S.
Then both sides are brought to what the job delivers. What no metric tells stays as stated.
# busy 96 s where the formula says 80 s on 64 GPUs -> the trainer's factor is 1.2, at any number of GPUs
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, sqrt

from policies.beliefs import EXPONENT_MEAN, Belief
from policies.delivered import MISFIT, Doubt, Fitted, delivering, unlike
from policies.following import followed, level, mean_of, newest
from policies.readings import ROWS_MIN, kept_rows, of_one_setting
from policies.settings import missing_of, without
from policies.sides import hinged, with_engine_factor, with_trainer_factor
from simulators.analytic.rollout import clipped_mean
from simulators.analytic.solving import usable_share
from simulators.event_state import Job
from simulators.plant import Observation, Setpoints
from simulators.queueing.order_statistics import clipped_moments
from simulators.signals import TINY
from simulators.snapshot import Row
from simulators.stations import Sandboxes, Stations, StepTime, SyncMode
from simulators.workload import Lengths, SolveRates, Workload

ROWS = 64
"""The last so many steps are looked at; of a quantity that wanders only the newest ones count."""
RECENT = 16
"""Of what may be 0 and is not followed, the mean of so many."""
STATED, MISSTATED = 0.2, 1.0
"""Standard deviation of the logarithm of a stated speed that nobody has measured; of one that deliveries refute."""
SIGMAS = 3.0
"""Before the first step a reading of the engines further from what is stated is of something else: a scrape from before
their start, another job. Steps refute a file; one look does not."""
FULL = 0.8
"""From this share of its limit on starts may wait in a fleet of sandboxes: bursts, and what is measured is a mean."""
WORKING_MIN = 0.1
"""The least share of its time in which an engine decodes."""


@dataclass(frozen=True, slots=True)
class Read:
    """The stated job with what its steps say of it, before it is brought to what it delivers."""

    job: Job
    engine: Belief | None
    trainer: Belief | None
    """How much slower than stated; None where nobody measured it."""
    rows: Sequence[Row]
    """Of the setting in force."""


def fit(job: Job, seen: Observation) -> Fitted | None:
    """The stated job brought to what the steps in view show; before the first step, to what the engines show.

    None while neither is seen, and where no speed of either side makes of the structure what the job delivers.
    """
    found = read(job, seen)
    return None if found is None else brought(found)


def why_not(job: Job, seen: Observation) -> str:
    """Why `fit` says None, where it does."""
    found = _at_work(job, seen)
    if found is None:
        return "neither a step of it nor its engines were seen in the setting in force"
    if _refuted(found) and found.engine is not None:
        return (
            f"before its first step its engines seem {1.0 / found.engine.rate:.2g} times as fast as its file states: "
            "another job, or one that has not begun"
        )
    return unlike(found.job, found.rows)


def read(job: Job, seen: Observation) -> Read | None:
    """What the steps in view say of workload, surroundings and both sides; None while nothing is seen, or before the
    first step what cannot be.

    # the first look says 3.3 times as slow as stated: ln 1.19, beyond 3 x 0.23 -> None
    """
    found = _at_work(job, seen)
    return None if found is None or _refuted(found) else found


def _refuted(found: Read) -> bool:
    if found.rows or found.engine is None:
        return False
    return abs(found.engine.log_mean) > SIGMAS * hypot(STATED, sqrt(found.engine.variance))


def _at_work(job: Job, seen: Observation) -> Read | None:
    steps = kept_rows(seen.snapshot)[-ROWS:]
    rows = of_one_setting(seen.snapshot)[-ROWS:]
    at_work = rows or seen.snapshot.engine_rows[-RECENT:]
    if not at_work:
        return None
    now = without(merged_known(job.setpoints, seen.in_force), missing_of(seen.in_force, seen.inventory))
    job = replace(job, setpoints=now, stations=plain(job.stations, job.setpoints.gpus_trainer))
    job = replace(job, stations=_surroundings(job, at_work))
    if len(steps) >= ROWS_MIN:  # what is trained first is what was finished first: short
        job = replace(job, workload=_workload(job, rows if len(rows) >= ROWS_MIN else steps))
    job, trainer = _trainer(job, rows)
    job, engine = _engine(job, at_work)
    return Read(job, engine, trainer, rows)


def brought(found: Read) -> Fitted | None:
    """Brought to what is delivered; None where no speed of either side makes that of the structure."""
    engine, measured = found.engine, (found.engine, found.trainer)
    for stated in (STATED, MISSTATED):
        engine_error, trainer_error = (stated**2 if side is None else side.variance for side in measured)
        doubt = Doubt(engine_error if engine is None else engine_error + MISFIT**2, trainer_error)
        fitted = delivering(Fitted(found.job, doubt), found.rows)
        if fitted is not None or None not in measured:
            return fitted
    return None


def merged_known(stated: Setpoints, in_force: Setpoints) -> Setpoints:
    """What is in force where it is known, else what was stated."""
    known = {n: v for n in in_force.__slots__ if (v := getattr(in_force, n)) is not None}
    return replace(stated, **known)


def plain(stations: Stations, gpus_trainer: int | None) -> Stations:
    """The structure that a file can state and metrics can follow: engines alike and apart, f(b) a straight line.

    The trainer's exponent is nobody's knowledge before a resize; at the stated size it is as fast as stated.
    """
    engine, trainer = stations.engine, stations.trainer
    table = engine.step.table
    line = StepTime((table[0], table[-1]), engine.step.per_context_token_s)
    return replace(
        stations,
        engine=replace(engine, step=line, lockstep=1, speeds=()),
        trainer=hinged(trainer, gpus_trainer or 1, EXPONENT_MEAN),
    )


# ---- what rollouts are like ----


def _workload(job: Job, rows: Sequence[Row]) -> Workload:
    work = job.workload
    turns = newest(rows, "turns_mean")
    if turns is not None and work.turns.mean > 1.0:
        work = replace(work, turns=replace(work.turns, mean=max(1.0, turns)))
    response, rest = newest(rows, "resp_len_mean"), newest(rows, "prompt_len_mean")
    if response is not None:
        work = replace(work, response=with_clipped_mean(work.response, response / work.turns.mean))
    tools = max(0.0, work.turns.mean - 1.0)
    if rest is not None and work.tool_tokens is None:
        work = replace(work, prompt=with_clipped_mean(work.prompt, rest))
    elif rest is not None and work.tool_tokens is not None and tools > TINY:
        answer = max(1.0, (rest - clipped_mean(work.prompt)) / tools)
        work = replace(work, tool_tokens=with_clipped_mean(work.tool_tokens, answer))
    outside = level(rows, "non_generation_mean_s")
    if outside is not None and work.tool is not None and tools > TINY:
        start_s = 0.0 if job.stations.sandboxes is None else job.stations.sandboxes.start_s
        work = replace(work, tool=replace(work.tool, mean_s=max(0.0, outside - start_s) / tools))
    return replace(work, solve=_solve(job, work.solve, rows))


def with_clipped_mean(lengths: Lengths, mean_tokens: float) -> Lengths:
    """The same law with another mean *after* its clip: what is measured is what was kept under the limit.

    Halving of the logarithm; a mean that the limit does not allow gives the nearest that it does.
    """
    if lengths.quantiles:
        factor = mean_tokens / max(TINY, clipped_mean(lengths))
        return replace(lengths, quantiles=tuple((share, tokens * factor) for share, tokens in lengths.quantiles))
    if lengths.max_tokens is None or lengths.sigma == 0.0:
        return replace(lengths, mean_tokens=mean_tokens)
    low, high, cap = mean_tokens, 20.0 * mean_tokens, float(lengths.max_tokens)
    for _ in range(24):
        middle = (low * high) ** 0.5
        below = clipped_moments(middle, lengths.sigma, cap)[0] < mean_tokens
        low, high = (middle, high) if below else (low, middle)
    return replace(lengths, mean_tokens=low)


def _solve(job: Job, solve: SolveRates, rows: Sequence[Row]) -> SolveRates:
    """Prompts that all rollouts solve take the blame for every group without advantage: the model learns them."""
    size = job.setpoints.group_size or 1
    pairs = zip((None, *rows), rows, strict=False)
    kept = followed(rows, [_usable(before, row, bool(job.setpoints.filter_zero_adv)) for before, row in pairs])
    stated = usable_share(solve, size)
    varying = max(TINY, 1.0 - solve.always_frac - solve.never_frac)
    if kept is None or stated <= TINY:
        return solve
    wanted = min(1.0, varying * min(1.0, kept.rate) / stated)
    never = min(solve.never_frac, 1.0 - wanted)
    return replace(solve, always_frac=max(0.0, 1.0 - never - wanted), never_frac=never)


def _usable(before: Row | None, row: Row, filtered: bool) -> float | None:
    """Share of the groups of one step that taught something.

    What is filtered is counted where it is made, what is trained where it is used: while a queue between them fills or
    drains, what was added to it counts too. Unknown queues are taken for steady ones.
    # 4,096 trained, 2,016 filtered: 67 % of what was made; where the queue grew by 1,500 meanwhile it is 74 %
    """
    values = row.values
    if not filtered:
        zero = values.get("zero_adv_frac")
        return None if zero is None else 1.0 - zero
    trained, left = values.get("batch_rollouts"), values.get("filtered_zero_adv", 0.0)
    if not trained:
        return None
    made = max(TINY, trained + _grown(before, row))
    return made / (made + left)


def _grown(before: Row | None, row: Row) -> float:
    """Rollouts by which the queue grew since the step before; 0 where nobody counts it."""
    if before is None or before.step is None or row.step != before.step + 1:
        return 0.0
    was, now = (one.values.get("queue_depth") for one in (before, row))
    return 0.0 if was is None or now is None else now - was


# ---- how fast the stations are ----


def _trainer(job: Job, rows: Sequence[Row]) -> tuple[Job, Belief | None]:
    trainer, gpus = job.stations.trainer, job.setpoints.gpus_trainer
    if not gpus:
        return job, None
    ratios: list[float | None] = []
    # The stated exponent is of no use at another size than the stated one: the factor carries what it does not say.
    for row in rows:
        busy, tokens = row.values.get("trainer_busy_s"), row.values.get("tokens_total")
        formula = trainer.base_s + trainer.gpu_s_per_token * (tokens or 0.0) / gpus**trainer.exponent
        ratios.append(None if busy is None or tokens is None else busy / max(TINY, formula))
    factor = followed(rows, ratios)
    return (job, None) if factor is None else (with_trainer_factor(job, factor.rate), factor)


def _engine(job: Job, rows: Sequence[Row]) -> tuple[Job, Belief | None]:
    """Engines that are emptied at every publication work in bursts: more residents and more prefill at once than their
    means say. The reading is then the most that they can be slower; what is stated is the least.

    # read 1.9 times as slow, in bursts: 1.38 times (the root), and sd(ln) 0.32 beside that of the reading
    """
    factor = followed(rows, [_slowness(job.stations, row) for row in rows])
    if factor is None:
        return job, None
    if job.stations.sync.mode is not SyncMode.IN_FLIGHT and not job.setpoints.partial_rollout:
        half = factor.log_mean / 2.0
        factor = replace(factor, log_mean=half, variance=factor.variance + half**2)
    return with_engine_factor(job, factor.rate), factor


def _slowness(stations: Stations, row: Row) -> float | None:
    """Measured seconds per token over f(b) + m S, at the residents and contexts of the step.

    Prefill mixed into decode takes its share u of the clock, and in a weight sync all residents stand still for its
    share p of the step: t = (f(b) + m S) / (1 - u - p). The model adds both by itself.
    # a sync of 3 s in steps of 36 s: 9 % more seconds per token than f(b) + m S, and the engine is no slower
    """
    values, engine = row.values, stations.engine
    tpot, running, engines = (values.get(name) for name in ("tpot_s", "running", "engines"))
    if tpot is None or running is None or not engines:
        return None
    residents = running / engines
    (b0, t0), (b1, t1) = engine.step.table[0], engine.step.table[-1]
    step_s = t0 + (t1 - t0) * (residents - b0) / max(TINY, b1 - b0)
    usage = values.get("kv_usage_frac")
    if usage is not None and engine.kv_tokens is not None:
        step_s += engine.step.per_context_token_s * usage * engine.kv_tokens
    else:
        context = values.get("prompt_len_mean", 0.0) + values.get("resp_len_mean", 0.0) / 2.0
        step_s += engine.step.per_context_token_s * residents * context
    drained = stations.sync.mode is SyncMode.DRAIN  # nobody is there to stand still
    lost = 0.0 if drained else values.get("weight_sync_s", 0.0) / max(TINY, values.get("step_s", inf))
    if stations.prefill is None:
        lost += values.get("prompt_tokens_per_s", 0.0) * engine.prefill_s_per_token / engines
    step_s /= max(WORKING_MIN, 1.0 - lost)
    return tpot / max(TINY, step_s)


def _surroundings(job: Job, rows: Sequence[Row]) -> Stations:
    """Weight sync and sandboxes as measured; a sync that no step logs is none."""
    stations, interval = job.stations, job.setpoints.sync_interval or 1
    sync_s = mean_of(rows[-RECENT:], "weight_sync_s")
    if sync_s is not None or any("step_s" in row.values for row in rows):
        stations = replace(stations, sync=replace(stations.sync, seconds=(sync_s or 0.0) * interval))
    fleet = stations.sandboxes
    if fleet is None:
        return stations
    quota, failed = rows[-1].values.get("sandbox_quota"), mean_of(rows[-RECENT:], "sandbox_fail_frac")
    if quota is not None:
        fleet = replace(fleet, live_limit=round(quota))
    start_s = level([row for row in rows if not _at_limit(fleet, row)], "sandbox_start_s")
    if start_s is not None:
        fleet = replace(fleet, start_s=start_s)
    if failed is not None:
        fleet = replace(fleet, failure_frac=min(failed, fleet.failure_frac))
    return replace(stations, sandboxes=fleet)


def _at_limit(fleet: Sandboxes, row: Row) -> bool:
    """Whether a start may have waited for its turn: what was measured is that wait then, which the model makes."""
    if fleet.starts_per_s_limit is not None:
        return True
    held = row.values.get("sandbox_active", 0.0) + row.values.get("sandbox_pending", 0.0)
    quota = row.values.get("sandbox_quota", fleet.live_limit)
    return quota is not None and held > FULL * quota
