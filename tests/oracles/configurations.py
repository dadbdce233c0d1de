"""Random jobs for comparing models: one job per seed, from a distribution that is written down here.

| what                  | drawn from                                                                             |
|-----------------------|----------------------------------------------------------------------------------------|
| engines, slots        | 2 ... 16 (log), {16, 32, 64, 128}                                                      |
| in flight             | 60 % all slots, else 0.4 ... 1 of them                                                 |
| step time             | a 4 ... 20 ms, k 0.02 ... 0.3 ms (log); half with m, m x context = 0.05 ... 1 k        |
| response              | 500 ... 8,000 tokens a rollout (log), sigma 0.3 ... 1.2, half with h 0 ... 0.75,       |
|                       | a third cut at 3 ... 8 means                                                           |
| turns                 | 70 % one; else 2 ... 12 (log), fixed or geometric, tools 1 ... 40 s, 50 ... 500 tokens |
| prompt, prefill       | 100 ... 4,000 tokens; 40 % with 1 ... 10 us a token                                    |
| groups, batch         | of {4, 8, 16}, 16 ... 64 groups (log)                                                  |
| trainer / generator   | 0.4 ... 2.5 (log) of their times for a batch                                           |
| admission             | 10 % serial; else 45 % buffer cap of 1 ... 8 batches, 30 % WIP cap of 1.5 ... 10,      |
|                       | 10 % drop-oldest of 1 ... 4, 5 % discard-stale, 5 % per sync, 5 % none; 4 % in order   |
| weights               | 0 ... 8 s; 20 % every 2 ... 4 steps; 85 % in flight, else abort (partial or not), drain |
| filter, failures      | 30 % filtered, Beta(0.3 ... 2, 0.3 ... 2); 20 % lose 0 ... 5 %                         |
| oversampling          | 15 % of groups by 1.1 ... 1.6, 6 % of members; a third of the former carried over      |
| sandboxes             | 20 %, quota 0.6 ... 1.5 of what is in flight, start 1 ... 30 s                         |
| P/D, KV, verifier     | 7 %, 8 %, 10 %                                                                         |
| speeds, tenant, prune | 5 %, 3 %, 3 %                                                                          |
"""

import math
import random
from dataclasses import dataclass, replace

from simulators.plant import Mode, Setpoints, Topology
from simulators.stations import (
    Admission,
    Engine,
    Order,
    Plug,
    PrefillPool,
    Pruning,
    Sandboxes,
    Stations,
    StepTime,
    SyncMode,
    Tenant,
    Trainer,
    Verifier,
    WeightSync,
    affine,
)
from simulators.workload import Duration, Lengths, SolvePart, SolveRates, TurnLaw, Turns, Workload

GPUS = 8
"""Of one engine."""


@dataclass(frozen=True, slots=True)
class Configuration:
    seed: int
    topology: Topology
    stations: Stations
    workload: Workload
    setpoints: Setpoints


class Draw(random.Random):
    """Named draws, so that the table above can be read off the code."""

    def log(self, low: float, high: float) -> float:
        return math.exp(self.uniform(math.log(low), math.log(high)))

    def chance(self, share: float) -> bool:
        return self.random() < share


