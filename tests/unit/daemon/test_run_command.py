"""`equipoise run`, `doctor` and `journal export` on a job whose trainer writes a log and whose knobs nobody turns."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import ClassVar

import pytest

from tests.servers import Answer, serving
from tuner.cli import main
from tuner.config import load

ROOT = Path(__file__).resolve().parents[3]
SECRET = "swordfish-swordfish-swordfish"
JOB = """\
[job]
name = "swe-agent"
framework = "prime-rl"
[topology]
mode = "overlapped"
gpus_total = 64
gpus_per_engine = 8
trainer_gpu_step = 8
[setpoints]
gpus_trainer = 16
gpus_generator = 48
batch_rollouts = 512
[[source]]
path = "metrics.jsonl"
[[actuator]]
kind = "dry_run"
knobs = ["gpus_trainer"]
[server]
port = 0
"""


def row(step: int, at_s: float) -> str:
    told = {"step": step, "time": at_s, "time/step": 100.0, "time/wait_for_batch": 40.0}
    return json.dumps(told | {"time/forward_backward": 60.0, "progress/samples": 512}) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    now_s = time.time()
    (tmp_path / "metrics.jsonl").write_text("".join(row(i, now_s - 100.0 * (20 - i)) for i in range(20)))
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


@dataclass
class Done:
    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def equipoise(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in the job's folder, without the second that a process takes to start."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        told = capsys.readouterr()
        return Done(code, told.out, told.err)

    return run


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
    assert "cannot make what the job delivers" in decision["reason"]


@pytest.mark.slow
def test_run_serves_a_live_job_until_interrupted(folder: Path, equipoise: Command, stack: ExitStack) -> None:
    (folder / "token").write_text(SECRET)
    text = JOB.replace("port = 0", 'port = 0\ntoken_file = "token"')
    password = 'user = "ann"\npassword_file = "token"'
    engine = stack.enter_context(serving(lambda asked: Answer(b"vllm:num_requests_running 3\n")))
    sources = f'[[source]]\npath = "scrape+{engine.url}"\n[[source]]\npath = "scrape+http://127.0.0.1:9"\n{password}\n'
    (folder / "job.toml").write_text(f"{text}\n{sources}")
    process = subprocess.Popen(
        [sys.executable, "-m", "equipoise", "run", "--job", "job.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = re.search(r"page=(\S+)", process.stderr.readline())
        assert url is not None
        said = ""
        while "event=decision" not in said:
            said += process.stderr.readline()
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
        said += process.stderr.read()
        assert process.wait(60.0) == 130
        process.stderr.close()
    everything = [said, page, status.out, taken.out, *(p.read_bytes().decode("latin-1") for p in folder.glob("equi*"))]
    assert [text for text in everything if SECRET in text] == []


@pytest.mark.slow
def test_a_sidecar_that_began_before_its_job_decides_once_the_job_speaks(folder: Path, equipoise: Command) -> None:
    """It is started beside the trainer, whose log is not there yet: mode and framework are known only then."""
    log = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").unlink()
    text = JOB.replace('framework = "prime-rl"\n', "").replace('mode = "overlapped"\n', "")
    (folder / "job.toml").write_text(f"{text}[policy]\nperiod_s = 1\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "equipoise", "run", "--job", "job.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said = [process.stderr.readline(), process.stderr.readline()]
        assert "not known yet" in said[1]
        (folder / "metrics.jsonl").write_text(log)
        while "gap" not in said[-1]:
            said.append(process.stderr.readline())
            assert said[-1], said
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(60.0) == 0
        process.stderr.close()
    assert [line for line in said if "begun anew" in line and "framework, mode" in line]
    pages = [found[1] for line in said if (found := re.search(r"event=started .*page=(\S+)", line))]
    assert len(pages) == 2
    assert pages[0] == pages[1], "who had it open still has it"
    assert "event=stopped signal=SIGTERM" in rest
    assert len(list((folder).glob("*.damaged*"))) == 0


def test_nobody_at_home_is_said_so(equipoise: Command) -> None:
    done = equipoise("status", "--url", "http://127.0.0.1:9")
    assert done.code == 3
    assert "no daemon answers" in done.err


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


def test_a_port_that_is_taken_is_said_so(folder: Path, equipoise: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (folder / "job.toml").write_text(JOB.replace("port = 0", f"port = {port}"))
        done = equipoise("run", "--job", "job.toml")
    assert done.code == 2
    assert f"server.port={port}: cannot listen there" in done.err
    assert load(folder / "job.toml").server.port == port


class Stranger(BaseHTTPRequestHandler):
    """Some other server behind the port that an operator mistook for ours."""

    said: ClassVar[tuple[int, bytes]] = (200, b"{}")

    def do_GET(self) -> None:
        status, body = self.said
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))  # closed on what was not read, a socket resets
        self.do_GET()

    def log_message(self, *told: object) -> None:
        return None


@pytest.mark.parametrize(
    "said",
    [
        (200, b"{}"),
        (200, b'{"status": "success"}'),
        (200, b"[" * 100_000),
        (404, b"404 page not found"),
        (404, b"[" * 9_000),
        (500, b"oops"),
    ],
)
def test_another_server_is_not_taken_for_a_daemon(equipoise: Command, folder: Path, said: tuple[int, bytes]) -> None:
    """Nothing is reported as paused or approved because some server said 200."""
    (folder / "token").write_text(SECRET)
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Said", (Stranger,), {"said": said})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        asked = [equipoise("status", "--url", url), equipoise("pause", "--url", url, "--token-file", "token")]
        server.shutdown()
    for done in asked:
        assert (done.code, done.out) == (3, "")
        assert f"{url}: what answers there is no daemon of ours" in done.err


class Banner(StreamRequestHandler):
    """What speaks first and not HTTP, as sshd and databases do."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")


def test_what_speaks_no_http_is_not_taken_for_a_daemon_that_is_down(equipoise: Command, folder: Path) -> None:
    with ThreadingTCPServer(("127.0.0.1", 0), Banner) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = equipoise("status", "--url", f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert (done.code, done.out) == (3, "")
    assert "no daemon of ours (no HTTP); check the port" in done.err


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:nine", "http://h:0"])
def test_an_address_that_is_none_is_refused_with_its_form(equipoise: Command, url: str) -> None:
    done = equipoise("status", "--url", url)
    assert done.code == 2
    assert f"--url {url}: write http://host:port" in done.err


def test_a_daemon_on_any_free_port_is_asked_by_its_address(equipoise: Command) -> None:
    done = equipoise("status", "--job", "job.toml")
    assert done.code == 2
    assert "server.port=0 is any free port" in done.err


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


def test_a_log_named_as_the_journal_is_left_alone(folder: Path, equipoise: Command) -> None:
    before = (folder / "metrics.jsonl").read_bytes()
    (folder / "job.toml").write_text(f'{JOB}[journal]\npath = "metrics.jsonl"\n')
    assert equipoise("run", "--job", "job.toml", "--once").code == 2
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert list(folder.glob("*.damaged-*")) == []
