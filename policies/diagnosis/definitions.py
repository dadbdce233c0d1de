"""What each verdict and each finding means, with the thresholds that make it so: the text of docs/signals.md."""

from collections.abc import Mapping
from dataclasses import dataclass

from policies import drift
from policies.base import Verdict
from policies.diagnosis import engine, generator, learning, reading, verdict, waiting


@dataclass(frozen=True, slots=True)
class Definition:
    """When something is said, in words, and the names of the constants that draw the line."""

    meaning: str
    thresholds: tuple[str, ...] = ()


VOIDS = "What voids everything else, whatever the speed"
STILL = "What stands still"
GENERATOR = "Generator side: the first cause that explains enough of the generator's time names the verdict"
TRAINER = "Trainer side"
BETWEEN = "Between the two sides"
BESIDE = "Beside both: the phase's share of wall time is the largest"
NEITHER = "None of these"

VERDICTS: Mapping[str, Mapping[Verdict, Definition]] = {
    VOIDS: {
        Verdict.BAD_DATA: Definition(
            f"the phases of a step claim over {verdict.CONTRADICTION:g} times its wall time. Lesser contradictions "
            "are findings, and an impossible value is set aside",
            ("CONTRADICTION",),
        ),
        Verdict.POLICY_COLLAPSE: Definition(
            f"the model has collapsed: entropy under {learning.COLLAPSED_ENTROPY_FRAC:.0%} of the window's start or "
            f"under {learning.COLLAPSED_ENTROPY_NATS} nats; gradient norm exactly 0 on the last two steps; truncation "
            f"risen from under {learning.LOW_SIGNAL:.0%} to {learning.RUNAWAY_TRUNCATION:.0%} of the rollouts; or the "
            f"reward of the last third under {learning.REWARD_FALL_FRAC:.0%} of the best third, beyond three standard "
            "errors",
            ("COLLAPSED_ENTROPY_FRAC", "COLLAPSED_ENTROPY_NATS", "RUNAWAY_TRUNCATION", "REWARD_FALL_FRAC"),
        ),
        Verdict.NO_SIGNAL: Definition(
            f"under {learning.USABLE_GROUPS_MIN:.0%} of the *trained* groups carry advantage: counted, or bounded from "
            "a rare binary reward. Groups that are filtered and refilled are a generator loss instead",
            ("USABLE_GROUPS_MIN",),
        ),
    },
    STILL: {
        Verdict.STRAGGLER_WEDGE: Definition("no rollout has finished for longer than the p99 rollout takes"),
        Verdict.MEMORY_GROWTH: Definition(
            f"the process with the rollout buffer holds {verdict.MEMORY_NEAR:.0%} of its limit; or the buffer has no "
            f"cap, more than doubled over the window and holds more than {verdict.QUEUE_BATCHES:.0f} batches",
            ("MEMORY_NEAR", "QUEUE_BATCHES"),
        ),
    },
    GENERATOR: {
        Verdict.GENERATION_BOUND: Definition(
            f"generation is the limit, and nothing in the data explains {generator.NAMEABLE:.0%} of its time; the "
            f"headline says so when {generator.MUCH_WASTE:.0%} of the rollouts are lost",
            ("NAMEABLE", "MUCH_WASTE"),
        ),
        Verdict.TAIL_BOUND: Definition(
            f"the slowest rollout takes so many means that the wait for it, 1 - 1 / (slowest over mean), is "
            f"{generator.NAMEABLE:.0%} of generation; not where it is carried over, or where {generator.FULL:.0%} of "
            "the cap on rollouts in flight are, so that every place is taken again at once",
            ("NAMEABLE", "FULL"),
        ),
        Verdict.PREFILL_BOUND: Definition(
            f"requests wait, and prompt tokens per second stay within {engine.FLAT:.0%} while the batch grows to "
            f"{engine.GROWING} times its size or more, with fewer decode than prompt tokens per second",
            ("FLAT", "GROWING"),
        ),
        Verdict.KV_BOUND: Definition(
            f"requests wait and the KV pool is {engine.KV_FULL:.0%} full; or it is over {engine.KV_ROOMY:.0%} full, "
            "filling, and what runs and waits does not fit (then with low confidence)",
            ("KV_FULL", "KV_ROOMY"),
        ),
        Verdict.KV_THRASH: Definition(
            f"over {engine.RECOMPUTE_THRASH:.0%} of the tokens are computed twice after preemption",
            ("RECOMPUTE_THRASH",),
        ),
        Verdict.CONCURRENCY_CAPPED: Definition(
            "requests wait although the KV pool has room; or none waits, the pool stays under "
            f"{engine.KV_ROOMY:.0%} for {engine.BRIEF_S:.0f} s or more; or at most {generator.FEW_RESIDENTS} requests "
            f"per engine are in flight. Requests that have made under {engine.YOUNG:.0%} of their output were all "
            "admitted just now: a ramp, and no verdict. A queue that comes and goes is a cap when it came twice, "
            f"on {engine.WAVES_MIN:.0%} of the scrapes, with {engine.AT_CAP:.0%} of the most that ever ran running "
            f"each time and the pool never {engine.KV_ROOMY:.0%} full",
            ("KV_ROOMY", "BRIEF_S", "FEW_RESIDENTS", "YOUNG", "WAVES_MIN", "AT_CAP"),
        ),
        Verdict.CLIENT_BOUND: Definition(
            f"under {generator.REACHED:.0%} of the rollouts in flight have reached an engine, or engines' GPUs idle at "
            f"{generator.BUSY_CLIENT_PER_S:.0f} requests/s or more",
            ("REACHED", "BUSY_CLIENT_PER_S"),
        ),
        Verdict.SLOW_ENGINE: Definition(
            f"the slowest rollout took {generator.SLOW_S_PER_TOKEN} s per token or more, with at most "
            f"{generator.CROWDED_PER_GPU:.0f} rollouts per GPU: slow decode, not a queue",
            ("SLOW_S_PER_TOKEN", "CROWDED_PER_GPU"),
        ),
        Verdict.ENV_BOUND: Definition(
            f"at least {generator.NAMEABLE:.0%} of a rollout passes in tools and environment", ("NAMEABLE",)
        ),
        Verdict.SANDBOX_BOUND: Definition(
            f"sandboxes wanted reach {generator.QUOTA_NEAR:.0%} of the quota, {generator.FAILURES:.0%} of them fail, "
            f"one takes over {generator.SLOW_START_S:.0f} s to start, or starting takes {generator.NAMEABLE:.0%} of a "
            "rollout",
            ("QUOTA_NEAR", "FAILURES", "SLOW_START_S", "NAMEABLE"),
        ),
        Verdict.STALENESS_WASTE: Definition(
            f"{generator.MUCH_WASTE:.0%} of the dispatched rollouts are dropped as too old", ("MUCH_WASTE",)
        ),
    },
    TRAINER: {
        Verdict.TRAINER_BOUND: Definition(
            "serial: training has the largest share of the step. Overlapped: the generator is gated, or the trainer's "
            f"wait is no more than two equal stations show by coupling. A wait is the generator's doing when it is "
            f"over {waiting.BALANCED_IDLE:.0%} and: the generator is gated less than the trainer waits; or, where that "
            "is not logged, the wait exceeds 1 / (batches ahead + 2), or "
            f"{waiting.PERSISTENT_FRAC:.0%} of at least {waiting.PERSISTENT_STEPS} steps spend over "
            f"{waiting.WAITING_STEP:.0%} on it. A generator gated under {waiting.BUSY_GENERATOR_IDLE:.0%} never waits",
            ("BALANCED_IDLE", "PERSISTENT_FRAC", "PERSISTENT_STEPS", "WAITING_STEP", "BUSY_GENERATOR_IDLE"),
        ),
    },
    BETWEEN: {
        Verdict.WEIGHT_SYNC_BOUND: Definition("publishing and loading weights has the largest share of wall time"),
    },
    BESIDE: {
        Verdict.REWARD_BOUND: Definition(
            f"rewards computed after generation; or on the generator's side {generator.NAMEABLE:.0%} of a rollout "
            "passes with its judge or verifier",
            ("NAMEABLE",),
        ),
        Verdict.VALIDATION_BOUND: Definition("evaluation, amortised over its period; an unknown period is a finding"),
        Verdict.CHECKPOINT_BOUND: Definition("checkpoints, amortised over their period"),
        Verdict.OVERHEAD_BOUND: Definition(
            f"offload, wake-up and host work; or engines' GPUs idle in {generator.NAMEABLE:.0%} of the generation "
            f"phase at under {generator.BUSY_CLIENT_PER_S:.0f} requests/s",
            ("NAMEABLE", "BUSY_CLIENT_PER_S"),
        ),
    },
    NEITHER: {
        Verdict.BALANCED: Definition(
            f"overlapped: both sides idle at most {waiting.BALANCED_IDLE:.0%}, and nothing but training has a larger "
            "share",
            ("BALANCED_IDLE",),
        ),
        Verdict.CANNOT_TELL: Definition(
            "the data does not carry a verdict: no phases, or the two largest shares are closer than their error "
            f"(at least {waiting.ERROR_FLOOR:.0%}). Under {reading.FEW_STEPS} steps confidence is at most "
            f"{verdict.FEW_CONFIDENCE}; without steps, or with one scrape, at most {verdict.SINGLE_LOOK_CONFIDENCE}",
            ("ERROR_FLOOR", "FEW_STEPS", "FEW_CONFIDENCE", "SINGLE_LOOK_CONFIDENCE"),
        ),
    },
}
"""Every verdict, in the order in which they rule each other out; inside the later groups the largest share wins."""

