"""The compiled engine is kept on disk where it can be, and works where it cannot."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FIRST = """
import sys
from simulators import compiled
compiled.use_cache(sys.argv[1]) if sys.argv[1:] else None
print(compiled.is_warm())
"""


def run(code: str, where: Path, *arguments: str, **environment: str) -> str:
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(where), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=clean, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


QUEUE = """
from simulators.events import queue
compiled.multi_server(8, 7.2, 1.0, 100)
print(sum(queue.MULTI_SERVER.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_a_cold_directory_is_not_warm_and_keeps_what_is_compiled(tmp_path: Path) -> None:
    directory = str(tmp_path / "compiled")
    assert run(FIRST + QUEUE, ROOT, directory) == "False\n0\n"
    assert run(FIRST + QUEUE, ROOT, directory) == "False\n1\n"


@pytest.mark.slow
def test_it_runs_without_a_place_for_a_cache(tmp_path: Path) -> None:
    """A read-only tree and no HOME are fatal to numba by default. Root may write anywhere, so the places are files."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "simulators", tree / "simulators", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "simulators" / "events" / "__pycache__").write_text("no directory")
    (tmp_path / "home").write_text("no directory")
    places = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home")}
    code = "from simulators.events import loop as e; print(type(e.ONE_TURN._cache).__name__)"
    assert run(code, tree, **places) == "NullCache\n"


@pytest.mark.slow
def test_what_was_compiled_of_another_source_is_not_taken(tmp_path: Path) -> None:
    """Entries are compiled in one file, what they call in others: numba's own check would not see those change."""
    run("from simulators.compiled import warm_up\nwarm_up()", ROOT, PYTHONDONTWRITEBYTECODE="")
    shutil.copytree(ROOT / "simulators", tmp_path / "simulators")
    assert run(FIRST, tmp_path) == "True\n"
    with (tmp_path / "simulators" / "events" / "heaps.py").open("a") as part:
        part.write("# changed\n")
    assert run(FIRST, tmp_path) == "False\n"
