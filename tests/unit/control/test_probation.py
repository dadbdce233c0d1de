"""Realised against predicted gain: drift is not gain, noise is not loss."""

import subprocess
import sys
from dataclasses import replace
from math import log
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from policies.base import Interval
from policies.control import Outcome
from policies.moves import Move, path_of
from policies.probation import STEPS_MIN, STEPS_MOST, Judgement, Probation, judged, realised_gain, work_before
from policies.settings import with_trainer
from simulators.snapshot import Row, Snapshot
from tests.plants import START, TOPOLOGY

ROOT = Path(__file__).resolve().parents[3]
BEFORE_S, AFTER_S = 0.0, 10_000.0


def steps_of(
    rate: float, tokens: float | None = None, since_s: float = AFTER_S, steps: int = 10, **odd: float
) -> Snapshot:
    """Steps of 512 rollouts at a rate, of so many tokens each."""
    drawn, noise = Random(odd.get("seed", 0)), odd.get("noise", 0.01)
    known = {} if tokens is None else {"tokens_total": 512.0 * tokens}
    rows = tuple(
        Row(
            {"step_s": 512 / rate * drawn.lognormvariate(0, noise), "batch_rollouts": 512.0, **known},
            i,
            since_s + 100.0 * i,
        )
        for i in range(1, steps + 1)
    )
    return Snapshot({}, rows)


def on_probation(before: Snapshot, promised: float | None = None) -> Probation:
    """A move of one step, settled 300 s after it was begun."""
    way = path_of(START, with_trainer(START, TOPOLOGY, 56))
    move = Move("d1", way, AFTER_S - 300.0, 300.0, 100.0, "a test")
    said = None if promised is None else Interval(0.0, promised, 2.0 * promised)
    return Probation(move, ("gpus_trainer",), AFTER_S, said, work_before(before, None, AFTER_S))


def verdict(
    before: Snapshot, after: Snapshot, now_s: float = AFTER_S + 1000.0, promised: float | None = None
) -> Judgement:
    return judged(on_probation(before, promised), after, now_s)[0]


def at_last(before: Snapshot, after: Snapshot, promised: float) -> tuple[Judgement, int]:
    """(verdict, steps that it took), looked at after each step."""
    probation = on_probation(before, promised)
    for n in range(1, len(after.rows) + 1):
        now_s = AFTER_S + 100.0 * n
        said, _ = judged(probation, Snapshot({}, (*before.rows, *after.rows[:n])), now_s)
        if said is not Judgement.WAIT:
            return said, n
    return Judgement.WAIT, len(after.rows)


def test_the_worked_table() -> None:
    told = [{"rollouts": (r,) * 10, "tokens": (r * n,) * 10, "length": (n,) * 10} for r, n in ((2.0, 8e3), (1.8, 10e3))]
    gain = realised_gain(*told)
    assert gain is not None
    assert gain.mean == pytest.approx(0.125)
    assert log((1.0 + gain.high) / (1.0 + gain.mean)) / 1.2816 == pytest.approx(0.056, abs=0.003)


def test_less_kept_of_what_is_made_is_owed_to_the_filter() -> None:
    """Kept 62 % before, 25 % after: of the same tokens trained 1.57 times as many were made, for the doubt 1 to 2.5."""
    before, after = ({"tokens": (1000.0,) * 10, "usable": (kept,) * 10} for kept in (0.62, 0.25))
    gain = realised_gain(before, after)
    assert gain is not None
    assert gain.mean == pytest.approx(0.57, abs=0.01)
    assert gain.low < 0.0
    assert gain.high > 1.5


def test_a_gain_is_good_and_a_loss_is_bad() -> None:
    before = steps_of(2.0, since_s=BEFORE_S)
    assert verdict(before, steps_of(2.2)) is Judgement.GOOD
    assert verdict(before, steps_of(1.6)) is Judgement.BAD


def test_a_rate_that_falls_because_rollouts_grow_is_no_loss() -> None:
    before = steps_of(2.0, 8000.0, BEFORE_S)
    assert verdict(before, steps_of(1.7, 10_000.0)) is Judgement.GOOD


def test_a_rate_that_rises_because_rollouts_shrink_is_no_gain() -> None:
    before = steps_of(2.0, 8000.0, BEFORE_S)
    assert verdict(before, steps_of(2.1, 6000.0)) is Judgement.BAD


def test_noise_alone_is_no_loss() -> None:
    before = steps_of(2.0, 8000.0, BEFORE_S, noise=0.1)
    bad = [verdict(before, steps_of(2.0, 8000.0, noise=0.1, seed=s)) for s in range(100)]
    assert bad.count(Judgement.BAD) <= 20


