"""The library path that the fuzzer drives, in one place: files in, the JSON answer out, and the schema it must keep."""

import json
from collections.abc import Sequence
from pathlib import Path

from tuner.answers import SCHEMA_FILE, to_json
from tuner.commands.advise import answer_for
from tuner.frameworks.registry import FRAMEWORKS


def answer_json(paths: Sequence[Path], framework: str | None) -> str:
    """What `equipoise advise PATHS --framework FRAMEWORK --json` would print."""
    return to_json(answer_for([str(path) for path in paths], framework=framework))


def schema() -> dict[str, object]:
    """The JSON Schema that the package ships for that answer."""
    loaded: dict[str, object] = json.loads(SCHEMA_FILE.read_text())
    return loaded


def framework_names() -> tuple[str, ...]:
    return tuple(sorted(FRAMEWORKS))
