"""Closed forms obey the laws they stand for, and refuse what is impossible by name."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.closed_forms import Number, answer
from simulators.forms import FORMS

POSITIVE = st.floats(0.01, 1e4)
RATE = st.floats(0.1, 10.0)


def said(name: str, output: str | None = None, **given_inputs: Number) -> float:
    answers = answer(FORMS[name], given_inputs)
    return answers[output or next(iter(FORMS[name].outputs))]


@settings(deadline=None)
@given(RATE, RATE)
def test_a_trainer_that_is_the_slower_side_never_waits(generator: float, trainer: float) -> None:
    idle = said("idle-from-rates", generator_per_s=generator, trainer_per_s=trainer)
    assert 0 <= idle < 1
    assert (idle == pytest.approx(0, abs=1e-12)) == (generator >= trainer * (1 - 1e-12))


def test_a_series_of_equal_steps_is_one_step() -> None:
    one = said("idle-from-rates", generator_per_s=1.95, trainer_per_s=2.75)
    assert said("idle-from-rates", generator_per_s=(1.95,) * 9, trainer_per_s=2.75) == pytest.approx(one)


def test_a_slow_step_counts_for_the_time_it_takes() -> None:
    idle = said("idle-from-rates", generator_per_s=(0.1, 2.0), trainer_per_s=2.0)
    assert idle == pytest.approx(1 - (1 / 2 + 1 / 2) / (1 / 0.1 + 1 / 2))


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="lists of 2 and 3"):
        said("idle-from-rates", generator_per_s=(1.0, 2.0), trainer_per_s=(1.0, 2.0, 3.0))


@settings(deadline=None)
@given(st.floats(0.05, 0.95), st.floats(1.0, 20.0), st.floats(1.0, 4.0))
def test_staleness_is_greatest_at_balance(rho: float, in_flight_batches: float, tail: float) -> None:
    def staleness(at: float) -> float:
        return said("async-staleness", in_flight=in_flight_batches, batch=1.0, queue_batches=2.0, rho=at, tail=tail)

    assert staleness(rho) <= staleness(0.999999) <= staleness(1.000001)
    assert staleness(1 / rho) <= staleness(1.000001)


@pytest.mark.parametrize(("q", "rho", "printed"), [(2, 0.5, 2.38), (2, 0.8, 2.69), (2, 1.3, 3.13), (4, 2.0, 3.17)])
def test_staleness_is_that_of_a_simulated_queue(q: float, rho: float, printed: float) -> None:
    """Reference grid of a discrete-event simulation: tail 1.888, as many slots as a batch."""
    found = said("async-staleness", in_flight=128, batch=128, queue_batches=q, rho=rho, tail=1.888)
    assert found == pytest.approx(printed, rel=0.025)


@settings(deadline=None)
@given(st.floats(1.01, 8.0), st.floats(1.0, 30.0), st.integers(1, 200))
def test_a_full_queue_bounds_the_lag(rho: float, capacity: float, steps: int) -> None:
    inputs = {"rho_per_unit": rho, "units": 1.0, "capacity_batches": capacity, "steps": float(steps)}
    lag = answer(FORMS["queue-lag"], inputs)
    assert 0 <= lag["lag_mean"] <= lag["lag_max"] <= math.ceil(capacity)
    assert lag["queue_batches"] <= capacity


@settings(deadline=None)
@given(st.floats(100, 1e4), st.floats(0.1, 0.9), st.floats(0.02, 0.5), st.floats(0.05, 0.9))
def test_a_step_without_its_tail_lies_between_its_body_and_itself(
    step: float, tail_share: float, tail_frac: float, fill: float
) -> None:
    inputs = {"step_s": step, "tail_s": step * tail_share, "tail_frac": tail_frac, "max_tokens": 1e4}
    shorter = answer(FORMS["tail-free-step"], inputs | {"mean_tokens": 1e4 * fill})
    assert step * (1 - tail_share) <= shorter["step_s"] * (1 + 1e-9)
    assert 0 <= shorter["tail_work_frac"] < 1


def test_a_long_limit_leaves_the_tail_the_work_of_one_mean_each() -> None:
    """Exponential lengths have no memory: the last tenth has a mean to go, each."""
    share = said("tail-free-step", "tail_work_frac", step_s=1, tail_s=0.5, tail_frac=0.1, mean_tokens=1, max_tokens=200)
    assert share == pytest.approx(0.1)


@settings(deadline=None)
@given(POSITIVE, POSITIVE)
def test_costs_add_up_by_time_and_shrink_with_tokens(seconds: float, tokens: float) -> None:
    fixed = {"gpus": 8.0, "usd_per_gpu_hour": 2.0, "rollouts": 64.0}
    cost = said("cost-per-mtok", seconds=seconds, tokens_per_rollout=tokens, **fixed)
    assert said("cost-per-mtok", seconds=2 * seconds, tokens_per_rollout=tokens, **fixed) == pytest.approx(2 * cost)
    assert said("cost-per-mtok", seconds=seconds, tokens_per_rollout=2 * tokens, **fixed) == pytest.approx(cost / 2)


@settings(deadline=None)
@given(st.floats(0.2, 5), st.floats(0.2, 5), st.integers(2, 64))
def test_usable_groups_are_those_that_are_not_all_alike(a: float, b: float, size: int) -> None:
    usable = said("usable-share", a=a, b=b, group_size=float(size))
    assert 0 < usable < 1
    assert usable < said("usable-share", a=a, b=b, group_size=float(size + 1))
    # a group of 2 differs with chance 2 E[p (1 - p)]
    pair = 2 * a * b / ((a + b) * (a + b + 1))
    assert said("usable-share", a=a, b=b, group_size=2.0) == pytest.approx(pair)


@settings(deadline=None)
@given(st.floats(1.0, 3.0))
def test_more_started_batches_never_lengthen_a_step(started: float) -> None:
    fixed = {"group_s": 60.0, "last_s": 20.0, "train_s": 70.0}
    step = said("wip-step", started_batches=started, **fixed)
    assert step >= said("wip-step", started_batches=started + 0.1, **fixed) >= 70.0


def test_no_step_is_shorter_than_the_longer_side() -> None:
    assert said("max-of-sides", generate_s=458, train_s=445) == 458
    assert said("max-of-sides", "trainer_idle_frac", generate_s=400, train_s=300) == pytest.approx(0.25)


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_every_input_is_needed_and_refused_when_negative_or_unknown(form) -> None:  # type: ignore[no-untyped-def]
    plausible: dict[str, Number] = {each.name: max(0.5, 1.5 * each.low) for each in form.inputs}
    plausible |= {"max_tokens": 5.0} if "max_tokens" in plausible else {}
    assert answer(form, plausible).keys() == form.outputs.keys()
    with pytest.raises(ValueError, match="unknown input"):
        answer(form, plausible | {"colour": 1.0})
    for each in form.inputs:
        with pytest.raises(ValueError, match=f"inputs.{each.name}=-1000 must be"):
            answer(form, plausible | {each.name: -1000.0})
        if each.default is None:
            with pytest.raises(ValueError, match=f"inputs.{each.name}: is missing"):
                answer(form, {name: value for name, value in plausible.items() if name != each.name})
