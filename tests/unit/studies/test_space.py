"""The search space: knobs of the job at hand, parameters of a policy, what a point makes of a job."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from policies.laws.parameters import within
from policies.laws.predictive import Predictive
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.scenario import Scenario
from simulators.stations import Admission, Plug
from tuner.errors import ConfigError
from tuner.scenario_files import load
from tuner.studies.knobs import KNOBS, JobFacts, parameters_of, space_of
from tuner.studies.space import Dimension, Space, Value, illegal, lattice_of

DATA = Path(__file__).parents[2] / "data" / "tuning"


class Last:
    """Chooses the last value of everything."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return high

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return high

    def suggest_categorical(self, name: str, choices: Sequence[Value]) -> Value:
        return choices[-1]


def lopsided() -> Scenario:
    return load(str(DATA / "lopsided.toml")).scenario


def facts(scenario: Scenario | None = None, **setpoints: object) -> JobFacts:
    s = scenario or lopsided()
    return JobFacts(s.topology, replace(s.setpoints, **setpoints), s.bounds, s.stations)  # type: ignore[arg-type]


def by_name(space: Space) -> dict[str, Dimension]:
    return {d.name: d for d in space.dimensions}


def test_every_lattice_goes_through_what_is_in_force() -> None:
    job = facts(lopsided(), oversampling_ratio=1.25, staleness_bound=3)
    job = replace(job, stations=replace(lopsided().stations, admission=Admission(Plug.WIP_CAP)))
    space = space_of(job, [name for name in KNOBS if name != "prefill"])
    now = space.now()
    assert now["gpus_trainer"] == 6
    assert now["max_in_flight"] == 160
    for d in space.dimensions:
        assert d.now in d.values, d.name


def test_a_split_is_searched_on_the_legal_lattice_only() -> None:
    topology = Topology(mode=Mode.OVERLAPPED, gpus_total=256, gpus_per_engine=8, trainer_gpu_step=16)
    job = JobFacts(topology, Setpoints(gpus_trainer=64, gpus_generator=192), Bounds(gpus_trainer_max=128))
    assert space_of(job, ["split"]).dimensions[0].values == (16, 32, 48, 64, 80, 96, 112, 128)


def test_holes_of_an_uneven_lattice_are_illegal_points() -> None:
    topology = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8, trainer_sizes=(16, 32, 64))
    job = JobFacts(topology, Setpoints(gpus_trainer=32, gpus_generator=96, group_size=4, batch_rollouts=64), Bounds())
    (split,) = space_of(job, ["split"]).dimensions
    assert split.values == (16, 32, 48, 64)
    settings = Space((split,)).settings({"gpus_trainer": 48}, job.setpoints, topology)
    assert any("48" in why for why in illegal(settings, topology, job.bounds))


def test_a_job_without_a_limit_in_flight_is_asked_first_whether_it_should_have_one() -> None:
    space = space_of(facts(max_in_flight=None), ["concurrency"])
    assert space.conditional
    limited, sizes = space.dimensions
    assert space.now() == {limited.name: False}
    assert space.chosen(Last()) == {limited.name: False}
    assert sizes.only_if == (limited.name, True)


def test_what_goes_with_a_split_goes_with_it() -> None:
    job = facts()
    space = space_of(job, ["split"])
    then = space.settings({"gpus_trainer": 17}, job.setpoints, job.topology)
    assert (then.gpus_trainer, then.gpus_generator, then.max_in_flight) == (17, 11, 80)
    both = space_of(job, ["split", "concurrency"])
    then = both.settings({"gpus_trainer": 17, "max_in_flight": 132}, job.setpoints, job.topology)
    assert then.max_in_flight == 132


def test_bounds_and_quotas_are_reasons_not_penalties() -> None:
    job = lopsided()
    settings = replace(job.setpoints, max_in_flight=900, sandbox_quota=500)
    whys = illegal(settings, job.topology, replace(job.bounds, max_in_flight_max=600))
    assert len(whys) == 2
    assert all("max_in_flight=900" in why for why in whys)


@pytest.mark.parametrize(
    ("knob", "scenario", "says"),
    [
        ("spilt", None, "no such knob"),
        ("prefill", None, "no prefill engines"),
        ("staleness", None, "nothing in this job follows"),
    ],
)
def test_a_knob_that_the_job_has_not_is_refused_with_the_reason(
    knob: str, scenario: Scenario | None, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        space_of(facts(scenario), [knob])


def test_a_serial_job_has_no_split() -> None:
    s = lopsided()
    serial = JobFacts(replace(s.topology, mode=Mode.SERIAL, gpus_total=8), s.setpoints, s.bounds, s.stations)
    with pytest.raises(ConfigError, match="serial"):
        space_of(serial, ["split"])


def test_a_policys_parameters_are_its_fields_own_bounds() -> None:
    dimensions = {d.name: d for d in parameters_of(Predictive())}
    assert dimensions.keys() >= {"policy.gain_min_frac", "policy.review_s"}
    review = dimensions["policy.review_s"]
    assert (review.low, review.high, review.log, review.now) == (10.0, 3600.0, True, 300.0)
    assert not dimensions["policy.trend_share"].log


@dataclass(frozen=True)
class Counting:
    """A stranger's law with a whole number."""

    windows: int = within(6, 2, 12)
    name: str = "not searched"


def test_a_whole_parameter_stays_whole_and_what_has_no_bounds_is_left_alone() -> None:
    (windows,) = parameters_of(Counting())
    assert windows.values == tuple(range(2, 13))
    space = Space((windows,), "x:Counting")
    assert space.parameters({"policy.windows": 7}) == {"windows": 7.0}


def test_the_coarsest_lattice_is_taken() -> None:
    assert lattice_of("x", [24, 72, 40], 40).step == 16
