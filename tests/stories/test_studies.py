"""Studies that are killed, and the overnight one: the best settings of a job from its recording alone."""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from optuna.trial import FrozenTrial, TrialState

from policies.laws.parameters import space
from policies.laws.threshold import Threshold
from simulators.pipeline import simulate
from simulators.plant import Setpoints
from tests.stories.study_run import LOPSIDED, search, where
from tuner.answers.tune import SCHEMA_FILE
from tuner.cli import main
from tuner.scenario_files import load
from tuner.studies.levels import problem_of
from tuner.studies.opening import opened
from tuner.studies.samplers import quiet
from tuner.studies.storage import DONE, Chooser, Ledger

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TRIALS = 24


@contextmanager
def running(url: str, workers: int) -> Iterator[subprocess.Popen[str]]:
    """The program, once its study is ready."""
    command = [sys.executable, "-m", "tests.stories.study_run", url, str(TRIALS), str(workers)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            yield program
        finally:
            program.kill()


def until(program: subprocess.Popen[str], done: int) -> None:
    assert program.stdout is not None
    for line in program.stdout:
        if int(line) >= done:
            return
    raise AssertionError("it ended before")


def ledger_of(url: str) -> Ledger:
    quiet()
    found = search(TRIALS)
    chooser = Chooser(
        "tpe",
        found.space,
        0,
        len(problem_of(found.space, found.cohorts.searching, found.objectives).levels),
        by_model=True,
    )
    return Ledger(opened(where(url)), "s", chooser)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def a_worker_of(pid: int) -> int:
    """One that has a trial under way: between two trials it has no child, and looks like any helper."""
    for _ in range(1000):
        for child in children_of(pid):
            if children_of(child):
                return child
        time.sleep(0.01)
    raise AssertionError("no worker has had a trial for ten seconds")


def assert_whole(trials: list[FrozenTrial], killed: int, workers: int = 1) -> None:
    """As many trials as asked for, each done once; those under way at a kill were done again with the same point."""
    done = [t for t in trials if t.state in DONE]
    lost = [t for t in trials if t.state is TrialState.FAIL]
    assert TRIALS <= len(done) < TRIALS + workers
    assert len(lost) <= killed
    assert len(trials) == len(done) + len(lost)
    again = {t.system_attrs["failed_trial"]: t for t in done if "failed_trial" in t.system_attrs}
    assert again.keys() == {t.number for t in lost}
    for t in lost:
        assert t.params.items() <= again[t.number].params.items()


def test_a_study_that_is_killed_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    for done in (3, 9):
        with running(url, workers=1) as program:
            until(program, done)
            os.kill(program.pid, signal.SIGKILL)
            program.wait()
    with running(url, workers=1) as program:
        assert program.stdout is not None
        program.stdout.read()
        assert program.wait() == 0
    assert_whole(ledger_of(url).trials(), killed=2)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers by /proc, which is Linux's")
def test_a_worker_that_is_killed_is_replaced_and_its_slot_done_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with running(url, workers=2) as program:
        until(program, 2)
        os.kill(a_worker_of(program.pid), signal.SIGKILL)
        assert program.stdout is not None
        program.stdout.read()
        assert program.wait() == 0
    assert_whole(ledger_of(url).trials(), killed=1, workers=2)


def test_a_full_disk_is_waited_for_and_costs_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with running(url, workers=1) as program:
        until(program, 2)
        most = max(path.stat().st_size for path in tmp_path.iterdir()) + 4096
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        assert _stands_still(url), "no file may grow: neither the database nor its log"
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert program.stdout is not None
        program.stdout.read()
        assert program.wait() == 0
    assert_whole(ledger_of(url).trials(), killed=0)


def _stands_still(url: str) -> bool:
    """Whether trials stop being done before all are; looked at until they have not moved for three seconds."""
    ledger, seen, since = ledger_of(url), -1, time.monotonic()
    while time.monotonic() - since < 3.0:
        done = sum(trial.state in DONE for trial in ledger.trials())
        seen, since = (seen, since) if done == seen else (done, time.monotonic())
        time.sleep(0.2)
    return seen < TRIALS


def test_no_process_outlives_a_killed_study(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with running(url, workers=2) as program:
        until(program, 1)
        family = children_of(program.pid)
        family += [grandchild for pid in family for grandchild in children_of(pid)]
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    deadline = time.monotonic() + 60.0
    while any(_lives(pid) for pid in family) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert [pid for pid in family if _lives(pid)] == []


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Yesterday's run as a framework's metrics show it, and what its launch script says of the GPUs."""
    scenario = load(str(LOPSIDED)).scenario
    plant = simulate(scenario, seed=99)
    rows = plant.observe(plant.now_s).snapshot.rows
    lines = [json.dumps({"step": row.step, "timestamp": row.time_s, **row.values}) for row in rows]
    (tmp_path / "run.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "job.toml").write_text(
        '[topology]\nmode = "overlapped"\ngpus_total = 28\ngpus_per_engine = 1\ntrainer_gpu_step = 1\n'
        "[setpoints]\ngpus_trainer = 6\ngpus_generator = 22\ngroup_size = 4\nbatch_rollouts = 64\n",
        encoding="utf-8",
    )
    return tmp_path / "run.jsonl"


def test_the_overnight_command_of_the_readme_sets_the_shipped_recording_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("equipoise tune"))
    arguments = shlex.split(line, comments=True)[1:]
    assert arguments == ["tune", "--knobs", "split,concurrency", "--from", "run.jsonl"]
    shutil.copy(ROOT / "examples" / "run.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert re.match(r"\+\d+(\.\d+)?% \(\d", printed), "a gain, and one that is surely above nothing"
    found = tomllib.loads(printed[printed.index("# equipoise tune") :])["setpoints"]
    assert found["gpus_trainer"] > 6
    assert found["gpus_trainer"] + found["gpus_generator"] == 28


def test_overnight_a_recording_tells_the_better_split(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(recording.parent)
    wish = ["--knobs", "split", "--from", recording.name, "--job", "job.toml", "--trials", "20", "--sampler", "tpe"]
    assert main(["tune", *wish, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["recommended"]
    assert answer["held_out_scenarios"], "possible jobs that the search has not seen"
    gain = answer["against_now"]["interval"]
    assert 0.0 < gain["low"] < gain["mean"] < gain["high"]
    found = next(s["found"] for s in answer["settings"] if s["name"] == "gpus_trainer")
    truth = load(str(LOPSIDED)).scenario

    def seconds(trainer: int) -> float:
        knobs: Setpoints = replace(truth.setpoints, gpus_trainer=trainer, gpus_generator=28 - trainer)
        return simulate(replace(truth, setpoints=knobs), seed=5).now_s

    true = seconds(6) / seconds(found) - 1.0
    assert true > 0.2, "the job that was recorded gains from it, too"


def test_overnight_a_recording_tells_a_policys_parameters(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(recording.parent)
    wish = [
        "--policy",
        "threshold",
        "--from",
        recording.name,
        "--job",
        "job.toml",
        "--trials",
        "4",
        "--out",
        "part.toml",
    ]
    assert main(["tune", *wish, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json.loads(SCHEMA_FILE.read_text()))
    assert answer["policy"] == "threshold"
    assert [s["name"] for s in answer["settings"]] == [f"policy.{name}" for name in space(Threshold)]
    assert answer["counts"]["complete"] + answer["counts"]["pruned"] == 4
    assert answer["held_out_scenarios"], "possible jobs that the search has not seen"
    assert answer["against_now"]["broken"] == []
    gain = answer["against_now"]["interval"]
    assert gain["low"] > 0.0 or not answer["recommended"]
    part = tomllib.loads(Path("part.toml").read_text(encoding="utf-8"))
    assert (part.get("policy", {}).get("name") == "threshold") == answer["recommended"], "else it is commented out"
