"""The published cases as scenarios: what the article tells of each happens in the simulator too, and for its reason.

Figures: SemiAnalysis, "RL Systems Mind the Gap", 16 June 2026. The files say which of their numbers are published,
which follow from those, and which are assumed.
"""

from functools import cache

import pytest

from policies.levers import Lever
from simulators.pipeline import SimulatedPlant, simulate
from simulators.step_log import StepLog
from tuner.case_files import SHIPPED, read
from tuner.commands.simulate import told_levers
from tuner.report.simulated import waste_of
from tuner.scenario_files import load

pytestmark = pytest.mark.slow


@cache
def run(name: str) -> SimulatedPlant:
    return simulate(load(name).scenario, seed=1)


def share(log: list[StepLog], signal: str) -> float:
    """Share of wall time."""
    return sum(e.row.values[signal] for e in log) / sum(e.row.values["step_s"] for e in log)


def mean(log: list[StepLog], signal: str) -> float:
    return sum(e.row.values[signal] for e in log) / len(log)


def between(log: list[StepLog], start_h: float, end_h: float) -> list[StepLog]:
    return [e for e in log if start_h * 3600 <= (e.row.time_s or 0.0) < end_h * 3600]


# ---- long responses: 64 + 192 ----


def test_the_trainer_of_64_and_192_waits_27_to_30_percent_and_40_percent_are_accepted() -> None:
    log = run("qwen3-235b-long-responses").log[8:]
    rate = sum(e.row.values["accepted"] for e in log) / sum(e.row.values["step_s"] for e in log)
    assert 0.24 <= share(log, "trainer_wait_s") <= 0.33
    assert rate == pytest.approx(1.95, rel=0.08)
    assert 0.36 <= 1.0 - sum(waste_of(log).values()) <= 0.46
    assert mean(log, "rollout_latency_s") == pytest.approx(576, rel=0.15)


@cache
def levers_of_case_one() -> dict[str, Lever]:
    name = "qwen3-235b-long-responses"
    return {lever.name: lever for lever in told_levers(load(name).scenario, run(name), seed=1)}


def test_its_best_split_gains_3_to_8_percent_at_most_and_less_when_simulated() -> None:
    split = levers_of_case_one()["split"]
    assert split.change == "48 + 208 GPUs"
    assert split.bound is not None
    assert split.simulated_frac is not None
    assert 0.03 <= split.bound.low <= split.bound.mean <= split.bound.high <= 0.09
    assert -0.02 <= split.simulated_frac <= split.bound.high


def test_it_is_said_that_48_does_not_divide_512() -> None:
    assert "6 ranks do not divide 512 rollouts" in levers_of_case_one()["split"].note


def test_acceptance_and_the_tail_gain_more_than_any_split() -> None:
    levers = levers_of_case_one()
    split, acceptance, tail = (levers[name].simulated_frac or 0.0 for name in ("split", "acceptance", "tail"))
    assert acceptance > 0.2
    assert tail > split
    assert acceptance > split


# ---- tool use: GLM-5 on 128 + 64 + 64 ----


def test_the_trainer_of_glm_5_waits_three_quarters_of_the_time_and_latency_grows_faster_than_length() -> None:
    log = run("glm-5-tool-use").log
    assert 0.65 <= share(log, "trainer_wait_s") <= 0.85
    early, late = log[1:4], log[-4:]
    length = [mean(part, "resp_len_mean") + mean(part, "prompt_len_mean") for part in (early, late)]
    latency = [mean(part, "rollout_latency_s") for part in (early, late)]
    assert latency[1] / latency[0] > length[1] / length[0] > 1.5
    assert waste_of(log)["filtered"] > 0.45


CHART = {int(row.label.removeprefix("step ")): row for row in read(SHIPPED / "v02-latency.toml").rows}
"""Latencies and lengths by step: 24 of the 25 are legible. Those of steps 0 to 9 fitted the two parameters of the
scenario's iteration time."""


@cache
def latency_by_step(seeds: int) -> list[float]:
    """Of what each step trains: the mean over seeds, for one batch is 32 groups and scatters by a tenth."""
    logs = [simulate(load("glm-5-tool-use").scenario, seed).log for seed in range(1, seeds + 1)]
    return [sum(log[step].batch_latency_s or 0.0 for log in logs) / seeds for step in range(25)]


@pytest.mark.parametrize("step", CHART)
def test_each_latency_of_glm_5_is_met_within_a_fifth_those_of_steps_10_to_24_unseen(step: int) -> None:
    assert latency_by_step(24)[step] == pytest.approx(CHART[step].measured, rel=0.2)


def test_lengths_of_glm_5_which_are_inputs_come_out_as_printed() -> None:
    log = run("glm-5-tool-use").log
    told = {step: log[step].row.values for step in CHART}
    ratios = [
        (told[k]["resp_len_mean"] + told[k]["prompt_len_mean"]) / row.inputs["tokens"] for k, row in CHART.items()
    ]
    assert sum(abs(ratio - 1.0) for ratio in ratios) / len(ratios) <= 0.12


# ---- the sandbox wall ----


def test_960_rollouts_against_a_quota_for_256_start_within_the_hour_or_fail() -> None:
    wall = between(run("sandbox-wall").log, 22, 30)
    assert max(e.row.values["sandbox_start_s"] for e in wall) > 1800
    assert mean(wall, "sandbox_fail_frac") > 0.1


def test_96_and_256_rollouts_start_in_seconds() -> None:
    log = run("sandbox-wall").log
    for start_h, end_h in ((2, 10), (12, 18)):
        calm = between(log, start_h, end_h)
        assert mean(calm, "sandbox_start_s") < 120
        assert mean(calm, "sandbox_fail_frac") < 0.05


def test_with_the_quota_raised_there_is_no_cliff() -> None:
    after = between(run("sandbox-wall").log, 34, 40)
    assert mean(after, "sandbox_start_s") < 120
    assert mean(after, "sandbox_fail_frac") < 0.05
    assert mean(after, "inflight_rollouts") > 600


# ---- partial rollout ----


def test_aborts_spike_after_each_weight_update_and_the_trainer_waits_about_60_percent() -> None:
    log = run("slime-partial-rollout").log[5:]
    assert 0.5 <= share(log, "trainer_wait_s") <= 0.7
    assert mean(log, "step_s") == pytest.approx(492, rel=0.25)
    prefilled = [e.row.values["prompt_tokens_per_s"] * e.row.values["step_s"] for e in log]
    after = [tokens for e, tokens in zip(log, prefilled, strict=True) if (e.row.step or 0) % 5 == 1]
    others = [tokens for e, tokens in zip(log, prefilled, strict=True) if (e.row.step or 0) % 5 != 1]
    assert sum(after) / len(after) > 1.25 * sum(others) / len(others)
