"""CONTRIBUTING's recipe for a new framework works as it is printed: one file, one line, one sample."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## A new framework")[2]
BLOCK = re.compile(r"^   ```(?:python|text|json)\n(.*?)^   ```$", re.MULTILINE | re.DOTALL)
ADVISE = "import sys; from tuner.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which somebody followed the recipe."""
    place = tmp_path_factory.mktemp("house")
    for name in ("simulators", "policies", "tuner", "tests/contracts", "tests/data"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    module, line, sample = (dedent(block) for block in BLOCK.findall(RECIPE)[:3])
    (place / "tuner/frameworks/tidepool.py").write_text(module)
    registry = place / "tuner/frameworks/registry.py"
    registry.write_text(registry.read_text().replace("FILES = (\n", f"FILES = (\n{line}", 1))
    folder = place / "tests/data/tidepool/0.1"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(sample)
    return place


def run(house: Path, *arguments: str) -> str:
    environment = {"PYTHONPATH": str(house), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=house, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_new_framework_is_found_by_its_keys_and_advised(house: Path) -> None:
    answer = json.loads(run(house, "-c", ADVISE, "advise", "tests/data/tidepool/0.1/metrics.jsonl", "--json"))
    assert answer["job"]["framework"] == "tidepool"
    assert answer["verdict"] == "generation-bound"
    assert answer["signals"]["trainer_idle_frac"]["value"] == pytest.approx(0.656, abs=0.001)
    assert "tidepool.inflight" in [r["key"] for r in answer["recommendations"]]


@pytest.mark.slow
def test_the_contract_tests_take_it_up(house: Path) -> None:
    printed = run(
        house, "-m", "pytest", "tests/contracts/test_frameworks.py", "-k", "tidepool", "-p", "no:cacheprovider"
    )
    assert "failed" not in printed
    assert int(printed.count(".")) >= 8
