"""A job whose trainer writes a log and whose knobs nobody turns, and what a command said of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass
class Done:
    code: int
    out: str
    err: str


Command = Callable[..., Done]
