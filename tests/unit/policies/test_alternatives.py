"""Whoever asks what else could have been done is told each knob's next steps, with the gain or why not."""

from dataclasses import replace

from policies.alternatives import Alternative, alternatives
from policies.control import View
from policies.laws.predictive import Predictive
from policies.settings import knobs_of, merged
from simulators.plant import Bounds
from tests.unit.policies.test_predictive import job_of, view_of


def balanced(**changes: object) -> View:
    view = view_of(
        job_of("steady-noise-24h", max_in_flight=1536), "gpus_trainer", "oversampling_ratio", "max_in_flight"
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def older(view: View, alternative: Alternative, age: float) -> bool:
    then = view.predicted(merged(view.in_force, alternative.changes))
    assert then is not None
    assert then.staleness is not None
    return then.staleness.mean > age + 1e-6


def of(view: View, knob: str) -> list[Alternative]:
    return [a for a in alternatives(view) if knobs_of(a.changes) == (knob,)]


def test_where_nothing_is_wanted_every_knob_has_its_next_steps() -> None:
    view = balanced()
    assert {knob for a in alternatives(view) for knob in knobs_of(a.changes)} == {c.knob for c in view.capabilities}
    assert {a.changes.gpus_trainer for a in of(view, "gpus_trainer")} >= {56, 72}


def test_where_only_engines_have_a_limit_its_steps_are_the_knob_s() -> None:
    view = view_of(job_of("steady-noise-24h", max_in_flight=None, max_in_flight_per_engine=12), "max_in_flight")
    assert {a.changes.max_in_flight_per_engine for a in of(view, "max_in_flight")} >= {10, 15}


def test_what_cannot_be_says_why_and_comes_last() -> None:
    held = balanced(bounds=Bounds(gpus_trainer_min=64, max_in_flight_max=1536))
    found = alternatives(held)
    why = {a.changes.gpus_trainer: a.why_not for a in found if a.changes.gpus_trainer is not None}
    assert why[56] == "56 is below the bound gpus_trainer_min=64"
    assert not why[72]
    assert any("rollouts in flight exceed 1536" in a.why_not for a in of(held, "max_in_flight"))
    assert [bool(a.why_not) for a in found] == sorted(bool(a.why_not) for a in found)


def test_a_bound_that_the_model_sees_broken_is_named_with_its_figure() -> None:
    """One that is broken already may be mended, and not be broken further."""
    now = balanced()
    staleness = now.predicted(now.in_force).staleness  # type: ignore[union-attr]
    assert staleness is not None
    tight = balanced(bounds=Bounds(staleness_max=staleness.mean + 1e-6))
    assert any("staleness" in a.why_not and a.gain_frac is not None for a in alternatives(tight))
    broken = balanced(bounds=Bounds(staleness_max=staleness.mean - 0.1))
    seen = {older(broken, a, staleness.mean): "staleness" in a.why_not for a in alternatives(broken)}
    assert seen == {True: True, False: False}


def test_a_knob_that_is_only_advised_is_told_as_such() -> None:
    view = balanced(locked=frozenset({"max_in_flight"}))
    assert {a.why_not for a in of(view, "max_in_flight")} == {"max_in_flight is only advised here"}


def test_what_the_law_wants_is_among_them() -> None:
    view = view_of(job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144), "gpus_trainer")
    answer = Predictive().decide(view)
    assert answer.changes in {a.changes for a in alternatives(view)}
    assert alternatives(view)[0].gain_frac is not None
    assert alternatives(replace(view, model=None)) == ()
