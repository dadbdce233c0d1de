"""Configuration and restart: what is written, when it is in force, what is left of a change that fails or is cut."""

import json
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from simulators.plant import Order, Setpoints, Status
from tests.unit.actuators.sites import SLIME, VERL, site_of
from tuner.actuators.base import Actuator
from tuner.actuators.registry import make
from tuner.actuators.restart import Restarter
from tuner.actuators.site import Site
from tuner.errors import ConfigError

SPLIT = Setpoints(gpus_trainer=48, gpus_generator=208)
ORDER = Order(SPLIT, "d7.1", 3)
WRITTEN = "++trainer.nnodes=6\n++rollout.nnodes=26\n"


def actuator(folder: Path, command: str, site: Site | None = None, **options: Any) -> Actuator:
    """verl with an override file, restarted by a shell command."""
    named = {"override": folder / "overrides", "restart": ["sh", "-c", command], "knobs": ["gpus_trainer"], **options}
    return make("config_restart", named, site or site_of("verl", VERL))


def ended(folder: Path, name: str = "overrides") -> None:
    """Waits until the restart command has ended."""
    for _ in range(500):
        if "ended" in (folder / f"{name}.equipoise.status").read_text():
            return
        time.sleep(0.01)
    raise AssertionError("the restart command has not ended")


def died(folder: Path, name: str = "overrides") -> None:
    """Waits until the restart command has died without a word."""
    told = Restarter((), folder / f"{name}.equipoise.status", folder / "unused.log")
    for _ in range(500):
        if told.progress().died:
            return
        time.sleep(0.01)
    raise AssertionError("the restart command has not died")


def reason(receipt: Any) -> str:
    return str(next(iter(receipt.outcomes.values())).reason)


def test_an_order_is_written_then_restarted_then_in_force(tmp_path: Path) -> None:
    job = actuator(tmp_path, f'echo "$EQUIPOISE_DECISION_ID $EQUIPOISE_SETPOINTS" >> {tmp_path}/ran')
    assert job.current().gpus_trainer == 64
    receipt = job.apply(ORDER, 0.0)
    assert receipt.status is Status.PENDING
    assert "trainer.nnodes: 8 -> 6; rollout.nnodes: 24 -> 26" in reason(receipt)
    assert (tmp_path / "overrides").read_text() == WRITTEN
    ended(tmp_path)
    assert job.apply(ORDER, 1.0).status is Status.APPLIED
    assert (job.current().gpus_trainer, job.current().gpus_generator) == (48, 208)
    assert (tmp_path / "ran").read_text() == 'd7.1 {"gpus_trainer": 48, "gpus_generator": 208}\n'


def test_it_is_in_force_once_the_job_says_that_it_runs_with_it(tmp_path: Path) -> None:
    resolved = tmp_path / "resolved.json"
    resolved.write_text(json.dumps(VERL))
    job = actuator(tmp_path, "true", resolved=resolved)
    job.apply(ORDER, 0.0)
    ended(tmp_path)
    assert job.apply(ORDER, 1.0).status is Status.PENDING
    assert job.current().gpus_trainer == 64
    resolved.write_text(json.dumps(VERL | {"trainer.nnodes": 6, "rollout.nnodes": 26}))
    assert job.apply(ORDER, 2.0).status is Status.APPLIED
    assert job.current().gpus_trainer == 48


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Setpoints(gpus_trainer=52, gpus_generator=204), "not a multiple of the trainer's step of 8"),
        (Setpoints(gpus_trainer=40, gpus_generator=216), "40 does not divide 1536 rollouts"),
    ],
)
def test_an_illegal_order_is_refused_before_anything_is_written(tmp_path: Path, wish: Setpoints, words: str) -> None:
    job = actuator(tmp_path, f"touch {tmp_path}/ran")
    assert words in reason(job.apply(Order(wish, "d1.1"), 0.0))
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_cannot_be_resized_is_not_restarted(tmp_path: Path) -> None:
    fsdp = VERL | {"actor_rollout_ref.actor.strategy": "fsdp"}
    job = actuator(tmp_path, "true", site_of("verl", fsdp))
    assert "the checkpoint of 64 GPUs cannot be resumed on 48" in reason(job.apply(ORDER, 0.0))


