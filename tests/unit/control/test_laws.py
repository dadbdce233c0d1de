"""What each control law does, by the worked tables in its comments."""

from dataclasses import replace

import pytest

from policies.beliefs import Beliefs
from policies.control import Capability, Hold, Proposal, View
from policies.laws.lending import Lending
from policies.laws.rate_balance import RateBalance, claimed
from policies.laws.static import Static
from policies.laws.threshold import Threshold
from policies.settings import SPLIT
from simulators.snapshot import Signal
from tests.plants import START
from tests.unit.control.conftest import known
from tuner.kits.situations import view_of


def with_signals(view: View, **signals: float) -> View:
    told = {**view.snapshot.signals, **{n: Signal(v, "1") for n, v in signals.items()}}
    return replace(view, snapshot=replace(view.snapshot, signals=told))


def test_static_stays_or_goes_once() -> None:
    here = view_of(0.3, 0.0)
    assert isinstance(Static().decide(here), Hold)
    there = Static(gpus_trainer=48).decide(here)
    assert isinstance(there, Proposal)
    assert (there.changes.gpus_trainer, there.changes.gpus_generator) == (48, 208)
    arrived = replace(here, in_force=replace(START, gpus_trainer=48, gpus_generator=208, max_in_flight=1664))
    assert isinstance(Static(gpus_trainer=48).decide(arrived), Hold)


@pytest.mark.parametrize(
    ("idle", "counts", "steps"),
    [([0.30, 0.15, 0.25, 0.22], [1, 1, 2, 3], True), ([0.30, 0.05, 0.25, 0.22], [1, 0, 1, 2], False)],
)
def test_threshold_counts_with_hysteresis(idle: list[float], counts: list[int], steps: bool) -> None:
    law, memory, seen, answer = Threshold(), {}, [], None
    for share in idle:
        answer = law.decide(replace(view_of(share, 0.0), memory=memory))
        memory = dict(answer.memory)
        seen.append(memory["trainer"])
    assert seen == counts
    assert isinstance(answer, Proposal) is steps
    if isinstance(answer, Proposal):
        assert answer.changes.gpus_trainer == 56


def test_threshold_gives_to_the_trainer_what_a_gated_generator_does_not_need() -> None:
    answer = Threshold(persist_ticks=1).decide(view_of(0.0, 0.4))
    assert isinstance(answer, Proposal)
    assert answer.changes.gpus_trainer == 72


def test_rate_balance_finds_the_best_of_the_lattice_in_one_step() -> None:
    rates = Beliefs({"generator": known(4.0), "trainer": known(5.6)})
    coarse = replace(view_of(0.3, 0.0), beliefs=rates)
    coarse = replace(coarse, topology=replace(coarse.topology, trainer_gpu_step=16, gpus_per_engine=16))
    answer = RateBalance().decide(coarse)
    assert isinstance(answer, Proposal)
    assert (answer.changes.gpus_trainer, answer.changes.gpus_generator) == (48, 208)
    assert answer.gain_frac is not None
    assert answer.gain_frac.low < 0.05 < answer.gain_frac.high


def test_the_worked_table_of_a_claimed_gain() -> None:
    gain = claimed(0.05, known(4.0, sigma=0.02), known(4.0, sigma=0.02))
    assert [round(100 * end, 1) for end in (gain.low, gain.mean, gain.high)] == [-1.1, 3.8, 8.9]


def test_rate_balance_rests_inside_its_band() -> None:
    rates = Beliefs({"generator": known(5.2), "trainer": known(5.6)})
    answer = RateBalance().decide(replace(view_of(0.05, 0.0), beliefs=rates))
    assert isinstance(answer, Hold)
    assert "inside the deadband" in answer.reason


def test_rate_balance_does_not_care_for_throughput_only_for_service_rates() -> None:
    rates = Beliefs({"generator": known(4.0), "trainer": known(5.6)})
    starved, gated = (replace(v, beliefs=rates) for v in (view_of(0.4, 0.0), view_of(0.0, 0.4)))
    assert RateBalance().decide(starved) == RateBalance().decide(gated)


def test_lending_follows_its_ratio() -> None:
    lent = replace(START, gpus_trainer=56, gpus_generator=200)
    memory = {"ratio": 0.3, "home": 64.0}
    waits = replace(with_signals(view_of(20 / 128, 0.0), queue_depth=100.0), in_force=lent, memory=memory)
    stays = Lending().decide(waits)
    assert isinstance(stays, Hold)
    assert stays.memory["ratio"] == pytest.approx(0.4)
    ready = replace(with_signals(view_of(0.0, 0.0), queue_depth=300.0), in_force=lent, memory=memory)
    back = Lending().decide(ready)
    assert isinstance(back, Proposal)
    assert back.memory["ratio"] == pytest.approx(0.28)
    assert back.changes.gpus_trainer == 64


def test_lending_pays_for_its_switches() -> None:
    starving = with_signals(view_of(0.5, 0.0), queue_depth=0.0)
    free = replace(starving, capabilities=(Capability(SPLIT, cost_s=1.0),))
    dear = replace(starving, capabilities=(Capability(SPLIT, cost_s=60.0),))
    lent = Lending().decide(free)
    assert isinstance(lent, Proposal)
    assert lent.changes.gpus_trainer == 56
    assert "costs 60.0 s" in Lending().decide(dear).reason


def test_lendings_ratio_has_a_floor_and_a_roof() -> None:
    law, memory = Lending(), {"ratio": 0.11, "home": 64.0}
    for _ in range(50):
        memory = dict(law.decide(replace(with_signals(view_of(0.0, 0.1), queue_depth=500.0), memory=memory)).memory)
    assert memory["ratio"] == pytest.approx(0.1)
    for _ in range(50):
        memory = dict(law.decide(replace(with_signals(view_of(0.5, 0.0), queue_depth=0.0), memory=memory)).memory)
    assert memory["ratio"] == pytest.approx(0.9)
