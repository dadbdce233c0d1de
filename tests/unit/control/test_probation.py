"""Realised against predicted gain: drift is not gain, noise is not loss."""

from random import Random

import pytest

from policies.moves import Move, path_of
from policies.probation import Judgement, Probation, judged, realised_gain
from policies.readings import Level
from policies.settings import with_trainer
from simulators.snapshot import Row, Snapshot
from tests.plants import START, TOPOLOGY


def snapshot(rate: float, steps: int = 10, noise: float = 0.01, seed: int = 0) -> Snapshot:
    drawn = Random(seed)
    rows = tuple(
        Row({"step_s": 512 / rate * drawn.lognormvariate(0, noise), "batch_rollouts": 512.0}, i, 1000.0 + 100.0 * i)
        for i in range(steps)
    )
    return Snapshot({}, rows)


def probation(model_before: float | None = None, revert: bool = False) -> Probation:
    move = Move("d1", path_of(START, with_trainer(START, TOPOLOGY, 56)), 0.0, 300.0, 100.0, "a test")
    return Probation(move, ("gpus_trainer",), 900.0, None, Level(2.0, 0.02, 20), model_before, revert=revert)


def test_the_worked_table() -> None:
    gain = realised_gain(Level(2.0, 0.0, 10), Level(1.9, 0.0, 10), 0.9)
    assert gain is not None
    assert gain.mean == pytest.approx(0.0556, abs=1e-4)


def test_a_gain_is_good_and_a_loss_is_bad() -> None:
    assert judged(probation(), snapshot(2.2), 2000.0, None)[0] is Judgement.GOOD
    assert judged(probation(), snapshot(1.6), 2000.0, None)[0] is Judgement.BAD


def test_a_fall_that_the_old_setting_would_have_had_too_is_no_loss() -> None:
    assert judged(probation(model_before=2.0), snapshot(1.8), 2000.0, model_now=1.7)[0] is Judgement.GOOD


def test_a_rise_that_the_old_setting_would_have_exceeded_is_a_loss() -> None:
    assert judged(probation(model_before=2.0), snapshot(2.2), 2000.0, model_now=2.6)[0] is Judgement.BAD


def test_noise_alone_is_no_loss() -> None:
    bad = [judged(probation(2.0), snapshot(2.0, noise=0.1, seed=s), 2000.0, 2.0)[0] for s in range(100)]
    assert bad.count(Judgement.BAD) <= 20


def test_too_few_steps_wait_and_at_last_end() -> None:
    assert judged(probation(), snapshot(1.0, steps=3), 1300.0, None)[0] is Judgement.WAIT
    assert judged(probation(), snapshot(1.0, steps=3), 9000.0, None)[0] is Judgement.UNSURE


def test_steps_from_before_do_not_count() -> None:
    old = Snapshot({}, tuple(Row({"step_s": 500.0, "batch_rollouts": 512.0}, i, 100.0 * i) for i in range(9)))
    assert judged(probation(), old, 1000.0, None)[0] is Judgement.WAIT


@pytest.mark.parametrize(("before", "ratio"), [(0.0, None), (2.0, 0.0), (2.0, float("nan"))])
def test_nothing_to_compare_with_is_no_gain(before: float, ratio: float | None) -> None:
    assert realised_gain(Level(before, 0.0, 5), Level(1.0, 0.0, 5), ratio) is None
