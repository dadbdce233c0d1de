"""Settings written into configuration text: only what is ordered changes, comments and order stay, or it is refused."""

import io
import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import tomlkit
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from tomlkit.exceptions import TOMLKitError

from tuner.actuators.dialect import Written, flat
from tuner.errors import ActuationError
from tuner.parsing.configuration import flatten, parse_block, parse_json, parse_overrides, parse_toml, parse_yaml

STYLES = ("hydra", "arguments", "toml", "yaml")
SUFFIXES: Mapping[str, str] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
"""The files whose syntax their name tells."""
INDENTS = ((2, 2, 0), (2, 4, 2), (4, 4, 0), (4, 6, 4), (4, 4, 2), (2, 3, 1))
"""How people indent YAML: mappings, sequences, dash. The one that gives back the text as it stands is kept."""


def settings_of(style: str, text: str) -> dict[str, object]:
    """The flat settings of a text; ActuationError where it does not read."""
    match style:
        case "toml":
            table, why = parse_toml(text)
            settings = flatten(table)
        case "yaml":
            documents, why = parse_yaml(text)
            why = why or ("several documents in one file" if len(documents) > 1 else "")
            settings = flatten(documents[0]) if documents else {}
        case "json":
            value, why = parse_json(text)
            settings = flatten(value)
        case "block":
            settings, why = parse_block(text) or parse_overrides(text), ""
        case _:
            settings, why = parse_overrides(text), ""
    if why:
        raise ActuationError(f"it does not read as {style}: {why}")
    return settings


def edited(style: str, text: str, settings: Sequence[Written]) -> str:
    """The text with these settings; read back, nothing else may have changed."""
    before = settings_of(style, text)
    after = {"toml": _toml, "yaml": _yaml, "hydra": _hydra, "arguments": _arguments}[style](text, settings)
    wanted = before | {flat(w.key): w.after for w in settings}
    if settings_of(style, after) != wanted:
        raise ActuationError("it could not be edited without changing more than was ordered")
    return after


def _hydra(text: str, settings: Sequence[Written]) -> str:
    """One `++key=value` a line, for the end of the command line: there the last wins, and a new key may be added."""
    lines = text.splitlines()
    for w in settings:
        lines = [line for line in lines if not re.match(rf"\s*\+{{0,2}}{re.escape(w.key)}=", line)]
        lines.append(f"++{w.key}={_word(w.after)}")
    return "".join(f"{line}\n" for line in lines)


def _arguments(text: str, settings: Sequence[Written]) -> str:
    """One `--key value` a line, for the end of the command line: there the last wins."""
    lines = text.splitlines()
    for w in settings:
        if isinstance(w.after, bool):
            raise ActuationError(f"{w.key} is a switch: a later argument cannot take it back")
        key = w.key if w.key.startswith("-") else f"--{w.key}"
        lines = [line for line in lines if not re.match(rf"\s*{re.escape(key)}(?:[\s=]|$)", line)]
        lines.append(f"{key} {_word(w.after)}")
    return "".join(f"{line}\n" for line in lines)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _toml(text: str, settings: Sequence[Written]) -> str:
    try:
        document = tomlkit.parse(text)
        for w in settings:
            _set(document, w, tomlkit.table)
        return tomlkit.dumps(document)
    except (TOMLKitError, ValueError, TypeError) as error:
        raise ActuationError(f"it does not edit as toml: {error}") from None


def _yaml(text: str, settings: Sequence[Written]) -> str:
    try:
        yaml = _indented_as(text)
        document = yaml.load(text)
        document = {} if document is None else document
        for w in settings:
            _set(document, w, dict)
        return _dumped(yaml, document)
    except (YAMLError, ValueError, TypeError, AttributeError) as error:
        raise ActuationError(f"it does not edit as yaml: {type(error).__name__}") from None


def _indented_as(text: str) -> YAML:
    """A writer that gives the text back as it stands, if there is one; the usual one else."""
    for indents in INDENTS:
        yaml = _writer(indents)
        if _dumped(yaml, yaml.load(text)) == text:
            return _writer(indents)
    return _writer(INDENTS[0])


def _writer(indents: tuple[int, int, int]) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 20
    yaml.indent(mapping=indents[0], sequence=indents[1], offset=indents[2])
    return yaml


def _dumped(yaml: YAML, document: Any) -> str:
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _set(document: MutableMapping[str, Any], written: Written, table: Any) -> None:
    """A dotted key: as it stands where it is written with its dots, else table by table."""
    key = flat(written.key)
    if key in document:
        document[key] = written.after
        return
    *path, last = key.split(".")
    place: Any = document
    for part in path:
        if part not in place:
            place[part] = table()
        place = place[part]
        if not isinstance(place, MutableMapping):
            raise ActuationError(f"{key} cannot be set: {part} holds no table")
    place[last] = written.after
