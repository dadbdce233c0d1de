"""The event engine as a queue that has an answer: several servers, processor sharing, against theory, SimPy and Ciw.

A job whose rollouts go round for ever between one engine and their tools is a queue with N sources: an engine of c
slots whose iterations take the same time however many share them is c servers with one line. With many sources the
arrivals are Poisson's.
"""

from collections.abc import Generator
from math import log

import ciw
import numpy as np
import pytest
import simpy

from simulators.event_parameters import parameters
from simulators.event_state import Job
from simulators.plant import Setpoints, Topology
from simulators.simulation import Simulation
from simulators.stations import Engine, Stations, StepTime, Trainer
from simulators.streams import RESPONSE, TOOL_TIME, seed_key, uniform
from simulators.workload import Duration, Lengths, Turns, Workload
from tests.oracles.events_reference import quantile, whole

TOKENS = 10_000
TOKEN_S = 1.0 / TOKENS
"""A mean service takes one second."""
FOR_EVER = 1_000_000
EXPONENTIAL = tuple((s, -TOKENS * log(1.0 - s)) for s in np.linspace(0.0, 0.98, 400).tolist()) + tuple(
    (1.0 - s, -TOKENS * log(s)) for s in np.geomspace(0.0199, 1e-9, 200).tolist()
)
LAWS = {
    "fixed": Lengths(float(TOKENS)),
    "exponential": Lengths(float(TOKENS), quantiles=(*EXPONENTIAL, (1.0, TOKENS * 21.0))),
    "lognormal": Lengths(float(TOKENS), 1.0),
}


def closed(step: StepTime, slots: int, sources: int, think_s: float, law: str = "exponential") -> Job:
    stations = Stations(Engine(step, slots), Trainer(0.0, 0.0))
    work = Workload(Lengths(0.0), LAWS[law], Turns(FOR_EVER), tool=Duration(think_s))
    return Job(Topology(), stations, work, Setpoints(1, engines=1, batch_rollouts=1, max_in_flight=sources))


def birth_death(sources: int, think_s: float, servers: int, mean_s: float = 1.0) -> list[float]:
    """Shares of time with n customers at the station, when `servers` of them are served at a time."""
    weights = [1.0]
    for n in range(sources):
        weights.append(weights[-1] * (sources - n) / think_s * mean_s / min(n + 1, servers))
    total = sum(weights)
    return [w / total for w in weights]


def erlang_c(servers: int, load: float) -> float:
    """Chance of waiting in M/M/c, by the recursion of Erlang B."""
    blocked = 1.0
    for c in range(1, servers + 1):
        blocked = load * blocked / (c + load * blocked)
    return blocked / (1.0 - load / servers * (1.0 - blocked))


def test_erlangs_formula() -> None:
    assert erlang_c(8, 7.2) == pytest.approx(0.701533, abs=5e-7)
    assert erlang_c(8, 7.2) / (8 - 7.2) == pytest.approx(0.876916, abs=5e-7)


SOURCES = 2000


def think_s_of(sources: int) -> float:
    """7.2 arrivals a second while 13.51 of the sources are at the station, which is M/M/8's mean at rho 0.9."""
    return (sources - 13.51) / 7.2


def exact_wait(sources: int) -> float:
    """By Little's law from birth and death."""
    shares, think_s = birth_death(sources, think_s_of(sources), 8), think_s_of(sources)
    waiting = sum(max(0, n - 8) * p for n, p in enumerate(shares))
    return waiting / sum((sources - n) / think_s * p for n, p in enumerate(shares))


def measured_wait(seconds: float, sources: int = SOURCES) -> float:
    flat = StepTime(((0.0, TOKEN_S), (1.0, TOKEN_S)))
    simulation = Simulation(closed(flat, 8, sources, think_s_of(sources)), 3)
    settled_s = max(10_000.0, 6.0 * think_s_of(sources))  # at first all of them stand in line
    simulation.advance(until_s=settled_s)
    before = simulation.counters()
    simulation.advance(until_s=settled_s + seconds)
    c = simulation.counters() - before
    return c.area_queued / c.turns


def test_very_many_sources_and_eight_servers_are_m_m_8() -> None:
    assert exact_wait(100_000) == pytest.approx(0.876916, rel=2e-3)


def test_the_wait_for_eight_servers() -> None:
    assert measured_wait(200_000.0) == pytest.approx(exact_wait(SOURCES), rel=0.06)  # 1.4 million customers


@pytest.mark.slow
def test_the_wait_for_eight_servers_to_two_hundredths() -> None:
    assert measured_wait(6_000_000.0) == pytest.approx(exact_wait(SOURCES), rel=0.015)


@pytest.mark.parametrize(("law", "wait"), [("fixed", 2.0), ("exponential", 4.0), ("lognormal", 5.43656)])
def test_one_server_waits_as_pollaczek_and_khinchine_say(law: str, wait: float) -> None:
    """M/G/1 at load 0.8, in mean services: a lognormal of sigma 1 waits 5.43656 (2.7 million customers)."""
    sources, load = 20_000, 0.8
    think_s = (sources - load - load * wait) / load
    simulation = Simulation(closed(StepTime(((0.0, TOKEN_S), (1.0, TOKEN_S))), 1, sources, think_s, law), 3)
    simulation.advance(until_s=10.0 * think_s)  # at first all of them stand in line
    before = simulation.counters()
    simulation.advance(until_s=10.0 * think_s + 3_400_000.0)
    c = simulation.counters() - before
    assert c.area_queued / c.turns == pytest.approx(wait, rel=0.03)


