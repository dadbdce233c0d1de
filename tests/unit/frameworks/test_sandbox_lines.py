"""What sandbox clients log becomes starts, waits, ends and failures; limits and what was not ended are told."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from simulators.snapshot import Snapshot
from tuner.feeds.base import Source
from tuner.feeds.tail import Tail
from tuner.frameworks.sandbox_lines import APART_S, KNOWN_MAX, Sandboxes
from tuner.ingest.matching import NEUTRAL
from tuner.ingest.reading import formats_of
from tuner.live import LivePlant
from tuner.records import Line, Record, Remark
from tuner.sources.base import Opened
from tuner.sources.console import read


def heard(*lines: str) -> tuple[dict[str, float], list[Remark]]:
    """The last word of a log of these lines, a minute apart, and what a person should know of it."""
    stamped = "\n".join(f"2026-11-30 10:{minute:02d}:00 {text}" for minute, text in enumerate(lines))
    items = list(read(Opened(io.BytesIO(stamped.encode() + b"\n"), "env.log"), formats_of((NEUTRAL,))))
    records = [item for item in items if isinstance(item, Record)]
    return dict(records[-1].values) if records else {}, [i for i in items if isinstance(i, Remark)]


def totals(values: dict[str, float]) -> tuple[float | None, ...]:
    return tuple(values.get(f"sandboxes_{name}_total") for name in ("started", "ended", "failed"))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("DEBUG - Created sandbox a1", "DEBUG - Created sandbox a2", "DEBUG - Deleted sandbox a1"), (2, 1, 0)),
        (("Created sandbox a", "Created sandbox b", "Bulk deleted sandboxes: ['a', 'b', 'old']"), (2, 2, 0)),
        (("Created sandbox a", "Created sandbox b", "Bulk deleted batch of 5 sandboxes"), (2, 2, 0)),
        (("prime: sandbox sb_1 up (image=python:3.11)", "modal: sandbox sb-2 up (image=None)"), (2, None, 0)),
        (("e2b: sandbox i4 up (image=x, template=vf-1)", "openyuanrong sandbox i4 killed"), (1, 1, 0)),
        (("sandbox failed to start (attempt 1/3): TimeoutError('sandbox start() exceeded')",), (1, None, 1)),
        (
            ("verifiers.v1.errors.SandboxError: prime sandbox provisioning failed: HTTP 429: too many",),
            (1, None, 1),
        ),
        (
            (
                "Created sandbox a",
                "SandboxNotReadyError: Sandbox a failed to become ready: timeout",
                "Deleted sandbox a",
            ),
            (1, 1, 1),
        ),
        (("Created sandbox a", "Deleted sandbox of-an-earlier-life"), (1, 0, 0)),
    ],
)
def test_the_words_of_each_client_are_counted(lines: tuple[str, ...], told: tuple[float | None, ...]) -> None:
    assert totals(heard(*lines)[0]) == told


def test_the_code_that_a_traceback_shows_is_no_failure() -> None:
    values, _ = heard(
        "Created sandbox a",
        '    raise SandboxError(f"prime sandbox provisioning failed: {e}") from e',
        "SandboxError: prime sandbox provisioning failed: timed out",
    )
    assert totals(values) == (2, None, 1)


@pytest.mark.parametrize(
    ("wait", "seconds"), [("12.5s", 12.5), ("450ms", 0.45), ("1m 5s", 65.0), ("5m", 300.0), ("1h 2m", 3720.0)]
)
def test_waits_are_seconds_however_they_are_written(wait: str, seconds: float) -> None:
    values, _ = heard("Created sandbox a", "Waiting for sandbox a to become ready", f"Waited {wait} for sandbox a to")
    assert values["sandbox_start_s"] == pytest.approx(seconds)
    assert values["sandbox_pending"] == 0.0


def test_who_waits_is_pending() -> None:
    values, _ = heard(
        "Waiting for sandbox a to be ready",
        "prime: image x isn't cached on the platform - auto-building it (sandbox b waits for the build; first use)",
        "Waited 3.0s for sandbox to be ready",
    )
    assert values["sandbox_pending"] == 1.0


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (
            "modal.exception.ResourceExhaustedError: Insufficient capacity to create sandbox.",
            "sandbox-limit",
            "capacity",
        ),
        ("TimeoutError: prime-sandbox creation limiter backlog of 312.0s exceeds 300s", "sandbox-limit", "312.0s"),
        ("prime sandbox provisioning failed: HTTP 429: 500 of 500 in use", "sandbox-limit", "500 of 500"),
        ("prime sandbox provisioning failed: Payment required. Check billing status.", "sandbox-limit", "billing"),
        ("prime: failed to delete sandbox sb_9: HTTP 500", "sandbox-undeleted", "Sandbox sb_9 was not ended"),
        ("Failed to kill openyuanrong sandbox s-3: gone", "sandbox-undeleted", "Sandbox s-3 was not ended"),
    ],
)
def test_limits_and_sandboxes_that_stay_are_told(line: str, code: str, words: str) -> None:
    _, remarks = heard("Created sandbox a", line)
    assert [remark.code for remark in remarks] == [code]
    assert words in remarks[0].detail


def test_a_storm_of_starts_is_few_records_and_bounded_memory() -> None:
    parser, records = Sandboxes(), 0
    for number in range(KNOWN_MAX + 10_000):
        line = Line(f"Created sandbox s{number}", number + 1, time_s=number / 100.0)
        records += len(list(parser.feed(line)))
    (last,) = parser.flush()
    assert records <= (KNOWN_MAX + 10_000) / 100.0 / APART_S + 2
    assert isinstance(last, Record)
    assert last.values["sandboxes_started_total"] == KNOWN_MAX + 10_000


def seen(tmp_path: Path, *lines: str, others: Sequence[Sequence[str]] = ()) -> Snapshot:
    """What is known of a job with one log of these lines, and further ones of other workers."""
    steps = tmp_path / "metrics.jsonl"
    steps.write_text('{"step": 7, "time/step": 100.0, "time/wait_for_batch": 20.0, "dispatcher/inflight/train": 30}\n')
    feeds = [Source(Tail(str(steps), ()))]
    for rank, said in enumerate([lines, *others]):
        log = tmp_path / f"rank-{rank}.log"
        log.write_text("\n".join(said) + "\n")
        feeds.append(Source(Tail(str(log), formats_of((NEUTRAL,)))))
    plant = LivePlant(feeds)
    try:
        return plant.observe(1.9e9).snapshot
    finally:
        plant.close()


def test_processes_that_share_a_log_add_up_to_one_job_that_leaks(tmp_path: Path) -> None:
    starts = [
        f"\x1b[36m(EnvWorker pid={10 + number % 2})\x1b[0m 2026-11-30 10:00:{number % 60:02d} Created sandbox s{number}"
        for number in range(60)
    ]
    shown = seen(tmp_path, *starts, "2026-11-30 10:01:10 Deleted sandbox s0", "2026-11-30 10:02:00 Created sandbox s99")
    assert shown.engine_rows[-1].values["sandbox_active"] == 60.0
    assert shown.get("sandbox_fail_frac") == 0.0
    assert "30 are held by nobody" in {note.code: note.detail for note in shown.notes}["sandbox-leak"]


def at(second: int, text: str) -> str:
    return f"2026-11-30 10:{second // 60:02d}:{second % 60:02d} {text}"


WORKER_A = [
    *(at(s, f"Created sandbox a{s}") for s in range(40)),
    at(60, "SandboxError: prime sandbox provisioning failed: timed out"),
    at(70, "Deleted sandbox a0"),
]
WORKER_B = [*(at(s, f"Created sandbox b{s}") for s in range(20)), at(80, "Deleted sandbox b1")]


def test_workers_with_a_log_each_add_up_to_one_job_that_leaks(tmp_path: Path) -> None:
    shown = seen(tmp_path, *WORKER_A, others=[WORKER_B])
    newest = shown.engine_rows[-1].values
    assert newest["sandbox_active"] == 40 - 1 + 20 - 1
    assert newest["sandbox_fail_frac"] == pytest.approx(1 / 61)
    assert "28 are held by nobody" in {note.code: note.detail for note in shown.notes}["sandbox-leak"]


def test_a_worker_that_tells_no_ends_leaves_the_number_alive_unknown(tmp_path: Path) -> None:
    shown = seen(tmp_path, *WORKER_A, others=[[*WORKER_B[:-1], at(80, "Created sandbox b20")]])
    assert "sandbox_active" not in shown.engine_rows[-1].values
    assert shown.engine_rows[-1].values["sandbox_fail_frac"] == pytest.approx(1 / 62)


def test_a_worker_that_is_heard_late_is_never_left_out_of_a_sum(tmp_path: Path) -> None:
    late = [at(300 + s, f"Created sandbox c{s}") for s in range(5)]
    shown = seen(tmp_path, *WORKER_A, others=[WORKER_B, [*late, at(400, "Deleted sandbox c0")]])
    alive = [row.values["sandbox_active"] for row in shown.engine_rows if "sandbox_active" in row.values]
    assert alive == [62.0]


OWN_COUNT = {"sandboxes_started_total": 500.0, "sandboxes_ended_total": 460.0}


@pytest.mark.parametrize(("own", "alive"), [({}, {58.0}), (OWN_COUNT, {40.0})])
def test_beside_a_trainer_of_our_own_names_workers_add_up_and_a_count_of_all_is_not_added_to(
    tmp_path: Path, own: dict[str, float], alive: set[float]
) -> None:
    steps = [{"step": step, "step_s": 100.0, "inflight_rollouts": 30} | own for step in range(5)]
    (tmp_path / "steps.jsonl").write_text("\n".join(map(json.dumps, steps)) + "\n")
    feeds = [Source(Tail(str(tmp_path / "steps.jsonl"), ()))]
    for name, lines in (("a", WORKER_A), ("b", WORKER_B)):
        (tmp_path / f"{name}.log").write_text("\n".join(lines) + "\n")
        feeds.append(Source(Tail(str(tmp_path / f"{name}.log"), formats_of((NEUTRAL,)))))
    plant = LivePlant(feeds)
    try:
        shown = plant.observe(1.9e9).snapshot
    finally:
        plant.close()
    told = [row.values["sandbox_active"] for row in (*shown.engine_rows, *shown.rows) if "sandbox_active" in row.values]
    assert alive <= set(told)
    assert max(told) <= 60.0
