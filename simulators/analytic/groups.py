"""Groups as a cap on them sees them (capped.py): how many start and come free in a period, and how long each stays."""

from dataclasses import dataclass

from simulators.analytic.case import Case
from simulators.analytic.cycle import LAST_OF_BATCH
from simulators.analytic.oversampling import Endings
from simulators.analytic.supply import Supply, in_rounds, open_alone
from simulators.queueing.order_statistics import Curve
from simulators.stations import Plug


@dataclass(frozen=True, slots=True)
class Groups:
    """What the groups of one period do, as far as the cap is concerned."""

    started: float
    """Rollouts, failed attempts not counted."""
    freed: float
    """Slots that come free when a batch is trained: its own, and those of groups that were given up meanwhile."""
    stays: Curve
    """How long a rollout is in flight."""
    slot: Curve
    """How long a group holds its slot while it runs; with its replacements, where the filter drops it."""
    last_s: float
    """The last group of a batch ends."""


def groups_of(case: Case, supply: Supply, endings: Endings) -> Groups:
    """One that the filter drops is replaced, except where slots are counted by publications."""
    layout, batch = case.layout, float(case.layout.batch_groups)
    opened, freed = endings.opened(batch, case.yield_frac), endings.freed(batch, case.yield_frac)
    group = endings.cut(supply.times.curve(layout.members)) if in_rounds(case) else supply.kept.group
    slot = group.scaled(1.0 if layout.plug is Plug.PER_SYNC else opened / freed)
    if in_rounds(case) and open_alone(case):  # its end is looked for
        slot = supply.times.curve(layout.members).scaled(1.0 / case.yield_frac)
    last_s = group.quantile(1.0 - LAST_OF_BATCH / freed)
    return Groups(opened * layout.members, freed, endings.cut(supply.kept.rollout), slot, last_s)
