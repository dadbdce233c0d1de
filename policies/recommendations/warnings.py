"""The tempting wrong moves, and what is not in the data."""

from policies.base import Direction, DoNot, Missing, Verdict
from policies.diagnosis.waiting import BALANCED_IDLE
from policies.recommendations.case import Case
from simulators.plant import Mode, TrainerResize

VOID = frozenset({Verdict.BAD_DATA, Verdict.POLICY_COLLAPSE, Verdict.NO_SIGNAL})
"""Verdicts under which advice on speed is void."""


def do_not(case: Case) -> tuple[DoNot, ...]:
    """What a reader of these figures might try and should not."""
    found: list[DoNot] = []
    if case.verdict in VOID:
        why = "Speed does not help before the data teaches again: more GPUs only make the useless part faster."
        found.append(DoNot("gpus_generator", Direction.UP, why))
    elif case.serial:
        why = "Generation and training take turns on the same GPUs: there is no split to move before they overlap."
        found += [DoNot("gpus_trainer", Direction.SET, why), DoNot("gpus_generator", Direction.SET, why)]
    if case.topology.trainer_resize is TrainerResize.IMPOSSIBLE:
        why = "The trainer's checkpoint opens only on the number of GPUs that wrote it: a resize would lose the run."
        found.append(DoNot("gpus_trainer", Direction.SET, why))
    found += _by_verdict(case)
    return tuple(found)


def _by_verdict(case: Case) -> list[DoNot]:
    match case.verdict:
        case Verdict.TRAINER_BOUND if not case.serial and not _trainer_waits_too(case):
            why = "The trainer is the slower side: more generators only make samples older."
            return [DoNot("gpus_generator", Direction.UP, why), DoNot("max_in_flight", Direction.UP, why)]
        case Verdict.KV_BOUND | Verdict.KV_THRASH:
            why = "The KV pool is the limit: more requests only wait, or push each other out."
            return [DoNot("max_in_flight", Direction.UP, why)]
        case Verdict.PREFILL_BOUND:
            why = "More requests bring more prompts to read; decode would starve further."
            return [DoNot("max_in_flight", Direction.UP, why)]
        case Verdict.SANDBOX_BOUND:
            return [DoNot("max_in_flight", Direction.UP, "More rollouts wait for the same sandboxes, and starts fail.")]
        case Verdict.CONCURRENCY_CAPPED | Verdict.CLIENT_BOUND | Verdict.ENV_BOUND | Verdict.OVERHEAD_BOUND:
            why = "The engines of today are not full: more of them would be emptier."
            return [DoNot("gpus_generator", Direction.UP, why)]
        case Verdict.TAIL_BOUND:
            why = "The longest rollout takes as long on any number of engines."
            return [DoNot("gpus_generator", Direction.UP, why)]
        case _ if case.generator_side and not case.serial:
            why = "The trainer waits already: a faster one waits longer."
            return [DoNot("gpus_trainer", Direction.UP, why)]
        case _:
            return []


def _trainer_waits_too(case: Case) -> bool:
    """What the generator waits is not logged and the trainer does wait: which side is slower is not settled."""
    idle = case.get("trainer_idle_frac")
    return idle is not None and idle > BALANCED_IDLE and case.get("generator_idle_frac") is None


def missing(case: Case) -> tuple[Missing, ...]:
    """The signals that would decide what this data leaves open, most telling first."""
    mode, known = case.topology.mode, case.snapshot.signals
    if mode is Mode.ENGINE:
        once = sum(row.weight for row in case.snapshot.engine_rows) == 1
        first = (RATES,) if once or "decode_tokens_per_s" not in known else ()
        return (*first, *(m for m in ENGINE if m.signal not in known and not _known_fact(case, m.signal)))
    wanted: tuple[Missing, ...] = OVERLAPPED if mode is Mode.OVERLAPPED else SERIAL
    if mode is Mode.UNKNOWN:
        wanted = (*UNKNOWN, *(m for m in wanted if m not in UNKNOWN))
    if case.verdict in VOID:
        wanted = (GROUPS,)
    gaps = [m for m in wanted if m.signal not in known and not _known_fact(case, m.signal) and _tells(case, m)]
    return tuple(sorted(gaps, key=lambda m: m is not TOOLS or not _uses_tools(case))[:5])


def _tells(case: Case, gap: Missing) -> bool:
    """False for what this verdict, or this kind of task, makes beside the point."""
    if gap is STEP:
        return case.budget is None
    if gap is TOOLS and (case.get("turns_mean") or TURNS_OF_AN_ANSWER + 1) <= TURNS_OF_AN_ANSWER:
        return _uses_tools(case)
    if case.verdict is Verdict.TRAINER_BOUND:
        return gap not in INSIDE_GENERATION
    return gap is not MFU


