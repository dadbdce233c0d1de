"""How long a move settles: what was started under the old setting must be gone."""

import pytest

from policies.readings import settling_s
from simulators.plant import Setpoints
from simulators.snapshot import Signal, Snapshot


@pytest.mark.parametrize(
    ("slow_s", "step_s", "in_flight", "settles_s"),
    [(300.0, 128.0, 1024.0, 660.0), (100.0, 128.0, 1024.0, 316.0), (100.0, 300.0, 256.0, 360.0)],
)
def test_the_worked_table(slow_s: float, step_s: float, in_flight: float, settles_s: float) -> None:
    """Actuation of 60 s and twice the slowest rollout, or the batches in flight, or a step: whatever is longest."""
    told = {"rollout_p99_s": slow_s, "step_s": step_s, "inflight_rollouts": in_flight, "batch_rollouts": 512.0}
    seen = Snapshot({name: Signal(value, "1") for name, value in told.items()})
    assert settling_s(seen, Setpoints(), 60.0) == pytest.approx(settles_s)
