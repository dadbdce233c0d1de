"""`equipoise resume`: pauses, freezes and alarms of one knob, or of all, are over."""

import sys

from tuner.client import Where, daemon_of


def run(knob: str | None, where: Where) -> None:
    daemon_of(where).post("/api/v1/resume", {"knob": knob, "author": "cli"})
    sys.stdout.write(f"goes on from the next tick: {knob or 'every knob'}\n")
