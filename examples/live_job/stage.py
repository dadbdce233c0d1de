"""Starts the parts of the live job, and stops every one of them whatever happens, and nothing else.

A part is a process in a session of its own: Ctrl-C reaches this program alone, which then ends them in order. Should
this program itself be killed, the kernel tells its children to end (PR_SET_PDEATHSIG).
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from examples.live_job.slices import NoSlicesError, Slices

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENGINE_START_S = 600.0
STOP_S = 15.0
HOST_CORES = 0.5
"""For the job's own process, which starts rollouts and scores them: a host has cores beside its GPUs."""
PDEATHSIG = 1
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class MissingError(RuntimeError):
    """Something that the live job needs is not here: what, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


@dataclass(frozen=True)
class Settings:
    """The knobs of one run."""

    gpus_trainer: int = 3
    gpus_generator: int = 1
    in_flight_per_engine: int = 16
    oversampling_ratio: float = 1.0


@dataclass
class Stage:
    """Where a run plays: a folder, an environment, and what was started."""

    folder: Path
    venv: Path
    engines: int = 3
    gpus: int = 4
    slice_cores: float = 0.25
    in_flight_most: int | None = None
    """Per engine. Where it is given the controller may turn rollouts in flight up to it, and not only propose more."""
    stack: ExitStack = field(default_factory=ExitStack)
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    engine_ports: list[int] = field(default_factory=list)
    engine_processes: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    groups: list[Slices] = field(default_factory=list)
    """Of each engine, and the trainer's last."""
    host: Slices = field(init=False)

    # ---- what must be there ----

    def demand(self) -> None:
        if not ((self.venv / ".live-ready").exists() and os.access(self.python, os.X_OK)):
            raise MissingError(f"the environment of the engines, {self.venv}", "run `make live`, which makes it")
        if shutil.which("prometheus") is None:
            raise MissingError("a prometheus server", "apt-get install prometheus (no service of it is used)")
        try:
            Slices.named("trial").close()
        except NoSlicesError as error:
            remedy = "run it as root, in a container of its own, or under `systemd-run --user --scope -p Delegate=yes`"
            raise MissingError(str(error), remedy) from None

    @property
    def python(self) -> str:
        return str(self.venv / "bin" / "python")

    # ---- processes ----

    def start(
        self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """A part, logged to a file, stopped when the stage is left."""
        log = self.stack.enter_context((self.folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'deploy/hooks'}", **(env or {})},
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        self.processes.append(process)
        self.stack.callback(stop, process)
        return process

    def model(self) -> Path:
        """Made once, kept beside the environment; each run trains a copy."""
        made, mine = self.venv / "tiny-qwen2", self.folder / "model"
        if not (made / "model.safetensors").exists():
            subprocess.run([self.python, "-m", "examples.live_job.model", str(made)], cwd=ROOT, check=True)
        shutil.copytree(made, mine, dirs_exist_ok=True)
        return mine

    def slices(self, name: str) -> Slices:
        """A control group that is gone when the stage is left."""
        made = Slices.named(name)
        self.stack.callback(made.close)
        return made

    def start_engines(self) -> None:
        """All of them at once, with all slices between them."""
        model = self.model()
        self.engine_ports = free_ports(self.engines)
        self.groups = [self.slices(f"engine-{i}") for i in range(self.engines)] + [self.slices("trainer")]
        self.host = self.slices("host")
        self.host.give(HOST_CORES)
        for i in range(self.engines):
            self.start_engine(i, model)
        for i in range(self.engines):
            self.await_engine(i)
            self.warm_up(i)

    def start_engine(self, i: int, model: Path, more: Sequence[str] = ()) -> None:
        command = [self.python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(self.engine_ports[i])]
        command += ["--dtype", "bfloat16", "--max-model-len", "1024", "--max-num-seqs", "64", "--enforce-eager"]
        command += ["--num-gpu-blocks-override", "160", "--uvicorn-log-level", "warning"]
        # One process fewer (it needs VLLM_ENABLE_V1_MULTIPROCESSING=0 too): two that poll each other eat up a slice.
        command += ["--distributed-executor-backend", "uni"]
        command += more
        env = {
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_HOST_IP": "127.0.0.1",
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "OMP_NUM_THREADS": "1",
        }
        self.groups[i].give(self.gpus * self.slice_cores / self.engines)
        self.engine_processes[i] = self.start(f"engine-{i}", command, env)
        self.groups[i].add(self.engine_processes[i].pid)

    def await_engine(self, i: int) -> None:
        process = self.engine_processes[i]
        await_url(f"http://127.0.0.1:{self.engine_ports[i]}/health", ENGINE_START_S, process, self.folder)

    def warm_up(self, i: int) -> None:
        """The first requests of an engine take many times as long as all others: they are not the job's."""
        body = {"model": "tiny", "prompt": [[1 + n] * 200 for n in range(16)], "max_tokens": 32, "ignore_eos": True}
        url = f"http://127.0.0.1:{self.engine_ports[i]}/v1/completions"
        asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(asked, timeout=ENGINE_START_S) as answer:
                answer.read()
        except OSError as error:
            raise RuntimeError(f"engine-{i} does not answer its first requests ({error}); see {self.folder}") from None

    def start_job(self, name: str, settings: Settings, **more: Any) -> tuple["subprocess.Popen[bytes]", Path, int]:
        """The job on these engines, in a folder of its own; `more`: other fields of job.Config."""
        folder = fresh(self.folder / name)
        port = free_ports(1)[0]
        config = {
            "folder": str(folder),
            "model": str(self.model()),
            "engines": [f"http://127.0.0.1:{p}" for p in self.engine_ports],
            "engine_groups": [str(group.folder) for group in self.groups[:-1]],
            "trainer_group": str(self.groups[-1].folder),
            "slice_cores": self.slice_cores,
            "metrics_port": port,
            **asdict(settings),
            **more,
        }
        (folder / "config.json").write_text(json.dumps(config, indent=1))
        process = self.start(name, [self.python, "-m", "examples.live_job.job", str(folder / "config.json")])
        self.host.add(process.pid)
        return process, folder, port

    def start_prometheus(
        self, job: Path, metrics_port: int, port: int | None = None
    ) -> "tuple[subprocess.Popen[bytes], str]":
        """A real server that scrapes the job and those of its engines that are in use."""
        port = port or free_ports(1)[0]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [
                {"job_name": "engines", "file_sd_configs": [{"files": [str(job / "engines.json")]}]},
                {"job_name": "trainer", "static_configs": [{"targets": [f"127.0.0.1:{metrics_port}"]}]},
            ],
        }
        (job / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        command = ["prometheus", f"--config.file={job / 'prometheus.yml'}", f"--storage.tsdb.path={job / 'tsdb'}"]
        process = self.start("prometheus", [*command, f"--web.listen-address=127.0.0.1:{port}"])
        url = f"http://127.0.0.1:{port}"
        await_url(f"{url}/-/ready", 30.0, process, self.folder)
        return process, url


@contextmanager
def staged(folder: Path, venv: Path, **more: Any) -> Iterator[Stage]:
    """A stage. Left in any way, SIGTERM, SIGHUP and Ctrl-C included, all that it started has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = Stage(folder.absolute(), venv.absolute(), **more)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if before[number] is not signal.SIG_IGN:  # nohup is heeded
            signal.signal(number, _leave)
    try:
        yield stage
    finally:
        for number in before:  # a second Ctrl-C would leave half of it running
            signal.signal(number, signal.SIG_IGN)
        for process in stage.processes:
            _ask_to_end(process)
        stage.stack.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def _die_with_parent() -> None:
    if LIBC is not None:
        LIBC.prctl(PDEATHSIG, signal.SIGTERM)


def _ask_to_end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Asks it to end; after a while ends it and what it started."""
    _ask_to_end(process)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def fresh(folder: Path) -> Path:
    """A folder for one run. What an earlier one left there goes: its steps and its orders are not this one's."""
    if (folder / "config.json").exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def await_url(url: str, patience_s: float, process: "subprocess.Popen[bytes]", logs: Path) -> None:
    until = time.monotonic() + patience_s
    while time.monotonic() < until and process.poll() is None:
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2.0) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    how = f"in {patience_s:.0f} s" if process.poll() is None else f"before its program ended with {process.returncode}"
    raise RuntimeError(f"{url} did not come up {how}; see the logs in {logs}")


def free_ports(count: int) -> list[int]:
    """Held together while they are looked for, so that they differ."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
