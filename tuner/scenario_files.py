"""Scenario files: TOML in, a frozen Scenario out. Every refusal names file, line, key, value and remedy."""

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

import simulators
from simulators.drift import number_at, with_number
from simulators.event_state import Job
from simulators.faults import Fault
from simulators.fields import LARGEST, range_of
from simulators.plant import Setpoints
from simulators.scenario import REAL, SWITCHES, Scenario, with_knob
from simulators.scenario_faults import faults_of
from tuner.errors import ConfigError
from tuner.parsing.configuration import DEEPEST_KEY, has_deep_key

SHIPPED = Path(simulators.__file__).parent / "scenarios"
"""The scenarios that come with the package."""
SCHEMA_FILE = SHIPPED / "scenario.schema.json"
LARGEST_BYTES = 1 << 20
"""A scenario holds some hundred lines."""

ADAPTER = TypeAdapter(Scenario)


@dataclass(frozen=True, slots=True)
class Named:
    """A scenario and where it is from."""

    name: str
    """The file's name without its ending."""
    path: str
    """As it was given; of a shipped one only its place in the package."""
    scenario: Scenario


def shipped() -> list[Path]:
    """The files that come with the package, by name."""
    return sorted(SHIPPED.glob("*.toml"))


def load(file_or_name: str) -> Named:
    """The scenario in a file, or the shipped one of that name. Raises ConfigError for anything that is none."""
    path = _found(file_or_name)
    shown = f"simulators/scenarios/{path.name}" if path.parent == SHIPPED else str(path)
    return Named(path.stem, shown, parse(_read(path), shown))


def text_of(file_or_name: str) -> str:
    """The text of a scenario that can be read."""
    return _read(_found(file_or_name))


def _found(file_or_name: str) -> Path:
    by_name = {path.stem: path for path in shipped()}
    path = Path(file_or_name)
    if not path.exists() and file_or_name in by_name:
        return by_name[file_or_name]
    if not path.exists() or path.is_dir():
        raise ConfigError(f"scenario {file_or_name!r}: {_not_there(path, by_name)}")
    return path


def _not_there(path: Path, names: Iterable[str]) -> str:
    near = get_close_matches(path.stem, list(names), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    kind = "is a folder" if path.is_dir() else "no such file, and no shipped scenario of that name"
    return f"{kind}; {hint}`equipoise simulate --list` names those that come with it"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise ConfigError(f"{path}: over {LARGEST_BYTES >> 20} MiB: no scenario file; docs/scenarios.md shows one")
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text: a scenario is TOML; docs/scenarios.md shows one") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the scenario ({error.strerror}); check its permissions") from None


def parse(text: str, place: str) -> Scenario:
    """The scenario that a text states. `place` is the file's name for messages."""
    if has_deep_key(text):
        raise ConfigError(f"{place}: no scenario: a key of over {DEEPEST_KEY} parts")
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{place}: not valid TOML: {error}. Strings need quotes, sections [brackets].") from None
    except ValueError as error:
        # An integer of thousands of digits.
        raise ConfigError(f"{place}: not valid TOML: {error}; write a smaller number") from None
    try:
        scenario = ADAPTER.validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        unknown_first = sorted(error.errors(), key=lambda e: e["type"] != "unexpected_keyword_argument")
        raise ConfigError(_explain(unknown_first[0], place, text)) from None
    _refuse(faults_of(scenario), place, text)
    return scenario


def _refuse(faults: Sequence[Fault], place: str, text: str) -> None:
    if not faults:
        return
    first, more = faults[0], f" ({len(faults) - 1} more like it)" if len(faults) > 1 else ""
    value = "" if first.value is None else f"={_shown(first.value)}"
    raise ConfigError(f"{_at(place, text, first.key.split('.'))}: {first.key}{value} {first.why}{more}")


def with_settings(scenario: Scenario, settings: Iterable[str]) -> Scenario:
    """The scenario with `knob=value` (or `workload.response.mean_tokens=9000`) in place of what the file says."""
    for setting in settings:
        key, _, text = setting.partition("=")
        scenario = _with_setting(scenario, setting, key.strip(), text.strip())
    faults = faults_of(scenario)
    if faults:
        value = "" if faults[0].value is None else f"={_shown(faults[0].value)}"
        raise ConfigError(f"--set: {faults[0].key}{value} {faults[0].why}")
    return scenario


def _with_setting(scenario: Scenario, setting: str, key: str, text: str) -> Scenario:
    if "." not in key:
        knobs = [f.name for f in fields(Setpoints)]
        if key not in knobs:
            raise ConfigError(f"--set {setting}: {key!r} is no knob; {_meant(key, knobs)}")
        value = _number(setting, key, text, whole=key not in REAL)
        return replace(scenario, setpoints=with_knob(scenario.setpoints, key, value))
    job = Job(scenario.topology, scenario.stations, scenario.workload, scenario.setpoints)
    if not key.startswith(("workload.", "stations.", "topology.")):
        raise ConfigError(f"--set {setting}: a path starts with workload., stations. or topology.; a knob has no dot")
    try:
        known = number_at(job, key)
    except ValueError as error:
        raise ConfigError(f"--set {setting}: {error}") from None
    if known is None:
        raise ConfigError(f"--set {setting}: {key} is no number in this scenario; set it in the file")
    value = _number(setting, key, text, whole=False)
    changed = with_number(job, key, value)
    if number_at(changed, key) != value:
        raise ConfigError(f"--set {setting}: {key} is a count: write a whole number")
    return replace(scenario, topology=changed.topology, stations=changed.stations, workload=changed.workload)


