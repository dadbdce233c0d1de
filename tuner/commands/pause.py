"""`equipoise pause`: a running daemon leaves one knob, or all, alone until it is told to resume."""

import sys

from tuner.client import Where, daemon_of


def run(knob: str | None, direction: str | None, where: Where) -> None:
    daemon_of(where).post("/api/v1/pause", {"knob": knob, "direction": direction, "author": "cli"})
    way = f", {direction}wards" if direction else ""
    sys.stdout.write(f"paused from the next tick on: {knob or 'every knob'}{way}; `equipoise resume` goes on\n")
