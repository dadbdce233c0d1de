"""A lost node is no turned knob: it is noted, what was measured before no longer counts, models run on the rest."""

from dataclasses import replace

from policies.laws.static import Static
from policies.moves import Move
from policies.noticing import noticed
from policies.probation import Probation
from policies.rules import Rules
from policies.settings import missing_of, without
from policies.state import State
from simulators.plant import Inventory
from tests.plants import START, TOPOLOGY, FluidPlant
from tests.unit.control.conftest import view_after

GONE = Inventory(gpus_trainer=64, gpus_generator=160)
RULES = Rules(Static(), TOPOLOGY)


def test_it_is_noted_once_and_its_return_too() -> None:
    seen = FluidPlant().observe(3600.0)
    state, notes = noticed(RULES, State(accepted=START), replace(seen, inventory=GONE), ())
    assert "32 generator GPUs are gone" in notes
    assert state.moved_s == 3600.0
    assert state.accepted == START
    state, notes = noticed(RULES, state, replace(seen, inventory=GONE, time_s=3660.0), ())
    assert not any("gone" in note for note in notes)
    _, notes = noticed(RULES, state, replace(seen, time_s=3720.0), ())
    assert "32 generator GPUs are back" in notes


def test_a_move_on_probation_is_not_judged_by_it() -> None:
    seen = FluidPlant().observe(3600.0)
    move = Move("d1", (START, START), begun_s=0.0, leg_limit_s=300.0, settle_s=100.0, reason="a test")
    judged = State(accepted=START, probation=Probation(move, (), since_s=0.0, predicted=None))
    state, _ = noticed(RULES, judged, replace(seen, inventory=GONE), ())
    assert state.probation is None


def test_a_setting_is_predicted_on_what_is_there() -> None:
    assert missing_of(START, GONE) == 32
    assert without(START, 32).gpus_generator == 160
    assert without(START, 0) == START
    assert view_after(missing=32).missing == 32
