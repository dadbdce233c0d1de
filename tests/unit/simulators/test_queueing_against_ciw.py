"""The formulas against Ciw, an independent simulator: many servers, processor sharing, limited processor sharing."""

from typing import Any

import ciw
import pytest

from simulators.queueing.stations import capacitated_sharing, limited_sharing, mmc_wait, sharing_time

pytestmark = pytest.mark.slow
WARM_UP, UNTIL = 500.0, 12_000.0


def stays(service: Any, arrival: float, **network: Any) -> tuple[float, float]:
    """(mean wait, mean time in system) of the customers that arrived after the warm-up."""
    made = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(arrival)],
        service_distributions=[service],
        number_of_servers=[network.pop("servers", 1)],
        **{key: [value] for key, value in network.items() if key != "node_class"},
    )
    waits, times = [], []
    for seed in range(3):
        ciw.seed(seed)
        simulation = ciw.Simulation(made, node_class=network.get("node_class"))
        simulation.simulate_until_max_time(UNTIL)
        records = [r for r in simulation.get_all_records() if r.arrival_date > WARM_UP]
        waits += [r.waiting_time for r in records]
        times += [r.exit_date - r.arrival_date for r in records]
    return sum(waits) / len(waits), sum(times) / len(times)


def test_many_servers() -> None:
    wait, _ = stays(ciw.dists.Exponential(1.0), 3.2, servers=4)
    assert wait == pytest.approx(mmc_wait(4, 3.2), rel=0.08)


def test_processor_sharing_does_not_care_about_the_tail() -> None:
    heavy = ciw.dists.Lognormal(-0.5, 1.0)
    _, time = stays(heavy, 0.7, servers=float("inf"), ps_thresholds=1, node_class=ciw.PSNode)
    assert time == pytest.approx(sharing_time(0.7), rel=0.06)


def test_sharing_with_a_threshold() -> None:
    _, time = stays(ciw.dists.Exponential(1.0), 2.0, servers=float("inf"), ps_thresholds=3, node_class=ciw.PSNode)
    assert time == pytest.approx(capacitated_sharing(2.0, 1.0, 3).mean / 2.0, rel=0.05)


def test_sharing_limited_to_so_many() -> None:
    _, time = stays(ciw.dists.Exponential(1.0), 0.7, servers=4, ps_thresholds=1, node_class=ciw.PSNode)
    assert time == pytest.approx(limited_sharing(0.7, 1.0, 4).mean / 0.7, rel=0.06)
