"""Bytes as the sources get them."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.sources.base import Opened

CASES = Path(__file__).parents[2] / "data" / "cases"


@pytest.fixture
def opened() -> Callable[..., Opened]:
    def make(text: str | bytes, origin: str = "job.log") -> Opened:
        data = text.encode() if isinstance(text, str) else text
        return Opened(io.BytesIO(data), origin, None, len(data))

    return make


@pytest.fixture
def case() -> Callable[[str], Opened]:
    def make(name: str) -> Opened:
        return Opened(io.BytesIO((CASES / name).read_bytes()), name)

    return make