FINDINGS: Mapping[str, Definition] = {
    "few-steps": Definition(
        f"under {reading.FEW_STEPS} steps were read: start-up and noise are inside every figure", ("FEW_STEPS",)
    ),
    "single-scrape": Definition("one scrape of the engines: gauges of a moment, totals since the start"),
    "serial-job": Definition("generation and training take turns on the same GPUs: there is no split to move"),
    "truncation": Definition(
        f"{learning.TRUNCATION:.0%} of the rollouts or more end at the length cap; critical from "
        f"{learning.LOW_SIGNAL:.0%}",
        ("TRUNCATION", "LOW_SIGNAL"),
    ),
    "zero-advantage": Definition(
        f"{learning.LOW_SIGNAL:.0%} of the trained groups or more have equal rewards throughout", ("LOW_SIGNAL",)
    ),
    "low-signal": Definition(
        f"under {learning.LOW_SIGNAL:.0%} of the groups carry advantage, counted or at most", ("LOW_SIGNAL",)
    ),
    "filtered-groups": Definition("groups were dropped for equal rewards and generated again: a generator loss"),
    "off-policy": Definition(
        f"mean staleness over the bound in force; where none is known, over {reading.OFF_POLICY_VERSIONS:.0f} versions",
        ("OFF_POLICY_VERSIONS",),
    ),
    "waste": Definition(
        f"{reading.SHARE_WORTH_A_WORD:.0%} of the dispatched rollouts or more are never trained",
        ("SHARE_WORTH_A_WORD",),
    ),
    "validation-share": Definition(
        f"evaluation takes {reading.SHARE_WORTH_A_WORD:.0%} of the wall time or more; with an unknown period, of the "
        "step that holds it",
        ("SHARE_WORTH_A_WORD",),
    ),
    "unaccounted-time": Definition(
        f"phases leave {reading.SHARE_WORTH_A_WORD:.0%} of the step or more unclaimed, or claim as much beyond it",
        ("SHARE_WORTH_A_WORD",),
    ),
    "idle-mismatch": Definition(
        f"two figures of one idle share differ by more than {reading.IDLE_MISMATCH:.0%} of the time: printed against "
        "raw seconds (these are used), or seconds against rates",
        ("IDLE_MISMATCH",),
    ),
    "preemptions": Definition("requests lost their KV cache and are computed again"),
    "kv-forecast": Definition("running and waiting requests are more than the KV pool holds at today's lengths"),
    "sticky-gauge": Definition(
        f"a throughput gauge contradicts running requests and time per token by a factor of {engine.STICKY:.0f}",
        ("STICKY",),
    ),
    "drift": Definition(
        f"from first to last third of at least {drift.STEPS_MIN} steps a watched signal moved by more than "
        f"{drift.DRIFT_MIN:.0%} and {drift.BEYOND_NOISE:.0f} standard errors",
        ("STEPS_MIN", "DRIFT_MIN", "BEYOND_NOISE"),
    ),
    "gain-unchecked": Definition(
        "the queueing model is weak behind one of the first gains, and no simulation checked it: the event engine is "
        "not compiled (`make warm`), or the job is too large to simulate in passing"
    ),
}
"""Findings about the job; those about the reading itself are in policies.diagnosis.notes."""
