"""One owner for each knob: what the framework's own controller moves is no knob of ours, nor part of another's move."""

from dataclasses import dataclass, replace

from policies.commands import ControlMode
from policies.control import Action, Hold, HoldCode, Proposal, View
from policies.laws.predictive import Predictive
from policies.settings import SPLIT, knobs_of
from simulators.plant import Setpoints
from tests.plants import START, TOPOLOGY
from tests.unit.control.test_modes import Job
from tests.unit.policies.test_predictive import job_of, view_of
from tuner.actuators.limits import refusals
from tuner.actuators.site import Site

LIMITED = replace(TOPOLOGY, framework="prime-rl", self_tuned=("max_in_flight",))


@dataclass(frozen=True)
class More:
    """Wants more in flight, whoever owns it."""

    def decide(self, view: View) -> Proposal | Hold:
        return Proposal(Setpoints(max_in_flight=2000), "more is more")


def test_a_split_goes_without_the_limit_that_the_framework_moves() -> None:
    """With it the actuator refused the whole order, at every split."""
    job = Job(ControlMode.AUTO, topology=LIMITED)
    begun = job.until(Action.APPLY)
    assert begun.changes is not None
    assert knobs_of(begun.changes) == (SPLIT,)
    orders = [order.setpoints for order in job.plant.orders]
    assert orders
    for order in orders:
        assert order.max_in_flight is None
        assert not refusals(Site(LIMITED, START), START, order, (SPLIT, "max_in_flight"))


def test_a_limit_that_the_framework_moves_at_every_look_is_no_foreign_hand() -> None:
    """It was: each move of it broke off what was under way, and what was measured before no longer counted."""
    for topology, events in ((TOPOLOGY, True), (LIMITED, False)):
        job = Job(ControlMode.OBSERVE, topology=topology)
        for i in range(40):
            job.plant.setpoints = replace(job.plant.setpoints, max_in_flight=1500 + i % 7)
            job.tick()
        assert any("without us" in note for d in job.heard.decisions for note in d.notes) is events
        assert (job.state.moved_s is not None) is events


def test_a_split_of_which_the_framework_moves_one_side_is_not_ours() -> None:
    job = Job(ControlMode.AUTO, topology=replace(TOPOLOGY, self_tuned=("gpus_generator",)))
    held = [job.tick() for _ in range(60)]
    assert "the framework tunes gpus_trainer itself" in {d.reason for d in held if d.code is HoldCode.ILLEGAL}
    assert job.plant.orders == []


def test_whoever_wants_it_all_the_same_is_told_who_owns_it() -> None:
    job = Job(ControlMode.AUTO, policy=More(), topology=LIMITED)
    held = [job.tick() for _ in range(40)]
    assert "the framework tunes max_in_flight itself" in {d.reason for d in held if d.code is HoldCode.ILLEGAL}
    assert job.plant.orders == []


@dataclass(frozen=True)
class Predicting:
    """`predictive`, on a job that runs with too few engines and too few in flight."""

    def decide(self, view: View) -> Proposal | Hold:
        starved = job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144, max_in_flight=700)
        seen = view_of(starved, SPLIT, "max_in_flight")
        return Predictive().decide(replace(seen, topology=view.topology, capabilities=view.capabilities))


def test_what_it_moves_is_no_part_of_what_predictive_wants() -> None:
    """With the limit as it is a split gains less: what nobody of us may widen is not counted."""
    gains = []
    for self_tuned in ((), ("max_in_flight",)):
        job = Job(ControlMode.ADVISE, policy=Predicting(), topology=replace(TOPOLOGY, self_tuned=self_tuned))
        advice = job.until(Action.ADVISE)
        assert advice.proposed is not None
        assert (advice.proposed.max_in_flight is None) is bool(self_tuned)
        assert advice.gain_frac is not None
        gains.append(advice.gain_frac.mean)
    assert gains[1] < 0.7 * gains[0]
