"""Stories: the installed command as a shell runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stories.answers import CASES, moves, read_answer
from tests.stories.conftest import AskCase

ROOT = Path(__file__).parents[2]
TWO = ["A11_nemo_rl_async_timing.txt", "V02_vllm_cpu_preempting.prom"]


def run(*arguments: str, cwd: Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tuner.cli", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", TWO)
def test_the_real_process_prints_one_document_and_nothing_else(name: str, tmp_path: Path, answer_of: AskCase) -> None:
    done = run("advise", str(CASES / name), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    answer, in_process = read_answer(done.stdout.decode()), answer_of(name)
    assert answer["verdict"] == in_process["verdict"]
    assert moves(answer) == moves(in_process)


@pytest.mark.parametrize("name", TWO)
def test_standard_input_gives_the_same_advice_as_the_file(name: str, tmp_path: Path, answer_of: AskCase) -> None:
    done = run("advise", "-", "--json", cwd=tmp_path, stdin=(CASES / name).read_bytes())
    assert done.returncode == 0, done.stderr.decode()
    assert moves(read_answer(done.stdout.decode())) == moves(answer_of(name))
