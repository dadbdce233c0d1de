"""A level that stands still is told from one that wanders, and what is to come from what was."""

from math import exp, log, pi, sin
from random import Random
from statistics import fmean

import numpy as np
import pytest

from policies.following import followed, level_now, since_jump, wander
from policies.outlook import to_come
from policies.swings import likeliest_swing
from simulators.snapshot import Row, Snapshot

AHEAD = 16.0


def noise(seed: int, count: int, sigma: float = 0.05) -> list[float]:
    draw = Random(seed)
    return [draw.gauss(0.0, sigma) for _ in range(count)]


def walk(seed: int, count: int, step: float) -> list[float]:
    draw, at, found = Random(seed), 0.0, []
    for error in noise(seed + 1000, count):
        at += draw.gauss(0.0, step)
        found.append(at + error)
    return found


def swing(period_steps: float, size: float, errors: list[float]) -> list[float]:
    return [size * sin(2.0 * pi * i / period_steps) + e for i, e in enumerate(errors)]


def rows(logs: list[float]) -> list[Row]:
    """Steps in which the trainer needs e^log seconds, and the engines always the same."""
    values = {"batch_rollouts": 100.0, "tpot_s": 0.01, "resp_len_mean": 100.0, "engines": 24.0}
    return [Row({**values, "trainer_busy_s": 100.0 * exp(x)}, i, 60.0 * i) for i, x in enumerate(logs)]


def seen(logs: list[float]) -> Snapshot:
    return Snapshot({}, rows=tuple(rows(logs)))


def test_noise_is_hardly_ever_taken_for_a_walk() -> None:
    taken = sum(wander(noise(seed, 32)).walk > 0.0 for seed in range(200))
    assert taken <= 10


def test_a_walk_is_found_and_its_size_with_it() -> None:
    found = [wander(walk(seed, 64, 0.05)) for seed in range(50)]
    assert sum(one.walk > 0.0 for one in found) >= 45
    assert sum(one.walk for one in found) / 50 == pytest.approx(0.0025, rel=0.5)


def test_after_few_steps_nobody_knows_that_a_series_stands_still() -> None:
    few, many = (sum(wander(noise(seed, count)).expected_walk for seed in range(50)) for count in (6, 60))
    assert few > 3.0 * many


def test_a_still_level_is_known_by_all_of_its_steps() -> None:
    errors = [level_now(logs, wander(logs))[0] for logs in (noise(seed, 64) for seed in range(100))]
    assert (sum(e * e for e in errors) / 100) ** 0.5 < 0.05 / 4.0


def test_a_level_that_stands_still_is_as_near_as_it_says() -> None:
    found = [followed(rows(logs), [exp(x) for x in logs]) for logs in (noise(seed, 48) for seed in range(100))]
    beliefs = [belief for belief in found if belief is not None]
    assert sum(abs(one.log_mean) < 1.28 * one.sigma for one in beliefs) >= 72
    assert sum(one.sigma for one in beliefs) / 100 < 1.75 * 0.05 / 48**0.5


def test_a_jump_is_followed_within_a_few_steps() -> None:
    logs = noise(3, 40) + [0.5 + e for e in noise(4, 8)]
    belief = followed(rows(logs), [exp(x) for x in logs])
    assert belief is not None
    assert belief.log_mean == pytest.approx(0.5, abs=0.1)


def test_nothing_comes_of_a_series_that_stands_still() -> None:
    outlook = to_come(seen(noise(1, 40)), AHEAD, 0.5)
    assert outlook.mean == 0.0
    assert outlook.sigma < 0.05


def test_half_of_a_trend_goes_on_and_no_further_than_it_was_watched() -> None:
    logs = [0.03 * i + e for i, e in enumerate(noise(2, 20, 0.01))]
    assert to_come(seen(logs), AHEAD, 0.5).mean == pytest.approx(0.5 * 0.03 * AHEAD, rel=0.3)
    assert to_come(seen(logs), 1e6, 0.5).mean <= 0.03 * len(logs)


def test_a_jump_is_no_trend() -> None:
    logs = noise(5, 24, 0.01) + [0.4 + e for e in noise(6, 6, 0.01)]
    assert to_come(seen(logs), AHEAD, 0.5).mean == 0.0


