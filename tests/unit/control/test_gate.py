"""The gate passes what pays on nearly every plausible job and on another kind of model too; else it says why not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.control import Draw, GateVerdict
from policies.gate import LOST, GateLimits, Question, _over_structures, confirm
from policies.objective import Objective
from policies.settings import with_trainer
from simulators.model import Prediction, Staleness
from simulators.plant import Bounds, Setpoints, Topology
from simulators.workload import Lengths, Workload
from tests.plants import START, TOPOLOGY

WORKLOAD = Workload(Lengths(500.0), Lengths(8000.0))
TO_GENERATOR = with_trainer(START, TOPOLOGY, 56)


@dataclass(frozen=True)
class TwoRates:
    """A job as the slower of two sides, each growing with a power of its GPUs."""

    generator: float
    trainer: float
    exponent: float = 1.0

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        if setpoints.gpus_trainer is None or setpoints.gpus_generator is None:
            raise ValueError("gpus_trainer and gpus_generator are needed")
        g = self.generator * (setpoints.gpus_generator / 192) ** self.exponent
        t = self.trainer * (setpoints.gpus_trainer / 64) ** self.exponent
        rate = min(g, t)
        age = Staleness((setpoints.max_in_flight or 0) / 512.0)
        return Prediction(rate, rate, 1e4 * rate, 512 / rate, 1 - rate / t, rate / g, age)


@dataclass(frozen=True)
class Older(TwoRates):
    """Its rollouts are twice as old."""

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        told = super().predict(topology, workload, setpoints)
        assert told.staleness is not None
        return replace(told, staleness=Staleness(2.0 * told.staleness.mean))


AT_MOST_4: dict[str, object] = {"bounds": Bounds(staleness_max=4.0)}


def draws(count: int, generator: float = 4.0, trainer: float = 5.6, spread: float = 0.03) -> list[Draw]:
    drawn = Random(5)
    return [
        Draw(TwoRates(generator * drawn.lognormvariate(0, spread), trainer, drawn.uniform(0.5, 1.0)), WORKLOAD)
        for _ in range(count)
    ]


LINEAR = [Draw(TwoRates(4.0, 5.6), WORKLOAD, "linear")]
QUESTION = Question(TOPOLOGY, START, TO_GENERATOR, 60.0, 6 * 3600.0, Bounds(), Objective())


def asked(found: Sequence[Draw], **changes: object) -> GateVerdict:
    return confirm(replace(QUESTION, **changes), found, GateLimits())  # type: ignore[arg-type]


def test_a_clear_gain_passes_with_its_interval() -> None:
    verdict = asked([*draws(30), *LINEAR])
    assert verdict.passed
    assert verdict.gain_frac is not None
    assert 0.015 < verdict.gain_frac.low < verdict.gain_frac.mean < 0.05
    assert verdict.structures == {"linear": 1.0}


@pytest.mark.parametrize(
    ("found", "changes", "why"),
    [
        (draws(29) + LINEAR, {}, "29 calibrated draws"),
        (draws(30), {}, "0 structurally different"),
        ([*draws(30), Draw(TwoRates(5.6, 4.0), WORKLOAD, "linear")], {}, "but the linear model"),
        (draws(30, trainer=3.9) + LINEAR, {}, "under 90%"),
        (draws(30) + LINEAR, {"cost_s": 3600.0}, "under 90%"),
        (draws(30) + LINEAR, {"bounds": Bounds(staleness_max=3.05)}, "under 90%"),
        ([*draws(30, trainer=7.0, spread=0.0), Draw(Older(4.0, 5.6), WORKLOAD, "linear")], AT_MOST_4, "versions"),
        (draws(30) + LINEAR, {"horizon_s": 0.0}, "under 90%"),
    ],
)
def test_what_does_not_pass_says_why(found: list[Draw], changes: dict[str, object], why: str) -> None:
    verdict = asked(found, **changes)
    assert not verdict.passed
    assert why in verdict.reason


def test_a_bound_that_is_broken_already_does_not_stop_what_leaves_or_mends_it() -> None:
    """Staleness is 3.0 and may be 1.0."""
    broken, found = Bounds(staleness_max=1.0), [*draws(30), *LINEAR]
    for in_flight in (1536, 1400):
        assert asked(found, bounds=broken, changes=replace(TO_GENERATOR, max_in_flight=in_flight)).passed


def test_a_bound_that_is_broken_already_is_not_broken_further() -> None:
    verdict = asked([*draws(30), *LINEAR], bounds=Bounds(staleness_max=1.0))
    assert not verdict.passed
    assert verdict.probability == 0.0


def test_a_model_that_refuses_the_setting_counts_against_it() -> None:
    assert not asked([*draws(30), *LINEAR], now=Setpoints(gpus_trainer=64, max_in_flight=1)).passed


def test_twenty_seven_of_thirty_pass_and_twenty_six_do_not() -> None:
    good, bad = Draw(TwoRates(4.0, 5.6), WORKLOAD), Draw(TwoRates(5.6, 4.0), WORKLOAD)
    assert asked([good] * 27 + [bad] * 3 + LINEAR).passed
    assert not asked([good] * 26 + [bad] * 4 + LINEAR).passed


@given(st.lists(st.tuples(st.floats(0.1, 10.0), st.floats(0.1, 10.0)), min_size=31, max_size=40), st.floats(0, 1e5))
def test_a_dearer_move_never_passes_where_a_cheaper_one_did_not(
    rates: list[tuple[float, float]], cost_s: float
) -> None:
    found = [Draw(TwoRates(g, t), WORKLOAD) for g, t in rates] + LINEAR
    cheap, dear = asked(found, cost_s=cost_s), asked(found, cost_s=2.0 * cost_s + 1.0)
    assert cheap.passed or not dear.passed
    assert dear.probability is not None
    assert cheap.probability is not None
    assert dear.probability <= cheap.probability


@given(st.lists(st.tuples(st.floats(0.1, 10.0), st.floats(0.1, 10.0)), min_size=30, max_size=40))
def test_a_gain_lies_inside_its_own_interval(rates: list[tuple[float, float]]) -> None:
    gain = asked([*(Draw(TwoRates(g, t), WORKLOAD) for g, t in rates), *LINEAR]).gain_frac
    assert gain is not None
    assert gain.low <= gain.mean <= gain.high


def test_each_structure_counts_alike_in_the_interval_however_many_draws_it_has() -> None:
    """Thirty at 5 %, three of another kind at 8 %: either may be true. Who lost told no gain."""
    gain = _over_structures([[0.05] * 30, [0.08] * 3, [LOST] * 10])
    assert (gain.low, gain.mean, gain.high) == pytest.approx((0.05, 0.065, 0.08))
    alone = _over_structures([[0.01 * k for k in range(11)]])
    assert (alone.low, alone.mean, alone.high) == pytest.approx((0.01, 0.05, 0.09), abs=0.003)
