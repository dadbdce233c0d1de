"""docs/signals.md says what the code does: every signal, formula, verdict, finding, knob and threshold."""

from math import isclose, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.base import Verdict
from policies.derivations import DERIVATIONS, Derivation
from policies.diagnosis.definitions import FINDINGS, VERDICTS
from policies.diagnosis.notes import NOTES
from policies.estimators import FROM_ROWS
from simulators.signals import SIGNALS
from tools.signals import PAGE, constants, rendered

FUNCTIONS = {"__builtins__": {}, "min": min, "max": max, "round": round, "sqrt": sqrt}


def test_the_page_is_what_the_code_says() -> None:
    """When it is not: `make docs` writes it anew; read the difference before you keep it."""
    assert PAGE.read_text(encoding="utf-8") == rendered()


@settings(max_examples=100, deadline=None)
@given(st.data())
@pytest.mark.parametrize("rule", DERIVATIONS, ids=lambda rule: f"{rule.name} = {rule.written}")
def test_a_formula_computes_what_is_written(rule: Derivation, data: st.DataObject) -> None:
    values = {name: data.draw(st.floats(0.01, 1000.0), label=name) for name in rule.needs}
    found = rule.formula(*values.values())
    if found is not None:
        assert isclose(found, eval(rule.written, FUNCTIONS, values), rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("rule", DERIVATIONS, ids=lambda rule: f"{rule.name} = {rule.written}")
def test_a_formula_answers_where_its_inputs_agree(rule: Derivation) -> None:
    plausible = [
        {"reward_mean": 0.1, "reward_min": 0.0, "reward_max": 1.0, "advantage_max": 2.475, "group_size_seen": 8.0},
        {name: 0.5 if name.endswith(("_frac", "accepted", "wait_s", "validation_s")) else 1.0 for name in rule.needs},
        dict.fromkeys(rule.needs, 0.2),
    ]
    answers = [rule.formula(*(v[n] for n in rule.needs)) for v in plausible if set(rule.needs) <= v.keys()]
    assert any(answer is not None for answer in answers)


def test_every_input_of_a_formula_is_a_signal_that_may_be_known_before() -> None:
    known = set(SIGNALS)
    for rule in DERIVATIONS:
        assert set(rule.needs) <= known, rule.name
        known.add(rule.name)


def test_no_formula_comes_too_late_for_the_one_that_needs_its_result() -> None:
    """But for the trainer's idle share: only measured rates tell of it."""
    first = {rule.name: place for place, rule in reversed(list(enumerate(DERIVATIONS)))}
    late = [
        (rule.name, name)
        for place, rule in enumerate(DERIVATIONS)
        for name in rule.needs
        if first.get(name, place) > place
    ]
    assert set(late) == {("trainer_idle_frac", "gen_samples_per_s"), ("trainer_idle_frac", "train_samples_per_s")}


def test_a_name_keeps_its_unit_however_it_is_known() -> None:
    units = {(rule.name, rule.unit) for rule in DERIVATIONS} | {(s.name, s.unit) for s in SIGNALS.values()}
    assert len(units) == len({name for name, _ in units})
    assert not FROM_ROWS.keys() & {name for name, _ in units}


def test_every_verdict_is_defined_once() -> None:
    defined = [verdict for verdicts in VERDICTS.values() for verdict in verdicts]
    assert sorted(defined) == sorted(Verdict)


def test_no_code_is_both_a_note_and_a_finding() -> None:
    assert not NOTES.keys() & FINDINGS.keys()


def test_every_threshold_is_told_where_it_decides() -> None:
    """A new constant of a diagnosing room belongs into a definition of policies/diagnosis/definitions.py."""
    definitions = [*FINDINGS.values(), *(d for verdicts in VERDICTS.values() for d in verdicts.values())]
    told = {name for definition in definitions for name in definition.thresholds}
    assert {constant.name for constant in constants()} == told
