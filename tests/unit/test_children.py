"""Workers of a pool whose parent is killed."""

import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tuner.children import ending_with_parent


def _pool(kind: str) -> None:
    """Workers that sleep far longer than any test; says when both have begun."""
    with ProcessPoolExecutor(2, get_context(kind), ending_with_parent) as pool:
        list(pool.map(abs, range(2)))
        work = [pool.submit(time.sleep, 3600.0) for _ in range(2)]
        print("begun", flush=True)
        for one in work:
            one.result()


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_they_end_with_it(kind: str) -> None:
    """All of them hold its standard output: that ends when the last of them has ended."""
    code = f"if __name__ == '__main__':\n    from {__name__} import _pool\n    _pool({kind!r})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "begun\n"
        parent.kill()
        rest, _ = parent.communicate(timeout=120)
    assert rest == ""
