"""docs/scenarios.md and the JSON Schema from the records' own documentation: `--write`; a docs test compares."""

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from simulators import drift, plant, scenario, stations, workload
from simulators.fields import LARGEST, range_of
from tools.markdown import table
from tuner.scenario_files import SCHEMA_FILE, load, schema_json, schema_of, shipped

ROOT = Path(__file__).resolve().parents[1]
"""The project's folder."""
PAGE = ROOT / "docs" / "scenarios.md"
"""The page that this tool owns."""
ROOMS = (drift, plant, scenario, stations, workload)
"""Where the words of a scenario file are defined."""

HEAD = """# Scenarios

Written by `make docs` from the records' own documentation; edit that. The words are in [concepts.md](concepts.md).

A scenario is a job and its story in one TOML file: facts and knobs, what rollouts are like, what serves them, what
drifts, what happens, what a change costs. `equipoise simulate --scenario FILE|NAME` runs it,
`equipoise simulate --list` names those that come with the package; copy the nearest one (`--show NAME` prints it).

- [Shipped scenarios](#shipped-scenarios). [A first file](#a-first-file). [How it is read](#how-it-is-read).
- [All keys](#all-keys), section by section. [Words](#words): what may stand where one of several words is asked for.
"""

FIRST = """## A first file

The least that can be simulated; everything else has a default or is not there:

```toml
# Eight GPUs, two for training: does the trainer keep up when answers double?
title = "Answers double within 40 steps"

[horizon]
steps = 60

[topology]
mode = "overlapped"
gpus_per_engine = 1

[setpoints]
gpus_trainer = 2
gpus_generator = 6
group_size = 8
batch_rollouts = 64

[workload]
prompt = { mean_tokens = 300 }
response = { mean_tokens = 1000, sigma = 0.7, max_tokens = 8192 }

[stations.engine]
slots = 32
step = { table = [[0, 0.010], [1, 0.0102]] }

[stations.trainer]
base_s = 2
gpu_s_per_token = 2e-4

[stations.admission]
plug = "wip-cap"
limit_groups = 24

[[drift]]
path = "workload.response.mean_tokens"
to = 2000
end = 40
```

## How it is read

- Unknown keys are refused, with the nearest known one. Every error names file, line, key, value and what to write
  instead.
- What is impossible is refused: a batch that is no multiple of the group, an engine larger than its pool, a trainer
  size that the topology does not allow, negative times, workloads that are empty or that no batch can be filled from.
  Drift and events are followed to where they lead.
- A knob that another key decides is refused where it says otherwise: GPUs of one side in a serial job,
  `in_flight_update` beside `stations.sync.mode`. Drift and events that would begin after the end of the run are told
  with its answer.
- GPUs that serve nothing (no multiple of an engine, or on neither side) are possible, and told with the answer.
- Absent is unknown or not there; it is never 0. Times are seconds, lengths tokens, shares from 0 to 1.
- An editor that reads JSON Schema finds it in `simulators/scenarios/scenario.schema.json`.
- `--set KNOB=VALUE` replaces a knob, `--set workload.response.mean_tokens=9000` a number, for one run.
- A scenario does not say how a policy behaves, nor anything of the machine that simulates it.
"""


def rendered() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_shipped(), FIRST, *_keys(), *_words()])


def _shipped() -> Iterator[str]:
    yield "## Shipped scenarios"
    yield ""
    yield "Each file opens with what it tells and where its numbers are from. *Outside*: the analytic model does not"
    yield "describe such a job, on purpose; results on these are reported apart."
    yield ""
    found = [load(str(path)) for path in shipped()]
    rows = [
        (
            f"`{n.name}`",
            str(n.scenario.topology.gpus_total or ""),
            n.scenario.title,
            "yes" if n.scenario.outside_class else "",
        )
        for n in found
    ]
    yield from table(("name", "GPUs", "what it tells", "outside"), rows)


def _keys() -> Iterator[str]:
    schema = schema_of()
    yield "## All keys"
    yield ""
    yield "*Needed* keys have no default; *none* means not there or not known. A table may be left out when none of"
    yield "its keys is needed, and also where its meaning says what its absence is."
    yield ""
    yield "### The file itself"
    yield ""
    yield from _record(schema, schema, "")
    yield from _sections(schema, schema, "")


