"""A person's yes stands for itself: what was approved need not be wanted again."""

from dataclasses import dataclass, replace

from policies.base import Interval
from policies.commands import Command, CommandKind, ControlMode
from policies.control import Action, Hold, Proposal, View, split_to
from tests.unit.control.test_modes import Job


@dataclass(frozen=True)
class Wavering:
    """Wants something else until its second, and holds from then on."""

    until_s: float

    def decide(self, view: View) -> Proposal | Hold:
        if view.now_s >= self.until_s:
            return Hold("not so sure any more")
        return Proposal(split_to(view, 56), "the trainer waits", Interval(0.05, 0.1, 0.15))


def test_what_a_person_approves_need_not_be_wanted_again_tick_after_tick() -> None:
    """Patience is for a law that may waver; a yes is one."""
    job = Job(ControlMode.APPROVE, policy=Wavering(1e9))
    question = job.until(Action.ASK)
    job.rules = replace(job.rules, policy=Wavering(0.0))
    assert job.tick().reason == "not so sure any more"
    begun = job.tick(Command(CommandKind.APPROVE, decision_id=question.decision_id))
    assert (begun.action, begun.code) == (Action.APPLY, None)
