"""One served daemon for tests that only read; a fresh one for those that command or disturb."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.daemon.faces import Face, served


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with served(tmp_path_factory.mktemp("face")) as found:
        yield found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Face]:
    with served(tmp_path) as found:
        yield found
