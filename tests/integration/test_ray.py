"""The Ray actuator at a real Ray cluster of several local nodes, in a network of its own: it has a loopback only."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALONE = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
"""Ray listens on every address of a machine; in here there is one."""


@pytest.fixture
def folder() -> Iterator[str]:
    """A short path: Ray makes sockets in it, whose names may have 107 characters."""
    made = tempfile.mkdtemp(prefix="ray")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_the_cases_pass_on_a_real_cluster(folder: str) -> None:
    if any(importlib.util.find_spec(name) is None for name in ("ray", "aiohttp_cors", "fastapi")):
        pytest.skip("Ray Serve and its dashboard are not installed: pip install 'ray[serve]'")
    if not (shutil.which("unshare") and shutil.which("ip")) or subprocess.run([*ALONE, "true"], check=False).returncode:
        pytest.skip("no network namespace can be made here (unshare -n): Ray would listen on every address")
    environment = os.environ | {
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": folder,
        "PYTHONPATH": str(ROOT),
    }
    command = [*ALONE, sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-W", "ignore"]
    cases = str(ROOT / "tests" / "integration" / "ray_cases.py")
    done = subprocess.run(
        [*command, cases], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
