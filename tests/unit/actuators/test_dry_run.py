"""The dry run prints a change as a diff of the framework's own keys, and its receipt says the same."""

import pytest

from simulators.plant import Order, Setpoints, Status
from tests.unit.actuators.sites import PLAIN, VERL, site_of
from tuner.actuators.dry_run import Options, make


def test_it_prints_the_frameworks_own_keys() -> None:
    said: list[str] = []
    actuator = make(Options(), site_of("verl", VERL), said.append)
    receipt = actuator.apply(Order(Setpoints(gpus_trainer=48, gpus_generator=208), "d7.1"), 0.0)
    assert said == [
        "dry run, d7.1: nothing is changed; this would be set:\ntrainer.nnodes: 8 -> 6\nrollout.nnodes: 24 -> 26"
    ]
    assert receipt.status is Status.REFUSED
    assert "trainer.nnodes: 8 -> 6; rollout.nnodes: 24 -> 26" in receipt.outcomes["gpus_trainer"].reason


def test_it_says_our_name_and_why_where_the_framework_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    make(Options(), PLAIN).apply(Order(Setpoints(max_in_flight=512), "d1.1"), 0.0)
    assert "max_in_flight: 1536 -> 512 (no framework is known: set [job] framework)" in capsys.readouterr().out


def test_what_would_be_refused_is_refused_with_the_same_words() -> None:
    said: list[str] = []
    receipt = make(Options(), PLAIN, said.append).apply(Order(Setpoints(gpus_trainer=52), "d1.1"), 0.0)
    assert "not a multiple of the trainer's step" in receipt.outcomes["gpus_trainer"].reason
    assert said == []
