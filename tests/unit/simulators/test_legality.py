"""Which splits a job may have, and the reason it is told for those it may not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.legality import generator_gpus, lattice, legal_settings, refused_pools
from simulators.plant import Bounds, Mode, Setpoints, Topology, TrainerResize

JOB = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8, trainer_gpu_step=8)
NOW = Setpoints(gpus_trainer=64, gpus_generator=192, batch_rollouts=512)


def refused(topology: Topology, gpus_trainer: int, bounds: Bounds | None = None) -> str | None:
    return {s.gpus_trainer: s.refused for s in legal_settings(topology, NOW, bounds or Bounds())}[gpus_trainer]


def test_all_gpus_are_given_out_in_every_split() -> None:
    found = legal_settings(JOB, NOW, Bounds())
    assert [s.gpus_trainer for s in found] == list(range(8, 256, 8))
    assert {s.gpus_trainer + s.gpus_generator for s in found} == {256}
    assert all(s.engines == s.gpus_generator // 8 for s in found)


@pytest.mark.parametrize(
    ("changes", "bounds", "gpus", "reason"),
    [
        ({"trainer_gpus_min": 64}, Bounds(), 48, "memory floor of 64"),
        ({"gpus_per_engine": 64}, Bounds(), 56, "not a multiple of 64 per engine"),
        ({"trainer_sizes": (64, 128)}, Bounds(), 128, None),
        ({"batch_must_divide": True}, Bounds(), 48, "48 does not divide 512"),
        ({"trainer_resize": TrainerResize.IMPOSSIBLE}, Bounds(), 48, "cannot be resumed"),
        ({"trainer_resize": TrainerResize.IMPOSSIBLE}, Bounds(), 64, None),
        ({}, Bounds(gpus_trainer_min=56), 48, "gpus_trainer_min=56"),
        ({}, Bounds(gpus_trainer_max=56), 64, "gpus_trainer_max=56"),
        ({}, Bounds(), 48, None),
    ],
)
def test_a_split_is_refused_by_name(changes: dict[str, object], bounds: Bounds, gpus: int, reason: str | None) -> None:
    facts = {"mode": Mode.OVERLAPPED, "gpus_per_engine": 8, "trainer_gpu_step": 8} | changes
    found = refused(Topology(**facts), gpus, bounds)  # type: ignore[arg-type]
    assert found is None if reason is None else reason in (found or "")


def test_todays_size_is_judged_even_off_the_lattice() -> None:
    odd = Setpoints(gpus_trainer=60, gpus_generator=196)
    found = {s.gpus_trainer: s.refused for s in legal_settings(JOB, odd, Bounds())}
    assert "step of 8" in (found[60] or "")


def test_the_legal_ones_are_the_lattice() -> None:
    bounds = Bounds(gpus_trainer_min=16, gpus_trainer_max=200)
    legal = [s.gpus_trainer for s in legal_settings(JOB, NOW, bounds) if s.refused is None]
    assert legal == lattice(JOB, NOW, bounds)


def test_serial_jobs_have_nothing_to_split() -> None:
    assert legal_settings(Topology(mode=Mode.SERIAL, gpus_total=64), Setpoints(), Bounds()) == ()


# ---- pools of prefill and decode ----

DIVIDED = replace(NOW, gpus_prefill=64, gpus_decode=128)


def pools(now: Setpoints = DIVIDED, **changes: int) -> str | None:
    return refused_pools(JOB, now, replace(now, **changes))


def test_the_worked_table_of_pools() -> None:
    assert pools(gpus_prefill=72, gpus_decode=120) is None
    assert "not the 192 of the generator" in (pools(gpus_prefill=128, gpus_decode=128) or "")
    assert "68 GPUs of prefill are not a multiple of 8" in (pools(gpus_prefill=68, gpus_decode=124) or "")
    assert "0 GPUs are left to prefill" in (pools(gpus_prefill=0, gpus_decode=192) or "")
    assert "0 GPUs are left to decode" in (pools(gpus_prefill=192, gpus_decode=0) or "")
    assert "not the 200 of the generator" in (pools(gpus_generator=200) or "")
    assert pools(gpus_generator=200, gpus_decode=136) is None


def test_what_is_as_it_was_is_not_refused_and_neither_is_a_pool_of_another_size_that_stays() -> None:
    odd = replace(DIVIDED, gpus_prefill=60, gpus_decode=100)
    assert pools(odd, max_in_flight=100) is None
    fours = replace(DIVIDED, gpus_prefill=60, gpus_decode=132)
    assert pools(fours, gpus_generator=188, gpus_decode=128) is None
    assert "60 GPUs" not in (pools(fours, gpus_generator=192, gpus_decode=132) or "")


def test_of_one_pool_the_other_has_the_rest() -> None:
    half = replace(NOW, gpus_decode=128)
    assert pools(half, gpus_decode=184) is None
    assert "0 GPUs are left to prefill" in (pools(half, gpus_generator=128) or "")


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_whatever_pools_are_let_pass_are_all_of_the_generator_and_whole(prefill: int, decode: int, whole: int) -> None:
    then = replace(DIVIDED, gpus_prefill=prefill, gpus_decode=decode, gpus_generator=whole)
    if then == DIVIDED or refused_pools(JOB, DIVIDED, then) is not None:
        return
    assert prefill + decode == whole
    assert min(prefill, decode) >= 8
    assert prefill % 8 == decode % 8 == 0


def test_no_gpu_of_a_pool_escapes_the_count() -> None:
    assert generator_gpus(DIVIDED) == 192
    assert generator_gpus(replace(DIVIDED, gpus_decode=256)) == 320
    assert generator_gpus(replace(DIVIDED, gpus_generator=None)) == 192
    assert generator_gpus(replace(DIVIDED, gpus_decode=None)) == 192
    assert generator_gpus(Setpoints(gpus_prefill=8)) is None


def test_a_split_leaves_one_engine_to_decode() -> None:
    """Prefill keeps its 64: with 192 for the trainer none is left to decode, with 184 one engine is."""
    found = {s.gpus_trainer: s.refused for s in legal_settings(JOB, DIVIDED, Bounds())}
    assert found[184] is None
    assert "0 GPUs are left to decode" in (found[192] or "")
