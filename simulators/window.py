"""From rows to a snapshot: which steps speak for the job, and what they say together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from simulators.signals import SIGNALS
from simulators.snapshot import DroppedStep, Note, Row, Signal, Snapshot, Window, fold_rows

KEPT_STEPS_MIN = 3
"""Odd steps are left out only while at least this many others remain."""
START_UP_RATIO = 1.5
"""A first step this much longer than the median of the rest holds start-up: compiling, loading, filling caches."""
RARE = ("validation_s", "checkpoint_s")
"""Phases that may come every n-th step only: absent from a step means that it did not happen there."""
RARE_FRAC = 0.5
"""Evaluation or checkpoint seconds on at most this share of the steps are events; on more, a part of every step."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where each signal came from, for the reader who wants to check it."""

    trust: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    age_s: float | None = None


def assemble(
    rows: Sequence[Row], engine_rows: Sequence[Row] = (), notes: Sequence[Note] = (), sources: Sources | None = None
) -> Snapshot:
    """The snapshot of a window: each signal folded over the steps that speak for the job.

    Start-up, evaluation and checkpoint steps are left out of the signals while three others remain; they stay in
    `rows`, and their seconds in the wall-time budget. A signal that only dropped steps carry is taken from them.
    """
    dropped = _odd_steps(rows)
    left_out = {d.step for d in dropped}
    kept = [row for row in rows if row.step not in left_out]
    all_steps = fold_rows(rows) if left_out else {}
    folded = all_steps | fold_rows(engine_rows) | fold_rows(kept) | _amortised(rows)
    known = sources or Sources()
    signals = {
        name: Signal(
            value,
            SIGNALS[name].unit,
            n,
            known.trust.get(name, 1.0),
            known.age_s,
            known.keys.get(name, ()),
        )
        for name, (value, n) in folded.items()
    }
    return Snapshot(signals, tuple(rows), tuple(engine_rows), tuple(notes), _window(rows, engine_rows, dropped))


def _amortised(rows: Sequence[Row]) -> dict[str, tuple[float, int]]:
    """Seconds per step of what happens on some steps only, over all steps: 0 where it is absent."""
    steps = sum(row.weight for row in rows)
    seconds = {n: sum(row.values.get(n, 0.0) * row.weight for row in rows) for n in RARE}
    present = {name for row in rows for name in RARE if name in row.values}
    return {name: (seconds[name] / steps, steps) for name in RARE if name in present}


def _odd_steps(rows: Sequence[Row]) -> tuple[DroppedStep, ...]:
    """Steps to leave out, in this order while enough others remain: start-up, evaluations, checkpoints."""
    reasons: dict[int, str] = {}
    for why, steps in (
        ("start-up", _start_up(rows)),
        ("evaluation", _events(rows, "validation_s")),
        ("checkpoint", _events(rows, "checkpoint_s")),
    ):
        fresh = {step for step in steps if step not in reasons}
        remaining = sum(row.weight for row in rows if row.step not in reasons and row.step not in fresh)
        if remaining >= KEPT_STEPS_MIN:
            reasons |= dict.fromkeys(fresh, why)
    return tuple(DroppedStep(step, why) for step, why in sorted(reasons.items()))


def _start_up(rows: Sequence[Row]) -> list[int]:
    """The first step of a run, when it is far longer than the rest."""
    timed = [(row.step, pace) for row in rows if row.step is not None and (pace := _pace(row)) is not None]
    if len(timed) <= KEPT_STEPS_MIN:
        return []
    (first, pace), usual = timed[0], median(pace for _, pace in timed[1:])
    return [first] if first <= 1 and pace > START_UP_RATIO * usual else []


def _pace(row: Row) -> float | None:
    """Seconds of the step, or where only a rate is known, seconds per rollout."""
    rate = row.values.get("gen_samples_per_s", 0.0)
    return row.values.get("step_s", 1.0 / rate if rate > 0.0 else None)


def _events(rows: Sequence[Row], name: str) -> list[int]:
    """Steps with rare seconds of `name`."""
    hit = [row.step for row in rows if row.values.get(name, 0.0) > 0.0 and row.step is not None]
    return hit if len(hit) <= RARE_FRAC * len(rows) else []


def _window(rows: Sequence[Row], engine_rows: Sequence[Row], dropped: tuple[DroppedStep, ...]) -> Window:
    steps = [row.step for row in rows if row.step is not None]
    ends = [row.last_step if row.last_step is not None else row.step for row in rows if row.step is not None]
    timed = [row.values["step_s"] * row.weight for row in rows if "step_s" in row.values]
    stamps = [row.time_s for row in (*rows, *engine_rows) if row.time_s is not None]
    seconds = sum(timed) if timed else (max(stamps) - min(stamps) if len(stamps) > 1 else None)
    return Window(
        steps=sum(row.weight for row in rows),
        from_step=min(steps) if steps else None,
        to_step=max(end for end in ends if end is not None) if ends else None,
        seconds=seconds,
        dropped=dropped,
    )
