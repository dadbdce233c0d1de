"""A law of a user's own, and what it may not do to the job or to the journal."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from policies.commands import ControlMode
from policies.control import Action, Hold, HoldCode, Proposal, View
from policies.controller import tick
from policies.rules import Rules
from policies.state import State
from simulators.plant import Setpoints
from tests.plants import TOPOLOGY, FluidPlant
from tests.unit.control.conftest import CAPABILITIES
from tuner.charter import policy_named
from tuner.errors import ConfigError
from tuner.journal import decoded_state, encoded_state


@dataclass(frozen=True)
class Wishing:
    """Wants one setting, whatever it sees."""

    wish: Setpoints

    def decide(self, view: View) -> Proposal | Hold:
        return Proposal(self.wish, "as I wish")


@pytest.mark.parametrize("value", [640.0, 640.5, float("nan"), float("inf"), "640", -5])
def test_a_wish_that_cannot_be_set_is_a_hold_and_the_state_is_read_back(value: object) -> None:
    """640.0 is no count: it went into the state, from which it could not be read at the next start."""
    wish = replace(Setpoints(), max_in_flight=value)  # type: ignore[arg-type]
    rules, state = Rules(Wishing(wish), TOPOLOGY, capabilities=CAPABILITIES), State(mode=ControlMode.AUTO)
    plant = FluidPlant()
    for at_s in range(600, 1200, 60):
        state, decision = tick(rules, state, plant.observe(float(at_s)), (), float(at_s))
    assert (decision.action, decision.code) == (Action.HOLD, HoldCode.FAULT)
    assert f"it proposes max_in_flight={value!r}, which cannot be set" in decision.reason
    assert decoded_state(encoded_state(state)) == state


TYPED_APART = """\
from __future__ import annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nowhere import Thing
@dataclass(frozen=True)
class Law:
    gain: float = 0.1
    thing: Thing | None = None
    def decide(self, view): ...
"""


def test_a_law_whose_types_only_a_checker_imports_takes_its_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typed_apart.py").write_text(TYPED_APART)
    monkeypatch.syspath_prepend(tmp_path)
    law = policy_named("typed_apart:Law", [("gain", 0.2)])
    assert "gain=0.2" in repr(law)


def test_a_count_is_whole() -> None:
    assert "max_in_flight=640," in repr(policy_named("static", [("max_in_flight", 640.0)]))
    for value in (0.5, float("inf")):
        with pytest.raises(ConfigError, match="must be a whole number"):
            policy_named("static", [("max_in_flight", value)])
