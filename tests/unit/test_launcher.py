"""The launcher runs this project's packages although a user's own folders hold others of the same names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def shadow(tmp_path: Path) -> Path:
    """A folder of the user with a `policies` of their own, which must not be run."""
    package = tmp_path / "theirs" / "policies"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("OWNER = 'the user'\n")
    return package.parent


def run(*arguments: str, path: tuple[Path, ...], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )


def test_our_packages_win_over_a_users_on_the_path(shadow: Path, tmp_path: Path) -> None:
    done = run("-m", "equipoise", "--version", path=(shadow, ROOT), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_our_packages_win_over_a_users_in_the_current_folder(shadow: Path) -> None:
    done = run("-m", "equipoise", "--version", path=(ROOT,), cwd=shadow)
    assert done.returncode == 0, done.stderr


def test_the_file_runs_without_being_installed_and_with_an_isolated_python(tmp_path: Path) -> None:
    done = run("-I", str(ROOT / "equipoise.py"), "--version", path=(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_package_that_was_imported_before_is_named_with_both_places(shadow: Path, tmp_path: Path) -> None:
    code = "import policies, equipoise, sys; sys.exit(equipoise.main())"
    done = run("-c", code, path=(shadow, ROOT), cwd=tmp_path)
    assert done.returncode == 2
    assert str(shadow / "policies" / "__init__.py") in done.stderr
    assert str(ROOT / "policies") in done.stderr
    assert "PYTHONPATH" in done.stderr