def test_too_few_steps_wait_and_at_last_end() -> None:
    before = steps_of(2.0, since_s=BEFORE_S)
    assert verdict(before, steps_of(1.0, steps=3), AFTER_S + 300.0) is Judgement.WAIT
    assert verdict(before, steps_of(1.0, steps=3), AFTER_S + 9000.0) is Judgement.UNSURE


def test_four_steps_are_too_few_and_five_are_judged() -> None:
    before = steps_of(2.0, since_s=BEFORE_S)
    assert verdict(before, steps_of(1.0, steps=4), AFTER_S + 400.0) is Judgement.WAIT
    assert verdict(before, steps_of(1.0, steps=5), AFTER_S + 500.0) is Judgement.BAD


def test_steps_from_before_do_not_count() -> None:
    before = steps_of(2.0, since_s=BEFORE_S)
    assert verdict(before, steps_of(1.0, since_s=BEFORE_S)) is Judgement.WAIT


@pytest.mark.parametrize("before", [{}, {"rollouts": ()}, {"tokens": (1.0,) * 5}])
def test_nothing_to_compare_with_is_no_gain(before: dict[str, tuple[float, ...]]) -> None:
    assert realised_gain(before, {"rollouts": (1.0,) * 5}) is None


@pytest.mark.parametrize(("after", "said"), [(2.2, Judgement.GOOD), (1.7, Judgement.BAD)])
def test_what_was_before_a_jump_is_no_yardstick(after: float, said: Judgement) -> None:
    """The job became half as fast six steps before the move: it is held against those six, not against a walk."""
    fast, slow = steps_of(4.0, 8000.0, BEFORE_S, 40), steps_of(2.0, 8000.0, BEFORE_S + 4000.0, 6, seed=1)
    both = Snapshot({}, (*fast.rows, *(replace(row, step=40 + (row.step or 0)) for row in slow.rows)))
    assert fmean(work_before(both, None, AFTER_S)["rollouts"]) == pytest.approx(2.0, rel=0.03)
    assert verdict(both, steps_of(after, 8000.0)) is said


def test_however_steps_scatter_no_move_has_cost_more_than_all() -> None:
    """Steps of a small job scatter by half: seen on a real one as -108 % to +82 %."""
    gain = realised_gain({"tokens": (100.0, 900.0, 2000.0, 400.0)}, {"tokens": (1300.0, 300.0, 900.0, 80.0)})
    assert gain is not None
    assert -1.0 < gain.low < gain.mean < gain.high


def test_a_move_before_the_first_step_is_judged_when_steps_come() -> None:
    nothing, long_after_s = Snapshot({}), AFTER_S + 1e6
    assert verdict(nothing, nothing, long_after_s) is Judgement.WAIT
    assert verdict(nothing, steps_of(2.0, steps=2), long_after_s) is Judgement.UNSURE
    assert verdict(nothing, steps_of(2.0), long_after_s) is Judgement.UNSURE


@pytest.mark.parametrize(
    ("good", "realised", "verdict"),
    [
        (True, Interval(0.01, 0.1, 0.2), "good"),
        (True, Interval(-0.6, -0.2, 0.7), "no clear loss"),
        (False, Interval(-0.3, -0.2, -0.1), "bad"),
        (None, None, "undecided"),
    ],
)
def test_what_is_kept_for_want_of_proof_is_not_called_good(
    good: bool | None, realised: Interval | None, verdict: str
) -> None:
    assert Outcome("d1", good, realised=realised).verdict == verdict


IN_WORDS = """
from policies.probation import realised_gain
before = {name: (1.0, 1.01, 0.99, 1.02) for name in ("tokens", "length", "outside", "usable")}
after = {name: (mean, mean * 1.01, mean * 0.98, mean * 1.02) for name, mean in
         (("tokens", 1.07), ("length", 1.13), ("outside", 1.31), ("usable", 0.71))}
print([repr(realised_gain(before, {**after, "length": (1.0 + k / 97.0,) * 4})) for k in range(40)])
"""


def test_it_is_the_same_to_the_last_bit_in_every_process() -> None:
    """A sum over a set has another order, and so another last bit, under another seed of hashes: no replay is exact."""
    told = {
        subprocess.run(
            [sys.executable, "-c", IN_WORDS],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
        ).stdout
        for seed in "012345"
    }
    assert len(told) == 1


FILLING = (0.3, 0.7, 0.8, 0.9)
"""What the first steps of an empty pipeline deliver, of what it can."""


def filling(rate: float, seed: int) -> Snapshot:
    """Steps after a restart."""
    whole = steps_of(rate, 8000.0, steps=12, seed=seed, noise=0.05)
    slower = [
        replace(r, values={**r.values, "step_s": r.values["step_s"] / f})
        for r, f in zip(whole.rows[:4], FILLING, strict=True)
    ]
    return Snapshot({}, (*slower, *whole.rows[len(FILLING) :]))


