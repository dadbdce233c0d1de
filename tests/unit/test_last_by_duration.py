"""`--last 2h`: the end of a window by duration."""

from pathlib import Path

import pytest

from simulators.snapshot import Row
from tuner import ingest
from tuner.errors import ConfigError
from tuner.ingest.lately import lately


def test_rows_with_times_are_cut_by_their_times() -> None:
    rows = [Row({"step_s": 60.0}, i, 1000.0 + 60.0 * i) for i in range(10)]
    assert [row.step for row in lately(rows, 180.0)] == [7, 8, 9]


def test_rows_without_times_are_cut_by_the_length_of_their_steps() -> None:
    rows = [Row({"step_s": 60.0}, i, None) for i in range(10)]
    assert [row.step for row in lately(rows, 150.0)] == [7, 8, 9]


def test_the_command_takes_steps_or_a_duration(tmp_path: Path) -> None:
    table = tmp_path / "job.csv"
    lines = [f"{i},{1_781_600_000 + 100 * i},100,30,70" for i in range(30)]
    table.write_text("step,time,step_s,trainer_wait_s,trainer_busy_s\n" + "\n".join(lines) + "\n")
    assert ingest.read([str(table)], last="10m").snapshot.window.steps == 6
    assert ingest.read([str(table)], last="6").snapshot.window.steps == 6


@pytest.mark.parametrize("wish", ["0", "0h", "2x", "h", "-1", "1e3m"])
def test_another_wish_is_refused_with_what_is_allowed(wish: str) -> None:
    with pytest.raises(ConfigError, match=r"steps \(50\) or a duration \(90s, 10m, 2h, 1d\)"):
        ingest.read(["x.csv"], last=wish)
