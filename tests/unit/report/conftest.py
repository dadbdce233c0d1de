"""The answers built by hand, as fixtures."""

import pytest

from tests.unit.report.answers_by_hand import MATERIALS, overlapped_material
from tuner.report.answer import Material


@pytest.fixture(params=sorted(MATERIALS))
def material(request: pytest.FixtureRequest) -> Material:
    return MATERIALS[request.param]()


@pytest.fixture
def overlapped() -> Material:
    return overlapped_material()