def test_a_pipeline_that_fills_after_a_restart_is_no_loss() -> None:
    before = steps_of(2.0, 8000.0, BEFORE_S, 16, noise=0.05)
    for seed in range(10):
        restarted = replace(on_probation(before, 0.1), restarted=True)
        said = [judged(restarted, Snapshot({}, filling(2.2, seed).rows[:n]), AFTER_S + 100.0 * n)[0] for n in range(13)]
        assert said[8] is Judgement.WAIT
        assert said[9] is Judgement.GOOD


def test_what_rises_after_a_move_is_not_drawn_out_to_before_it() -> None:
    """A trend may excuse a move, never accuse one: a queue that fills would make a loss of any gain."""
    before = steps_of(2.0, 8000.0, BEFORE_S, 16, noise=0.05)
    assert verdict(before, filling(2.4, 0), AFTER_S + 1300.0, promised=0.1) is not Judgement.BAD


def test_the_first_steps_after_a_move_are_no_yardstick_for_the_next() -> None:
    gone = filling(2.0, 1)
    told = work_before(gone, AFTER_S, AFTER_S + 5000.0)["tokens"]
    assert len(told) == 8
    assert fmean(told) == pytest.approx(2.0 * 8000.0, rel=0.05)


def losing(frac: float, seed: int, promised: float = 0.1) -> tuple[Judgement, int]:
    """A move that loses so much of a job whose steps scatter by 15 %, as those of real jobs do."""
    before = steps_of(2.0, 8000.0, BEFORE_S, 16, noise=0.15, seed=seed)
    return at_last(before, steps_of(2.0 * (1.0 - frac), 8000.0, steps=30, noise=0.15, seed=1000 + seed), promised)


def test_a_loss_of_more_than_a_tenth_is_found_within_twenty_steps() -> None:
    found = [losing(0.15, seed) for seed in range(40)]
    assert sum(said is Judgement.BAD for said, _ in found) >= 34
    assert max(n for _, n in found) <= STEPS_MOST
    assert fmean(n for _, n in found) <= 10.0


@pytest.mark.parametrize("promised", [0.02, 0.05])
def test_what_keeps_its_promise_is_hardly_ever_taken_back_however_often_it_is_looked_at(promised: float) -> None:
    """By the interval at each look alone it would be 8 of a hundred that gain 2 %, as promised."""
    assert sum(losing(-promised, seed, promised)[0] is Judgement.BAD for seed in range(100)) <= 3


def test_what_looks_right_is_not_held_up() -> None:
    before = steps_of(2.0, 8000.0, BEFORE_S, 16)
    assert at_last(before, steps_of(2.2, 8000.0, steps=30), 0.1) == (Judgement.GOOD, STEPS_MIN)


def test_a_small_loss_against_a_small_promise_is_left_undecided_in_time() -> None:
    said = {losing(0.02, seed, 0.02) for seed in range(20)}
    assert (Judgement.UNSURE, STEPS_MOST) in said
    assert all(n <= STEPS_MOST for _, n in said)


@pytest.mark.parametrize("pace", [0.98, 0.97])
def test_a_job_that_gets_slower_by_itself_is_seldom_blamed_on_the_move(pace: float) -> None:
    """It falls by 2 or 3 % a step all the while, and nothing says why; the move that came meanwhile did nothing."""
    bad = 0
    for seed in range(40):
        drawn = Random(seed)
        rates = [2.0 * pace**k * drawn.lognormvariate(0.0, 0.05) for k in range(50)]
        rows = tuple(
            Row({"step_s": 512 / r, "batch_rollouts": 512.0, "tokens_total": 512 * 8000.0}, k + 5, AFTER_S + at_s)
            for k, r in enumerate(rates)
            if (at_s := 100.0 * (k - 19)) <= -300.0 or at_s > 0.0
        )
        before = Snapshot({}, tuple(row for row in rows if (row.time_s or 0.0) < AFTER_S))
        after = Snapshot({}, tuple(row for row in rows if (row.time_s or 0.0) > AFTER_S))
        bad += at_last(before, after, 0.1)[0] is Judgement.BAD
    assert bad <= 40 * 0.3


def test_what_no_more_steps_could_make_clear_is_not_waited_for() -> None:
    """Rollouts are half as long again: what a token costs is in doubt by more than what is missing."""
    before = steps_of(2.0, 8000.0, BEFORE_S, 16)
    drifted = steps_of(2.0 * 0.97 / 1.5, 12_000.0, steps=30)
    assert at_last(before, drifted, 0.05) == (Judgement.GOOD, STEPS_MIN)
