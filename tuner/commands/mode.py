"""`equipoise mode`: how far a running daemon goes by itself, from the next tick on."""

import sys

from policies.commands import ControlMode
from tuner.client import Where, daemon_of
from tuner.errors import ConfigError


def run(mode: str, where: Where) -> None:
    if mode not in tuple(ControlMode):
        raise ConfigError(f"mode {mode}: there are {', '.join(ControlMode)}")
    daemon_of(where).post("/api/v1/mode", {"mode": mode, "author": "cli"})
    sys.stdout.write(f"mode {mode} from the next tick on; it outlives a restart that asks for no other\n")
