"""What a simulated job has done so far, as sums; and what is where at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Any

CAUSES = ("filtered", "dropped", "stale", "oversampled", "pruned", "aborted", "failed")
"""Why a dispatched rollout was not trained."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums since time 0. The difference of two is what happened between them."""

    now_s: float = 0.0
    step: int = 0
    version: int = 0
    events: int = 0
    turns: int = 0
    dispatched: int = 0
    """Rollouts started."""
    finished: int = 0
    finished_groups: int = 0
    trained: int = 0
    trained_groups: int = 0
    useful: int = 0
    """Trained rollouts in groups whose rewards differ."""
    trained_tokens: int = 0
    trained_response: int = 0
    trained_solved: int = 0
    attempted: int = 0
    attempted_response: int = 0
    attempted_solved: int = 0
    truncated: int = 0
    spanned: int = 0
    """Versions published during rollouts, summed over finished ones."""
    filtered: int = 0
    dropped: int = 0
    stale: int = 0
    oversampled: int = 0
    pruned: int = 0
    aborted: int = 0
    failed: int = 0
    trained_resumed: int = 0
    preempted: int = 0
    prefilled_tokens: int = 0
    prefix_tokens: int = 0
    """Context tokens found in the prefix cache."""
    boxes_started: int = 0
    boxes_failed: int = 0
    boxes_leaked: int = 0
    decoded_tokens: float = 0.0
    training_s: float = 0.0
    sync_s: float = 0.0
    """Trainer seconds spent on publications, validation and checkpoints."""
    engine_busy_s: float = 0.0
    area_in_flight: float = 0.0
    """Rollout-seconds; likewise the other areas (of the buffer: group-seconds)."""
    area_resident: float = 0.0
    area_outside: float = 0.0
    area_queued: float = 0.0
    area_ring: float = 0.0
    context_area: float = 0.0
    rollout_s: float = 0.0
    """Seconds of finished rollouts, summed; likewise the other stays."""
    trained_rollout_s: float = 0.0
    """The same of those that were trained, to a sixteenth of a second each; 0 of a job of the core alone."""
    stint_s: float = 0.0
    """In flight, ended or interrupted."""
    group_s: float = 0.0
    queue_age_s: float = 0.0
    """In the buffer, of trained groups; `ring_s` of all that left it."""
    ring_s: float = 0.0
    resident_s: float = 0.0
    outside_s: float = 0.0
    queued_s: float = 0.0
    box_wait_s: float = 0.0
    judge_s: float = 0.0
    """With the verifier and in the queue before it, of those that came back."""
    verifying_s: float = 0.0
    """With the verifier alone: a part of `outside_s` too."""
    tenant_tokens: float = 0.0
    staleness: tuple[int, ...] = ()
    """Trained rollouts by staleness in versions."""
    latency: tuple[int, ...] = ()
    """Finished rollouts by time: eight bins to an octave, the first at 2^-16 s."""

    def __add__(self, other: "Counters") -> "Counters":
        return _combined(self, other, 1)

    def __sub__(self, earlier: "Counters") -> "Counters":
        return _combined(self, earlier, -1)

    @property
    def waste(self) -> dict[str, int]:
        return {cause: getattr(self, cause) for cause in CAUSES}


HISTOGRAMS = tuple(part.name for part in fields(Counters) if isinstance(part.default, tuple))
SUMS = tuple(part.name for part in fields(Counters) if part.name not in HISTOGRAMS)
"""Counters by kind, looked up once: windows are taken several times in each look of the gate."""


def _combined(a: Counters, b: Counters, sign: int) -> Counters:
    values: dict[str, Any] = {name: getattr(a, name) + sign * getattr(b, name) for name in SUMS}
    for name in HISTOGRAMS:
        both = zip_longest(getattr(a, name), getattr(b, name), fillvalue=0)
        values[name] = tuple([x + sign * y for x, y in both])
    return Counters(**values)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is where at one moment, and for how long it has been there (summed seconds)."""

    in_flight: int
    resident: int
    outside: int
    """In a tool call, starting a sandbox, with the verifier."""
    queued: int
    paused: int
    """Stopped, to be resumed."""
    waiting: int
    """Finished members of unfinished groups."""
    buffered: int
    """Rollouts of finished groups that wait for the trainer."""
    buffered_groups: int
    ages_s: Mapping[str, float] = field(default_factory=dict)
