"""The split of prefill and decode that follows from turns, context growth and cache hits is the best one simulated.

Jobs whose contexts outgrow the decoders' KV are drawn, not chosen:

| what                    | drawn from, evenly in the logarithm                                         |
|-------------------------|-----------------------------------------------------------------------------|
| turns, geometric        | 5 ... 60                                                                    |
| answer of a tool, time  | 100 ... 2,000 tokens, 0.5 ... 20 s                                          |
| in flight               | 256 ... 2,048                                                               |
| KV of ten engines       | mean contexts of all in flight over 0.5 ... 4; 0.4 M tokens an engine or more |
"""

import math
import random
from dataclasses import dataclass, replace

import pytest

from policies.control import Capability, Hold, Proposal, View
from policies.laws.predictive import Predictive
from policies.settings import merged
from simulators.analytic import AnalyticModel
from simulators.analytic.rollout import rollout_of
from simulators.analytic.weak import OUTGROWN
from simulators.event_model import EventModel
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.plant import Setpoints, Topology
from simulators.scenario import job_at
from simulators.snapshot import snapshot_of
from simulators.workload import Workload
from tuner.scenario_files import load
from tuner.worker import BATCHES, LAW_TIMES, WARM_UP_BATCHES

UNIT, POOL = 16, 160
WITHIN = 0.98
REVIEWS = 6
"""A law may go there in several moves."""
DRAWN = range(12)
SEARCHED = range(6)
"""Of those the ones that are searched whole, which takes 10 to 20 s each."""
MISSED = (41, 42, 53)
"""Of the first 64 draws those that were missed before what the model puts second and third was simulated too."""
KV_LEAST = 400_000


@dataclass(frozen=True)
class Agents:
    """Rollouts of so many turns, each with a tool's answer of so many tokens."""

    turns: float
    answer_tokens: float
    cached: bool
    in_flight: int

    def job(self) -> Job:
        """Ten engines on which they are all that takes time: the trainer is ten times as fast as the shipped one."""
        shipped = job_at(load("tool-calls-20-to-51").scenario, 0, 0.0)
        workload, stations = shipped.workload, shipped.stations
        return replace(
            shipped,
            workload=replace(
                workload,
                turns=replace(workload.turns, mean=self.turns),
                tool_tokens=replace(workload.tool_tokens, mean_tokens=self.answer_tokens),
            ),
            stations=replace(
                stations,
                engine=replace(stations.engine, prefix_cache=self.cached),
                trainer=replace(stations.trainer, gpu_s_per_token=1e-4),
            ),
            setpoints=replace(shipped.setpoints, max_in_flight=self.in_flight),
        )


JOBS = {
    "few turns": Agents(5, 150, True, 1024),
    "long answers of tools": Agents(2, 4000, True, 1024),
    "many turns": Agents(21, 1500, True, 512),
    "more turns": Agents(31, 1500, True, 256),
    "no cache, many turns": Agents(21, 150, False, 1024),
    "no cache, fewer turns": Agents(11, 600, False, 1024),
    "no cache, more turns": Agents(31, 1500, False, 256),
}


def split(job: Job, prefill: int) -> Setpoints:
    return replace(job.setpoints, gpus_prefill=prefill, gpus_decode=POOL - prefill)


