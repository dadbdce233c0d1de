"""A small job with everything coupled, solved as a Markov chain: two engines of two slots, groups of two, one a batch.

Lengths are exponential, so is the time of training (its tokens are nearly all prompt, which is drawn so), and nothing
else takes time. The chain follows who shares an engine with whom, which groups wait for a second member, what is
buffered and whether the trainer works: processor sharing, group order, routing, plug and back-pressure in one number.
"""

from collections.abc import Iterator
from math import log

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.linalg import spsolve

from simulators.event_state import Job
from simulators.plant import Setpoints, Topology
from simulators.simulation import Simulation
from simulators.stations import Admission, Engine, Plug, Stations, Trainer, affine
from simulators.workload import Lengths, Workload

SLOTS, ENGINES, MEMBERS = 2, 2, 2
BASE_S, PER_RESIDENT_S, TOKENS = 0.001, 0.0005, 10_000
PROMPT_TOKENS = 100_000_000
"""So long beside a response that training time is the prompt's: exponential."""

Group = tuple[tuple[int, ...], int]
"""(engines of its members in flight, members still to be started)."""
State = tuple[tuple[Group, ...], int, bool]
"""Groups with members to finish or to start, finished groups that wait, whether the trainer works."""


def exponential(mean: float) -> Lengths:
    low = [(s, -mean * log(1.0 - s)) for s in np.linspace(0.0, 0.98, 400).tolist()]
    high = [(1.0 - s, -mean * log(s)) for s in np.geomspace(0.0199, 1e-9, 200).tolist()]
    return Lengths(mean, quantiles=(*low, *high, (1.0, mean * 21.0)))


def settled(groups: list[Group], waiting: int, training: bool, plug: Admission) -> State:
    """What follows at once: training starts, members are dispatched to the engine with the fewest."""
    if waiting and not training:
        waiting, training = waiting - 1, True
    limit = plug.limit_groups or 0
    while True:
        loads = [sum(engines.count(e) for engines, _ in groups) for e in range(ENGINES)]
        if sum(loads) == ENGINES * SLOTS:
            break
        opened = next((i for i, group in enumerate(groups) if group[1]), None)
        if opened is None:
            busy = waiting if plug.plug is Plug.BUFFER_CAP else len(groups) + waiting + training
            if busy >= limit:
                break
            groups.append(((), MEMBERS))
            opened = len(groups) - 1
        engines, unstarted = groups[opened]
        groups[opened] = (tuple(sorted((*engines, loads.index(min(loads))))), unstarted - 1)
    return tuple(sorted(groups)), waiting, training


def moves(state: State, plug: Admission, training_s: float) -> Iterator[tuple[float, State]]:
    groups, waiting, training = state
    if training:
        yield 1.0 / training_s, settled(list(groups), waiting, False, plug)
    loads = [sum(engines.count(e) for engines, _ in groups) for e in range(ENGINES)]
    for i, (engines, unstarted) in enumerate(groups):
        for place, e in enumerate(engines):
            rate = 1.0 / (TOKENS * (BASE_S + PER_RESIDENT_S * loads[e]))
            left = (engines[:place] + engines[place + 1 :], unstarted)
            finished = left == ((), 0)
            others = [*groups[:i], *([] if finished else [left]), *groups[i + 1 :]]
            yield rate, settled(others, waiting + finished, training, plug)


def chain(plug: Admission, training_s: float) -> tuple[list[State], csr_matrix]:
    """All states that can be reached from the start, and the generator of the chain over them."""
    first = settled([], 0, False, plug)
    found, order, entries = {first: 0}, [first], []
    for state in order:
        for rate, after in moves(state, plug, training_s):
            if after not in found:
                found[after] = len(order)
                order.append(after)
            entries.append((found[state], found[after], rate))
    rows, columns, rates = (np.array(column) for column in zip(*entries, strict=True))
    flow = coo_matrix((rates, (rows, columns)), shape=(len(order), len(order))).tocsr()
    return order, flow


def solved(plug: Admission, training_s: float) -> tuple[float, float, float]:
    """Steps a second, trainer idle share, mean residents."""
    order, flow = chain(plug, training_s)
    leaving = np.asarray(flow.sum(axis=1)).ravel()
    balance = (flow.T - coo_matrix(np.diag(leaving))).tolil()
    balance[-1, :] = 1.0
    right = np.zeros(len(order))
    right[-1] = 1.0
    shares = spsolve(balance.tocsc(), right)
    busy = sum(p for p, (_, _, training) in zip(shares, order, strict=True) if training)
    present = sum(
        p * sum(len(engines) for engines, _ in groups) for p, (groups, _, _) in zip(shares, order, strict=True)
    )
    return busy / training_s, 1.0 - busy, present


def simulated(plug: Admission, training_s: float, steps: int) -> tuple[float, float, float]:
    stations = Stations(
        Engine(affine(BASE_S, PER_RESIDENT_S), SLOTS),
        Trainer(0.0, training_s / (MEMBERS * PROMPT_TOKENS)),
        admission=plug,
    )
    work = Workload(exponential(PROMPT_TOKENS), exponential(TOKENS))
    knobs = Setpoints(gpus_trainer=1, engines=ENGINES, group_size=MEMBERS, batch_rollouts=MEMBERS)
    simulation = Simulation(Job(Topology(), stations, work, knobs), 7)
    simulation.advance(until_step=1000)
    before = simulation.counters()
    simulation.advance(until_step=1000 + steps)
    c = simulation.counters() - before
    return c.step / c.now_s, 1.0 - c.training_s / c.now_s, c.area_resident / c.now_s


@pytest.mark.parametrize("training_s", [4.0, 15.0, 40.0])
@pytest.mark.parametrize(
    "plug",
    [
        Admission(Plug.BUFFER_CAP, 1),
        Admission(Plug.BUFFER_CAP, 3),
        Admission(Plug.WIP_CAP, 1),
        Admission(Plug.WIP_CAP, 3),
    ],
    ids=lambda plug: f"{plug.plug.value} {plug.limit_groups}",
)
def test_the_engine_agrees_with_the_chain(plug: Admission, training_s: float) -> None:
    rate, idle, present = solved(plug, training_s)
    measured_rate, measured_idle, measured_present = simulated(plug, training_s, 600_000)
    assert measured_rate == pytest.approx(rate, rel=0.005)
    assert measured_idle == pytest.approx(idle, abs=0.003)
    assert measured_present == pytest.approx(present, rel=0.005)
