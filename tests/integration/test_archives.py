"""The built wheel and source archive hold what they should, and no more."""

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simulators", "policies", "tuner")
MEGA = 1_000_000


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "sdist",
            "--target",
            "wheel",
            "--directory",
            str(folder),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


def names_in_sdist(dist: Path) -> dict[str, int]:
    with tarfile.open(next(dist.glob("equipoise-*.tar.gz"))) as archive:
        return {name.partition("/")[2]: size for name, size in _members(archive)}


def _members(archive: tarfile.TarFile) -> Iterator[tuple[str, int]]:
    return ((member.name, member.size) for member in archive.getmembers() if member.isfile())


def test_the_source_archive_can_be_tested_and_built_from(dist: Path) -> None:
    names = names_in_sdist(dist)
    needed = {"pyproject.toml", "requirements.lock", "Makefile", ".importlinter", "LICENSE", "README.md", "tools/setup"}
    assert needed - set(names) == set()
    assert any(name.startswith("tests/contracts/") for name in names)
    assert any(name.startswith("examples/") for name in names)


def test_the_source_archive_is_no_dump_of_data_or_leftovers(dist: Path) -> None:
    names = names_in_sdist(dist)
    assert sum(size for name, size in names.items() if name.startswith("tests/data/")) < 2 * MEGA
    assert sum(names.values()) < 8 * MEGA  # the text itself is 5; more would be data
    leftovers = ("__pycache__", ".venv", "fuzz-failures", ".git/", "demo/", "dist/")
    assert [name for name in names if any(word in name for word in leftovers)] == []


def test_the_wheel_holds_the_three_packages_the_launcher_and_the_license(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("equipoise-*.whl"))) as wheel:
        names = wheel.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {*PACKAGES, "equipoise.py"} == {top for top in tops if not top.endswith(".dist-info")}
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_both_archives_carry_the_version_of_the_code(dist: Path) -> None:
    assert {path.name for path in dist.iterdir()} == {
        f"equipoise-{VERSION}-py3-none-any.whl",
        f"equipoise-{VERSION}.tar.gz",
    }


def test_the_wheel_holds_every_file_of_the_packages(dist: Path) -> None:
    """Templates and schemas included: what is not in the wheel is missed only by users."""
    with zipfile.ZipFile(next(dist.glob("equipoise-*.whl"))) as wheel:
        names = set(wheel.namelist())
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    assert len(wanted) > 10
    assert wanted - names == set()
