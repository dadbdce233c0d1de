"""Whatever a scenario file says, it is a scenario that runs, or a sentence that names the file; never a traceback."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulators.pipeline import simulate
from simulators.scenario import Horizon, Scenario
from tests.unit.test_scenario_files import GOOD
from tuner.errors import ConfigError
from tuner.scenario_files import parse, schema_of, shipped

EVERY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SCHEMA = schema_of()
TEXTS = [GOOD, *(path.read_text(encoding="utf-8") for path in shipped())]

ODD = st.one_of(
    st.sampled_from(
        [0, -1, 1, 2, 1e-300, 1e300, -0.0, float("inf"), float("nan"), 10**30, True, "", "x", [], [[0, 1]]]
    ),
    st.integers(-5, 300),
    st.floats(-1.0, 100.0),
    st.text(max_size=5),
)


def paths(node: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every key of a scenario file with its part of the schema; of lists of tables only the first."""
    found = []
    for name, inner in node.get("properties", {}).items():
        several = "items" in inner and "$ref" in inner["items"]
        ref = (inner["items"] if several else inner).get("$ref")
        target = SCHEMA["$defs"][ref.rpartition("/")[2]] if ref else inner
        here = (*path, name)
        found += [(here, inner if several else target), *paths(target, (*here, "0") if several else here)]
    return found


PATHS = paths(SCHEMA)
LEAVES = [(path, node) for path, node in PATHS if "properties" not in node and "$ref" not in node.get("items", {})]


@st.composite
def plausible(draw: st.DrawFn, node: dict[str, Any]) -> object:
    """A value of the right kind, of ordinary size."""
    if "enum" in node:
        return draw(st.sampled_from(node["enum"]))
    match node.get("type"):
        case "integer":
            return draw(st.integers(1, 64))
        case "number":
            return draw(st.one_of(st.floats(0.0, 1.0), st.floats(1.0, 50.0)).map(lambda v: round(v, 3)))
        case "boolean":
            return draw(st.booleans())
        case _:
            return draw(ODD)


@st.composite
def files(draw: st.DrawFn, *, odd: bool) -> str:
    """A file that was fine until somebody changed, added or removed some of its keys."""
    data = tomllib.loads(draw(st.sampled_from(TEXTS if odd else TEXTS[:1])))
    for _ in range(draw(st.integers(1, 6 if odd else 3))):
        path, node = draw(st.sampled_from(PATHS if odd else LEAVES))
        value = draw(st.one_of(ODD, plausible(node)) if odd else plausible(node))
        put(data, path, value, remove=odd and draw(st.integers(0, 5)) == 0)
    return tomlkit.dumps(data)


def put(data: Any, path: tuple[str, ...], value: object, *, remove: bool) -> None:
    for part in path[:-1]:
        if isinstance(data, list):
            if not data:
                data.append({})
            data = data[0]
        elif isinstance(data, dict):
            data = data.setdefault(part, {})
        if not isinstance(data, dict | list):
            return
    if not isinstance(data, dict):
        return
    if remove:
        data.pop(path[-1], None)
    else:
        data[path[-1]] = value


def read(text: str) -> Scenario | None:
    """The scenario, or None after a refusal in one sentence about this file."""
    try:
        return parse(text, "some.toml")
    except ConfigError as error:
        said = str(error)
    assert said.startswith("some.toml:")
    return None


@pytest.mark.slow
@EVERY
@given(files(odd=True))
def test_a_changed_file_is_a_scenario_or_refused_in_a_sentence(text: str) -> None:
    read(text)


@EVERY
@given(st.text(max_size=300))
def test_any_text_is_a_scenario_or_refused_in_a_sentence(text: str) -> None:
    read(text)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files(odd=False), st.integers(0, 3))
def test_what_is_accepted_runs_or_is_refused_with_its_key(text: str, seed: int) -> None:
    scenario = read(text)
    if scenario is None:
        return
    short = replace(scenario, horizon=Horizon(steps=3, seconds=3e4))
    plant = simulate(short, seed)
    assert plant.done
    assert [log.row.values["step_s"] >= 0.0 for log in plant.log] == [True] * len(plant.log)
    assert all(0.0 <= log.useful <= log.row.values["accepted"] for log in plant.log)
