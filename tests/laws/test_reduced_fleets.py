"""A large fleet simulated by a smaller one does as the large one does, and what size changes is not reduced.

| what                | drawn from, evenly in the logarithm                                                      |
|---------------------|------------------------------------------------------------------------------------------|
| engines             | 480 ... 960, half of them no multiple of the scale                                       |
| length, its sigma   | 2,000 ... 12,000 tokens, 0.4 ... 1                                                       |
| turns               | one, or 2 ... 6 with tools of 1 ... 10 s                                                 |
| admission           | a cap on started groups, or a buffer, of 3 ... 6 batches                                 |
| trainer / generator | 0.5 ... 2 of their times for a batch                                                     |
"""

import math
import random
from dataclasses import replace
from statistics import mean

import pytest

from simulators.analytic import AnalyticModel
from simulators.event_model import EventModel
from simulators.event_state import Job
from simulators.plant import Mode, Setpoints, Topology
from simulators.reduced import ReducedModel, scale_of
from simulators.stations import Admission, Engine, Order, Plug, PrefillPool, Sandboxes, Stations, Trainer, affine
from simulators.workload import Duration, Lengths, SolvePart, SolveRates, Turns, Workload

GROUP, GROUPS, SLOTS = 8, 1280, 32
BATCHES = 24
SEEDS = range(3)
CLOSE, CLOSE_ON_AVERAGE = 0.02, 0.006
"""One job, whose buffer may swing for longer than a run lasts; and all of them."""


def drawn(seed: int) -> Job:
    draw = random.Random(seed)

    def log(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    engines = round(log(480, 960)) // 8 * 8 + (seed % 2) * 3
    tools = draw.random() < 0.3
    work = Workload(
        Lengths(600.0, 0.4),
        Lengths(log(2e3, 12e3), log(0.4, 1.0), between_prompt_frac=0.3),
        turns=Turns(log(2, 6)) if tools else Turns(),
        tool=Duration(log(1, 10)) if tools else None,
        tool_tokens=Lengths(100.0) if tools else None,
        solve=SolveRates((SolvePart(1.0, 1.0, 1.0),)),
    )
    capped = draw.random() < 0.5
    rules = Admission(Plug.WIP_CAP, round(log(3, 6) * 32) * 40)
    if not capped:
        rules = Admission(Plug.BUFFER_CAP, round(log(3, 6) * 32) * 40)
    job = Job(
        Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8),
        Stations(Engine(affine(0.01, 1e-4), SLOTS), Trainer(1.0, 1.0), admission=rules),
        work,
        Setpoints(gpus_trainer=512, gpus_generator=8 * engines, group_size=GROUP, batch_rollouts=GROUP * GROUPS),
    )
    unhindered = replace(job.stations, trainer=Trainer(1.0, 0.0))
    batch_s = AnalyticModel(unhindered).predict(job.topology, work, job.setpoints).step_s
    tokens = GROUP * GROUPS * (600.0 + work.response.mean_tokens * work.turns.mean)
    trainer = Trainer(1.0, log(0.5, 2.0) * batch_s * 512.0 / tokens)
    return replace(job, stations=replace(job.stations, trainer=trainer))


def errors(seed: int) -> list[float]:
    """Of the rate, run by run of the smaller fleet."""
    job, found = drawn(seed), []
    scale = scale_of(job)
    assert scale > 1
    exact = EventModel(job.stations, 0, BATCHES, 1, 8).predict(job.topology, job.workload, job.setpoints)
    for run in SEEDS:
        model = ReducedModel(EventModel(job.stations, run, BATCHES, 1, 8), scale)
        said = model.predict(job.topology, job.workload, job.setpoints)
        found.append(said.rollouts_per_s / exact.rollouts_per_s - 1.0)
    return found


def test_a_smaller_fleet_makes_what_the_large_one_makes() -> None:
    found = [mean(errors(seed)) for seed in range(8)]
    assert max(map(abs, found)) < CLOSE, found
    assert abs(mean(found)) < CLOSE_ON_AVERAGE, found


def test_both_settings_of_a_pair_are_reduced_alike() -> None:
    """Also where the engines of one of them are no multiple of the scale: counts are those of the whole fleet."""
    job = drawn(0)
    scale = scale_of(job)
    fewer = replace(job.setpoints, gpus_generator=(job.setpoints.gpus_generator or 0) - 8 * (scale + 1))
    model = EventModel(job.stations, 0, BATCHES, 1, 8)
    for knobs in (job.setpoints, fewer):
        small, whole = (m.predict(job.topology, job.workload, knobs) for m in (ReducedModel(model, scale), model))
        assert small.in_flight == pytest.approx(whole.in_flight, rel=0.03)
        assert small.step_s == pytest.approx(whole.step_s, rel=0.03)


def test_what_size_changes_is_not_reduced() -> None:
    job = drawn(0)
    stations = job.stations
    beside = (
        replace(stations, prefill=PrefillPool(8, 1e-5)),
        replace(stations, sandboxes=Sandboxes(start_s=1.0)),
        replace(stations, engine=replace(stations.engine, lockstep=4)),
        replace(stations, engine=replace(stations.engine, speeds=(1.0, 0.5))),
        replace(stations, admission=replace(stations.admission, order=Order.ADMISSION)),
        replace(stations, admission=Admission(Plug.WIP_CAP, GROUPS)),
    )
    assert [scale_of(replace(job, stations=other)) for other in beside] == [1] * len(beside)
    small = replace(job.setpoints, gpus_generator=8 * 24, batch_rollouts=GROUP * 64)
    assert scale_of(replace(job, setpoints=small)) == 1
    assert scale_of(replace(job, setpoints=replace(job.setpoints, oversampling_ratio=1.25))) == 1
