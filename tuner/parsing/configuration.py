"""Configuration text to flat dicts: printed dicts, dotted argument lists, `Name(...)`, overrides, JSON, TOML and YAML.

Pure functions over text, for frameworks (blocks in console logs) and sources (files) alike. None of them raises.
One form of keys: nested keys are joined with dots as the framework wrote them; the keys of command-line flags have
underscores for dashes (`--rollout-batch-size 32` is `rollout_batch_size`, `--model.max-len` is `model.max_len`).
Secrets are dropped, NaN and infinite values become None, and a number too large for 64 bits becomes None.
"""

import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time

from tuner.parsing.python_repr import Plain, parse_atom, parse_call, parse_python_repr
from tuner.parsing.secret_keys import is_secret
from tuner.parsing.yaml_text import parse_yaml

__all__ = [
    "UNKNOWN",
    "flatten",
    "parse_block",
    "parse_call_repr",
    "parse_dotted_lines",
    "parse_json",
    "parse_overrides",
    "parse_python_repr",
    "parse_scalar",
    "parse_tokens",
    "parse_toml",
    "parse_yaml",
]

UNKNOWN = "\0"
"""Stands in a token where a shell variable could not be resolved: the entry is left out, an earlier value forgotten."""

MOST_ENTRIES = 50_000
"""A configuration with more entries is cut here."""

DEEPEST = 60
"""Levels of nesting that are followed."""

DOTTED_WIDTH = 40
"""Megatron fills name and dots to 48 columns; `waiting ... done` is no setting."""

DEEPEST_KEY = 100
"""Parts of one dotted TOML key. The reader's time grows with their square."""

LONGEST_CHARS = 4 << 20
"""Longer text is no configuration."""

_DOTTED = re.compile(r"(?:^|\s)([A-Za-z_][\w/-]*(?:\.[\w/-]+)*) (\.+)(?: (.*))?$")
_LONG_NAME = re.compile(r"^\s+([A-Za-z_]\w{46,}) () (\S.*)$")
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?$", re.DOTALL)
_OVERRIDE = re.compile(r"([+~]{0,2})([A-Za-z_][\w.@/-]*(?:\[\d+\][\w.]*)?)=(.*)$", re.DOTALL)
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][\d_]*)$")
_FLOAT = re.compile(r"[+-]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)$")
_DEEP_KEY = re.compile(rf"(?:[\w-]{{1,64}}\s{{0,8}}\.\s{{0,8}}){{{DEEPEST_KEY}}}")
_WORDS: dict[str, Plain] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    "~": None,
}


def flatten(mapping: object) -> dict[str, object]:
    """Flat dotted keys with plain values: a list of scalars stays a list, a list of mappings gets `key.0.name`."""
    flat: dict[str, object] = {}
    if isinstance(mapping, Mapping):
        _flatten_into(flat, "", mapping, 0, [MOST_ENTRIES])
    return flat


def parse_block(text: str) -> dict[str, object]:
    """Any block that a framework prints: a dict, `Name(...)`, dotted lines, JSON, TOML or YAML; {} where none fits.

    A first line like `Final config:` is skipped.
    """
    if not isinstance(text, str) or len(text) > LONGEST_CHARS:
        return {}
    body = text.strip()
    if "{" in body and ":" in body.partition("{")[0] and "\n" not in body.partition("{")[0].rstrip():
        body = body[body.index("{") :]
    if body.startswith(("{", "[")):
        flat = flatten(parse_json(body)[0]) or flatten(parse_python_repr(body))
        if flat:
            return flat
    dotted = parse_dotted_lines(body.splitlines())
    if dotted:
        return dotted
    if re.match(r"[A-Za-z_][\w.]*\(", body):
        return parse_call_repr(body)
    flat = flatten(parse_toml(body)[0])
    if flat:
        return flat
    documents, _ = parse_yaml(body)
    return _merged(flatten(document) for document in documents)


def parse_call_repr(text: str) -> dict[str, object]:
    """Keyword arguments of the first `Namespace(...)`, `GRPOConfig(...)` or the like, values quoted or not."""
    return flatten(parse_call(text))


def parse_dotted_lines(lines: Iterable[str]) -> dict[str, object]:
    """Megatron's and slime's list of arguments: `  rollout_batch_size ................ 32`. Other lines are skipped."""
    flat: dict[str, object] = {}
    for line in lines:
        found = _DOTTED.search(line) or _LONG_NAME.match(line)
        if found is None or len(flat) >= MOST_ENTRIES:
            continue
        name, dots, value = found.groups()
        if len(name) + len(dots) >= DOTTED_WIDTH:
            flat.update(flatten({name: parse_atom(value or "")}))
    return flat


