"""What an actuator refuses, with the sentence it says."""

from dataclasses import replace

import pytest

from policies.settings import values
from simulators.plant import Bounds, Setpoints, TrainerResize
from tests.unit.actuators.sites import PLAIN
from tuner.actuators.limits import refusals
from tuner.actuators.site import Site

KNOBS = ("gpus_trainer", "max_in_flight", "oversampling_ratio", "staleness_bound")


def said(wish: Setpoints, site: Site = PLAIN) -> str:
    return "; ".join(refusals(site, Setpoints(), wish, KNOBS).values())


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Setpoints(gpus_trainer=48, gpus_generator=208), ""),
        (Setpoints(gpus_trainer=48), ""),
        (Setpoints(gpus_generator=184), ""),
        (Setpoints(max_in_flight=4096, oversampling_ratio=1.0, staleness_bound=0.0), ""),
        (Setpoints(gpus_trainer=52, gpus_generator=204), "not a multiple of the trainer's step of 8"),
        (Setpoints(gpus_trainer=136, gpus_generator=120), "above the bound gpus_trainer_max=128"),
        (Setpoints(gpus_trainer=24, gpus_generator=232), "below the bound gpus_trainer_min=32"),
        (Setpoints(gpus_trainer=72), "72 + 192 GPUs are over the budget of 256"),
        (Setpoints(gpus_generator=264), "are over the budget of 256"),
        (Setpoints(gpus_generator=180), "not a multiple of 8 per engine"),
        (Setpoints(gpus_generator=184, engines=24), "is not 24 engines of 8"),
        (Setpoints(max_in_flight=5000), "above the bound max_in_flight_max=4096"),
        (Setpoints(max_in_flight=0), "no setting of a job"),
        (Setpoints(max_in_flight=10**400), "no setting of a job"),
        (Setpoints(oversampling_ratio=0.5), "must be >= 1"),
        (Setpoints(oversampling_ratio=float("nan")), "no setting of a job"),
        (Setpoints(staleness_bound=5.0), "above the bound staleness_max=4.0"),
        (Setpoints(packing=True), "this actuator turns gpus_trainer"),
    ],
)
def test_a_wish_is_judged(wish: Setpoints, words: str) -> None:
    assert words in said(wish)
    assert bool(words) == bool(said(wish))


def test_a_trainer_whose_checkpoint_cannot_be_resized_stays() -> None:
    fixed = replace(PLAIN, topology=replace(PLAIN.topology, trainer_resize=TrainerResize.IMPOSSIBLE))
    assert "the checkpoint of 64 GPUs cannot be resumed on 48" in said(Setpoints(gpus_trainer=48), fixed)
    assert said(Setpoints(gpus_trainer=64, gpus_generator=184), fixed) == ""


def test_a_batch_that_does_not_divide_is_refused_before_anything_is_written() -> None:
    strict = replace(
        PLAIN,
        topology=replace(PLAIN.topology, batch_must_divide=True),
        in_force=replace(PLAIN.in_force, batch_rollouts=512),
    )
    assert "48 does not divide 512 rollouts" in said(Setpoints(gpus_trainer=48, gpus_generator=208), strict)
    assert said(Setpoints(gpus_trainer=32, gpus_generator=224), strict) == ""


def test_what_the_framework_moves_itself_is_left_to_it() -> None:
    lending = replace(PLAIN, topology=replace(PLAIN.topology, framework="verl", self_tuned=("gpus_trainer",)))
    assert "moved by verl itself" in said(Setpoints(gpus_generator=184), lending)


def test_a_job_of_which_nothing_is_known_may_still_be_turned() -> None:
    nobody = Site(bounds=Bounds(max_in_flight_max=100))
    assert said(Setpoints(gpus_trainer=48), nobody) == ""
    assert "above the bound" in said(Setpoints(max_in_flight=101), nobody)


def test_every_refused_setpoint_has_its_reason() -> None:
    wish = Setpoints(gpus_trainer=52, gpus_generator=204)
    assert set(refusals(PLAIN, Setpoints(), wish, KNOBS)) == set(values(wish))
