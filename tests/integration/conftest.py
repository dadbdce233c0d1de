"""Everything in this folder uses real parts and runs under `make integration` only.

Two workers share the files. The tests of one file stay together, as they share servers, browsers and builds; those of
all files that start a Ray cluster do, since each counts on the machine's cores being its own.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOGETHER = {"test_ray": "ray", "test_studies_on_a_cluster": "ray"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)
            item.add_marker(pytest.mark.xdist_group(TOGETHER.get(item.path.stem, item.path.stem)))
