"""The control file: written whole, taken up by a hook at its boundary, and in force only once the hook says so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policies.settings import values
from simulators.plant import Order, Setpoints, Status
from tests.unit.actuators.hooks import HOOKS, hook
from tests.unit.actuators.sites import PLAIN
from tuner.actuators.base import Actuator
from tuner.actuators.registry import make

ORDER = Order(Setpoints(max_in_flight=512, oversampling_ratio=1.5), "d7.1", 3)


def letterbox(folder: Path, patience_s: float = 3600.0) -> Actuator:
    options = {"path": folder / "c.json", "knobs": ["max_in_flight", "oversampling_ratio"], "patience_s": patience_s}
    return make("control_file", options, PLAIN)


def control(folder: Path) -> Any:
    return hook("equipoise_control").ControlFile(folder / "c.json")


def letter(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "c.json").read_text())
    return read


def test_an_order_waits_for_the_boundary_and_is_in_force_when_the_hook_says_so(tmp_path: Path) -> None:
    actuator, job = letterbox(tmp_path), control(tmp_path)
    assert actuator.apply(ORDER, 0.0).status is Status.PENDING
    assert actuator.current() == Setpoints()
    assert job.changed() == {"max_in_flight": 512, "oversampling_ratio": 1.5}
    assert job.changed() is None
    job.acknowledge({"max_in_flight": 512, "oversampling_ratio": 1.5}, step=17)
    assert actuator.current() == Setpoints(max_in_flight=512, oversampling_ratio=1.5)
    assert actuator.apply(ORDER, 60.0).status is Status.APPLIED


def test_a_half_applied_order_says_which_knob_and_why(tmp_path: Path) -> None:
    actuator, job = letterbox(tmp_path), control(tmp_path)
    actuator.apply(ORDER, 0.0)
    job.changed()
    job.acknowledge({"oversampling_ratio": 1.5}, {"max_in_flight": "the pool is too small"})
    receipt = actuator.apply(ORDER, 60.0)
    assert receipt.outcomes["oversampling_ratio"].status is Status.APPLIED
    assert receipt.outcomes["max_in_flight"].reason == "the pool is too small"
    assert receipt.status is Status.REFUSED


def test_what_was_refused_is_not_asked_for_again_with_the_next_order(tmp_path: Path) -> None:
    """Seen on a real job: the way back from a dead engine was refused for ever, as each order asked for it anew."""
    actuator, job = letterbox(tmp_path), control(tmp_path)
    job.acknowledge({"max_in_flight": 256, "oversampling_ratio": 1.0})
    actuator.apply(ORDER, 0.0)
    job.changed()
    job.acknowledge({"oversampling_ratio": 1.5}, {"max_in_flight": "the engine is dead"})
    actuator.apply(ORDER, 2.0)
    assert job.changed() is None, "the same order again is no other letter"
    actuator.apply(Order(Setpoints(oversampling_ratio=1.0), "d7.0b", 3), 4.0)
    assert job.changed() == {"max_in_flight": 256, "oversampling_ratio": 1.0}


def test_orders_add_up_so_that_a_restarted_job_takes_up_all_of_them(tmp_path: Path) -> None:
    actuator = letterbox(tmp_path)
    actuator.apply(Order(Setpoints(max_in_flight=512), "d1.1"), 0.0)
    actuator.apply(Order(Setpoints(oversampling_ratio=1.5), "d2.1"), 1.0)
    assert letter(tmp_path)["setpoints"] == {"max_in_flight": 512, "oversampling_ratio": 1.5}
    assert control(tmp_path).changed() == {"max_in_flight": 512, "oversampling_ratio": 1.5}


def test_what_a_dead_process_had_in_force_is_not_in_force(tmp_path: Path) -> None:
    actuator, job = letterbox(tmp_path), control(tmp_path)
    actuator.apply(ORDER, 0.0)
    job.changed()
    job.acknowledge(values(ORDER.setpoints))
    assert actuator.apply(ORDER, 1.0).status is Status.APPLIED
    control(tmp_path)  # the job restarts
    assert actuator.current() == Setpoints()
    assert actuator.apply(ORDER, 2.0).status is Status.PENDING


def test_an_order_that_no_hook_reads_is_withdrawn(tmp_path: Path) -> None:
    actuator = letterbox(tmp_path, patience_s=100.0)
    actuator.apply(ORDER, 0.0)
    assert actuator.apply(ORDER, 100.0).status is Status.PENDING
    receipt = actuator.apply(ORDER, 101.0)
    assert "no hook has read" in receipt.outcomes["max_in_flight"].reason
    assert letter(tmp_path)["setpoints"] == {}


def test_an_order_that_is_called_off_is_not_taken_up_by_a_hook_that_comes_late(tmp_path: Path) -> None:
    """A step outlasted its leg, the old setting was ordered back: what is in force by luck is not in force for good."""
    actuator, job = letterbox(tmp_path), control(tmp_path)
    job.acknowledge({"max_in_flight": 1536, "oversampling_ratio": 1.25})
    actuator.apply(ORDER, 0.0)
    back = Order(Setpoints(max_in_flight=1536, oversampling_ratio=1.25), "d7.0b", 3)
    restarted = letterbox(tmp_path)
    assert restarted.apply(back, 900.0).status is Status.PENDING
    assert letter(tmp_path)["setpoints"] == values(back.setpoints)
    assert job.changed() == values(back.setpoints)
    job.acknowledge(values(back.setpoints), step=18)
    assert restarted.apply(back, 930.0).status is Status.APPLIED


def test_patience_with_a_silent_hook_does_not_begin_anew_with_each_order(tmp_path: Path) -> None:
    actuator, job = letterbox(tmp_path, patience_s=100.0), control(tmp_path)
    job.acknowledge({"max_in_flight": 1536, "oversampling_ratio": 1.25})
    actuator.apply(ORDER, 0.0)
    other = Order(Setpoints(max_in_flight=768), "d8.1", 3)
    assert actuator.apply(other, 90.0).status is Status.PENDING
    told = actuator.apply(other, 110.0).outcomes["max_in_flight"]
    assert (told.status, "no hook has read" in told.reason) == (Status.REFUSED, True)
    before = letter(tmp_path)
    assert before["setpoints"] == {"max_in_flight": 1536, "oversampling_ratio": 1.25}
    assert actuator.apply(Order(Setpoints(max_in_flight=640), "d9.1", 3), 5000.0).status is Status.REFUSED
    assert letter(tmp_path) == before, "nobody reads it, so nothing more is written"
    assert job.changed() is not None, "the hook is back"
    job.acknowledge(before["setpoints"])
    assert actuator.apply(Order(Setpoints(max_in_flight=640), "d9.2", 3), 5030.0).status is Status.PENDING
    assert letter(tmp_path)["setpoints"]["max_in_flight"] == 640


@pytest.mark.parametrize("which", ["c.json", "c.json.ack"])
def test_a_link_is_neither_read_nor_written(tmp_path: Path, which: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"setpoints": {"max_in_flight": 512, "oversampling_ratio": 1.5}}')
    before = secret.read_bytes()
    (tmp_path / which).symlink_to(secret)
    actuator = letterbox(tmp_path)
    assert actuator.current() == Setpoints()
    receipt = actuator.apply(ORDER, 0.0)
    assert "it is a link" in receipt.outcomes["max_in_flight"].reason
    assert secret.read_bytes() == before


def test_a_link_or_a_pipe_does_not_stop_the_training_process(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.json")
    assert control(tmp_path).changed() is None
    (tmp_path / "c.json").unlink()
    (tmp_path / "c.json").symlink_to("/etc/hostname")
    assert control(tmp_path).changed() is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[" * 60_000, '{"schema": 2, "setpoints": {}}', '{"schema": 1}', "x" * 70_000]
)
def test_rubbish_in_either_file_is_refused_and_harms_nobody(tmp_path: Path, text: str) -> None:
    job = control(tmp_path)
    (tmp_path / "c.json").write_text(text)
    assert job.changed() is None
    (tmp_path / "c.json.ack").write_text(text)
    assert letterbox(tmp_path).current() == Setpoints()


def test_impossible_values_are_not_handed_to_the_job(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(
        '{"schema": 1, "sequence": 1, "setpoints": {"max_in_flight": 1e999, "a": "x", "oversampling_ratio": 1.5}}'
    )
    assert control(tmp_path).changed() == {"oversampling_ratio": 1.5}


def test_a_missing_folder_is_refused_with_its_name(tmp_path: Path) -> None:
    receipt = letterbox(tmp_path / "none").apply(ORDER, 0.0)
    assert f"{tmp_path / 'none'} cannot be opened" in receipt.outcomes["max_in_flight"].reason


def test_of_two_controllers_with_journals_of_their_own_the_first_stops(tmp_path: Path) -> None:
    """Their tokens are counted apart and may be alike: the letters tell."""
    one, two = letterbox(tmp_path), letterbox(tmp_path)
    one.apply(ORDER, 0.0)
    assert two.apply(Order(Setpoints(max_in_flight=256), "d9.1", 3), 1.0).status is Status.PENDING
    told = one.apply(ORDER, 2.0).outcomes["max_in_flight"]
    assert "was written by another since: two controllers on one job" in told.reason
    assert letter(tmp_path)["setpoints"]["max_in_flight"] == 256


def test_the_token_of_a_newer_writer_stands_in_the_file(tmp_path: Path) -> None:
    letterbox(tmp_path).apply(ORDER, 0.0)
    older = letterbox(tmp_path).apply(Order(Setpoints(max_in_flight=256), "d9.1", 2), 1.0)
    assert "a newer writer (token 3)" in older.outcomes["max_in_flight"].reason
    assert letter(tmp_path)["setpoints"]["max_in_flight"] == 512


def test_the_hooks_need_neither_our_package_nor_a_library(tmp_path: Path) -> None:
    names = sorted(path.stem for path in HOOKS.glob("*.py"))
    assert names == ["equipoise_control", "equipoise_slime", "equipoise_verl"]
    code = f"import sys; sys.path.insert(0, {str(HOOKS)!r}); import {', '.join(names)}; print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert not {"simulators", "policies", "tuner", "pydantic", "verl", "slime"} & set(eval(done.stdout))


def test_a_folder_that_cannot_be_looked_at_is_a_refusal_and_blinds_nobody(tmp_path: Path) -> None:
    actuator = letterbox(tmp_path / ("x" * 300))
    assert actuator.current() == Setpoints()
    assert "File name too long" in actuator.apply(ORDER, 0.0).outcomes["max_in_flight"].reason
    (tmp_path / "file").write_text("")
    assert "Not a directory" in letterbox(tmp_path / "file").apply(ORDER, 0.0).outcomes["max_in_flight"].reason
