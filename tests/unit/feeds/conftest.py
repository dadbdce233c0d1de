"""What the tests of live sources share."""

from collections.abc import Iterator

import pytest

from tests.prometheus_api import PrometheusApi
from tests.servers import Server, serving


@pytest.fixture
def api() -> PrometheusApi:
    return PrometheusApi()


@pytest.fixture
def server(api: PrometheusApi) -> Iterator[Server]:
    with serving(api.respond) as running:
        yield running