def test_a_failed_restart_leaves_the_file_as_it_was_and_is_not_tried_again(tmp_path: Path) -> None:
    (tmp_path / "overrides").write_text("trainer.save_freq=20\n")
    job = actuator(tmp_path, f"echo x >> {tmp_path}/ran; exit 3")
    job.apply(ORDER, 0.0)
    ended(tmp_path)
    for _ in range(3):
        receipt = job.apply(ORDER, 1.0)
        assert receipt.status is Status.REFUSED
        assert "ended with code 3; see" in reason(receipt)
    assert (tmp_path / "ran").read_text() == "x\n"
    assert (tmp_path / "overrides").read_text() == "trainer.save_freq=20\n"
    assert job.current() == Setpoints()


def test_after_a_failed_restart_the_old_setting_is_restarted_not_taken_for_granted(tmp_path: Path) -> None:
    job = actuator(tmp_path, f"echo x >> {tmp_path}/ran; test $(wc -l < {tmp_path}/ran) -gt 1")
    job.apply(ORDER, 0.0)
    ended(tmp_path)
    assert job.apply(ORDER, 1.0).status is Status.REFUSED
    back = Order(Setpoints(gpus_trainer=64, gpus_generator=192), "d7.0b", 3)
    assert job.apply(back, 2.0).status is Status.PENDING
    ended(tmp_path)
    assert job.apply(back, 3.0).status is Status.APPLIED
    assert job.current().gpus_trainer == 64


def test_a_restart_that_never_ends_is_killed_with_its_children(tmp_path: Path) -> None:
    job = actuator(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; wait", restart_timeout_s=100.0)
    job.apply(ORDER, 0.0)
    for _ in range(500):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip():
            break
        time.sleep(0.01)
    assert job.apply(ORDER, 100.0).status is Status.PENDING
    assert "has not ended in 100 s and was killed" in reason(job.apply(ORDER, 101.0))
    _dead(int((tmp_path / "pid").read_text()))


def _dead(pid: int) -> None:
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.02)
    raise AssertionError(f"{pid} still lives")


def test_a_new_daemon_waits_for_the_restart_that_the_old_one_began(tmp_path: Path) -> None:
    command = f"echo x >> {tmp_path}/ran; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    actuator(tmp_path, command).apply(ORDER, 0.0)
    new = actuator(tmp_path, command)
    assert new.apply(ORDER, 1.0).status is Status.PENDING
    other = new.apply(Order(Setpoints(gpus_trainer=32, gpus_generator=224), "d8.1", 3), 1.0)
    assert "has to wait: gpus_trainer=48" in reason(other)
    (tmp_path / "go").touch()
    ended(tmp_path)
    assert actuator(tmp_path, command).apply(ORDER, 2.0).status is Status.APPLIED
    assert (tmp_path / "ran").read_text() == "x\n"


@pytest.mark.parametrize("stage", ["written", "restarting"])
def test_a_daemon_killed_before_the_restart_began_ends_in_a_known_state(tmp_path: Path, stage: str) -> None:
    """Cut between any two writes: the order goes on, or it is refused and the file is as before."""
    job = actuator(tmp_path, f"echo x >> {tmp_path}/ran")
    job.apply(ORDER, 0.0)
    ended(tmp_path)
    (tmp_path / "ran").unlink()
    state = tmp_path / "overrides.equipoise.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"name": stage}))
    (tmp_path / "overrides.equipoise.status").write_text("none\n")
    again = actuator(tmp_path, f"echo x >> {tmp_path}/ran")
    receipt = again.apply(ORDER, 1.0)
    if stage == "written":
        assert receipt.status is Status.PENDING
        ended(tmp_path)
        assert again.apply(ORDER, 2.0).status is Status.APPLIED
        assert (tmp_path / "ran").read_text() == "x\n"
    else:
        assert "the restart command died" in reason(receipt)
        assert (tmp_path / "overrides").read_text() == ""


