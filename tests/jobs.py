"""Simulated jobs for tests: a small one with everything plain, and random ones."""

from dataclasses import replace

from hypothesis import strategies as st

from simulators.event_state import Job
from simulators.plant import Setpoints, Topology
from simulators.stations import Admission, Engine, Plug, Stations, Trainer, WeightSync, affine
from simulators.workload import Duration, Lengths, SolvePart, SolveRates, TimeLaw, TurnLaw, Turns, Workload


def plain_job(engines: int = 2, batch_groups: int = 4, group_size: int = 4, **setpoints: object) -> Job:
    """One turn of about 800 tokens, eight slots an engine, a trainer that keeps up."""
    stations = Stations(
        Engine(affine(0.008, 0.0005), slots=8),
        Trainer(base_s=1.0, gpu_s_per_token=1e-5),
        WeightSync(0.5),
        Admission(Plug.BUFFER_CAP, 2 * batch_groups),
    )
    knobs = Setpoints(gpus_trainer=1, engines=engines, group_size=group_size, batch_rollouts=batch_groups * group_size)
    work = Workload(prompt=Lengths(100.0), response=Lengths(800.0, 0.8))
    return Job(Topology(), stations, work, replace(knobs, **setpoints))


def with_stations(job: Job, **stations: object) -> Job:
    return replace(job, stations=replace(job.stations, **stations))


def with_work(job: Job, **work: object) -> Job:
    return replace(job, workload=replace(job.workload, **work))


def with_engine(job: Job, **engine: object) -> Job:
    return with_stations(job, engine=replace(job.stations.engine, **engine))


def with_knobs(job: Job, **knobs: object) -> Job:
    return replace(job, setpoints=replace(job.setpoints, **knobs))


def capped(job: Job, groups: int, freed_at_start: bool = False) -> Job:
    return with_stations(job, admission=Admission(Plug.WIP_CAP, groups, freed_at_start))


lengths = st.builds(
    Lengths,
    mean_tokens=st.floats(1.0, 3000.0),
    sigma=st.sampled_from([0.0, 0.3, 1.0, 1.5]),
    max_tokens=st.sampled_from([None, 500, 4000]),
    between_prompt_frac=st.sampled_from([0.0, 0.4, 1.0]),
    quantiles=st.sampled_from([(), (), ((0.0, 10.0), (0.5, 300.0), (0.99, 900.0), (1.0, 5000.0))]),
)
turns = st.builds(
    Turns,
    mean=st.sampled_from([1.0, 2.5, 4.0]),
    law=st.sampled_from([TurnLaw.FIXED, TurnLaw.GEOMETRIC]),
    max_turns=st.sampled_from([None, 6]),
)
tools = st.builds(
    Duration, mean_s=st.floats(0.0, 20.0), law=st.sampled_from(list(TimeLaw)), sigma=st.sampled_from([0.0, 0.7])
)
works = st.builds(
    Workload,
    prompt=lengths,
    response=lengths,
    turns=turns,
    tool_tokens=st.one_of(st.none(), lengths),
    tool=st.one_of(st.none(), tools),
    solve=st.builds(
        SolveRates,
        parts=st.just((SolvePart(1.0, 0.5, 2.0), SolvePart(0.5, 4.0, 1.5))),
        always_frac=st.sampled_from([0.0, 0.2]),
        never_frac=st.sampled_from([0.0, 0.1]),
    ),
    max_context_tokens=st.sampled_from([None, 2500]),
)


@st.composite
def core_jobs(draw: st.DrawFn) -> Job:
    """Any job of the core: all that the engine's readable twin knows."""
    batch, size = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    plug = draw(st.sampled_from([Plug.NONE, Plug.BUFFER_CAP, Plug.WIP_CAP, Plug.DROP_OLDEST]))
    stations = Stations(
        Engine(
            affine(draw(st.floats(0.001, 0.02)), draw(st.floats(0.0, 0.001)), draw(st.sampled_from([0.0, 1e-8, 1e-6]))),
            slots=draw(st.integers(1, 12)),
        ),
        Trainer(draw(st.floats(0.0, 20.0)), draw(st.sampled_from([0.0, 1e-6, 1e-3]))),
        WeightSync(draw(st.sampled_from([0.0, 0.0, 1.5])), trainer_waits=draw(st.booleans())),
        Admission(plug, batch + draw(st.integers(0, 9)), draw(st.booleans())),
    )
    knobs = Setpoints(
        gpus_trainer=1,
        engines=draw(st.integers(1, 5)),
        group_size=size,
        batch_rollouts=batch * size,
        max_in_flight=draw(st.one_of(st.none(), st.integers(1, 60))),
        sync_interval=draw(st.integers(1, 3)),
        filter_zero_adv=draw(st.booleans()) and size > 1,
    )
    return Job(Topology(), stations, draw(works), knobs)
