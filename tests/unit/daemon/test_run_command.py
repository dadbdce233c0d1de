"""`equipoise run` and `journal export` on a job whose trainer writes a log and whose knobs nobody turns."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from tests.servers import Answer, serving
from tests.unit.daemon.logged_job import JOB, SECRET, Command
from tuner.config import load

ROOT = Path(__file__).resolve().parents[3]


def begun(folder: Path) -> tuple["subprocess.Popen[str]", IO[str]]:
    """A daemon on the folder's job file, and what it says."""
    process = subprocess.Popen(
        [sys.executable, "-m", "equipoise", "run", "--job", "job.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    return process, process.stderr


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_once_prints_one_decision_with_its_reason_and_writes_it_down(equipoise: Command) -> None:
    done = equipoise("run", "--job", "job.toml", "--once")
    assert (done.code, done.err) == (0, "")
    assert re.match(r"d1 \(advise\): It (leaves|advises) ", done.out)
    again = equipoise("run", "--job", "job.toml", "--once", "--json")
    told = json.loads(again.out)
    assert (told["tick"], told["mode"], told["decision"]["id"]) == (2, "advise", "d2")
    exported = equipoise("journal", "export", "equipoise.journal")
    assert [json.loads(line)["id"] for line in exported.out.splitlines()] == [1, 2]
    table = equipoise("journal", "export", "equipoise.journal", "--format", "csv").out
    assert table.splitlines()[0].startswith("id,at_s,action,code")
    assert len(table.splitlines()) == 3


def test_a_group_size_that_only_the_model_states_is_enough_to_look_ahead(folder: Path, equipoise: Command) -> None:
    """Neither [setpoints] nor the log says it: the model runs the setting in force; it is found to be another job's."""
    assert "group_size" not in JOB
    (folder / "job.toml").write_text(JOB + '[policy]\nmodel = "steady-noise-24h"\n')
    done = equipoise("run", "--job", "job.toml", "--once", "--json")
    assert done.code == 0, done.err
    decision = json.loads(done.out)["decision"]
    assert "no speed of either side explains that" in decision["reason"]


@pytest.mark.slow
def test_run_serves_a_live_job_until_interrupted(folder: Path, equipoise: Command, stack: ExitStack) -> None:
    (folder / "token").write_text(SECRET)
    text = JOB.replace("port = 0", 'port = 0\ntoken_file = "token"')
    password = 'user = "ann"\npassword_file = "token"'
    engine = stack.enter_context(serving(lambda asked: Answer(b"vllm:num_requests_running 3\n")))
    sources = f'[[source]]\npath = "scrape+{engine.url}"\n[[source]]\npath = "scrape+http://127.0.0.1:9"\n{password}\n'
    (folder / "job.toml").write_text(f"{text}\n{sources}")
    process, told = begun(folder)
    try:
        url = re.search(r"page=(\S+)", told.readline())
        assert url is not None
        said = ""
        while "event=decision" not in said:
            said += told.readline()
        assert "the KV pool is not told; check that the engines are scraped" in said
        assert "step_s is not told" not in said, "the trainer's own file tells it"
        status = equipoise("status", "--url", url[1])
        assert "swe-agent: Generation is the bottleneck" in status.out
        refused = equipoise("pause", "--url", url[1])
        assert (refused.code, "needs the daemon's token" in refused.err) == (2, True)
        wrong = equipoise("mode", "bold", "--job", "job.toml", "--url", url[1])
        assert (wrong.code, "there are observe, advise, approve, auto" in wrong.err) == (2, True)
        assert equipoise("mode", "approve", "--job", "job.toml", "--url", url[1]).code == 0
        taken = equipoise("pause", "--job", "job.toml", "--url", url[1])
        assert (taken.code, taken.err) == (0, "")
        page = urllib.request.urlopen(f"{url[1]}/").read().decode()
        assert "127.0.0.1:9" in page, "the feed that does not answer is named"
    finally:
        process.send_signal(signal.SIGINT)
        said += told.read()
        assert process.wait(60.0) == 130
        told.close()
    everything = [said, page, status.out, taken.out, *(p.read_bytes().decode("latin-1") for p in folder.glob("equi*"))]
    assert [text for text in everything if SECRET in text] == []


@pytest.mark.slow
def test_a_sidecar_that_began_before_its_job_decides_once_the_job_speaks(folder: Path, equipoise: Command) -> None:
    """It is started beside the trainer, whose log is not there yet: mode and framework are known only then."""
    log = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").unlink()
    text = JOB.replace('framework = "prime-rl"\n', "").replace('mode = "overlapped"\n', "")
    (folder / "job.toml").write_text(f"{text}[policy]\nperiod_s = 1\n")
    process, told = begun(folder)
    try:
        said = [told.readline(), told.readline()]
        assert "not known yet" in said[1]
        (folder / "metrics.jsonl").write_text(log)
        while "gap" not in said[-1]:
            said.append(told.readline())
            assert said[-1], said
    finally:
        process.send_signal(signal.SIGTERM)
        rest = told.read()
        assert process.wait(60.0) == 0
        told.close()
    assert [line for line in said if "begun anew" in line and "framework, mode" in line]
    pages = [found[1] for line in said if (found := re.search(r"event=started .*page=(\S+)", line))]
    assert len(pages) == 2
    assert pages[0] == pages[1], "who had it open still has it"
    assert "event=stopped signal=SIGTERM" in rest
    assert len(list((folder).glob("*.damaged*"))) == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[server]", "[server]\nprot = 1", "job.toml:19: unknown key server.prot; did you mean 'port'?"),
        ('kind = "dry_run"', 'kind = "dry"', "no such actuator"),
        ('knobs = ["gpus_trainer"]', 'knobs = ["gpus_trainer"]\nspeed = 1', "speed"),
        ("port = 0", 'token_file = "nowhere"\nport = 0', "openssl rand"),
        ("metrics.jsonl", "gopher://x", "unknown kind of source"),
        ('knobs = ["gpus_trainer"]', 'knobs = ["gpus_trainr"]', "no knob 'gpus_trainr'; did you mean 'gpus_trainer'?"),
        ('kind = "dry_run"', 'kind = "control_file"\npath = "."', "path='.': must be the path of a file"),
        ('framework = "prime-rl"', 'framework = "prim-rl"', "framework='prim-rl': unknown; did you mean 'prime-rl'?"),
        (
            "[server]",
            "[policy]\nparameters = {deadband = 0.1}\n[server]",
            "no parameter 'deadband'; it has deadband_frac",
        ),
        ("[server]", '[server]\nhost = "a..b"', "server.host=a..b server.port=0: cannot listen there"),
        ("[server]", '[journal]\npath = "metrics.jsonl"\n[server]', "journal.path=metrics.jsonl: is no journal"),
        ("[server]", '[journal]\npath = "/dev/null"\n[server]', "journal.path=/dev/null: is no plain file"),
        ("[server]", '[policy]\nname = "magic"\n[server]', "there is no policy 'magic'"),
    ],
)
def test_an_invalid_job_file_is_refused_whole(folder: Path, equipoise: Command, old: str, new: str, words: str) -> None:
    (folder / "job.toml").write_text(JOB.replace(old, new))
    done = equipoise("run", "--job", "job.toml")
    assert done.code == 2
    assert words in done.err
    assert len(done.err.splitlines()) == 1


def test_a_port_that_is_taken_is_said_so(folder: Path, equipoise: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (folder / "job.toml").write_text(JOB.replace("port = 0", f"port = {port}"))
        done = equipoise("run", "--job", "job.toml")
    assert done.code == 2
    assert f"server.port={port}: cannot listen there" in done.err
    assert load(folder / "job.toml").server.port == port


def test_a_log_named_as_the_journal_is_left_alone(folder: Path, equipoise: Command) -> None:
    before = (folder / "metrics.jsonl").read_bytes()
    (folder / "job.toml").write_text(f'{JOB}[journal]\npath = "metrics.jsonl"\n')
    assert equipoise("run", "--job", "job.toml", "--once").code == 2
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert list(folder.glob("*.damaged-*")) == []
