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


DIVIDED = replace(PLAIN, in_force=replace(PLAIN.in_force, gpus_prefill=64, gpus_decode=128))


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Setpoints(gpus_prefill=72, gpus_decode=120), ""),
        (Setpoints(gpus_trainer=56, gpus_generator=200, gpus_decode=136), ""),
        (Setpoints(gpus_generator=184, gpus_decode=120), ""),
        (Setpoints(gpus_prefill=128, gpus_decode=128), "64 + 256 GPUs are over the budget of 256"),
        (Setpoints(gpus_prefill=32, gpus_decode=128), "32 GPUs of prefill and 128 of decode are not the 192"),
        (Setpoints(gpus_prefill=68, gpus_decode=124), "not a multiple of 8"),
        (Setpoints(gpus_prefill=0, gpus_decode=192), "gpus_prefill=0 is no setting"),
        (Setpoints(gpus_trainer=56, gpus_generator=200), "are not the 200 of the generator"),
    ],
)
def test_the_pools_are_all_of_the_generator_and_within_the_budget(wish: Setpoints, words: str) -> None:
    found = refusals(DIVIDED, Setpoints(), wish, (*KNOBS, "prefill_decode_split"))
    assert all(words in why for why in found.values())
    assert bool(words) == bool(found)


def test_one_pool_of_a_hand_that_turns_only_pools_is_part_of_another_s_split_and_no_more_than_all_there_is() -> None:
    """56 : 200 are ordered of two hands: that of the pools is asked for 136 GPUs of decode and knows of 192 in all."""

    def told(decode: int) -> str:
        wish = Setpoints(gpus_decode=decode)
        return "; ".join(refusals(DIVIDED, Setpoints(), wish, ("prefill_decode_split",)).values())

    assert told(136) == ""
    assert "not a multiple of 8" in told(132)
    assert "over the budget of 256" in told(200)


def test_every_refused_setpoint_has_its_reason() -> None:
    wish = Setpoints(gpus_trainer=52, gpus_generator=204)
    assert set(refusals(PLAIN, Setpoints(), wish, KNOBS)) == set(values(wish))
