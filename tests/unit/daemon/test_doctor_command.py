"""`equipoise doctor` names what is wrong before a run: sources, names, actuators, bounds, quotas."""

import json
from pathlib import Path

import pytest

from tests.unit.daemon.logged_job import JOB, Command


def test_a_doctor_finds_a_sound_job_sound(folder: Path, equipoise: Command) -> None:
    done = equipoise("doctor", "--job", "job.toml")
    assert done.code == 0, done.out
    assert "FAIL" not in done.out
    assert not (folder / "equipoise.journal").exists()
    (folder / "job.toml").write_text(JOB.replace("batch_rollouts = 512", "batch_rollouts = 512\nsandbox_quota = 900"))
    done = equipoise("doctor", "--job", "job.toml")
    for words in ("is valid", "no other daemon writes it", "1 of 1 answer", "legal splits", "starts an hour"):
        assert words in done.out


def test_a_doctor_names_all_that_is_wrong_at_once(folder: Path, equipoise: Command) -> None:
    (folder / "token").write_text("0123456789abcdef0123")
    (folder / "token").chmod(0o644)
    text = JOB.replace("metrics.jsonl", "nowhere.jsonl").replace("port = 0", 'port = 0\ntoken_file = "token"')
    text = text.replace("batch_rollouts = 512", "batch_rollouts = 512\nmax_in_flight = 600\nsandbox_quota = 500")
    text = text.replace('mode = "overlapped"', 'mode = "overlapped"\ntrainer_resize = "impossible"')
    (folder / "job.toml").write_text(text)
    done = equipoise("doctor", "--job", "job.toml", "--json")
    assert done.code == 2
    checks = [(c["level"], c["about"]) for c in json.loads(done.out)["checks"]]
    assert {("fail", "source"), ("fail", "signals"), ("fail", "actuators"), ("fail", "sandboxes")} <= set(checks)
    assert ("warn", "server") in checks


@pytest.mark.parametrize(("allowed", "level", "words"), [(4.0, "fail", "1.28 h"), (8.0, "ok", "0.64 h")])
def test_a_doctor_says_what_an_hour_of_sandbox_starts_takes(
    folder: Path, equipoise: Command, allowed: float, level: str, words: str
) -> None:
    (folder / "job.toml").write_text(f"{JOB}[bounds]\nsandbox_starts_per_s_max = {allowed}\n")
    found = json.loads(equipoise("doctor", "--job", "job.toml", "--json").out)["checks"]
    (starts,) = (c for c in found if c["about"] == "sandboxes")
    assert starts["level"] == level
    assert f"18,432 starts an hour; at the {allowed:g}/s allowed they take {words}" in starts["said"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[bounds]\ngpus_trainer_max = 8",
            "the one in force is none of them: 16 is above the bound gpus_trainer_max=8",
        ),
        ("[bounds]\ngpus_trainer_min = 40", "16 is below the bound gpus_trainer_min=40"),
        ("[bounds]\ngpus_trainer_min = 16\ngpus_trainer_max = 16", "no GPU can change sides; not so: 8 is below"),
    ],
)
def test_a_doctor_says_why_there_is_nothing_to_choose(folder: Path, equipoise: Command, text: str, words: str) -> None:
    (folder / "job.toml").write_text(f"{JOB}{text}\n")
    done = equipoise("doctor", "--job", "job.toml")
    assert done.code == 0
    warned = next(line for line in done.out.splitlines() if line.startswith("WARN  topology"))
    assert words in warned
    assert "check gpus_per_engine, trainer_gpu_step" in warned


def test_a_doctor_says_which_knob_the_framework_moves_itself(folder: Path, equipoise: Command) -> None:
    (folder / "job.toml").write_text(JOB.replace("[topology]", '[topology]\nself_tuned = ["gpus_trainer"]'))
    done = equipoise("doctor", "--job", "job.toml")
    assert "WARN  actuators: gpus_trainer: prime-rl moves it itself; it is left alone" in done.out


@pytest.mark.parametrize(
    ("section", "level", "words"),
    [
        ('kind = "control_file"\npath = "none/c.json"', "fail", "none is no folder: make it"),
        ('kind = "control_file"\npath = "metrics.jsonl/c.json"', "fail", "metrics.jsonl is no folder"),
        ('kind = "control_file"\npath = "c.json"', "warn", "c.json.ack is not there: no hook has begun"),
        ('kind = "command"\nargv = ["nowhere"]', "fail", "asked what is in force: nowhere cannot be started"),
        ('kind = "config_restart"\noverride = "none/o"\nrestart = ["true"]', "fail", "none is no folder"),
        ('kind = "config_restart"\noverride = "o"\nrestart = ["nowhere"]', "fail", "nowhere is no program here"),
        ('kind = "config_restart"\nedit = "rl.toml"\nrestart = ["true"]', "fail", "rl.toml is not there"),
    ],
)
def test_a_doctor_says_what_an_actuator_cannot_reach(
    folder: Path, equipoise: Command, section: str, level: str, words: str
) -> None:
    (folder / "job.toml").write_text(JOB.replace('kind = "dry_run"', section))
    done = equipoise("doctor", "--job", "job.toml", "--json")
    found = [(c["level"], c["said"]) for c in json.loads(done.out)["checks"] if c["about"] == "actuators"]
    assert [told for told in found if told[0] == level and words in told[1]], found
    assert done.code == (2 if level == "fail" else 0)


def test_a_doctor_asks_a_router_that_nobody_runs(folder: Path, equipoise: Command) -> None:
    section = 'kind = "router"\nurl = "http://127.0.0.1:9"\nengines = ["http://127.0.0.1:8"]'
    (folder / "job.toml").write_text(JOB.replace('kind = "dry_run"\nknobs = ["gpus_trainer"]', section))
    done = equipoise("doctor", "--job", "job.toml")
    assert done.code == 2
    assert "FAIL  actuators: router: GET http://127.0.0.1:9/workers failed: ConnectionRefusedError" in done.out


def test_a_doctor_warns_of_bounds_that_are_broken_at_the_start(folder: Path, equipoise: Command) -> None:
    text = JOB.replace("batch_rollouts = 512", "batch_rollouts = 512\nmax_in_flight = 600\nstaleness_bound = 4")
    bounds = "[bounds]\ngpus_total_max = 32\nmax_in_flight_max = 500\nstaleness_max = 2\n"
    (folder / "job.toml").write_text(text + bounds)
    done = equipoise("doctor", "--job", "job.toml")
    assert "WARN  bounds: gpus_total_max=32 is below the 64 GPUs in force: every move" in done.out
    assert "WARN  bounds: max_in_flight_max=500 is below the 600 rollouts in flight in force" in done.out
    assert "WARN  bounds: staleness_max=2 is below the 4 versions of staleness in force" in done.out
    (folder / "job.toml").write_text(text + bounds.replace("32", "64").replace("500", "600").replace("2\n", "4\n"))
    assert "bounds:" not in equipoise("doctor", "--job", "job.toml").out