def test_of_a_swing_every_phase_comes_again() -> None:
    logs = [0.3 * sin(2 * pi * i / 16) + e for i, e in enumerate(noise(7, 52, 0.02))]
    outlook = to_come(seen(logs), AHEAD, 0.5)
    assert len(outlook.shifts) > 4
    assert outlook.mean == pytest.approx(0.0, abs=0.05)  # of the mean, at which it is read
    assert max(outlook.shifts) - min(outlook.shifts) > 0.3


def test_a_lost_node_cuts_the_history() -> None:
    before, after = rows(noise(8, 20, 0.01)), rows([0.5 + e for e in noise(9, 6, 0.01)])
    fewer = [Row({**row.values, "engines": 20.0}, 20 + i, 1200.0 + 60.0 * i) for i, row in enumerate(after)]
    assert to_come(Snapshot({}, rows=(*before, *fewer)), AHEAD, 0.5).mean == 0.0


def test_of_a_jump_nothing_comes_back_and_nothing_goes_on() -> None:
    """Noise of 7 %, a jump of 40 %: before it the noise crossed its mean, after it the noise may look like a trend."""
    outlooks = [
        to_come(seen(noise(seed, 40, 0.07) + [0.4 + e for e in noise(seed + 999, after, 0.07)]), AHEAD, 0.5)
        for seed in range(30)
        for after in (4, 6, 8)
    ]
    assert sum(abs(one.mean) > 0.05 for one in outlooks) <= 2
    assert sum(one.sigma for one in outlooks) / len(outlooks) < 0.06


def test_a_jump_is_found_where_it_is_and_a_ramp_is_none() -> None:
    cuts = [since_jump(noise(seed, 40) + [0.4 + e for e in noise(seed + 999, 6)]) for seed in range(30)]
    assert sum(abs(cut - 40) <= 1 for cut in cuts) >= 28
    assert not any(since_jump([0.02 * i + e for i, e in enumerate(noise(seed, 40))]) for seed in range(30))
    assert sum(since_jump(noise(seed, 64)) > 0 for seed in range(200)) <= 8


def test_what_swings_comes_back() -> None:
    """A load that swings by 20 % every 16 steps, in noise of 7 %: each of its phases is as likely as the others."""
    logs = swing(16.0, 0.2, noise(7, 64, 0.07))
    assert len(to_come(seen(logs), AHEAD, 0.5).shifts) == 16


@pytest.mark.parametrize("period_steps", [6.5, 9.0, 13.0, 18.0])
def test_a_swing_as_large_as_its_noise_is_found_and_its_period_with_it(period_steps: float) -> None:
    found = [likeliest_swing(swing(period_steps, 0.1, noise(seed, 64, 0.07))) for seed in range(30)]
    assert all(one is not None and one.period_steps == pytest.approx(period_steps, rel=0.1) for one in found)


def test_the_likeliest_harmonic_is_that_of_least_squares() -> None:
    logs = swing(10.0, 0.1, noise(2, 40, 0.07))
    found = likeliest_swing(logs)
    assert found is not None
    steps = np.arange(40.0)
    wave = np.column_stack([np.ones(40), *(f(2.0 * pi * steps / found.period_steps) for f in (np.cos, np.sin))])
    left = np.linalg.lstsq(wave, np.array(logs), rcond=None)[1][0]
    assert found.log_likelihood == pytest.approx(-0.5 * (39 * log(left / 39) + log(40)))


def test_noise_and_walks_are_hardly_ever_taken_for_a_swing() -> None:
    still = sum(wander(noise(seed, 64)).period_steps is not None for seed in range(200))
    walking = sum(wander(walk(seed, 64, 0.03)).period_steps is not None for seed in range(200))
    assert still <= 16
    assert walking <= 8


def test_what_swings_is_known_by_its_mean_and_not_followed() -> None:
    logs = swing(12.0, 0.2, noise(11, 60, 0.05))
    belief = followed(rows(logs), [exp(x) for x in logs])
    assert belief is not None
    assert belief.log_mean == pytest.approx(fmean(logs), abs=0.01)
