"""A move that changed what the model learns is taken back; the alarm ends when learning has settled, and says so."""

from dataclasses import dataclass, field, replace

import pytest

from policies.control import Capability, HoldCode
from policies.guardrails.case import Limits
from policies.laws.static import Static
from simulators.plant import Bounds, Observation
from tests.plants import START, FluidPlant
from tests.stories.driving import CAPABILITIES, HOUR, Kept, driven, rules

WITHOUT = replace(START, oversampling_ratio=1.0)
BY = rules(
    Static(oversampling_ratio=1.2),
    capabilities=(*CAPABILITIES, Capability("oversampling_ratio", data_changing=True)),
    limits=Limits(auto_data_changing=("oversampling_ratio",)),
    bounds=Bounds(kept_over_attempted_min=0.0),  # nothing tells it here, so a bound on it would hold everything
)


@dataclass
class Learning(FluidPlant):
    """Its entropy is 0.5, and 0.2 while it oversamples; it stays there where that `lasts`."""

    lasts: bool = False
    low_s: list[float] = field(default_factory=list)
    """Looks that showed it oversampling."""

    def observe(self, now_s: float) -> Observation:
        seen = super().observe(now_s)
        if seen.in_force.oversampling_ratio == 1.2:
            self.low_s.append(now_s)
        shown = ((row, self._entropy(row.time_s or 0.0)) for row in seen.snapshot.rows)
        rows = tuple(replace(row, values={**row.values, "entropy": entropy}) for row, entropy in shown)
        return replace(seen, snapshot=replace(seen.snapshot, rows=rows))

    def _entropy(self, at_s: float) -> float:
        since = any(low_s < at_s for low_s in self.low_s)
        now = any(abs(low_s - at_s) < 60.0 for low_s in self.low_s)
        return 0.2 if (since if self.lasts else now) else 0.5


def over(kept: Kept) -> list[tuple[float, str]]:
    return [(d.at_s, note) for d in kept.decisions for note in d.notes if "this is over" in note]


@pytest.mark.parametrize(
    ("lasts", "why", "within_h"),
    [(False, "learning is where it was before the move", 1.0), (True, "learning stands still where it is", 2.0)],
)
def test_an_alarm_ends_when_learning_is_back_or_stands(lasts: bool, why: str, within_h: float) -> None:
    _, kept = driven(Learning(WITHOUT, lasts=lasts), 4, BY)
    taken_back = next(d for d in kept.decisions if "is reverted: the entropy went from 0.5 to 0.2" in d.reason)
    at_s, note = over(kept)[0]
    assert note.startswith(why)
    assert "the entropy went from 0.5 to 0.2" in note
    assert taken_back.at_s < at_s < taken_back.at_s + within_h * HOUR


def test_what_shifted_it_again_rests_twice_as_long() -> None:
    _, kept = driven(Learning(WITHOUT), 6, replace(BY, freeze_s=0.5 * HOUR), period_s=60.0)
    reverted = [d.at_s for d in kept.decisions if "is reverted" in d.reason]
    begun = [d.at_s for d in kept.decisions if d.changes is not None and d.decision_id.endswith(".1")]
    rests = [min(at_s for at_s in begun if at_s > back_s) - back_s for back_s in reverted[:3]]
    assert rests[0] >= 0.5 * HOUR
    assert rests[1] >= 1.0 * HOUR
    assert rests[2] >= 2.0 * HOUR
    assert {HoldCode.FROZEN, HoldCode.UNHEALTHY} & kept.codes()
