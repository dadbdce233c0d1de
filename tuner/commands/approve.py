"""`equipoise approve`: yes to the move that a daemon asks for. It is checked once more before it begins."""

import sys

from tuner.client import Where, daemon_of


def run(ident: str, where: Where) -> None:
    daemon_of(where).post("/api/v1/approve", {"id": ident, "author": "cli"})
    sys.stdout.write(f"{ident} is approved; it begins at the next tick unless a guardrail holds it\n")
