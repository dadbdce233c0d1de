"""What holds for the house as a whole: its lock, its packages, its archive, its Makefile."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tuner.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"


def tracked_files() -> list[Path]:
    """As git lists them; outside a checkout (an unpacked archive) all files but hidden ones."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        names = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    else:
        names = [path for path in ROOT.rglob("*") if not any(part.startswith(".") for part in path.parts)]
    return [path for path in names if path.is_file()]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_names() -> set[str]:
    return {canonical(name) for name in re.findall(rf"^({NAME})==", LOCK, re.MULTILINE)}


def test_no_lock_of_uv_is_kept_because_it_records_addresses() -> None:
    assert [path for path in tracked_files() if path.name == "uv.lock"] == []


def test_the_lock_names_no_address_and_no_index() -> None:
    assert re.findall(r"\w+://\S*", LOCK) == []
    assert re.findall(r"^\s*--(?!hash=)\S+", LOCK, re.MULTILINE) == []


def test_every_locked_package_has_hashes() -> None:
    entries = re.split(rf"^(?={NAME}==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_every_declared_dependency_is_locked() -> None:
    declared = [
        *PROJECT["project"]["dependencies"],
        *PROJECT["dependency-groups"]["dev"],
        *PROJECT["build-system"]["requires"],
    ]
    names = {canonical(re.match(NAME, line).group()) for line in declared}  # type: ignore[union-attr]
    assert names - locked_names() == set()


def test_the_three_supported_pythons_are_said_everywhere_alike() -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.14"
    said = [
        line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if line.startswith("Programming Language")
    ]
    assert said == ["3.11", "3.12", "3.13"]
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in (ROOT / "tools" / "setup").read_text()


def test_every_package_is_typed() -> None:
    *packages, launcher = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert (packages, launcher) == (["simulators", "policies", "tuner"], "equipoise.py")
    assert [name for name in packages if not (ROOT / name / "py.typed").is_file()] == []


def test_the_version_stands_in_one_place_and_the_changelog_tells_of_it() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "tuner/version.py"
    assert re.search(rf"^## {re.escape(VERSION)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    literal = re.compile(rf"""version\w*\s*(?::\s*\w+\s*)?=\s*["']{re.escape(VERSION)}["']""", re.IGNORECASE)
    places = [path for path in tracked_files() if path.suffix in {".py", ".toml"} and literal.search(path.read_text())]
    assert [str(path.relative_to(ROOT)) for path in places] == ["tuner/version.py"]


def test_the_license_is_apache_2_in_full() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    homes = re.compile(rb"(?<![\w.-])/(?:home|Users|root|work|tmp/(?:clean|hv))/[A-Za-z0-9._-]+/")
    own_words = [path for path in tracked_files() if "data" not in path.parts and path != Path(__file__).resolve()]
    found = {str(path.relative_to(ROOT)): homes.findall(path.read_bytes()) for path in own_words}
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_every_make_target_has_a_help_text() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    helped = set(re.findall(r"^([a-z][a-z-]*):.*## \S", MAKEFILE, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split())
    assert targets == helped == phony


def test_make_alone_prints_the_help() -> None:
    printed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^  demo +\S", printed, re.MULTILINE)
    assert re.search(r"^  test +\S", printed, re.MULTILINE)


def test_setup_refuses_an_old_python_and_says_what_to_do(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1\nexit 1\n')
    old.chmod(0o755)
    done = _setup(tmp_path, PYTHON=str(old))
    assert done.returncode == 1
    assert "Python 3.9.1; Equipoise needs 3.11, 3.12 or 3.13" in done.stderr
    assert "make setup PYTHON=" in done.stderr


def test_setup_says_how_to_get_a_missing_venv_module(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    real = sys.executable
    bare.write_text(f'#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; *) exec "{real}" "$@";; esac\n')
    bare.chmod(0o755)
    done = _setup(tmp_path, PYTHON=str(bare))
    assert done.returncode == 1
    assert "ensurepip" in done.stderr
    assert "apt-get install python3." in done.stderr


def test_setup_refuses_a_python_that_is_not_there(tmp_path: Path) -> None:
    done = _setup(tmp_path, PYTHON=str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "cannot be run" in done.stderr


def _setup(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(ROOT / "tools" / "setup"), str(folder / "venv")],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("folder", ["examples", "tests/data", "benchmarks/data"])
def test_every_copy_of_real_data_says_where_it_is_from(folder: str) -> None:
    """In a note beside it or in a folder above it, by name in a note of the top folder, or in its own first lines."""
    files = [
        path for path in tracked_files() if path.is_relative_to(ROOT / folder) and path.suffix not in {".md", ".py"}
    ]
    silent = [str(path.relative_to(ROOT)) for path in files if not _has_source(path, ROOT / folder)]
    assert silent == []


def _has_source(path: Path, top: Path) -> bool:
    if b"source:" in path.read_bytes()[:500]:
        return True
    notes = [note for folder in path.parents if folder.is_relative_to(top) for note in folder.glob("*.md")]
    names = (path.name, str(path.parent.relative_to(top)))
    return any(note.parent != top or any(name in note.read_text() for name in names) for note in notes)
