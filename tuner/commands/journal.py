"""`equipoise journal export`: a daemon's journal as JSON lines or CSV, one a tick; also while the daemon runs."""

import sys
from pathlib import Path

from tuner.errors import ConfigError
from tuner.journal import viewed


def run(action: str, path: Path, kind: str) -> None:
    if action != "export":
        raise ConfigError(f"journal {action}: there is `journal export JOURNAL --format jsonl|csv`")
    journal = viewed(path)
    try:
        sys.stdout.writelines(f"{line}\n" for line in journal.export(kind))
    finally:
        journal.close()
