"""verl's hook inside the schedule package of the newest verl that the package index holds."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "verl/experimental/fully_async_policy/dynamic_schedule/"

PROBE = """
import equipoise_verl
from verl.experimental.fully_async_policy import dynamic_schedule as schedule
policy = schedule.build_policy("equipoise", deactivate_ratio=0.25, only_hybrid=False)
ctx = schedule.DynamicScheduleContext(64, 4, 1000, 1000, 0)
policy.update_after_step(1, ctx)
policy.request_rebalance(1, ctx)
print(isinstance(policy, schedule.DynamicSchedulePolicyBase), policy.deactivate_wait_samples(ctx))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verl")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), "verl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = list(folder.glob("verl-*.whl"))
    if not found:
        pytest.skip(f"the package index gives no wheel of verl: {done.stderr.strip()[-200:]}")
    return found[0]


def test_verl_takes_the_policy_under_its_name(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="verl's schedule package imports ray: pip install 'equipoise[tune]'")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(PACKAGE)]
        archive.extractall(tmp_path, names)
    for folder in ("verl", "verl/experimental", "verl/experimental/fully_async_policy"):
        (tmp_path / folder / "__init__.py").touch()
    path = os.pathsep.join([str(ROOT / "deploy" / "hooks"), str(tmp_path)])
    environment = os.environ | {"PYTHONPATH": path, "EQUIPOISE_CONTROL_FILE": str(tmp_path / "c.json")}
    done = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["True 64"], done.stderr[-1000:]
