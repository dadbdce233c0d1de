"""GPUs of a scenario that serve nothing are named with their cause; a job that uses all of its own needs no word."""

from dataclasses import replace

import pytest

from simulators.drift import By
from simulators.plant import Mode, Setpoints
from simulators.scenario import Event, EventKind, Scenario
from simulators.stations import PrefillPool
from simulators.unused import unused_in
from tests.unit.test_scenario_files import GOOD
from tuner.scenario_files import load, parse, shipped

SMALL = parse(GOOD, "small.toml")
"""Eight GPUs, two of them the trainer's, engines of two."""


def with_knobs(**knobs: int | None) -> Scenario:
    return replace(SMALL, setpoints=replace(SMALL.setpoints, **knobs))


@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.stem)
def test_the_shipped_scenarios_use_all_their_gpus(path: str) -> None:
    assert unused_in(load(str(path)).scenario) == []


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        (
            replace(with_knobs(gpus_generator=5), topology=replace(SMALL.topology, gpus_total=7)),
            ["1 of the generator's 5 GPUs is in no engine: 2 engines take 2 each"],
        ),
        (with_knobs(engines=1), ["4 of the generator's 6 GPUs are in no engine: 1 engine takes 2"]),
        (with_knobs(gpus_generator=4), ["2 of the job's 8 GPUs are on neither side"]),
        (
            replace(
                SMALL,
                topology=replace(SMALL.topology, mode=Mode.SERIAL, gpus_total=9),
                setpoints=Setpoints(group_size=8, batch_rollouts=64),
            ),
            ["1 of the job's 9 GPUs is in no engine: 4 engines take 2 each"],
        ),
    ],
)
def test_what_serves_nothing_is_named_with_its_cause(scenario: Scenario, told: list[str]) -> None:
    assert unused_in(scenario) == told


def test_each_pool_of_a_disaggregated_generator_is_looked_at_by_itself() -> None:
    pools = with_knobs(gpus_generator=None, gpus_prefill=3, gpus_decode=3)
    stations = replace(SMALL.stations, prefill=PrefillPool(2, 1e-5))
    assert unused_in(replace(pools, stations=stations)) == [
        "1 of the decoders' 3 GPUs is in no engine: 1 engine takes 2",
        "1 of the prefill pool's 3 GPUs is in no engine: 1 engine takes 2",
    ]


def test_gpus_that_a_change_of_knobs_leaves_idle_are_told_with_its_time() -> None:
    event = Event(EventKind.KNOB_CHANGE, 4.0, knob="gpus_generator", value=4.0)
    assert unused_in(replace(SMALL, event=(event,))) == ["2 of the job's 8 GPUs are on neither side (from step 4 on)"]
    later = replace(event, by=By.TIME, at=60.0)
    assert unused_in(replace(SMALL, event=(later,))) == ["2 of the job's 8 GPUs are on neither side (from 60 s on)"]


def test_a_lost_node_is_no_slip() -> None:
    lost = Event(EventKind.NODE_LOSS, 4.0, gpus=2)
    assert unused_in(replace(SMALL, event=(lost,))) == []
