"""How long a leg may take follows the job's own pace where it turns at a step's end."""

from dataclasses import replace
from typing import Any

import pytest

from policies.control import Capability, View
from policies.patience import leg_limit_s, verify_limit_s
from policies.settings import SPLIT
from simulators.plant import Change
from simulators.snapshot import Row, Snapshot
from tests.plants import START
from tests.unit.control.conftest import view_after
from tests.unit.control.test_gate import WORKLOAD, TwoRates

PATH = (START, replace(START, gpus_trainer=56, gpus_generator=200))


def seen(*steps_s: float, change: Change = Change.BOUNDARY, **changes: Any) -> View:
    rows = tuple(Row({"step_s": step_s}, i, 1000.0 * (i + 1)) for i, step_s in enumerate(steps_s))
    return view_after(snapshot=Snapshot({}, rows), capabilities=(Capability(SPLIT, change),), **changes)


@pytest.mark.parametrize(
    ("change", "steps_s", "actuation_s", "limit_s"),
    [
        (Change.HOT, (640.0, 600.0), 60.0, 300.0),
        (Change.HOT, (640.0, 600.0), 600.0, 1800.0),
        (Change.BOUNDARY, (640.0, 600.0), 60.0, 300.0 + 3 * 640.0),
        (Change.BOUNDARY, (), 60.0, 300.0),
    ],
)
def test_the_worked_table(change: Change, steps_s: tuple[float, ...], actuation_s: float, limit_s: float) -> None:
    assert leg_limit_s(seen(*steps_s, change=change), (SPLIT,), PATH, actuation_s) == limit_s


def test_a_part_that_turns_at_the_boundary_makes_the_whole_knob_wait() -> None:
    view = replace(seen(640.0), capabilities=(Capability(SPLIT), Capability("engines", Change.BOUNDARY)))
    assert leg_limit_s(view, (SPLIT,), PATH, 60.0) == 300.0 + 3 * 640.0


def test_before_the_first_step_the_model_says_how_long_one_takes() -> None:
    view = seen(model=TwoRates(1.0, 1.0), workload=WORKLOAD)
    prediction = view.predicted(START)
    assert prediction is not None
    assert leg_limit_s(view, (SPLIT,), (START,), 60.0) == pytest.approx(300.0 + 3 * prediction.step_s)


def test_weights_come_with_a_publication_however_engines_start() -> None:
    view = seen(640.0, change=Change.HOT, in_force=replace(START, sync_interval=2))
    assert verify_limit_s(view, (SPLIT,), PATH) == 300.0 + 3 * 2 * 640.0
    assert verify_limit_s(view, ("oversampling_ratio",), PATH) == 0.0
