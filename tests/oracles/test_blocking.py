"""Blocking after service: a prefilled rollout whose decoder is full holds its KV, and the next prefill waits for it.

One prefill engine with KV for k contexts and a decoder of c slots are a line of two stations: behind the first one
there is room for c + k rollouts, and it stands still while that is taken. Equal prompts take equal prefills, so what is
left at random is the decoding, and the states that prefills leave behind them are a Markov chain.
"""

from collections.abc import Sequence
from math import comb, exp

import ciw
import numpy as np
import pytest
from scipy.linalg import expm

from simulators.event_state import Job
from simulators.plant import Setpoints, Topology
from simulators.simulation import Simulation
from simulators.stations import Admission, Engine, Plug, PrefillPool, Stations, StepTime, Trainer
from simulators.workload import Lengths, Workload
from tests.oracles.test_queues import EXPONENTIAL, LAWS, TOKEN_S, TOKENS


def line(slots: int, held: int | None, in_flight: int, prompt: Lengths, prefill_s: float = 1.0) -> Job:
    """Prefills of so many seconds in the mean, then decodes of one; KV for `held` contexts in front of them."""
    pool = PrefillPool(1, prefill_s * TOKEN_S, None if held is None else held * TOKENS)
    engine = Engine(StepTime(((0.0, TOKEN_S), (1.0, TOKEN_S))), slots)
    stations = Stations(engine, Trainer(0.0, 0.0), admission=Admission(Plug.NONE), prefill=pool)
    knobs = Setpoints(1, gpus_prefill=1, engines=1, batch_rollouts=1, max_in_flight=in_flight)
    return Job(Topology(), stations, Workload(prompt, LAWS["exponential"]), knobs)


def measured_rate(job: Job, seconds: float) -> float:
    simulation = Simulation(job, 3)
    simulation.advance(until_s=1_000.0)
    before = simulation.counters()
    simulation.advance(until_s=1_000.0 + seconds)
    assert simulation.stopped is None
    return (simulation.counters() - before).turns / seconds


def chain(slots: int, held: int, prefill_s: float) -> float:
    """Rollouts a second of a line that never starves: the chain of the rollouts behind the prefill as one is done.

    A full line waits for the first of its c decodes to end, 1 / c in the mean. Then the next prefill starts, and
    meanwhile decodes end: c at a time as long as there are so many, then each by itself.
    """
    full = slots + held
    moves = np.zeros((full, full))  # of 1 ... full rollouts behind, as one is done, to the same at the next
    for behind in range(1, full + 1):
        left = _left(min(behind, full - 1), slots, prefill_s)
        moves[behind - 1, : len(left)] += left
    balance = np.vstack([(moves - np.eye(full)).T[1:], np.ones(full)])
    shares = np.linalg.solve(balance, [0.0] * (full - 1) + [1.0])
    return float(1.0 / (prefill_s + shares[-1] / slots))


def _left(behind: int, slots: int, seconds: float) -> list[float]:
    """Chances that 0 ... `behind` of them are left after so many seconds: pure death."""
    rates = [float(min(n, slots)) for n in range(behind + 1)]
    found: list[float] = expm(seconds * (np.diag(rates[1:], -1) - np.diag(rates)))[behind].tolist()
    return found


def test_the_chain_of_one_slot_and_one_context_by_hand() -> None:
    """The second prefill finds the first rollout still decoding with chance 1/e, and then waits for a mean decode."""
    assert chain(1, 1, 1.0) == pytest.approx(1.0 / (1.0 + exp(-1.0)), rel=1e-9)


def test_a_prefill_lets_each_of_few_decodes_end_by_itself() -> None:
    ends = 1.0 - exp(-0.7)
    alone = [comb(3, n) * (1.0 - ends) ** n * ends ** (3 - n) for n in range(4)]
    assert _left(3, 4, 0.7) == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize(("slots", "held", "prefill_s"), [(1, 1, 1.0), (1, 4, 1.0), (2, 1, 0.5), (4, 3, 0.2)])
