"""What a run of the live job came to, in words: its speed by thirds, every move with what it promised and gave."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

from policies.base import Interval
from policies.control import Action, Decision
from policies.settings import values
from tuner.journal import Entry, viewed

THIRDS = ("first", "second", "last")
SHOWN = ("resp_len_mean", "turns_mean", "prompt_len_mean", "reward_mean", "staleness_mean", "weight_sync_s")


def steps_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]


def rate(steps: Sequence[dict[str, Any]]) -> float:
    """Trained rollouts per second of wall time."""
    seconds = sum(step["step_s"] for step in steps)
    return float(sum(step["batch_rollouts"] for step in steps)) / seconds if seconds > 0.0 else 0.0


def told(folder: Path) -> str:
    return "\n".join([*_run(steps_of(folder)), "", *_moves(folder / "equipoise.journal"), "", f"records: {folder}"])


def _run(steps: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield f"{len(steps)} steps, {rate(steps):.2f} trained rollouts/s over the whole run"
    size = max(1, len(steps) // 3)
    for i, name in enumerate(THIRDS):
        part = steps[i * size : (i + 1) * size if i < 2 else None]
        if not part:
            continue
        seconds = sum(step["step_s"] for step in part)
        waits = sum(step["trainer_wait_s"] for step in part) / seconds
        gated = sum(step["generator_wait_s"] for step in part) / seconds
        dispatched = sum(step["dispatched"] for step in part) or 1.0
        lost = sum(step["filtered_zero_adv"] for step in part) / dispatched
        means = ", ".join(f"{key} {fmean(step[key] for step in part):.3g}" for key in SHOWN)
        yield f"  {name:6} third: {rate(part):.2f}/s, trainer waits {waits:.0%}, generator gated {gated:.0%}"
        yield f"               {lost:.0%} filtered, {means}"


def _moves(journal: Path) -> Iterator[str]:
    with closing(viewed(journal)) as book:
        entries = list(book.entries())
    if not entries:
        yield "the controller wrote no tick"
        return
    begun: dict[str, tuple[float, Decision]] = {}
    ended = {e.decision.outcome.decision_id: e.decision.outcome for e in entries if e.decision.outcome is not None}
    for entry in entries:
        if entry.decision.action is Action.APPLY and entry.decision.changes is not None:
            begun.setdefault(entry.decision.decision_id.split(".")[0], (entry.at_s, entry.decision))
    yield f"{len(entries)} ticks, {len(begun)} moves"
    for ident, (at_s, decision) in begun.items():
        outcome = ended.get(ident)
        changes = (
            " ".join(f"{name}={value}" for name, value in values(decision.changes).items()) if decision.changes else ""
        )
        yield f"  at {at_s - entries[0].at_s:4.0f} s {ident}: {changes}"
        yield f"      {decision.reason}"
        verdict = "not judged yet" if outcome is None else outcome.verdict
        realised = None if outcome is None else outcome.realised
        yield f"      predicted {in_words(decision.gain_frac)}, realised {in_words(realised)}: {verdict}"
    yield from _holds(entries)


def _holds(entries: Sequence[Entry]) -> Iterator[str]:
    """Why the other ticks moved nothing, the most frequent first."""
    codes: dict[str, int] = {}
    for entry in entries:
        if entry.decision.code is not None:
            codes[entry.decision.code.value] = codes.get(entry.decision.code.value, 0) + 1
    yield "held: " + ", ".join(f"{code} {count}" for code, count in sorted(codes.items(), key=lambda p: -p[1]))
    yield f"last word: {entries[-1].decision.reason}"


def in_words(gain: Interval | None) -> str:
    return "unknown" if gain is None else f"{gain.mean:+.1%} ({gain.low:+.1%}..{gain.high:+.1%})"
