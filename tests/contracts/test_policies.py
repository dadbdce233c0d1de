"""Our own control laws keep what every control law must keep, and the kit catches those that do not."""

import time
from dataclasses import dataclass

import pytest

from policies.base import Interval
from policies.control import Hold, Policy, Proposal, View
from policies.laws.lending import Lending
from policies.laws.parameters import space
from policies.laws.predictive import Predictive
from policies.laws.rate_balance import RateBalance
from policies.laws.static import Static
from policies.laws.threshold import Threshold
from simulators.plant import Setpoints
from tuner.kits.policies import assert_conforms

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


@dataclass(frozen=True)
class Forgets:
    """Counts inside itself instead of in its memory."""

    seen: tuple[list[int], ...] = ()

    def __hash__(self) -> int:
        return 1

    def decide(self, view: View) -> Proposal | Hold:
        COUNTED.append(1)
        return Hold(f"tick {len(COUNTED)}")


COUNTED: list[int] = []


@dataclass(frozen=True)
class Blind:
    """Acts on nothing."""

    def decide(self, view: View) -> Proposal | Hold:
        return Proposal(Setpoints(max_in_flight=512), "why not")


@dataclass(frozen=True)
class Greedy:
    """Invents GPUs."""

    def decide(self, view: View) -> Proposal | Hold:
        if not view.snapshot.signals:
            return Hold("no evidence")
        return Proposal(Setpoints(gpus_trainer=512), "more is more")


@dataclass(frozen=True)
class Divides:
    """Has more GPUs in its pools than the generator has."""

    def decide(self, view: View) -> Proposal | Hold:
        if not view.snapshot.signals:
            return Hold("no evidence")
        return Proposal(Setpoints(gpus_prefill=128, gpus_decode=128), "more is more")


@dataclass(frozen=True)
class Raises:
    """Takes for granted what may be missing."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold(f"a step takes {view.snapshot.signals['step_s'].value:.0f} s")


@dataclass
class Thaws:
    """May change while it runs."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold("nothing to do")


@dataclass(frozen=True)
class Halves:
    """Asks for half a rollout."""

    def decide(self, view: View) -> Proposal | Hold:
        if not view.snapshot.signals:
            return Hold("no evidence")
        return Proposal(Setpoints(max_in_flight=1000.5), "a little more")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Dreams:
    """Its gain is no number."""

    def decide(self, view: View) -> Proposal | Hold:
        if not view.snapshot.signals:
            return Hold("no evidence")
        return Proposal(Setpoints(max_in_flight=1600), "it might pay", Interval(0.0, float("nan"), 1.0))


@dataclass(frozen=True)
class Hoards:
    """Remembers what cannot be written down."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold("nothing to do", memory={"seen": [1.0, 2.0]})  # type: ignore[dict-item]


@dataclass(frozen=True)
class Hashes:
    """Its answer depends on this process's seed of hashes."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold(f"{hash('a')} of them")


@dataclass(frozen=True)
class Dates:
    """Its answer depends on the day."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold(f"day {time.time() // 86400:.0f}")


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Forgets(), "same view"),
        (Blind(), "without evidence"),
        (Greedy(), "never adds"),
        (Divides(), "not the 192 of the generator"),
        (Raises(), "blind: decide raised KeyError"),
        (Thaws(), "frozen"),
        (Halves(), "max_in_flight=1000.5 cannot be set"),
        (Dreams(), "no interval"),
        (Hoards(), "finite numbers and words"),
        (Hashes(), "another process answers"),
        (Dates(), "another process answers"),
    ],
    ids=lambda given: type(given).__name__ if not isinstance(given, str) else "",
)
def test_the_kit_catches_one_that_does_not(policy: Policy, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_conforms(policy)


def test_an_answer_without_a_reason_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="reason"):
        Hold("  ")
    with pytest.raises(ValueError, match="reason"):
        Proposal(Setpoints(max_in_flight=1), "")