def test_kv_that_waits_for_a_decoder_holds_up_the_prefill(slots: int, held: int, prefill_s: float) -> None:
    job = line(slots, held, slots + held + 20, Lengths(float(TOKENS)), prefill_s)
    assert measured_rate(job, 200_000.0) == pytest.approx(chain(slots, held, prefill_s), rel=0.006)


def test_without_a_limit_nothing_is_held_up() -> None:
    """The same line, prefill and decode both a second: 27 % of its time the prefill stood still for one context."""
    free = measured_rate(line(1, None, 200, Lengths(float(TOKENS))), 200_000.0)
    assert chain(1, 1, 1.0) < 0.74
    assert free > 0.98


def test_held_kv_is_a_cap_on_the_rollouts_in_flight() -> None:
    """Behind the prefill there is room for c + k: with no more than that in flight no KV ever stands in the way."""
    blocked = measured_rate(line(2, 3, 50, Lengths(float(TOKENS)), 0.5), 20_000.0)
    capped = measured_rate(line(2, None, 5, Lengths(float(TOKENS)), 0.5), 20_000.0)
    assert blocked == pytest.approx(capped, rel=1e-3)


# ---- printed numbers, for exponential stations ----

TABLES: Sequence[tuple[tuple[float, float], tuple[int, int], Sequence[float]]] = (
    ((1.0, 1.0), (4, 4), (0.500, 0.667, 0.750, 0.800, 0.833, 0.800, 0.750)),
    ((2.0, 4.0), (4, 6), (1.333, 1.714, 1.867, 1.935, 1.968, 1.968, 1.968, 1.935, 1.867)),
)
"""Rates, capacities and throughput with 1, 2, ... in a cycle of two stations that block after service."""


def cycle(rates: tuple[float, float], rooms: tuple[int, int], population: int) -> float:
    """Birth and death of those at the second station, with the one that is blocked in front of it."""
    most, least = min(population, rooms[1] + 1), max(0, population - rooms[0] - 1)
    weights = [(rates[0] / rates[1]) ** n for n in range(least, most + 1)]
    return rates[0] * sum(weights[:-1]) / sum(weights)


@pytest.mark.parametrize(("rates", "rooms", "printed"), TABLES)
def test_the_printed_tables(rates: tuple[float, float], rooms: tuple[int, int], printed: Sequence[float]) -> None:
    assert [cycle(rates, rooms, n + 1) for n in range(len(printed))] == pytest.approx(printed, abs=6e-4)


@pytest.mark.parametrize(("rates", "rooms", "printed"), TABLES)
def test_prefill_and_decode_in_the_printed_cycle(
    rates: tuple[float, float], rooms: tuple[int, int], printed: Sequence[float]
) -> None:
    """Up to where the second station is full: the prefill's own line has no end, so it never blocks the decoder."""
    prompts = Lengths(float(TOKENS), quantiles=(*EXPONENTIAL, (1.0, TOKENS * 21.0)))
    for population in range(1, rooms[0] + 2):
        job = line(1, None, population, prompts, rates[1] / rates[0])
        assert measured_rate(job, 100_000.0) * rates[1] == pytest.approx(printed[population - 1], rel=0.012)


@pytest.mark.slow
def test_ciw_blocks_as_much() -> None:
    """Ciw's own blocking after service, in front of a decoder with three places."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Deterministic(0.4), None],
        service_distributions=[ciw.dists.Deterministic(0.5), ciw.dists.Exponential(1.0)],
        number_of_servers=[1, 2],
        queue_capacities=[5, 1],
        routing=[[0.0, 1.0], [0.0, 0.0]],
    )
    ciw.seed(1)
    queue = ciw.Simulation(network)
    queue.simulate_until_max_time(40_000.0)
    ends = [r.exit_date for r in queue.get_all_records() if r.node == 2 and r.exit_date > 1_000.0]
    assert len(ends) / 39_000.0 == pytest.approx(chain(2, 2, 0.5), rel=0.015)
