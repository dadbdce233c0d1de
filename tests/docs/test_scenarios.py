"""docs/scenarios.md is what the code says, documents every key, and its example runs."""

import re
from collections.abc import Iterator
from typing import Any

from simulators.pipeline import simulate
from tools.scenarios import PAGE, rendered
from tuner.scenario_files import load, parse, schema_of, shipped


def test_the_page_is_that_of_the_code() -> None:
    """`make docs` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == rendered()


def undocumented(schema: dict[str, Any]) -> Iterator[str]:
    for name, record in {**schema["$defs"], "scenario": schema}.items():
        for key, prop in record.get("properties", {}).items():
            ref = str(prop.get("$ref", "")).rpartition("/")[2]
            if not (prop.get("description") or (ref and schema["$defs"][ref].get("description"))):
                yield f"{name}.{key}"


def test_every_key_has_a_sentence_of_its_own() -> None:
    assert list(undocumented(schema_of())) == []


def test_every_key_of_a_shipped_scenario_stands_in_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    keys = {key for path in shipped() for key in re.findall(r"^(\w+) *=", path.read_text(encoding="utf-8"), re.M)}
    assert {key for key in keys if f"| `{key}` |" not in page} == set()


def test_every_shipped_scenario_stands_in_the_page_with_what_it_tells() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = [load(str(path)) for path in shipped()]
    assert [n.name for n in named if f"| `{n.name}` |" not in page or n.scenario.title not in page] == []


def test_the_first_file_of_the_page_runs() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert simulate(parse(text, "docs/scenarios.md")).step == 60