def _number(setting: str, key: str, text: str, *, whole: bool) -> float:
    words = {"true": 1.0, "on": 1.0, "false": 0.0, "off": 0.0}
    if key in SWITCHES and text.lower() in words:
        return words[text.lower()]
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    low, high = range_of(key.rpartition(".")[2])
    broken = whole and value % 1.0 != 0.0
    if not low <= value <= high or broken or (key in SWITCHES and value not in (0.0, 1.0)):
        number = "a whole number" if whole else "a number"
        limits = f"of at least {low:g}" if high == LARGEST else f"between {low:g} and {high:g}"
        kind = "on or off" if key in SWITCHES else f"{number} {limits}"
        raise ConfigError(f"--set {setting}: write {key}=VALUE, where VALUE is {kind}")
    return value


def _explain(error: ErrorDetails, place: str, text: str) -> str:
    parts = [str(part) for part in error["loc"]]
    key, where = ".".join(parts), _at(place, text, parts)
    if error["type"] == "unexpected_keyword_argument":
        known = list(_node(parts[:-1]).get("properties", {}))
        return f"{where}: unknown key {key}; {_meant(parts[-1], known)}"
    about = " ".join(str(_node(parts).get("description", "")).split())
    if error["type"] == "missing":
        return f"{where}: {key} is missing{f'; it is: {about}' if about else ''}"
    reason = error["msg"].removeprefix("Input ").replace("an object", "a [section]").replace("a valid array", "a list")
    return f"{where}: {key}={_shown(error['input'])} {reason}{f'. It is: {about}' if about else ''}"


def _shown(value: object) -> str:
    """A value as a file states it, cut where it is long."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) < 80 else f"{text[:76]}..."


def _meant(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"


def _node(parts: Iterable[str]) -> dict[str, Any]:
    """The part of the schema that speaks of a path; empty where none does."""
    schema = schema_of()
    node: dict[str, Any] = schema
    for part in parts:
        outer = _resolved(schema, node)
        inner = outer.get("items", {}) if part.isdecimal() else outer.get("properties", {}).get(part, {})
        node = inner if isinstance(inner, dict) else {}
    return {**_resolved(schema, node), **{k: v for k, v in node.items() if k == "description"}}


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    name = str(node.get("$ref", "")).rpartition("/")[2]
    found: dict[str, Any] = schema["$defs"][name] if name else node
    return found


def _at(place: str, text: str, parts: Sequence[str]) -> str:
    line = line_of(text, parts)
    return f"{place}:{line}" if line else place


def line_of(text: str, parts: Sequence[str]) -> int | None:
    """The line that comes nearest to setting a key: its own, else its table's.

    >>> line_of("title = 1\\n[workload.prompt]\\nmean_tokens = 0", ["workload", "prompt", "mean_tokens"])
    3
    """
    header: list[str] = []
    counts: dict[str, int] = {}
    best, found = 0, None
    for number, line in enumerate(text.splitlines(), start=1):
        title = re.match(r"\s*(\[{1,2})\s*([\w.\"-]+)\s*\]", line)
        setting = re.match(r"\s*([\w.\"-]+)\s*=", line)
        if title:
            header = title[2].replace('"', "").split(".")
            if title[1] == "[[":
                counts[title[2]] = counts.get(title[2], -1) + 1
                header = [*header, str(counts[title[2]])]
            here = header
        elif setting:
            here = [*header, *setting[1].replace('"', "").split(".")]
        else:
            continue
        if len(here) > best and list(parts[: len(here)]) == here:
            best, found = len(here), number
    return found


def schema_of() -> dict[str, Any]:
    """The JSON Schema of a scenario file, with the legal range of every number."""
    schema = _plain(ADAPTER.json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Equipoise scenario"}


def _plain(node: Any, name: str = "") -> Any:
    """Without pydantic's titles and nulls (TOML has none), with ranges by name."""
    if isinstance(node, list):
        return [_plain(inner, name) for inner in node]
    if not isinstance(node, dict):
        return node
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            node = {**options[0], **{k: v for k, v in node.items() if k != "anyOf"}}
    kept = {k: v for k, v in node.items() if k != "title" or isinstance(v, dict)}
    kept = {k: v for k, v in kept.items() if not (k == "default" and v is None)}
    if node.get("type") in ("number", "integer") and name and not name.isupper():
        low, high = range_of(name)
        kept |= {"minimum": int(low) if low == int(low) else low}
        kept |= {"maximum": 1} if high == 1.0 else {}
    return {
        key: {n: _plain(inner, n) for n, inner in value.items()}
        if key in ("properties", "$defs")
        else _plain(value, name)
        for key, value in kept.items()
    }


def schema_json() -> str:
    return json.dumps(schema_of(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_json())
