"""What tests of the controller build: a view of the fluid plant after some steps."""

from dataclasses import replace
from math import log
from typing import Any

import pytest

from policies.beliefs import Belief, Beliefs
from policies.control import Capability, View
from policies.settings import SPLIT
from tests.plants import START, TOPOLOGY, FluidPlant

CAPABILITIES = (
    Capability(SPLIT, actuation_s=60.0, cost_s=60.0),
    Capability("max_in_flight"),
    Capability("oversampling_ratio", data_changing=True),
)


def view_after(hours: float = 1.0, **changes: Any) -> View:
    """What a policy sees of the fluid plant, with both service rates believed to 1 %."""
    plant = FluidPlant()
    now_s = 3600.0 * hours
    seen = plant.observe(now_s)
    beliefs = Beliefs({"generator": known(4.0, now_s, 192), "trainer": known(5.6, now_s, 64)})
    view = View(
        now_s,
        seen.snapshot,
        START,
        TOPOLOGY,
        beliefs=beliefs,
        capabilities=CAPABILITIES,
        horizon_s=6 * 3600.0,
    )
    return replace(view, **changes)


def known(rate: float, at_s: float = 0.0, gpus: int | None = None, sigma: float = 0.01) -> Belief:
    return Belief(log(rate), sigma**2, at_s, gpus)


@pytest.fixture
def view() -> View:
    return view_after()
