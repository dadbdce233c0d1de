"""Knows a configuration file by its name and first bytes, and reads it in the syntax that fits."""

import json
import re
from collections.abc import Iterable, Iterator

from tuner.parsing.configuration import flatten, parse_block, parse_json, parse_tokens, parse_toml, parse_yaml
from tuner.records import Configuration, Item, Remark
from tuner.sources.base import Format, Opened
from tuner.sources.configuration.launch import launches, looks_like_launch

LARGEST_BYTES = 4 << 20
"""A resolved configuration is some 30 kB; a larger file is none."""

YAML_NAMES = (".yaml", ".yml")
SCRIPT_NAMES = (".sh", ".bash", ".slurm", ".sbatch", ".args")
OTHER_WRITERS = (".log", ".out", ".err", ".jsonl", ".csv", ".tsv", ".prom", ".html", ".md", ".py", ".wandb", ".ipynb")
"""Ends of names that other sources or nobody reads: never claimed by content."""

_YAML_KEY = re.compile(r"^(?:[\w.\"'/-]+\s*:(?:\s|$)|- \S)", re.MULTILINE)
_TOML_TABLE = re.compile(r"\A\s*(?:#.*\n\s*|[\w.\"-]+\s*=.*\n\s*)*\[{1,2}[\w.\"-]+\]{1,2}[ \t]*(?:#.*)?\n\s*[\w\"#\[]")
_TOML_LINE = re.compile(r"^\s*[\w.\"-]+\s*=\s*\S", re.MULTILINE)
_METRIC_KEY = re.compile(r'"[^"/\n]*/[^"\n]*"\s*:\s*-?(?:\d|NaN|Infinity)')
_OTHER_JSON = re.compile(r'"(?:log_history|_step|_runtime|_timestamp|best_global_step|resultType|panels)"\s*:')
_FEW_NUMBERS = 0.8
"""Share of numbers among a flat object's values above which it is a table of results, not of settings."""


def claims(name: str, head: bytes) -> float:
    """High for configuration names with fitting content; low and by content only where the name says nothing."""
    lower = name.lower().rpartition("/")[2]
    if b"\0" in head[:4096] and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return 0.0
    text = _decoded(head)
    if not text.strip() or lower.endswith(OTHER_WRITERS):
        return 0.0
    if lower.endswith(YAML_NAMES):
        return 0.9 if _YAML_KEY.search(text) else 0.2
    if lower.endswith(".toml"):
        return 0.95 if _TOML_LINE.search(text) or _TOML_TABLE.match(text) else 0.2
    if lower.endswith(SCRIPT_NAMES):
        return 0.9 if looks_like_launch(text) else 0.3
    if text.lstrip().startswith("{"):
        return _json_claim(text, named=lower.endswith(".json"))
    if lower.endswith(".json"):
        return 0.0
    if _TOML_TABLE.match(text):
        return 0.6
    return 0.6 if looks_like_launch(text, alone=True) else 0.0


def _json_claim(text: str, named: bool) -> float:
    """Settings, not metrics: no number under a key with a slash, not a flat table of numbers, one object only."""
    if _OTHER_JSON.search(text):
        return 0.0
    value, _ = parse_json(text)
    if value is None:
        if _METRIC_KEY.search(text):
            return 0.0
        try:
            _, end = json.JSONDecoder().raw_decode(text.lstrip())
        except (ValueError, RecursionError):
            # Cut at the end of the head, or broken: only a name can tell.
            return 0.6 if named else 0.0
        return 0.0 if text.lstrip()[end:].strip() else 0.6
    if not isinstance(value, dict) or not value:
        return 0.0
    if sum(isinstance(item, float) or type(item) is int for item in value.values()) > _FEW_NUMBERS * len(value):
        return 0.0
    if _holds_metrics(value) or any(isinstance(inner, dict) and _holds_metrics(inner) for inner in value.values()):
        return 0.0
    return 0.8 if named else 0.5


def _holds_metrics(table: dict[str, object]) -> bool:
    numbers = [key for key, item in table.items() if isinstance(item, float) or type(item) is int]
    return any("/" in key for key in numbers)


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    """One configuration, or one per launched command; a remark with the line where the file does not read."""
    content = opened.stream.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        yield Remark(
            "large-file",
            f"over {LARGEST_BYTES:,} bytes: no resolved configuration; give the file the framework saved",
            opened.origin,
        )
        return
    text = _decoded(content).replace("\0", "\ufffd")
    if not text.strip():
        yield Remark("empty-file", "nothing in this configuration file", opened.origin)
        return
    lower = opened.origin.lower()
    if lower.endswith(SCRIPT_NAMES) or (
        not lower.endswith((*YAML_NAMES, ".toml", ".json")) and looks_like_launch(text)
    ):
        yield from launches(text, opened.origin)
        return
    values, why = _document(lower, text)
    if values:
        yield Configuration(values, origin=opened.origin)
    else:
        yield Remark("unreadable-configuration", f"{why or 'no setting found'}; the file is left out", opened.origin)


def _document(lower: str, text: str) -> tuple[dict[str, object], str]:
    """(flat values, why there are none) in the syntax of the file's name, or whichever syntax fits."""
    if lower.endswith(".toml"):
        table, why = parse_toml(text)
        return flatten(table), why
    if lower.endswith(".json"):
        value, why = parse_json(text)
        return _settings(value), why
    if lower.endswith(YAML_NAMES):
        documents, why = parse_yaml(text)
        merged: dict[str, object] = {}
        for document in documents:
            merged.update(_settings(document))
        return merged, why
    return parse_block(text), "neither JSON, TOML, YAML, printed dict nor argument list"


def _settings(document: object) -> dict[str, object]:
    """A mapping's values; a list of texts is a list of overrides, as in Hydra's overrides.yaml."""
    if isinstance(document, list):
        return parse_tokens(item for item in document if isinstance(item, str))
    return flatten(document)


def _decoded(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "replace")