def simpy_queue(job: Job, seed: int, until_s: float) -> tuple[int, float]:
    """Turns served and seconds waited by a SimPy model with the same keyed draws."""
    laws, key, env = parameters(job).laws, seed_key(seed), simpy.Environment()
    servers, ends, waits = simpy.Resource(env, 8), [0], [0.0]

    def customer(i: int) -> Generator[simpy.Event, None, None]:
        for turn in range(FOR_EVER):
            if turn:
                yield env.timeout(quantile(laws.tool_time, uniform(key, TOOL_TIME, i, 0, turn)))
            arrived = env.now
            with servers.request() as served:
                yield served
                waits[0] += env.now - arrived
                tokens = whole(laws.response, quantile(laws.response, uniform(key, RESPONSE, i, 0, turn)))
                yield env.timeout(tokens * TOKEN_S)
            ends[0] += 1

    for i in range(job.setpoints.max_in_flight or 0):
        env.process(customer(i))
    env.run(until=until_s)
    return ends[0], waits[0]


def test_simpy_goes_the_same_path() -> None:
    """Not the same mean: the same turns served at the same times, from an empty station on."""
    job = closed(StepTime(((0.0, TOKEN_S), (1.0, TOKEN_S))), 8, 60, 7.0)
    simulation = Simulation(job, 9)
    simulation.advance(until_s=1500.0)
    turns, waited_s = simpy_queue(job, 9, 1500.0)
    assert turns > 10_000
    assert simulation.counters().turns == turns
    assert simulation.counters().queued_s == pytest.approx(waited_s, rel=1e-9)


@pytest.mark.slow
def test_ciw_measures_the_same_wait() -> None:
    """Ciw's open M/M/8 against 50,000 sources of ours, within four standard errors of Ciw's five runs."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(7.2)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[8],
    )
    means = []
    for seed in range(5):
        ciw.seed(seed)
        queue = ciw.Simulation(network)
        queue.simulate_until_max_time(10_000.0)
        means.append(np.mean([r.waiting_time for r in queue.get_all_records() if r.arrival_date > 1000.0]))
    error = np.std(means, ddof=1) / len(means) ** 0.5
    assert abs(np.mean(means) - measured_wait(1_000_000.0, 50_000)) < 4.0 * error


# ---- processor sharing ----

LIMITED = StepTime(((0.0, TOKEN_S / 12.0), (3.0, TOKEN_S / 12.0), (6.0, TOKEN_S / 6.0)))
"""Up to three share at full speed, 12 a second each; beyond, all share what three get."""
TABLE = (0.43213, 0.36011, 0.15005, 0.04168, 0.01158, 0.00322)
"""Shares of time with 0 to 5 customers at 10 arrivals a second, whatever their sizes."""


def occupancy(job: Job, seconds: float, warm_up_s: float) -> list[float]:
    """Shares of time with 0 to 5 residents, from the trace."""
    simulation = Simulation(job, 4, trace_rows=3_000_000)
    simulation.advance(until_s=warm_up_s + seconds)
    rows = np.array(simulation.trace())
    rows = rows[rows[:, 1] <= 2]  # dispatched, turn ended, returned
    residents = np.cumsum(np.where(rows[:, 1] == 1, -1, 1))
    until = np.append(rows[1:, 0], simulation.now_s)
    stays = np.maximum(0.0, until - np.maximum(rows[:, 0], warm_up_s))
    return [float(stays[residents == n].sum()) / seconds for n in range(6)]


def test_the_table_of_limited_processor_sharing() -> None:
    """Birth and death of 4,000 sources is next to the printed shares of infinitely many."""
    exact = birth_death(4000, 4000 / 10.0, 3, 1.0 / 12.0)
    assert exact[:6] == pytest.approx(TABLE, abs=3e-4)


@pytest.mark.parametrize("law", LAWS)
def test_limited_processor_sharing_is_insensitive(law: str) -> None:
    sources, think_s = 200, 20.0
    exact = birth_death(sources, think_s, 3, 1.0 / 12.0)
    measured = occupancy(closed(LIMITED, sources, sources, think_s, law), 8_000.0, 200.0)
    assert measured == pytest.approx(exact[:6], abs=0.008)


@pytest.mark.parametrize("law", LAWS)
def test_the_mean_stay_of_processor_sharing_depends_on_the_mean_length_alone(law: str) -> None:
    """One engine that all share, load 0.8, 200 sources: by birth and death whatever the law."""
    sources, think_s = 200, 250.0
    shared = StepTime(((0.0, 0.0), (1.0, TOKEN_S)))
    simulation = Simulation(closed(shared, sources, sources, think_s, law), 4)
    simulation.advance(until_s=20_000.0)
    before = simulation.counters()
    simulation.advance(until_s=800_000.0)
    c = simulation.counters() - before
    exact = birth_death(sources, think_s, 1)
    present = sum(n * p for n, p in enumerate(exact))
    rate = (sources - present) / think_s
    assert c.area_resident / c.turns == pytest.approx(present / rate, rel=0.035)
