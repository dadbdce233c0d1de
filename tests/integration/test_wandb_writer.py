"""Where the real `wandb` is installed, what it writes now is read; elsewhere its stored runs are (tests/unit)."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.records import Record
from tuner.sources.base import Opened
from tuner.sources.wandb import KINDS

WRITER = Path(__file__).parents[1] / "data" / "wandb" / "write_run.py"
PYTHON = os.environ.get("EQUIPOISE_WANDB_PYTHON")
"""A Python that has `wandb`, where it is not this one."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        PYTHON is None and importlib.util.find_spec("wandb") is None,
        reason="wandb is not installed here; set EQUIPOISE_WANDB_PYTHON to a Python that has it",
    ),
]


def test_a_fresh_offline_run_is_read_back(tmp_path):
    command = [PYTHON or sys.executable, str(WRITER), str(tmp_path), "verl", "--rollout-batch-size", "32"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (path,) = tmp_path.glob("wandb/offline-run-*/run-verl.wandb")
    with path.open("rb") as stream:
        items = list(KINDS[0].read(Opened(stream, str(path)), ()))
    rows = [item for item in items if isinstance(item, Record)]
    assert [row.step for row in rows] == [*range(1, 61), 62]
    assert rows[0].values["timing_s/gen"] == 41.0