def configuration(seed: int, extras: bool = True) -> Configuration:
    """Without extras: one kind of rollout, engine, trainer and plug; nothing fails, is lost, cut, held or shared."""
    draw = Draw(seed)
    workload, context = _workload(draw)
    engines, slots = round(draw.log(2, 16)), draw.choice([16, 32, 64, 128])
    in_flight = engines * slots if draw.chance(0.6) else round(engines * slots * draw.uniform(0.4, 1.0))
    step = _step(draw, context)
    group, groups = draw.choice([4, 8, 16]), round(draw.log(16, 64))
    batch_s = _batch_s(workload, step, (engines, slots, in_flight), context) * group * groups
    serial = draw.chance(0.1)
    setpoints = Setpoints(
        gpus_trainer=engines * GPUS if serial else 32,
        gpus_generator=engines * GPUS,
        engines=None,
        max_in_flight=None if in_flight == engines * slots else in_flight,
        group_size=group,
        batch_rollouts=group * groups,
        sync_interval=draw.randint(2, 4) if draw.chance(0.2) else 1,
    )
    ratio = draw.log(0.4, 2.5)
    fixed = draw.uniform(0.0, 0.3)
    gpus = setpoints.gpus_trainer or 32
    trainer = Trainer(ratio * batch_s * fixed, ratio * batch_s * (1 - fixed) * gpus / (group * groups * context[1]))
    prefill = draw.log(1e-6, 1e-5) if draw.chance(0.4) and extras else 0.0
    stations = Stations(Engine(step, slots, prefill_s_per_token=prefill), trainer)
    topology = Topology(
        mode=Mode.SERIAL if serial else Mode.OVERLAPPED,
        gpus_per_engine=GPUS,
        gpus_total=engines * GPUS if serial else None,
    )
    plain = Configuration(seed, topology, stations, workload, setpoints)
    admitted = _filtered(draw, _sync(draw, _admission(draw, plain, (groups, extras)), batch_s, extras))
    return _engine_extras(draw, _extras(draw, admitted, in_flight), (batch_s, context)) if extras else admitted


def _workload(draw: Draw) -> tuple[Workload, tuple[float, float]]:
    """The workload and its (mean, final) context."""
    turns = Turns()
    tool = tokens = None
    total, prompt = draw.log(500, 8000), draw.log(100, 4000)
    if draw.chance(0.3):
        turns = Turns(draw.log(2, 12), draw.choice([TurnLaw.FIXED, TurnLaw.GEOMETRIC]))
        tool, tokens = Duration(draw.log(1, 40)), Lengths(draw.log(50, 500), 0.5)
    mean = total / turns.mean
    response = Lengths(
        mean,
        draw.uniform(0.3, 1.2),
        round(mean * draw.uniform(3, 8)) if draw.chance(1 / 3) else None,
        draw.uniform(0.0, 0.75) if draw.chance(0.5) else 0.0,
    )
    final = prompt + total + (turns.mean - 1) * (tokens.mean_tokens if tokens else 0.0)
    solve = SolveRates((SolvePart(1.0, draw.uniform(0.3, 2.0), draw.uniform(0.3, 2.0)),))
    return Workload(Lengths(prompt, 0.5), response, turns, tokens, tool, solve), (0.5 * (prompt + final), final)


def _step(draw: Draw, context: tuple[float, float]) -> StepTime:
    per_resident = draw.log(2e-5, 3e-4)
    share = draw.log(0.05, 1.0) if draw.chance(0.5) else 0.0
    return affine(draw.uniform(0.004, 0.020), per_resident, share * per_resident / context[0])


def _batch_s(workload: Workload, step: StepTime, fleet: tuple[int, int, int], context: tuple[float, float]) -> float:
    """Rough seconds per rollout of a free generator: what scales the trainer, not what is predicted."""
    engines, slots, in_flight = fleet
    residents = min(slots, in_flight / engines)
    base, slope = step.table[0][1], step.table[1][1] - step.table[0][1]
    token_s = base + residents * (slope + step.per_context_token_s * context[0])
    tools = (workload.turns.mean - 1) * (workload.tool.mean_s if workload.tool else 0.0)
    return (workload.response.mean_tokens * workload.turns.mean * token_s + tools) / (engines * residents)


