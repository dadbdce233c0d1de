"""Stories: inputs that broke the command once, each through a real process, each named after what was seen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

ROOT = Path(__file__).parents[2]
MEMORY_BYTES = 1 << 30
OK, USAGE, UNREADABLE = 0, 2, 3


def equipoise(*arguments: str | Path, stdin: bytes = b"") -> forked.Done:
    """Runs it in a process of its own; too much memory or time is a failure."""
    done = forked.equipoise(*arguments, stdin=stdin, memory_bytes=MEMORY_BYTES)
    assert b"Traceback" not in done.stderr
    assert b"bug of ours" not in done.stderr
    return done


def in_a_shell(*arguments: str | Path, end: str) -> int:
    """The exit code in a shell that closes or redirects streams before it starts."""
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m tuner.cli "$@" {end}', sys.executable, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert b"bug of ours" not in done.stderr
    return done.returncode


def verl_line(step: int, seconds: float = 10.0) -> str:
    phases = f"timing_s/gen:{0.6 * seconds} - timing_s/update_actor:{0.3 * seconds} - timing_s/step:{seconds}"
    return f"step:{step} - {phases} - training/global_step:{step}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text("".join(verl_line(i) for i in range(10)))
    return path


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/null"])
def test_a_device_is_refused_instead_of_read_for_ever(device: str) -> None:
    done = equipoise("advise", device)
    assert done.returncode == UNREADABLE
    assert b"is a device" in done.stderr


def test_a_fifo_in_a_folder_does_not_hang_the_reading(log: Path) -> None:
    os.mkfifo(log.with_name("a.pipe"))
    assert equipoise("advise", log.parent).returncode == OK


def test_an_endless_job_file_is_refused(log: Path) -> None:
    done = equipoise("advise", log, "--job", "/dev/zero")
    assert done.returncode == USAGE
    assert b"no job file" in done.stderr


@pytest.mark.parametrize("end", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("command", ["advise", "init"])
def test_a_closed_standard_stream_is_no_crash(log: Path, command: str, end: str) -> None:
    assert in_a_shell(command, log, end=end) == OK


def test_closed_standard_input_is_an_empty_source() -> None:
    assert in_a_shell("advise", "-", end="<&-") == UNREADABLE


@pytest.mark.parametrize("option", ["--last", "--since"])
@pytest.mark.parametrize("text", ["²", "9" * 5000, "-1", "", "٣"])
def test_odd_digits_in_an_option_are_a_usage_error(log: Path, option: str, text: str) -> None:
    done = equipoise("advise", log, f"{option}={text}")
    assert done.returncode == USAGE
    assert option.encode() in done.stderr
    assert len(done.stderr) < 200


def test_a_start_after_the_end_names_the_option_that_left_nothing(log: Path) -> None:
    done = equipoise("advise", log, "--since", "99999")
    assert done.returncode == UNREADABLE
    assert b"--since 99999" in done.stderr


def test_a_start_in_time_cannot_cut_a_log_without_times_and_says_so(tmp_path: Path) -> None:
    untimed = tmp_path / "untimed.jsonl"
    untimed.write_text("".join(f'{{"step": {i}, "step_s": 60.0, "trainer_busy_s": 20.0}}\n' for i in range(8)))
    told = json.loads(equipoise("advise", untimed, "--since", "2026-03-22T13:50", "--json").stdout)
    assert "unplaced-records" in [finding["code"] for finding in told["findings"]]
    told = json.loads(equipoise("advise", untimed, "--since", "4", "--json").stdout)
    assert "unplaced-records" not in [finding["code"] for finding in told["findings"]]


def test_a_log_that_starts_with_a_hole_of_nul_bytes_is_read(log: Path) -> None:
    log.write_bytes(b"\0" * 100_000 + log.read_bytes())
    assert equipoise("advise", log).returncode == OK


@pytest.mark.parametrize("figure", ["1e308", "1e16", "5e-324", "nan", "-1", "9" * 400])
def test_impossible_magnitudes_in_every_column_end_in_finite_json(tmp_path: Path, figure: str) -> None:
    names = ("step_s", "trainer_wait_s", "trainer_busy_s", "rollout_s", "batch_rollouts", "running", "queued")
    learning = ("reward_mean", "reward_min", "reward_max", "advantage_max", "resp_len_mean", "waste_frac")
    head = ",".join(("step", *names, *learning))
    rows = (f"{i}" + f",{figure}" * len(names + learning) for i in range(9))
    path = tmp_path / "run.csv"
    path.write_text("\n".join((head, *rows)) + "\n")
    done = equipoise("advise", path, "--json", "--html", tmp_path / "report.html")
    assert done.returncode == OK, done.stderr
    json.loads(done.stdout, parse_constant=pytest.fail)


def test_all_dispatched_rollouts_wasted_is_no_division_by_zero(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    rows = (f"{i},100,60,40,64,64,0,1.0" for i in range(9))
    head = "step,step_s,trainer_wait_s,trainer_busy_s,batch_rollouts,dispatched,accepted,waste_frac"
    path.write_text("\n".join((head, *rows)) + "\n")
    assert equipoise("advise", path).returncode == OK


DEEP = {
    "a.yaml": "a: " + "{" * 300_000,
    "b.yaml": "a: " + "[" * 300_000,
    "c.toml": ".".join(["a"] * 100_000) + " = 1\n",
    "d.prom": 'vllm:num_requests_running{a="' + "x," * 2_000_000,
    "e.log": "=== Step " + "=" * 300_000,
    "f.log": "Timing: " + "1" * 300_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_or_endless_tokens_neither_hang_nor_fill_the_memory(tmp_path: Path, log: Path, name: str) -> None:
    (tmp_path / name).write_text(DEEP[name])
    assert equipoise("advise", log, tmp_path / name).returncode == OK


def test_a_saved_state_that_breaks_off_is_called_cut_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text('{"max_steps": 5, "log_history": [{"step": 1, "loss":')
    done = equipoise("advise", path)
    assert done.returncode == UNREADABLE
    assert b"cut before the first whole row" in done.stderr


def test_more_gpus_on_one_side_than_there_are_is_refused(tmp_path: Path, log: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        "[topology]\nmode = 'overlapped'\ngpus_total = 8\n[setpoints]\ngpus_trainer = 6\ngpus_generator = 6\n"
    )
    done = equipoise("advise", log, "--job", job)
    assert done.returncode == USAGE
    assert b"gpus_trainer + gpus_generator=12 must be <= [topology] gpus_total=8" in done.stderr


def test_a_job_of_a_billion_gpus_is_answered_in_time(tmp_path: Path) -> None:
    job, path = tmp_path / "job.toml", tmp_path / "run.csv"
    job.write_text("[setpoints]\ngpus_trainer = 1000000000\ngpus_generator = 1000000000\n")
    path.write_text("step,step_s,trainer_wait_s,trainer_busy_s\n" + "".join(f"{i},10,6,4\n" for i in range(9)))
    assert equipoise("advise", path, "--job", job).returncode == OK


def test_standard_input_cannot_be_both_runs(log: Path) -> None:
    done = equipoise("compare", "-", "-", stdin=log.read_bytes())
    assert done.returncode == USAGE
    assert b"both runs are standard input" in done.stderr


@pytest.mark.parametrize("runs", [2, 3])
def test_the_first_line_of_another_run_is_not_a_step_of_this_one(tmp_path: Path, runs: int) -> None:
    path = tmp_path / "both.log"
    starts = range(0, 1000 * runs, 1000)
    path.write_text("".join(verl_line(start + i, 10.0 * (1 + start)) for i in range(30) for start in starts))
    window = json.loads(equipoise("advise", path, "--json").stdout)["window"]
    assert window["to_step"] - window["from_step"] == window["steps"] - 1


def test_a_configuration_of_another_framework_is_named_as_unused(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("trainer:\n  n_gpus_per_node: 8\nactor_rollout_ref:\n  rollout:\n    n: 8\n    name: vllm\n")
    done = equipoise("advise", ROOT / "examples" / "prime-rl-generation-paced.log", config, "--json")
    codes = [finding["code"] for finding in json.loads(done.stdout)["findings"]]
    assert "foreign-configuration" in codes
