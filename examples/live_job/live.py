"""`make live`: a real job, a real Prometheus server, and `equipoise run --mode auto` beside them; a report at the end.

usage: python -m examples.live_job.live FOLDER [--venv VENV] [--minutes 10]
Exit codes: 0 it ran; 1 a part failed; 3 something that it needs is missing (said with the remedy); 130 on Ctrl-C, 143
on SIGTERM, 129 where its terminal is closed.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from examples.live_job import report
from examples.live_job.stage import HERE, ROOT, MissingError, Settings, Stage, free_ports, staged, stop

MODEL = HERE / "model.toml"
FIRST_STEP_S = 300.0
"""The first start on a machine reads torch and vLLM from a cold disk."""

JOB_FILE = """\
# Written by `make live`: what the controller is told of the job. Everything else it reads from Prometheus.
[job]
name = "live-job"
horizon_s = {horizon_s}

[topology]
mode = "overlapped"
gpus_total = {gpus}
gpu_model = "{slice_cores:g} of a CPU core"
gpus_per_engine = 1
trainer_gpu_step = 1
trainer_gpus_min = 1
trainer_resize = "ok"

[setpoints]
group_size = 4
batch_rollouts = 48
staleness_bound = 2
sync_interval = 1
overlap = true
in_flight_update = true
filter_zero_adv = true

[bounds]
staleness_max = 4
{in_flight_bound}

[[source]]
path = "prometheus+{prometheus}"

[[actuator]]
kind = "control_file"
path = "{folder}/control.json"
knobs = ["gpus_trainer", "max_in_flight", "oversampling_ratio"]
actuation_s = 4
patience_s = 60

[policy]
name = "predictive"
model = "{model}"
mode = "auto"
period_s = 2
earn_auto = false
drift_s = {drift_s}
freeze_s = 60
parameters = {{ review_s = 10 }}

[guardrails]
stale_s = 20
auto_data_changing = {turned}

[gate]
deadline_s = 20

[journal]
path = "{folder}/equipoise.journal"

[server]
port = {port}
"""
"""The loop's times are those of this job: a step takes seconds, so a tick is two and a review ten."""


def job_file(stage: Stage, folder: Path, prometheus: str, port: int, seconds: float) -> Path:
    most = stage.in_flight_most
    text = JOB_FILE.format(
        horizon_s=round(seconds),
        gpus=stage.gpus,
        slice_cores=stage.slice_cores,
        prometheus=prometheus,
        folder=folder,
        model=MODEL,
        drift_s=round(seconds / 2.0),
        port=port,
        turned=[] if most is None else '["max_in_flight"]',
        in_flight_bound="" if most is None else f"max_in_flight_max = {most * (stage.gpus - 1)}",
    )
    path = folder / "job.toml"
    path.write_text(text)
    return path


def controller(stage: Stage, job: Path) -> "subprocess.Popen[bytes]":
    code = "import sys; from equipoise import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "run", "--job", str(job), "--mode", "auto"]
    return stage.start("equipoise", command, {"PYTHONPATH": str(ROOT)})


def await_steps(folder: Path, process: "subprocess.Popen[bytes]", count: int, patience_s: float = FIRST_STEP_S) -> None:
    until = time.monotonic() + patience_s
    while time.monotonic() < until and process.poll() is None:
        with suppress(FileNotFoundError):
            if len((folder / "steps.jsonl").read_text().splitlines()) >= count:
                return
        time.sleep(0.5)
    how = f"in {patience_s:.0f} s" if process.poll() is None else f"and ended with {process.returncode}"
    raise RuntimeError(f"the job made fewer than {count} steps {how}; see {folder}.log")


def stay(parts: Mapping[str, "subprocess.Popen[bytes]"], seconds: float, logs: Path) -> None:
    """So long, and no longer than all of them run: what a dead part leaves is no measurement."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name, process in parts.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}; see the logs in {logs}")
        time.sleep(0.5)


def drift_of(seconds: float) -> dict[str, float]:
    """A run begins and ends quietly: what was before the drift can be told from what is in it."""
    return {"quiet_s": 0.2 * seconds, "drift_s": 0.6 * seconds}


def play(stage: Stage, settings: Settings, seconds: float) -> Path:
    """The whole run. Its folder, with all that was recorded."""
    say(f"starting {stage.engines} engines (a minute or two)")
    stage.start_engines()
    say("starting the job, Prometheus and the controller")
    job, folder, metrics_port = stage.start_job("job", settings, **drift_of(seconds))
    await_steps(folder, job, 1)
    _, url = stage.start_prometheus(folder, metrics_port)
    port = free_ports(1)[0]
    daemon = controller(stage, job_file(stage, folder, url, port, seconds))
    say(f"running for {seconds:.0f} s; its page: http://127.0.0.1:{port}/")
    stay({"the job": job, "the controller": daemon}, seconds, stage.folder)
    stop(daemon)
    stop(job)
    return folder


def say(text: str) -> None:
    print(f"live: {text}", file=sys.stderr, flush=True)


def exit_code(play: Callable[[], int]) -> int:
    """What it returns; where something stopped it, that is said in words, and nothing of it runs any more."""
    try:
        return play()
    except MissingError as missing:
        say(f"missing: {missing.what}")
        say(f"remedy:  {missing.remedy}")
        return 3
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("stopped; nothing of it runs any more")
        return 130


def played(folder: Path, venv: Path, seconds: float) -> int:
    with staged(folder, venv) as stage:
        stage.demand()
        run = play(stage, Settings(), seconds)
    print(report.told(run))
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.live_job.live", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--venv", type=Path, default=HERE / ".venv")
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args(arguments)
    return exit_code(lambda: played(given.folder, given.venv, given.minutes * 60.0))


if __name__ == "__main__":
    sys.exit(main())
