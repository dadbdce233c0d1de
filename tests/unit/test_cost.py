"""Money: by throughput, with published figures, and unknown where the data does not carry it."""

import pytest

from simulators.cost import Shares, known_price, spending
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import snapshot_of

PRIME_RL = Topology("prime-rl", Mode.OVERLAPPED, 256, "NVIDIA H200 141GB")
PRIME_RL_SPLIT = Setpoints(gpus_trainer=64, gpus_generator=192)


def test_a_run_that_delivers_1_95_rollouts_a_second_costs_by_throughput_and_not_by_latency() -> None:
    snapshot = snapshot_of(
        gen_samples_per_s=1.95, prompt_len_mean=5591, resp_len_mean=12703, rollout_latency_s=576, batch_rollouts=512
    )
    spent = spending(PRIME_RL, PRIME_RL_SPLIT, snapshot, Shares(), 1.59)
    assert spent.usd_per_mtok == pytest.approx(3.17, abs=0.005)


def test_a_run_that_makes_one_batch_per_rollout_time_costs_what_was_published() -> None:
    # 96 GPUs, batch 64, 20 steps of 492.2 s and 20,164 tokens in the mean; 16.23 is the mean over steps.
    snapshot = snapshot_of(step_s=492.2, batch_rollouts=64, tokens_total=64 * 20164)
    spent = spending(Topology(gpus_total=96), Setpoints(), snapshot, Shares(), 1.59)
    assert spent.usd_per_mtok == pytest.approx(16.23, rel=0.005)


def test_idle_money_counts_each_side_whose_idle_share_is_known() -> None:
    both = spending(PRIME_RL, PRIME_RL_SPLIT, snapshot_of(), Shares(0.3, 0.1), 2.0)
    one = spending(PRIME_RL, PRIME_RL_SPLIT, snapshot_of(), Shares(0.3, None), 2.0)
    none = spending(PRIME_RL, PRIME_RL_SPLIT, snapshot_of(), Shares(), 2.0)
    assert both.idle_usd_per_hour == pytest.approx(2.0 * (64 * 0.3 + 192 * 0.1))
    assert one.idle_usd_per_hour == pytest.approx(2.0 * 64 * 0.3)
    assert none.idle_usd_per_hour is None


def test_wasted_money_is_the_generators_share_of_dropped_rollouts() -> None:
    snapshot = snapshot_of(waste_frac=0.6)
    assert spending(PRIME_RL, PRIME_RL_SPLIT, snapshot, Shares(), 1.0).wasted_usd_per_hour == pytest.approx(192 * 0.6)


def test_a_serial_job_wastes_all_its_gpus_for_the_generating_part_of_the_step() -> None:
    snapshot = snapshot_of(waste_frac=0.5, step_s=100, rollout_s=60)
    spent = spending(Topology(mode=Mode.SERIAL, gpus_total=8), Setpoints(), snapshot, Shares(), 1.0)
    assert spent.wasted_usd_per_hour == pytest.approx(8 * 0.6 * 0.5)


def test_nothing_is_guessed_without_gpus_or_tokens() -> None:
    rich = snapshot_of(step_s=10, tokens_total=1e6)
    assert spending(Topology(), Setpoints(), rich, Shares(), 2.0).usd_per_mtok is None
    assert spending(PRIME_RL, PRIME_RL_SPLIT, snapshot_of(step_s=10), Shares(), 2.0).usd_per_mtok is None
    assert spending(PRIME_RL, PRIME_RL_SPLIT, snapshot_of(step_s=0, tokens_total=5), Shares(), 2.0).usd_per_mtok is None


@pytest.mark.parametrize(
    "name", ["NVIDIA H200 141GB", "H200", "NVIDIA H200", "8x H200 SXM5", "nvidia_h200-141gb-hbm3e"]
)
def test_an_h200_has_a_known_price_however_it_is_written(name: str) -> None:
    assert known_price(name) == 1.59


@pytest.mark.parametrize(
    "name", [None, "", "NVIDIA GH200 480GB", "NVIDIA H200 NVL", "NVIDIA H100 80GB HBM3", "A100", "H20"]
)
def test_no_other_gpu_has_a_price_of_ours(name: str | None) -> None:
    assert known_price(name) is None