def outgrowing(seed: int) -> Job:
    draw = random.Random(seed)

    def drawn(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    agents, tool_s = Agents(drawn(5, 60), drawn(100, 2000), True, 0), drawn(0.5, 20)
    job = replace(agents, in_flight=round(drawn(256, 2048))).job()
    tokens = (job.setpoints.max_in_flight or 0) * rollout_of(job.workload, None).context_mean / drawn(0.5, 4)
    workload, engine = job.workload, job.stations.engine
    assert workload.tool is not None
    return replace(
        job,
        workload=replace(workload, tool=replace(workload.tool, mean_s=tool_s)),
        stations=replace(job.stations, engine=replace(engine, kv_tokens=max(KV_LEAST, round(tokens / (POOL // UNIT))))),
    )


def sized(job: Job, start: int) -> int:
    """Where the law is at rest, from a start."""
    able = (Capability("prefill_decode_split", actuation_s=60.0, cost_s=5.0),)
    model, seen = AnalyticModel(job.stations), snapshot_of(step_s=80.0)
    simulator = EventModel(job.stations, 0, LAW_TIMES * BATCHES, 1, LAW_TIMES * WARM_UP_BATCHES)
    view = View(1e4, seen, split(job, start), job.topology, doubt=2e-4, capabilities=able, horizon_s=21600.0)
    view = replace(view, model=model, workload=job.workload, simulator=simulator)
    for _ in range(REVIEWS):
        answer = Predictive().decide(view)
        if not isinstance(answer, Proposal):
            break
        view = replace(view, in_force=merged(view.in_force, answer.changes), now_s=view.now_s + 7200.0)
    return view.in_force.gpus_prefill or 0


class Late:
    """A simulator that is never done in time."""

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        raise ValueError("no answer within 20 s")


def searched(job: Job, events: EventModel) -> dict[int, float]:
    """Useful rollouts a second of every split."""
    return {
        prefill: events.predict(job.topology, job.workload, split(job, prefill)).useful_rollouts_per_s
        for prefill in range(UNIT, POOL, UNIT)
    }


@pytest.mark.slow
@pytest.mark.parametrize("agents", JOBS.values(), ids=JOBS.keys())
def test_it_is_within_two_percent_of_exhaustive_search_on_the_event_engine(agents: Agents) -> None:
    job = agents.job()
    rates = searched(job, EventModel(job.stations, batches=30, warm_up_batches=8))
    best = max(rates.values())
    for start in (UNIT, POOL // 2, POOL - UNIT):
        assert rates[sized(job, start)] >= WITHIN * best, (start, rates)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*SEARCHED, *MISSED])
def test_so_it_is_where_contexts_outgrow_the_caches_and_hits_and_misses_come_in_turns(seed: int) -> None:
    """Searched in longer runs than the law's own, and with other prompts."""
    job = outgrowing(seed)
    rates = searched(job, EventModel(job.stations, seed=1, batches=100, warm_up_batches=20))
    best = max(rates.values())
    for start in (UNIT, POOL // 2, POOL - UNIT):
        assert rates[sized(job, start)] >= WITHIN * best, (start, rates)


@pytest.mark.slow
def test_the_analytic_model_follows_hits_and_misses_that_come_in_turns() -> None:
    errors = []
    for seed in DRAWN:
        job = outgrowing(seed)
        events, model = EventModel(job.stations, batches=40, warm_up_batches=12), AnalyticModel(job.stations)
        for prefill in range(UNIT, POOL, 2 * UNIT):
            at = split(job, prefill)
            said, did = (m.predict(job.topology, job.workload, at).rollouts_per_s for m in (model, events))
            errors.append(abs(said / did - 1.0))
    errors.sort()
    assert errors[len(errors) // 2] <= 0.04, errors
    assert errors[int(0.9 * len(errors))] <= 0.15, errors


@pytest.mark.slow
def test_the_analytic_model_knows_the_rate_of_every_split_where_contexts_fit() -> None:
    """Also of a pool that is full, where nearly as many wait as are in flight."""
    errors = []
    for agents in JOBS.values():
        job = agents.job()
        did = searched(job, EventModel(job.stations, batches=40, warm_up_batches=16))
        model = AnalyticModel(job.stations)
        for prefill, rate in did.items():
            said = model.predict(job.topology, job.workload, split(job, prefill)).useful_rollouts_per_s
            errors.append(abs(said / rate - 1.0))
    errors.sort()
    assert errors[len(errors) // 2] <= 0.01, errors
    assert errors[int(0.9 * len(errors))] <= 0.03, errors


def test_where_a_full_pool_makes_no_more_of_more_the_cap_says_how_many_are_in_flight() -> None:
    """And how old they are; any number of them is as fast."""
    in_flight, ages = [], []
    for agents in (agents for agents in JOBS.values() if not agents.cached):
        job = agents.job()
        for prefill in (2 * UNIT, 4 * UNIT):
            at = split(job, prefill)
            said = AnalyticModel(job.stations).predict(job.topology, job.workload, at)
            did = EventModel(job.stations, batches=30, warm_up_batches=15).predict(job.topology, job.workload, at)
            assert said.staleness is not None
            assert did.staleness is not None
            in_flight.append(abs(said.in_flight / did.in_flight - 1.0))
            ages.append(abs(said.staleness.mean / did.staleness.mean - 1.0))
    assert max(in_flight) <= 0.02, in_flight
    assert max(ages) <= 0.05, ages


def test_a_simulator_that_does_not_answer_in_time_moves_nothing() -> None:
    job = outgrowing(0)
    able = (Capability("prefill_decode_split", actuation_s=60.0, cost_s=5.0),)
    view = View(1e4, snapshot_of(step_s=80.0), split(job, POOL - UNIT), job.topology, doubt=2e-4, capabilities=able)
    view = replace(view, model=AnalyticModel(job.stations), workload=job.workload, horizon_s=21600.0)
    alone, late = Predictive().decide(view), Predictive().decide(replace(view, simulator=Late()))
    assert isinstance(alone, Proposal)
    assert isinstance(late, Hold)


def test_it_is_told_where_contexts_outgrow_the_caches() -> None:
    job = outgrowing(0)
    tight, roomy = (
        AnalyticModel(job.stations).predict(job.topology, job.workload, s)
        for s in (split(job, POOL // 2), replace(split(job, POOL // 2), max_in_flight=64))
    )
    assert OUTGROWN in tight.weak
    assert OUTGROWN not in roomy.weak


def test_what_no_cache_keeps_is_read_again_by_the_square_of_the_turns() -> None:
    """Geometric turns have twice the pairs of a fixed number of them: a pool without a cache does twice the work."""
    job = JOBS["no cache, many turns"].job()
    thin = split(job, 3 * UNIT)
    said = AnalyticModel(job.stations).predict(job.topology, job.workload, thin)
    did = EventModel(job.stations, batches=20, warm_up_batches=6).predict(job.topology, job.workload, thin)
    assert said.useful_rollouts_per_s == pytest.approx(did.useful_rollouts_per_s, rel=0.1)
