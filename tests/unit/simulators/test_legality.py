"""Which splits a job may have, and the reason it is told for those it may not."""

import pytest

from simulators.legality import lattice, legal_settings
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
