"""The library path that the fuzzer drives, in one place: files in, the JSON answer out, and the schema it must keep."""

from collections.abc import Sequence
from pathlib import Path

from tuner.answers import answer_schema
from tuner.commands.advise import answer_for
from tuner.frameworks.registry import FRAMEWORKS


def answer_json(paths: Sequence[Path], framework: str | None) -> str:
    """What `equipoise advise PATHS --framework FRAMEWORK --json` would print."""
    return answer_for([str(path) for path in paths], framework=framework).model_dump_json()


def schema() -> dict[str, object]:
    """The JSON Schema that the package ships for that answer."""
    return answer_schema()


def framework_names() -> tuple[str, ...]:
    return tuple(sorted(FRAMEWORKS))
