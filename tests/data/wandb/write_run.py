"""Writes one small offline W&B run with the installed `wandb`: python write_run.py FOLDER verl|slime --flags."""

import math
import os
import sys

os.environ.update(
    WANDB_MODE="offline",
    WANDB_SILENT="true",
    WANDB_DISABLE_CODE="true",
    WANDB_DISABLE_GIT="true",
    WANDB_HOST="fixture",
    WANDB_USERNAME="fixture",
    WANDB_EMAIL="fixture@example.org",
    WANDB_CONSOLE="off",
)

import wandb

CONFIG = {
    "trainer": {"nnodes": 2, "n_gpus_per_node": 8},
    "actor_rollout_ref": {"rollout": {"n": 5, "name": "vllm"}},
    "data": {"train_batch_size": 512, "prompt_key": "prompt"},
    "wandb_key": "0123456789abcdef0123456789abcdef01234567",
}
STEPS = 60


def write_verl(run) -> None:
    for step in range(1, STEPS + 1):
        row = {
            "timing_s/gen": 40.0 + step,
            "timing_s/update_actor": 20.0,
            "timing_s/step": 65.0 + step,
            "critic/score/mean": math.nan if step == 3 else step / 100,
            "response_length/mean": 900 + step,
            "nested": {"inner": step},
            "note": "text",
        }
        if step == 1:
            row["histogram"] = wandb.Histogram(np_histogram=([1, 2], [0.0, 0.5, 1.0]))
        run.log(row, step=step)
    run.log({"grad_norm": math.inf}, step=STEPS + 2)


def write_slime(run) -> None:
    for axis in ("train", "rollout"):
        run.define_metric(f"{axis}/step")
        run.define_metric(f"{axis}/*", step_metric=f"{axis}/step")
    run.define_metric("perf/*", step_metric="rollout/step")
    for rollout in range(4):
        run.log({"rollout/step": rollout, "perf/rollout_time": 100.0 + rollout})
        run.log({"train/step": 2 * rollout, "train/loss": 0.1})
        run.log({"rollout/step": rollout, "perf/train_wait_time": 30.0 + rollout})


if __name__ == "__main__":
    folder, shape = sys.argv[1:3]
    active = wandb.init(project="fixture", name=shape, id=shape, dir=folder, config=CONFIG)
    (write_verl if shape == "verl" else write_slime)(active)
    active.finish()
    print(wandb.__version__)