def _uses_tools(case: Case) -> bool:
    return bool(case.get("tool_calls_mean")) or (case.get("turns_mean") or 0.0) > TURNS_OF_AN_ANSWER


def _known_fact(case: Case, name: str) -> bool:
    facts = {
        "gpus_trainer": case.setpoints.gpus_trainer,
        "batch_rollouts": case.setpoints.batch_rollouts,
        "running_limit": case.setpoints.max_in_flight_per_engine,
    }
    return facts.get(name) is not None


TURNS_OF_AN_ANSWER = 2.0
"""Question and answer, which some frameworks count as two turns and others as one: no tools in between."""
STEP = Missing("step_s", "Without the wall time of a step no share of it can be told.", "Log the step time.")
WAIT = Missing(
    "trainer_wait_s",
    "Says how long the trainer starves.",
    "Log the seconds the trainer waits for a batch (verl timing_s/gen, prime-rl time/wait_for_batch).",
)
GATED = Missing(
    "generator_wait_s",
    "Says whether the generator is held back; without it the trainer's side is a guess.",
    "Log how long the generator is paused: queue full, staleness gate (prime-rl time/wait_for_policy).",
)
RUNNING = Missing(
    "running",
    "Full or empty engines decide between more GPUs and more in flight.",
    "Add the engines' /metrics (vllm:num_requests_running, sglang:num_running_reqs) as a second source.",
)
KV = Missing(
    "kv_usage_frac",
    "Says whether memory or a cap limits the batch.",
    "Add the engines' /metrics (vllm:num_requests_running, sglang:num_running_reqs) as a second source.",
)
SLOWEST = Missing(
    "slowest_s",
    "Tells a tail from a slow pool.",
    "Log the slowest and the mean rollout of each batch (verl timing_s/agent_loop/slowest/*).",
)
TOOLS = Missing(
    "non_generation_mean_s",
    "Tool and environment time inside generation looks like slow decoding.",
    "Log tool time per rollout (verl tool_calls, slime non_generation_time, prime-rl timing/*).",
)
GROUPS = Missing(
    "zero_adv_frac",
    "Groups with equal rewards cost generation and teach nothing.",
    "Log the share of groups whose rewards are all equal (solved all and solved none).",
)
CONFIGURE = "Give the resolved configuration, or a job file (equipoise init writes one)."
BATCH = Missing("batch_rollouts", "Turns seconds into rollouts per second.", CONFIGURE)
SPLIT = Missing("gpus_trainer", "Without GPU counts no split can be computed.", CONFIGURE)
TRAINER = Missing(
    "trainer_busy_s",
    "Says what the trainer's own work takes.",
    "Log the update and log-prob phases (verl timing_s/*, slime perf/*_time, TRL profiling/* to W&B).",
)
GENERATION = Missing(
    "rollout_s",
    "Says what generation takes.",
    "Log the generation phase of each step (verl timing_s/gen, slime perf/rollout_time, TRL profiling/* to W&B).",
)
QUEUE = Missing(
    "queue_depth",
    "A full buffer means the trainer is slower, an empty one the generator.",
    "Log how many finished rollouts wait for the trainer, each step.",
)
MFU = Missing(
    "mfu",
    "Tells a trainer that has too few GPUs from one that wastes them.",
    "Log MFU or tokens per micro-batch (verl perf/mfu/actor, prime-rl perf/mfu).",
)
LIMIT = Missing(
    "running_limit",
    "A batch at its cap is a setting; one below it is load.",
    "Give the engine's start-up log or arguments (--max-num-seqs, --max-running-requests).",
)
RATES = Missing(
    "decode_tokens_per_s", "Gauges of one moment have no rate.", "Take two scrapes a minute apart, or the engine's log."
)
JOB = Missing(
    "trainer_wait_s",
    "Engines alone do not show whether the trainer waits for them.",
    "Add the trainer's log as a second source.",
)
UNKNOWN = (STEP, WAIT, GENERATION, TRAINER)
SERIAL = (STEP, GENERATION, TRAINER, MFU, RUNNING, SLOWEST, TOOLS, GROUPS, BATCH)
OVERLAPPED = (STEP, WAIT, SPLIT, BATCH, GATED, MFU, RUNNING, KV, QUEUE, TOOLS, GROUPS)
ENGINE = (RUNNING, KV, LIMIT, JOB)
INSIDE_GENERATION = (RUNNING, KV, TOOLS, SLOWEST)
"""What explains a slow generation, and nothing about a slow trainer."""
