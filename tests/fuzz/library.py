"""The library path that the fuzzer drives, in one place: files in, the JSON answer out, and the schema it must keep."""

import json
from collections.abc import Sequence
from pathlib import Path

from simulators.plant import Bounds
from tuner.answers.advise import SCHEMA_FILE, to_json
from tuner.commands.base import Ask, material_of, read
from tuner.frameworks.registry import FRAMEWORKS
from tuner.report.answer import build
from tuner.report.html import render as page
from tuner.report.text import Screen
from tuner.report.text import render as screen


def answer_json(paths: Sequence[Path], framework: str | None) -> str:
    """What `equipoise advise PATHS --framework FRAMEWORK --json` would print; text and page are made too."""
    reading, _ = read(Ask(tuple(map(str, paths)), framework or "auto"))
    material = material_of(reading, Bounds(), usd_per_gpu_hour=None)
    answer = build(material)
    screen(answer, Screen(), material.advice.diagnosis.budget)
    page(answer, material)
    return to_json(answer)


def schema() -> dict[str, object]:
    """The JSON Schema that the package ships for that answer."""
    loaded: dict[str, object] = json.loads(SCHEMA_FILE.read_text())
    return loaded


def framework_names() -> tuple[str, ...]:
    return tuple(sorted(framework.name for framework in FRAMEWORKS))