def parse_overrides(text: str) -> dict[str, object]:
    """One command line or its tail: Hydra's `a.b=1`, `+a=b`, `++a=b`, and flags `--a-b c`, `--a=c`, `--switch`."""
    if not isinstance(text, str) or len(text) > LONGEST_CHARS:
        return {}
    joined = re.sub(r"\\\r?\n", " ", text)
    try:
        tokens = shlex.split(joined)
    except ValueError:
        tokens = joined.split()
    return parse_tokens(tokens)


def parse_tokens(tokens: Iterable[str]) -> dict[str, object]:
    """The same for words already split, as in `sys.argv` or W&B's `args`."""
    nested: dict[str, Plain] = {}
    flag: str | None = None
    given: list[str] = []

    def close() -> None:
        if flag is None or UNKNOWN in flag:
            return
        if UNKNOWN in "".join(given):
            nested.pop(flag, None)
        else:
            values = [parse_scalar(word) for word in given]
            nested[flag] = True if not values else values[0] if len(values) == 1 else values

    for token in tokens:
        found = _FLAG.match(token)
        override = None if found else _OVERRIDE.match(token)
        if found is None and override is None:
            given.append(token)
            continue
        close()
        flag, given = None, []
        if found is not None:
            flag = found.group(1).replace("-", "_")
            if found.group(2) is not None:
                given = [found.group(2)]
                close()
                flag = None
        elif override is not None and (UNKNOWN in token or "~" in override.group(1)):
            nested.pop(override.group(2), None)
        elif override is not None:
            nested[override.group(2)] = parse_scalar(override.group(3))
    close()
    return flatten(nested)


def parse_scalar(text: str, depth: int = 0) -> Plain:
    """A value as Hydra or argparse takes it: number, true or null, quoted text, `[a,b]`, `{a:1}`, else the text."""
    word = text.strip()
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.match(word) and len(word) < 25:
        return int(word)
    if _FLOAT.match(word):
        return float(word)
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        return word[1:-1]
    if word[:1] + word[-1:] in ("[]", "{}") and depth < 5:
        read = parse_python_repr(word)
        return word if read is None else read
    return word


def parse_json(text: str) -> tuple[object, str]:
    """(value, "") or (None, why it does not read, with the line)."""
    try:
        return json.loads(text), ""
    except json.JSONDecodeError as wrong:
        return None, f"line {wrong.lineno}: {wrong.msg}"
    except (ValueError, RecursionError) as wrong:
        return None, f"not JSON: {type(wrong).__name__}"


def has_deep_key(text: str) -> bool:
    """True for a key of so many parts (a.a.a...) that reading it takes minutes: the time grows with their square."""
    return _DEEP_KEY.search(text) is not None


def parse_toml(text: str) -> tuple[dict[str, object], str]:
    """(table, "") or ({}, why it does not read, with the line)."""
    if has_deep_key(text):
        return {}, f"a key of over {DEEPEST_KEY} parts"
    try:
        return tomllib.loads(text), ""
    except tomllib.TOMLDecodeError as wrong:
        return {}, str(wrong)
    except (ValueError, RecursionError, TypeError) as wrong:
        return {}, f"not TOML: {type(wrong).__name__}"


def _merged(flats: Iterable[dict[str, object]]) -> dict[str, object]:
    return {key: value for flat in flats for key, value in flat.items()}


def _flatten_into(flat: dict[str, object], key: str, value: object, depth: int, left: list[int]) -> None:
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _flatten_into(flat, f"{key}.{name}" if key else str(name), inner, depth + 1, left)
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for place, inner in enumerate(value):
            _flatten_into(flat, f"{key}.{place}", inner, depth + 1, left)
    else:
        plain = _plain(value, depth, left)
        if key and not is_secret(key, plain):
            flat[key] = plain


def _plain(value: object, depth: int, left: list[int]) -> Plain:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset):
        left[0] -= len(value)
        if left[0] < 0 or depth > DEEPEST:
            return None
        return [_plain(item, depth + 1, left) for item in value]
    if isinstance(value, Mapping):
        left[0] -= len(value)
        if left[0] < 0 or depth > DEEPEST:
            return None
        plain = {str(name): _plain(inner, depth + 1, left) for name, inner in value.items()}
        return {name: inner for name, inner in plain.items() if not is_secret(name, inner)}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None
