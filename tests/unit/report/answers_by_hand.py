"""Answers built by hand: an overlapped job (figures of a published run), a serial one, an engine alone, and nothing."""

import math

from policies.base import (
    Advice,
    Diagnosis,
    Direction,
    DoNot,
    Finding,
    Interval,
    Missing,
    Phase,
    Rates,
    Recommendation,
    Severity,
    SplitCurve,
    SplitPoint,
    Verdict,
)
from policies.estimators import estimate
from simulators.cost import Shares, spending
from simulators.plant import Change, Mode, Setpoints, Topology, TrainerResize
from simulators.signals import SIGNALS
from simulators.snapshot import DroppedStep, Row, Signal, Snapshot, Window, fold_rows
from tuner.answers.advise import Source
from tuner.frameworks.base import KnobKey
from tuner.report.answer import Material

KNOBS = {
    "oversampling_ratio": KnobKey(
        "oversampling_ratio", "orchestrator.oversampling_factor", Change.HOT, data_changing=True
    ),
    "gpus_trainer": KnobKey("gpus_trainer", "deployment.num_train_gpus", Change.RESTART),
    "curriculum_filter": KnobKey(
        "curriculum_filter", "orchestrator.buffer.online_difficulty_filtering", Change.RESTART
    ),
    "partial_rollout": KnobKey("partial_rollout", "orchestrator.max_off_policy_steps", Change.BOUNDARY),
}


def snapshot_from(rows: list[Row], engine_rows: list[Row] | None = None, window: Window | None = None) -> Snapshot:
    engine_rows = engine_rows or []
    folded = fold_rows(engine_rows) | fold_rows(rows)
    signals = {name: Signal(value, SIGNALS[name].unit, n) for name, (value, n) in folded.items()}
    return Snapshot(signals, tuple(rows), tuple(engine_rows), window=window or Window(len(rows)))


