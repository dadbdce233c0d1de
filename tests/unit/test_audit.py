"""The dependency audit: a hole fails it, and silence is never taken for an answer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOUND = {"name": "sound", "version": "1.0", "vulns": []}
HOLED = {
    "name": "holed",
    "version": "2.1",
    "vulns": [{"id": "PYSEC-2026-7", "fix_versions": ["2.2"], "aliases": ["CVE-2026-1"], "description": "it leaks"}],
}
UNKNOWN = {"name": "unheard", "skip_reason": "Dependency not found on PyPI and could not be audited: unheard (1.0)"}


def audited(tmp_path: Path, **answers: object) -> tuple[int, str]:
    """What the audit makes of an auditor that says this for each service; a service without an answer is not there."""
    program = tmp_path / "pip-audit"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"said = { ({name: json.dumps({'dependencies': told, 'fixes': []}) for name, told in answers.items()})!r}\n"
        "service = sys.argv[sys.argv.index('--vulnerability-service') + 1]\n"
        "sys.exit('ConnectionError: no route to host') if service not in said else print(said[service])\n"
    )
    program.chmod(0o755)
    command = [sys.executable, "-m", "tools.audit", str(program), "requirements.lock"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_known_hole_fails_and_names_the_version_that_mends_it(tmp_path: Path) -> None:
    code, told = audited(tmp_path, osv=[SOUND, HOLED])
    assert code == 1
    assert "holed 2.1: PYSEC-2026-7, mended in 2.2" in told


def test_sound_packages_pass_and_those_not_looked_at_are_named(tmp_path: Path) -> None:
    code, told = audited(tmp_path, osv=[SOUND, UNKNOWN])
    assert code == 0
    assert "1 packages of requirements.lock by osv, 0 known holes" in told
    assert "not looked at: unheard" in told


def test_another_service_is_asked_where_one_does_not_answer(tmp_path: Path) -> None:
    assert audited(tmp_path, pypi=[HOLED])[0] == 1


@pytest.mark.parametrize("answers", [{}, {"osv": [UNKNOWN], "pypi": [UNKNOWN]}])
def test_silence_is_said_to_be_no_answer_and_fails_nobody(tmp_path: Path, answers: dict[str, object]) -> None:
    code, told = audited(tmp_path, **answers)
    assert code == 0
    assert "SKIPPED" in told
    assert "0 known holes" not in told


def test_an_auditor_that_is_not_there_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.audit", str(tmp_path / "none"), "requirements.lock"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "SKIPPED" in done.stdout) == (0, True)
