"""Which limit binds, asked of the analytic model."""

from dataclasses import replace

from simulators.analytic import AnalyticModel
from simulators.event_state import Job
from simulators.limits import binding_limits
from simulators.plant import Mode, Setpoints, Topology
from simulators.stations import Admission, Engine, Plug, Sandboxes, Stations, Trainer, WeightSync, affine
from simulators.workload import Lengths, Workload

FREE = Stations(
    engine=Engine(affine(0.008, 0.0001), 64),
    trainer=Trainer(5.0, 64 / 200_000),
    sync=WeightSync(2.0, trainer_waits=False),
    admission=Admission(Plug.BUFFER_CAP, 256),
)
JOB = Job(
    Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8),
    FREE,
    Workload(prompt=Lengths(1.0), response=Lengths(8000.0, 1.0)),
    Setpoints(gpus_trainer=64, gpus_generator=192, group_size=8, batch_rollouts=512),
)


def binding(job: Job) -> list[str]:
    return [limit.name for limit in binding_limits(AnalyticModel, job)]


def test_a_generator_that_is_the_slower_side_wants_slots_and_engines() -> None:
    assert set(binding(JOB)) == {"gpus_generator", "engine.slots"}


def test_a_slow_trainer_wants_gpus_and_nothing_else() -> None:
    slow = replace(JOB, stations=replace(FREE, trainer=Trainer(5.0, 64 / 60_000)))
    assert binding(slow) == ["gpus_trainer"]


def test_a_cap_on_started_groups_is_named_before_the_slots() -> None:
    capped = replace(JOB, stations=replace(FREE, admission=Admission(Plug.WIP_CAP, 192, freed_at_start=True)))
    found = binding_limits(AnalyticModel, capped)
    assert found[0].name == "admission.limit_groups"
    assert found[0].gain_frac > 0.1
    assert "engine.slots" not in [limit.name for limit in found]


def test_sandboxes_bind_below_the_engines() -> None:
    scarce = replace(JOB, stations=replace(FREE, sandboxes=Sandboxes(start_s=2.0, live_limit=300)))
    found = binding_limits(AnalyticModel, scarce)
    assert found[0].name == "sandboxes.live_limit"