def overlapped_rows(steps: int = 24) -> list[Row]:
    """Rows of a job whose answers grow and whose generator falls behind."""
    rows = []
    for i in range(steps):
        wave = math.sin(i * 1.7)
        values = {
            "step_s": 263.0 + 6 * i + 12 * wave,
            "trainer_wait_s": 70.0 + 5 * i + 8 * wave,
            "trainer_busy_s": 180.0 + 2 * wave,
            "weight_sync_s": 6.0,
            "generator_wait_s": 4.0,
            "batch_rollouts": 512.0,
            "resp_len_mean": 10203 + 140.0 * i,
            "resp_len_p99": 24000 + 300.0 * i,
            "prompt_len_mean": 5591.0,
            "tool_calls_mean": 20 + 0.9 * i,
            "turns_mean": 21 + 0.9 * i,
            "reward_mean": 0.42 + 0.01 * i,
            "zero_adv_frac": 0.1 + 0.012 * i,
            "queue_depth": max(0.0, 120 - 6.0 * i),
            "inflight_rollouts": 1123.0 + 9 * wave,
            "staleness_mean": 3 + 0.2 * i,
            "staleness_max": 6.0 + (i // 4),
            "dispatched": 1280.0,
            "accepted": 512.0,
            "generator_util_frac": 0.86,
        }
        if i == 0:
            values["step_s"] += 400.0
        if i == 12:
            values |= {"validation_s": 120.0, "step_s": values["step_s"] + 120.0}
        rows.append(Row(values, step=i, time_s=1_700_000_000.0 + 300 * i))
    return rows


def overlapped_advice() -> Advice:
    diagnosis = Diagnosis(
        Verdict.GENERATION_BOUND,
        0.82,
        "The trainer waits 29% of each step for rollouts: the generator delivers 1.95/s, the trainer takes 2.75/s.",
        (
            Finding(
                "drift",
                Severity.WARNING,
                "Answers grow",
                "Responses grow from 10,203 to 13,423 tokens over 24 steps, tool calls from 20 to 41.",
                {"resp_len_first": 10203.0, "resp_len_last": 13423.0},
            ),
            Finding(
                "off-policy",
                Severity.CRITICAL,
                "Most rollouts are thrown away",
                "768 of 1,280 dispatched rollouts a step are never trained.",
                {"waste_frac": 0.6, "cause": "too old"},
            ),
            Finding("unaccounted-time", Severity.INFO, "A little time has no name", "2% of the step is not logged."),
        ),
        Rates(1.98, 1.95, 2.75, 0.29, 0.015, 0.709),
        (
            Phase("trainer_wait_s", 127.0, 0.37),
            Phase("trainer_busy_s", 180.0, 0.55),
            Phase("weight_sync_s", 6.0, 0.02),
            Phase("unaccounted", 18.0, 0.06),
        ),
        (),
    )
    recommendations = (
        Recommendation(
            "oversampling_ratio",
            Direction.DOWN,
            2.5,
            1.6,
            "",
            Interval(0.11, 0.19, 0.31),
            "60% of the dispatched rollouts are dropped; at 1.6 the same batch fills with fewer in flight.",
            ("Fewer spare rollouts: a slow group holds the batch up longer.",),
            0.0,
            data_changing=True,
        ),
        Recommendation(
            "curriculum_filter",
            Direction.ON,
            None,
            None,
            "",
            Interval(0.04, 0.09, 0.16),
            "24% of the trained groups carry no advantage.",
            cost_s=600.0,
        ),
        Recommendation(
            "gpus_trainer",
            Direction.DOWN,
            64,
            48,
            "GPUs",
            Interval(0.01, 0.055, 0.08),
            "48 : 208 serves both sides at nearly the same rate; 48 does not divide a batch of 512.",
            ("Restart from a checkpoint.", "A trainer of 48 GPUs must still fit into memory."),
            900.0,
            "the checkpoint reshards",
        ),
        Recommendation(
            "partial_rollout",
            Direction.ON,
            False,
            True,
            "",
            None,
            "The tail may hold the batch up; the slowest rollout's time is not logged.",
        ),
    )
    points = tuple(
        SplitPoint(
            n,
            256 - n,
            Interval(g - w, g, g + w),
            n not in (48, 56),
            f"{n} does not divide 512 rollouts" if n in (48, 56) else "",
        )
        for n, g, w in (
            (32, 0.74, 0.1),
            (40, 0.88, 0.07),
            (48, 1.055, 0.03),
            (56, 1.04, 0.015),
            (64, 1.0, 0.0),
            (72, 0.96, 0.01),
            (96, 0.83, 0.04),
        )
    )
    return Advice(
        diagnosis,
        recommendations,
        (
            DoNot("gpus_trainer", Direction.UP, "The trainer already waits 29% of the time."),
            DoNot("max_in_flight", Direction.UP, "60% of the rollouts are already dropped for age."),
        ),
        (
            Missing("kv_usage_frac", "tells a full cache from a slow engine", "pass the engines' /metrics as well"),
            Missing("slowest_s", "tells the tail from slow decode", "log the longest rollout of each batch"),
        ),
        SplitCurve(points, 64, 48),
    )


def overlapped_material(steps: int = 24) -> Material:
    topology = Topology("prime-rl", Mode.OVERLAPPED, 256, "NVIDIA H200 141GB", 8, 8, trainer_resize=TrainerResize.OK)
    setpoints = Setpoints(64, 192, engines=24, oversampling_ratio=2.5, staleness_bound=16.0, group_size=16)
    dropped = (DroppedStep(0, "start-up"), DroppedStep(12, "evaluation"))
    window = Window(steps, 0, steps - 1, 7896.0, dropped if steps > 12 else ())
    snapshot = estimate(topology, setpoints, snapshot_from(overlapped_rows(steps), window=window))
    return Material(
        topology,
        setpoints,
        snapshot,
        overlapped_advice(),
        (
            Source(
                kind="console",
                path="logs/orchestrator.log",
                framework="prime-rl",
                version="0.6",
                rows=24,
                first="0",
                last="23",
            ),
        ),
        KNOBS,
        spending(topology, setpoints, snapshot, Shares(0.29, 0.015), 1.59),
    )


def serial_material() -> Material:
    rows = [
        Row(
            {
                "step_s": 100.0 + i,
                "rollout_s": 55.0 + i,
                "update_s": 22.0,
                "logprob_s": 12.0,
                "weight_sync_s": 5.0,
                "reward_s": 3.0,
                "resp_len_mean": 900.0 + 30 * i,
                "truncated_frac": 0.02,
            },
            step=10 + i,
        )
        for i in range(6)
    ]
    topology = Topology("verl", Mode.SERIAL, 8)
    snapshot = estimate(topology, Setpoints(), snapshot_from(rows, window=Window(6, 10, 15, 615.0)))
    diagnosis = Diagnosis(
        Verdict.GENERATION_BOUND,
        0.55,
        "Generation takes 56% of each step on the same GPUs that train.",
        (Finding("serial-job", Severity.INFO, "Phases run one after another", "There is no GPU split to move."),),
        Rates(),
        (Phase("rollout_s", 57.5, 0.56), Phase("trainer_busy_s", 34.0, 0.33), Phase("unaccounted", 3.0, 0.03)),
        (),
    )
    overlap = Recommendation(
        "overlap",
        Direction.ON,
        False,
        True,
        "",
        Interval(0.2, 0.35, 0.6),
        "Generate the next batch while this one trains: at most 1.6 times as fast.",
    )
    return Material(topology, Setpoints(), snapshot, Advice(diagnosis, (overlap,)))


def engine_material() -> Material:
    rows = [
        Row(
            {
                "running": 6.0 + 6 * i,
                "queued": max(0.0, 2.0 * i - 6),
                "kv_usage_frac": min(0.97, 0.1 + 0.09 * i),
                "prompt_tokens_per_s": 24000.0,
                "decode_tokens_per_s": 15.0 * (i + 1),
            },
            time_s=1_700_000_000.0 + 10 * i,
        )
        for i in range(12)
    ]
    topology = Topology("vllm", Mode.ENGINE)
    snapshot = estimate(topology, Setpoints(), snapshot_from([], rows))
    diagnosis = Diagnosis(
        Verdict.PREFILL_BOUND,
        0.6,
        "The engine computes 24,000 prompt tokens/s flat while running grows.",
        (),
        Rates(),
        (),
        (),
    )
    return Material(topology, Setpoints(), snapshot, Advice(diagnosis))


def empty_material() -> Material:
    diagnosis = Diagnosis(Verdict.CANNOT_TELL, 0.0, "No step time is in this data.", (), Rates(), (), ())
    missing = (Missing("step_s", "nothing can be said without it", "log the time of each step"),)
    return Material(Topology(), Setpoints(), Snapshot({}), Advice(diagnosis, missing=missing))


MATERIALS = {
    "overlapped": overlapped_material,
    "serial": serial_material,
    "engine": engine_material,
    "empty": empty_material,
}
