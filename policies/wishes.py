"""What is wanted tick after tick: the same again, something on the way to what was refused, or something else."""

from dataclasses import replace

from policies.settings import direction, knobs_of
from policies.stages import nearer
from policies.state import Wanted
from simulators.plant import Setpoints

REFUSED_TICKS = 4
"""A wish that the models refused is asked of them again after so many ticks more than a fresh one takes: they would say
the same of the same job."""


def wanted(before: Wanted | None, in_force: Setpoints, changes: Setpoints) -> Wanted | None:
    """The wish of this tick after that of the last one."""
    knobs = knobs_of(changes)
    if not knobs:
        return None
    way = direction(in_force, changes, knobs[0])
    if before is None or (before.knob, before.direction) != (knobs[0], way):
        return Wanted(knobs[0], way, 1)
    # What is nearer than what was refused is another question: it need not wait.
    ticks = max(0, before.ticks) if nearer(in_force, changes, before.refused) else before.ticks
    return replace(before, ticks=ticks + 1)


def refused(wish: Wanted | None, changes: Setpoints, *, begins: bool = False) -> Wanted | None:
    """The wish, of which the models refused `changes`.

    While a job begins each tick knows more of its engines than the last one: it is asked again as a fresh one.
    """
    return None if wish is None else replace(wish, ticks=0 if begins else -REFUSED_TICKS, refused=changes)
