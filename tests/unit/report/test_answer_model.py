"""The JSON answer: its keys, its schema, and that it can hold no number that JSON has not."""

import json
from dataclasses import fields, replace
from math import inf, nan

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.base import Finding, Interval, Rates, Severity
from simulators.plant import Setpoints, Topology
from simulators.snapshot import Signal
from tests.unit.report.answers_by_hand import overlapped_material
from tuner.answers.advise import SCHEMA_FILE, Answer, Job, printable, schema_json, to_json
from tuner.report.answer import Material, build

TOP = [
    "schema_version",
    "product_version",
    "source",
    "job",
    "window",
    "signals",
    "rates",
    "verdict",
    "verdict_confidence",
    "headline",
    "findings",
    "recommendations",
    "do_not",
    "missing",
    "cost",
]
RECOMMENDATION = [
    "rank",
    "knob",
    "direction",
    "current",
    "proposed",
    "unit",
    "key",
    "change",
    "data_changing",
    "gain_frac",
    "cost",
    "reason",
    "risks",
]


def test_the_shipped_schema_is_the_models_own() -> None:
    assert SCHEMA_FILE.read_text() == schema_json()


def test_every_answer_is_valid_under_the_shipped_schema(material: Material) -> None:
    schema = json.loads(SCHEMA_FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(to_json(build(material))), schema)


def test_the_keys_are_those_that_people_script_against(overlapped: Material) -> None:
    answer = json.loads(to_json(build(overlapped)))
    assert list(answer) == TOP
    assert list(answer["recommendations"][0]) == RECOMMENDATION
    assert list(answer["window"]) == ["steps", "from_step", "to_step", "seconds", "dropped_steps"]
    assert list(answer["signals"]["step_s"]) == ["value", "unit", "age_s", "n", "trust", "derived_from"]
    assert list(answer["source"][0]) == ["kind", "path", "framework", "version", "rows", "first", "last"]
    assert list(answer["cost"]) == ["usd_per_gpu_hour", "usd_per_mtok", "idle_usd_per_hour", "wasted_usd_per_hour"]
    assert list(answer["do_not"][0]) == ["knob", "direction", "reason"]


def test_every_fact_and_knob_of_the_job_is_in_the_answer() -> None:
    assert set(Job.model_fields) == {f.name for f in (*fields(Topology), *fields(Setpoints))}


def test_a_recommendation_carries_the_frameworks_own_key_and_when_it_takes_effect(overlapped: Material) -> None:
    first, *_, last = build(overlapped).recommendations
    assert (first.rank, first.key, first.change, first.data_changing) == (
        1,
        "orchestrator.oversampling_factor",
        "hot",
        True,
    )
    assert (last.gain_frac, last.change) == (None, "boundary")


def test_without_a_price_there_is_no_cost(overlapped: Material) -> None:
    assert build(replace(overlapped, spending=None)).cost is None


@given(bad=st.sampled_from([nan, inf, -inf]), good=st.floats(allow_nan=False, allow_infinity=False))
def test_no_infinite_or_undefined_number_ever_reaches_the_answer(bad: float, good: float) -> None:
    material = overlapped_material(3)
    signals = {"step_s": Signal(bad, "s"), "reward_mean": Signal(good, "1", age_s=bad, trust=bad)}
    advice = material.advice
    diagnosis = replace(
        advice.diagnosis,
        confidence=bad,
        rates=Rates(bad, good),
        findings=(Finding("drift", Severity.INFO, "t", "d", {"a": bad, "b": good}),),
    )
    recommendation = replace(
        advice.recommendations[0], current=bad, proposed=good, gain_frac=Interval(bad, good, good), cost_s=bad
    )
    odd = replace(
        material,
        snapshot=replace(material.snapshot, signals=signals),
        advice=replace(advice, diagnosis=diagnosis, recommendations=(recommendation,)),
    )
    text = to_json(build(odd))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    answer = json.loads(text, parse_constant=refuse)
    assert "step_s" not in answer["signals"]
    assert answer["findings"][0]["evidence"] == {"b": good}
    assert answer["recommendations"][0]["gain_frac"] is None
    Answer.model_validate_json(text)


@given(st.text(st.characters(codec=None)))
def test_text_from_logs_and_file_names_becomes_printable(raw: str) -> None:
    text = printable(raw)
    assert isinstance(text, str)
    assert text.isprintable()
    text.encode("utf-8")


@pytest.mark.parametrize("raw", ["run\x1b[31m.log", "run\udcff.log"])
def test_colours_and_broken_bytes_in_a_path_do_not_reach_the_terminal(raw: str, overlapped: Material) -> None:
    source = overlapped.sources[0].model_copy(update={"path": printable(raw)})
    text = to_json(build(replace(overlapped, sources=(source,))))
    assert "\x1b" not in text
    text.encode("utf-8")
