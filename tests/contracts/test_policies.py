"""Our own control laws keep what every control law must keep, and the kit catches those that do not."""

import gc
import importlib
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from policies.control import Hold, Policy, Proposal, View
from policies.laws.lending import Lending
from policies.laws.parameters import space
from policies.laws.predictive import Predictive
from policies.laws.rate_balance import RateBalance
from policies.laws.static import Static
from policies.laws.threshold import Threshold
from simulators.plant import Setpoints
from tests.contracts.bad_laws import CAUGHT, DIFFERING, Endless, Sleeps, Slow, Thaws
from tuner.kits.policies import DECIDE_S, assert_conforms
from tuner.kits.questioning import Asking, Questioner, World
from tuner.kits.watch import Broken, Watch

LAWS = (Static(), Threshold(), RateBalance(), Lending(), Predictive())


@pytest.mark.parametrize("policy", LAWS, ids=lambda law: type(law).__name__)
def test_it_conforms(policy: Policy) -> None:
    assert_conforms(policy)


@pytest.mark.parametrize("policy", [Threshold, RateBalance, Lending, Predictive])
def test_its_parameters_are_a_search_space(policy: type) -> None:
    assert space(policy)
    name, (low, high) = next(iter(space(policy).items()))
    with pytest.raises(ValueError, match=f"{name}="):
        policy(**{name: low - 1.0})
    with pytest.raises(ValueError, match=f"{name}="):
        policy(**{name: high + 1.0})


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.mark.parametrize(("policy", "words"), CAUGHT, ids=[type(policy).__name__ for policy, _ in CAUGHT])
def test_the_kit_catches_one_that_breaks_a_rule(policy: Policy, words: str, watch: Watch) -> None:
    decide_s = 0.05 if isinstance(policy, Slow | Endless) else DECIDE_S
    with pytest.raises(Broken, match=words):
        list(Questioner(Asking(policy, decide_s), watch).answers(World.HERE))


@pytest.mark.parametrize(("policy", "words"), DIFFERING, ids=[type(policy).__name__ for policy, _ in DIFFERING])
def test_the_kit_catches_one_that_differs_in_another_process(policy: Policy, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_conforms(policy)


def test_what_a_law_breaks_in_a_process_of_its_own_is_told() -> None:
    with pytest.raises(AssertionError, match=r"starving: decide calls time.sleep at .*bad_laws.py:\d+: a law knows no"):
        assert_conforms(Sleeps())


def test_a_law_that_can_change_or_be_nowhere_else_is_refused() -> None:
    @dataclass(frozen=True)
    class Local:
        def decide(self, view: View) -> Proposal | Hold:
            return Hold("nothing to do")

    for policy, words in ((Thaws(), "frozen"), (Local(), "a class of a module")):
        with pytest.raises(AssertionError, match=words):
            assert_conforms(policy)


def test_what_only_an_import_touches_is_left_alone(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazily_imported.py").write_text("import time; LOADED_S = time.time()")
    monkeypatch.syspath_prepend(tmp_path)
    assert watch.call(lambda: importlib.import_module("lazily_imported").LOADED_S) > 0.0


def test_what_collects_garbage_is_not_the_law(watch: Watch) -> None:
    def timed(*_: object) -> None:
        time.perf_counter()

    gc.callbacks.append(timed)
    try:
        assert watch.call(lambda: len([[] for _ in range(10_000)])) == 10_000
    finally:
        gc.callbacks.remove(timed)


def test_an_answer_without_a_reason_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="reason"):
        Hold("  ")
    with pytest.raises(ValueError, match="reason"):
        Proposal(Setpoints(max_in_flight=1), "")
