"""`equipoise status`: what a running daemon sees, does and waits for, on one screen."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner.client import daemon_of
from tuner.report.decided import ago, changes


def run(job: Path | None, url: str | None, *, as_json: bool) -> None:
    told = daemon_of((job, url, None)).get("/api/v1/status")
    sys.stdout.write(json.dumps(told, indent=2) + "\n" if as_json else "\n".join(lines(told)) + "\n")


def lines(told: dict[str, Any]) -> Iterator[str]:
    """The screen."""
    if told.get("last_tick") is None:
        yield f"{told['job']}: no look at the job yet"
        return
    yield f"{told['job']}: {told['headline']}"
    yield f"mode {told['mode']}, last tick {ago(told['age_s'])} ago, {told['period_s']:g} s between two"
    yield from (f"TROUBLE: {trouble}" for trouble in told["troubles"])
    for name, key in (("in force", "in_force"), ("goal", "target"), ("wanted", "desired")):
        if told[key]:
            yield f"{name}: {changes(told[key])}"
    decision = told["decision"]
    code = f" ({decision['code']})" if decision["code"] else ""
    yield f"decided: {decision['id']} {decision['action']}{code}: {decision['reason']}"
    if told["move"]:
        move = told["move"]
        yield f"moving: {move['id']}, {move['stage']}, leg {move['leg']} of {move['legs']}: {changes(move['goal'])}"
    if told["asked"] and not told["asked"]["approved"]:
        asked = told["asked"]
        yield f"WAITS FOR YOU until {asked['expires']}: {changes(asked['changes'])}: {asked['reason']}"
        yield f"  equipoise approve {asked['id']}"
    yield from (f"paused: {p['knob'] or 'everything'}, by {p['author'] or 'somebody'}" for p in told["pauses"])
    yield from (f"frozen until {f['until']}: {f['knob']}: {f['reason']}" for f in told["freezes"])
    if told["alarm"]:
        yield f"alarm: {told['alarm']}"