def _admission(draw: Draw, job: Configuration, asked: tuple[int, bool]) -> Configuration:
    groups, extras = asked
    order = Order.ADMISSION if draw.chance(0.04) and extras else Order.COMPLETION
    pick = draw.random() * (1.0 if extras else 0.85)
    if pick < 0.45:
        admission = Admission(Plug.BUFFER_CAP, round(groups * draw.log(1, 8)), order=order)
    elif pick < 0.75:
        width = draw.log(1.5, 10)
        admission = Admission(Plug.WIP_CAP, round(groups * width), draw.chance(0.5), order)
    elif pick < 0.85:
        admission = Admission(Plug.DROP_OLDEST, round(groups * draw.log(1, 4)), order=order)
    elif pick < 0.90:
        admission = Admission(Plug.DISCARD_STALE, order=order)
        job = replace(job, setpoints=replace(job.setpoints, staleness_bound=float(draw.randint(2, 16))))
    elif pick < 0.95:
        interval = job.setpoints.sync_interval or 1
        admission = Admission(Plug.PER_SYNC, round(groups * interval * draw.uniform(1.2, 3)), order=order)
    else:
        admission = Admission(Plug.NONE, order=order)
    return replace(job, stations=replace(job.stations, admission=admission))


def _sync(draw: Draw, job: Configuration, batch_s: float, extras: bool) -> Configuration:
    pick, mode, partial = draw.random(), SyncMode.IN_FLIGHT, False
    if extras and pick > 0.85:
        mode = SyncMode.DRAIN if pick > 0.95 else SyncMode.ABORT
        partial = pick < 0.92
    sync = WeightSync(min(draw.uniform(0.0, 8.0), 0.2 * batch_s), mode, draw.chance(0.2) and extras, draw.chance(0.7))
    setpoints = replace(job.setpoints, partial_rollout=partial)
    return replace(job, stations=replace(job.stations, sync=sync), setpoints=setpoints)


def _filtered(draw: Draw, job: Configuration) -> Configuration:
    return replace(job, setpoints=replace(job.setpoints, filter_zero_adv=True)) if draw.chance(0.3) else job


def _extras(draw: Draw, job: Configuration, in_flight: int) -> Configuration:
    stations, setpoints, workload = job.stations, job.setpoints, job.workload
    if draw.chance(0.2):
        workload = replace(workload, failure_frac=draw.uniform(0.0, 0.05))
    pick = draw.random()
    if pick < 0.21:
        setpoints = replace(setpoints, oversampling_ratio=draw.uniform(1.1, 1.6))
        stations = replace(stations, group_wise_oversampling=pick < 0.15)
        setpoints = replace(setpoints, partial_rollout=setpoints.partial_rollout or pick < 0.05)
    if draw.chance(0.2):
        quota = max(8, round(in_flight * draw.uniform(0.6, 1.5)))
        stations = replace(stations, sandboxes=Sandboxes(draw.log(1, 30), quota, failure_frac=draw.uniform(0, 0.03)))
    if draw.chance(0.1):
        stations = replace(stations, verifier=Verifier(draw.log(0.2, 5.0)))
    return replace(job, stations=stations, setpoints=setpoints, workload=workload)


def _engine_extras(draw: Draw, job: Configuration, scale: tuple[float, tuple[float, float]]) -> Configuration:
    batch_s, context = scale
    stations, setpoints = job.stations, job.setpoints
    engine, groups = stations.engine, (setpoints.batch_rollouts or 1)
    if draw.chance(0.07) and job.topology.mode is Mode.OVERLAPPED:
        per_rollout = batch_s / groups
        pool = PrefillPool(GPUS, 2 * draw.uniform(0.3, 0.9) * per_rollout / (context[1] + 1), None, 1e-7, 0.01)
        stations = replace(stations, prefill=pool)
        setpoints = replace(setpoints, gpus_prefill=2 * GPUS, gpus_decode=setpoints.gpus_generator)
    if draw.chance(0.08):
        kv = round(engine.slots * context[0] * draw.uniform(0.6, 1.5) + 12 * context[1])
        engine = replace(engine, kv_tokens=kv)
    if draw.chance(0.05):
        engine = replace(engine, speeds=(1.0, draw.uniform(0.5, 1.0)))
    if draw.chance(0.03):
        stations = replace(stations, tenant=Tenant(1000.0))
    if draw.chance(0.03):
        stations = replace(
            stations, pruning=Pruning(round(2 * job.workload.response.mean_tokens * job.workload.turns.mean))
        )
    return replace(job, stations=replace(stations, engine=engine), setpoints=setpoints)
