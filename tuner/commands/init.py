"""`equipoise init`: a first job file from what the sources show; what they do not show is commented out."""

import json
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ValidationError

from tuner.answers.advise import printable
from tuner.commands.base import Ask, read
from tuner.config.sections import REPEATED, SECTIONS
from tuner.ingest import Reading

EMPTY: tuple[object, ...] = (None, (), [], "unknown")
"""Values that state nothing."""

ABOUT = """\
# A job file of Equipoise, made from what the sources show.
# Lines that start with "# key =" are unknown or yours to decide: the text above each says where to find the value.
# Use it: equipoise advise --job job.toml
"""


def run(ask: Ask) -> None:
    """Prints the job file."""
    reading, _ = read(ask)
    sys.stdout.write(job_file(known_values(reading)))


def known_values(reading: Reading) -> dict[str, list[dict[str, Any]]]:
    """What a reading knows, by section; `source` may hold several tables."""
    topology = asdict(reading.topology)
    if not topology["batch_must_divide"]:
        topology["batch_must_divide"] = None
    sources = [{"path": s.path, "kind": s.kind, "framework": s.framework} for s in reading.sources]
    return {
        "job": [{"framework": reading.framework}],
        "topology": [topology | {"framework": None}],
        "setpoints": [asdict(reading.setpoints)],
        "source": sources,
    }


def job_file(known: Mapping[str, list[dict[str, Any]]]) -> str:
    """The TOML text: every key of every section, documented; known ones set, the rest commented out with an example."""
    blocks = [ABOUT]
    for name, model in SECTIONS.items():
        several = name in REPEATED
        for values in known.get(name) or [{}]:
            commented, values = several and not values, acceptable(model, values)
            title = f"[[{name}]]" if several else f"[{name}]"
            lines = [f"# {title}" if commented else title, *_about(model.__doc__ or "")]
            lines += _keys(model, values)
            blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def acceptable(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a job file may state: a source can claim what is impossible, and that must not go in."""
    taken: dict[str, Any] = {
        name: values[name] for name, field in model.model_fields.items() if field.is_required() and name in values
    }
    for name in model.model_fields:
        value = values.get(name)
        if value in EMPTY:
            continue
        try:
            model(**(taken | {name: value}))
        except ValidationError:
            continue
        taken[name] = value
    return taken


def _keys(model: type[BaseModel], values: Mapping[str, Any]) -> Iterable[str]:
    for key, field in model.model_fields.items():
        yield from _about(field.description or "")
        value = values.get(key)
        if value in EMPTY:
            yield f"# {key} = {_toml((field.examples or [None])[0])}"
        else:
            yield f"{key} = {_toml(value)}"


def _about(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), 110)]


def _toml(value: object) -> str:
    """A TOML value; JSON's strings, numbers, booleans and lists are TOML's."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + "}"
    return json.dumps(list(value) if isinstance(value, tuple) else printable(value), ensure_ascii=False)