def _sections(schema: dict[str, Any], node: dict[str, Any], path: str) -> Iterator[str]:
    """Every table below a node, depth first."""
    for name, prop in node["properties"].items():
        inner, several = _table_of(schema, prop)
        if inner is None:
            continue
        here = f"{path}.{name}" if path else name
        yield (
            f"### `[[{here}]]`" if several and not path else f"### `{here}` (a list)" if several else f"### `[{here}]`"
        )
        yield ""
        yield from _prose(inner.get("description", ""))
        yield from _record(schema, inner, here)
        yield from _sections(schema, inner, here)


def _table_of(schema: dict[str, Any], prop: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """The record that a property holds, and whether it holds several."""
    several = "items" in prop and "$ref" in prop["items"]
    ref = prop["items"]["$ref"] if several else prop.get("$ref")
    if ref is None:
        return None, False
    found = schema["$defs"][ref.rpartition("/")[2]]
    return (found, several) if "properties" in found else (None, False)


def _record(schema: dict[str, Any], node: dict[str, Any], path: str) -> Iterator[str]:
    needed = node.get("required", [])
    rows = []
    for name, prop in node["properties"].items():
        about = prop.get("description") or _about(schema, prop)
        rows.append((f"`{name}`", _kind(schema, name, prop), _default(name, prop, needed), " ".join(about.split())))
    yield from table(("key", "value", "default", "meaning"), rows)


def _about(schema: dict[str, Any], prop: dict[str, Any]) -> str:
    ref = prop.get("$ref", "")
    return str(schema["$defs"][ref.rpartition("/")[2]].get("description", "")).partition("\n")[0] if ref else ""


def _kind(schema: dict[str, Any], name: str, prop: dict[str, Any]) -> str:
    ref = str(prop.get("$ref", "")).rpartition("/")[2]
    if ref:
        return f"[{ref}](#{ref.lower()})" if "enum" in schema["$defs"][ref] else "a table"
    if prop.get("type") == "array":
        return "a list of tables" if "$ref" in prop["items"] else f"a list of {_item(prop['items'])}"
    if prop.get("type") in ("number", "integer"):
        low, high = range_of(name)
        kind = "whole number" if prop["type"] == "integer" else "number"
        limits = f", {low:g}..{high:g}" if high < LARGEST else f", >= {low:g}" if low > -LARGEST else ""
        return f"{kind}{limits}"
    return {"string": "text", "boolean": "true or false"}[str(prop["type"])]


def _item(items: dict[str, Any]) -> str:
    if items.get("type") == "array":
        return "pairs"
    return {"integer": "whole numbers", "number": "numbers", "string": "texts"}[str(items["type"])]


def _default(name: str, prop: dict[str, Any], needed: Sequence[str]) -> str:
    if name in needed:
        return "*needed*"
    value = prop.get("default")
    return "none" if value is None or value == [] else f"`{_toml(value)}`"


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list():
            return f"[{', '.join(_toml(inner) for inner in value)}]"
        case dict():
            return f"{{ {', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())} }}"
        case _:
            return str(value)


def _prose(text: str) -> Iterator[str]:
    """A record's documentation; its worked tables as they stand in the code."""
    for line in text.splitlines():
        yield f"`{line.removeprefix('# ')}`" if line.startswith("# ") else line
    yield ""


def _words() -> Iterator[str]:
    yield "## Words"
    yield ""
    names = {n for n, d in schema_of()["$defs"].items() if "enum" in d}
    kinds = [k for room in ROOMS for k in vars(room).values() if isinstance(k, type) and k.__name__ in names]
    for kind in dict.fromkeys(k for k in kinds if issubclass(k, StrEnum)):
        yield f"### {kind.__name__}"
        yield ""
        yield inspect.getdoc(kind) or ""
        yield ""
        yield from table(("word", "meaning"), [(f"`{m.value}`", said) for m, said in _members(kind)])


def _members(kind: type[StrEnum]) -> Iterator[tuple[StrEnum, str]]:
    """Each member with the text under it."""
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node, after:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str() as text)):
                yield kind[name], " ".join(text.split())
            case ast.Assign(targets=[ast.Name(id=name)]), _:
                yield kind[name], ""


def main() -> int:
    if sys.argv[1:] != ["--write"]:
        print("usage: python -m tools.scenarios --write", file=sys.stderr)
        return 2
    SCHEMA_FILE.write_text(schema_json(), encoding="utf-8")
    PAGE.write_text(rendered(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