def test_a_restart_command_that_went_down_with_its_job_has_not_failed_where_the_job_says_so(tmp_path: Path) -> None:
    """A sidecar inside a Slurm allocation requeues that allocation: daemon and command end with it, and it restarts."""
    resolved = tmp_path / "resolved.json"
    resolved.write_text(json.dumps(VERL))
    actuator(tmp_path, "kill -9 $PPID", resolved=resolved).apply(ORDER, 0.0)
    died(tmp_path)
    again = actuator(tmp_path, "false", resolved=resolved)
    assert again.apply(ORDER, 60.0).status is Status.PENDING, "the job waits in the queue"
    assert (tmp_path / "overrides").read_text() == WRITTEN, "what it will start with"
    resolved.write_text(json.dumps(VERL | {"trainer.nnodes": 6, "rollout.nnodes": 26}))
    assert again.apply(ORDER, 120.0).status is Status.APPLIED
    assert (tmp_path / "overrides").read_text() == WRITTEN


@pytest.mark.parametrize("which", ["overrides", "overrides.equipoise.json", "overrides.equipoise.before"])
def test_links_are_refused(tmp_path: Path, which: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / which).symlink_to(victim)
    job = actuator(tmp_path, f"touch {tmp_path}/ran")
    assert job.apply(ORDER, 0.0).status is Status.REFUSED
    assert victim.read_text() == "precious"
    assert not (tmp_path / "ran").exists()


def test_a_damaged_state_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "overrides.equipoise.json").write_text("{")
    job = actuator(tmp_path, "true")
    assert "is damaged: look whether a restart is under way" in reason(job.apply(ORDER, 0.0))
    assert (tmp_path / "overrides.equipoise.json").read_text() == "{"


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow any more: the system refuses every write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_is_a_refusal_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "overrides").write_text("trainer.save_freq=20\n")
    job = actuator(tmp_path, f"touch {tmp_path}/ran")
    with full_disk():
        receipt = job.apply(ORDER, 0.0)
    assert "cannot be written: File too large" in reason(receipt)
    assert [path.name for path in tmp_path.iterdir()] == ["overrides"]
    assert (tmp_path / "overrides").read_text() == "trainer.save_freq=20\n"


def test_a_missing_folder_is_a_refusal(tmp_path: Path) -> None:
    assert "cannot be opened" in reason(actuator(tmp_path / "none", "true").apply(ORDER, 0.0))


def test_a_file_of_the_job_is_edited_in_place_with_a_backup(tmp_path: Path) -> None:
    target = tmp_path / "rl.toml"
    target.write_text("[deployment]\nnum_train_gpus = 4  # FSDP\nnum_infer_gpus = 4\n")
    os.chmod(target, 0o640)
    config = {"deployment.num_train_gpus": 4, "deployment.num_infer_gpus": 4}
    options = {"edit": target, "restart": ["true"], "knobs": ["gpus_trainer"]}
    job = make("config_restart", options, site_of("prime-rl", config))
    order = Order(Setpoints(gpus_trainer=2, gpus_generator=6), "d1.1")
    assert job.apply(order, 0.0).status is Status.PENDING
    assert target.read_text() == "[deployment]\nnum_train_gpus = 2  # FSDP\nnum_infer_gpus = 6\n"
    assert target.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "rl.toml.equipoise.before").read_text().startswith("[deployment]\nnum_train_gpus = 4  # FSDP")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"edit": "run.sh"}, "neither TOML nor YAML; a launch script is never rewritten"),
        ({}, "name either override"),
        ({"edit": "a.toml", "override": "b"}, "name either override"),
        ({"override": "b", "style": "ini"}, "style='ini' must be one of"),
        ({"override": "b", "restart": []}, "restart=[]"),
    ],
)
def test_a_wrong_section_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make("config_restart", {"restart": ["true"], "knobs": ["gpus_trainer"], **options}, site_of("slime", SLIME))
    assert words in str(refused.value)


def test_a_framework_whose_settings_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="settings of nemo-rl cannot be written"):
        actuator(tmp_path, "true", site_of("nemo-rl", {}))
