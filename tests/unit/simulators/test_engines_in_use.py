"""How much of the engines' capacity is used, where memory or prefill is what limits them."""

import pytest

from simulators.event_model import EventModel
from simulators.plant import Setpoints, Topology
from simulators.stations import Admission, Engine, Plug, Stations, Trainer, affine
from simulators.workload import Lengths, Workload

WORKLOAD = Workload(Lengths(1000.0), Lengths(1000.0, sigma=0.5))
KNOBS = Setpoints(gpus_trainer=8, gpus_generator=8, engines=2, batch_rollouts=32, group_size=1, max_in_flight=256)


@pytest.mark.parametrize(
    ("slots", "kv_tokens", "prefill_s_per_token"),
    [(32, None, 0.0), (256, 50_000, 0.0), (32, None, 2e-4)],
    ids=["slots", "KV memory", "prefill"],
)
def test_engines_that_never_rest_are_used_whole(slots: int, kv_tokens: int | None, prefill_s_per_token: float) -> None:
    """More wait than fit, and the trainer takes all at once: whatever limits, nothing holds the engines back."""
    engine = Engine(affine(0.01, 1e-4), slots, kv_tokens=kv_tokens, prefill_s_per_token=prefill_s_per_token)
    stations = Stations(engine, Trainer(0.1, 0.0), admission=Admission(Plug.NONE))
    told = EventModel(stations).predict(Topology(), WORKLOAD, KNOBS)
    assert told.generator_busy_frac == pytest.approx(1.0, abs=0.06)
