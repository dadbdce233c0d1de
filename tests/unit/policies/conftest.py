"""What tests of the policies build: the estimated snapshot of a few steps, or of a few scrapes."""

from collections.abc import Callable, Sequence

import pytest

from policies.estimators import estimate
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Row, Snapshot
from simulators.window import assemble

Series = float | Sequence[float]
Steps = Callable[..., Snapshot]


def rows_of(steps: int, series: dict[str, Series]) -> list[Row]:
    """Numbered rows a minute apart; a single number holds on every step."""
    columns = {name: [v] * steps if isinstance(v, float | int) else list(v) for name, v in series.items()}
    return [Row({n: float(c[i]) for n, c in columns.items()}, step=10 + i, time_s=60.0 * i) for i in range(steps)]


@pytest.fixture
def steps() -> Steps:
    """`steps(4, step_s=100, trainer_wait_s=[1, 2, 3, 4])`: an estimated snapshot of trainer steps."""

    def build(
        count: int, mode: Mode = Mode.OVERLAPPED, setpoints: Setpoints | None = None, **series: Series
    ) -> Snapshot:
        return estimate(Topology(mode=mode), setpoints or Setpoints(), assemble(rows_of(count, series)))

    return build


@pytest.fixture
def scrapes() -> Steps:
    """`scrapes(3, running=64, queued=[10, 20, 30])`: an estimated snapshot of an engine alone, a minute apart."""

    def build(count: int, **series: Series) -> Snapshot:
        return estimate(Topology(mode=Mode.ENGINE), Setpoints(), assemble([], rows_of(count, series)))

    return build
