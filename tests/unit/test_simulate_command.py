"""`equipoise simulate` as a user meets it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_command_line import PLAIN, ROOT, equipoise
from tests.unit.test_scenario_files import GOOD
from tuner.scenario_files import shipped


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(GOOD)
    return path


def test_the_answer_is_one_screen_and_nothing_else_in_a_pipe(small: Path) -> None:
    done = equipoise("simulate", "--scenario", str(small))
    assert (done.returncode, done.stderr) == (0, "")
    assert "useful rollouts/s over 10 steps" in " ".join(done.stdout.split())
    assert len(done.stdout.splitlines()) <= 24


@pytest.mark.slow
def test_the_same_seed_prints_the_same_and_another_one_does_not(small: Path) -> None:
    runs = [equipoise("simulate", "--scenario", str(small), "--json", "--seed", seed).stdout for seed in "112"]
    assert runs[0] == runs[1]
    assert json.loads(runs[0])["totals"] != json.loads(runs[2])["totals"]


def test_what_is_set_is_in_force_and_told(small: Path) -> None:
    done = equipoise("simulate", "--scenario", str(small), "--json", "--set", "max_in_flight=16")
    answer = json.loads(done.stdout)
    assert answer["scenario"]["settings"] == ["max_in_flight=16"]
    assert max(step["inflight_rollouts"] for step in answer["steps"]) <= 16


def test_a_report_and_a_document_may_be_asked_for_at_once(small: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = equipoise("simulate", "--scenario", str(small), "--json", "--levers", "--html", str(page))
    assert {lever["name"] for lever in json.loads(done.stdout)["levers"]} >= {"tail"}
    assert "What would help" in page.read_text()


def test_gpus_that_serve_nothing_are_told_on_the_screen_in_the_document_and_on_the_page(
    small: Path, tmp_path: Path
) -> None:
    wanted, page = ("simulate", "--scenario", str(small), "--set", "gpus_generator=5"), tmp_path / "report.html"
    told = ["1 of the generator's 5 GPUs is in no engine: 2 engines take 2 each"]
    told.append("1 of the job's 8 GPUs is on neither side")
    assert json.loads(equipoise(*wanted, "--json", "--html", str(page)).stdout)["unused_gpus"] == told
    screen = " ".join(equipoise(*wanted).stdout.split())
    assert all(f"Unused GPUs {sentence}" in screen for sentence in told)
    assert all(sentence.replace("'", "&#39;") in page.read_text() for sentence in told)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no scenario given: --scenario FILE or NAME"),
        (["--scenario", "steady-noise"], "did you mean steady-noise-24h?"),
        (["--scenario", "."], "is a folder"),
        (["--scenario", "steady-noise-24h", "--set", "gpus=3"], "is no knob"),
        (["--scenario", "steady-noise-24h", "--html", "/nowhere/x.html"], "mkdir -p /nowhere"),
        (["--scenario", "steady-noise-24h", "--seed", "x"], "--seed"),
        (["--show", "nothing-like-it"], "scenario 'nothing-like-it': no such file"),
        (["--scenario", "sandbox-wall", "--set", "max_in_flight=1e14"], "a simulation holds up to"),
        (["--scenario", "sandbox-wall", "--set", "stations.engine.slots=1e14"], "in all engines"),
    ],
)
def test_a_mistake_ends_with_two_and_one_plain_sentence(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = equipoise("simulate", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_the_list_names_every_shipped_scenario_with_what_it_tells() -> None:
    printed = equipoise("simulate", "--list").stdout.splitlines()
    assert [line.split()[0] for line in printed] == [path.stem for path in shipped()]


@pytest.mark.slow
def test_a_shown_scenario_can_be_kept_and_run(tmp_path: Path) -> None:
    text = equipoise("simulate", "--show", "curriculum-step").stdout
    assert text == next(path for path in shipped() if path.stem == "curriculum-step").read_text()
    (tmp_path / "mine.toml").write_text(text.replace("steps = 200", "steps = 2"))
    done = equipoise("simulate", "--scenario", "mine.toml", cwd=tmp_path)
    assert done.returncode == 0
    assert "drift.0.start=60" in done.stdout


def test_what_would_begin_after_the_end_is_told(small: Path) -> None:
    small.write_text(GOOD + '\n[[event]]\nkind = "node-loss"\nat = 10\ngpus = 1\n')
    assert "event.1.at=10: the run was over" in " ".join(equipoise("simulate", "--scenario", str(small)).stdout.split())
    small.write_text(GOOD + '\n[[event]]\nkind = "node-loss"\nat = 9\ngpus = 1\n')
    answer = json.loads(equipoise("simulate", "--scenario", str(small), "--json").stdout)
    assert answer["not_reached"] == []


def test_a_job_that_cannot_go_on_is_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "stuck.toml"
    path.write_text(GOOD + '\n[stations.admission]\nplug = "buffer-cap"\nlimit_groups = 2\n')
    done = equipoise("simulate", "--scenario", str(path), "--json", "--set", "max_in_flight=8")
    assert done.returncode == 0
    assert "deadlock" in json.loads(done.stdout)["stopped"]


def test_on_a_terminal_long_work_shows_what_is_left_and_clears_it(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(GOOD.replace("steps = 10", "steps = 60000"))
    ours, theirs = pty.openpty()
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)} | PLAIN
    command = [sys.executable, "-m", "equipoise", "simulate", "--scenario", str(path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as running:
        os.close(theirs)
        told = b""
        while b"left" not in told:
            told += os.read(ours, 4096)
        running.terminate()
    os.close(ours)
    assert b"simulating: " in told
    assert b"about " in told
