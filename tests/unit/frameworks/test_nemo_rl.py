"""NeMo-RL: the step block of the console, and the logger's names in serial and overlapped jobs."""

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.nemo_rl import FRAMEWORK
from tuner.records import Record

BLOCK = (
    "📊 Training Results:",
    "  • Loss: 0.1032",
    "  • Avg Reward: 0.3486",
    "",
    "⏱️  Timing:",
    "  • Total step time: 60.00s",
    "  • generation: 30.00s (50.0%)",
)


def test_an_asynchronous_block_is_one_record(read_console, neutral):
    [record] = read_console(FRAMEWORK, "nemo-rl/async-2025-09/console.txt").records
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert signals["trainer_wait_s"] / signals["step_s"] == pytest.approx(0.4887, rel=1e-3)
    assert (signals["update_s"], signals["logprob_s"], signals["weight_sync_s"]) == (25.05, 4.78, 0.13)
    assert signals["overhead_s"] == pytest.approx(1.38 + 1.34 + 1.06 + 0.23)
    assert (signals["reward_mean"], signals["staleness_mean"]) == (0.3486, 1.0)


def test_starvation_inside_the_wait_is_not_added_to_it(neutral):
    record = Record({"timing/train/exposed_generation": 30.0, "timing/train/idle/buffer_starvation": 28.0})
    assert neutral(FRAMEWORK, record, Mode.OVERLAPPED) == {"trainer_wait_s": 30.0}


def test_banners_number_the_steps_and_the_next_step_closes_the_one_before(read_lines):
    steps = [line for n in (3, 4) for line in (f"{'=' * 25} Step {n}/100 {'=' * 25}", *BLOCK)]
    assert [r.step for r in read_lines(FRAMEWORK, *steps).records] == [3, 4]


def test_steps_count_on_over_epochs(read_lines):
    lines = []
    for epoch in (1, 2):
        lines.append(f"{'=' * 25} Epoch {epoch}/3 {'=' * 25}")
        for step in (1, 2):
            lines += [f"{'=' * 25} Step {step}/2 {'=' * 25}", *BLOCK]
    assert [r.step for r in read_lines(FRAMEWORK, *lines).records] == [1, 2, 3, 4]


def test_blocks_without_banners_are_told_apart_by_their_first_section(read_lines):
    assert len(read_lines(FRAMEWORK, *BLOCK, *BLOCK).records) == 2
    assert len(read_lines(FRAMEWORK, *BLOCK[4:], *BLOCK[4:]).records) == 2


def test_other_writers_between_the_bullets_change_nothing(read_lines):
    noisy = [x for line in BLOCK for x in (line, "INFO 03-17 15:38:10 [loggers.py:259] something: 3", "Timing is fun")]
    assert read_lines(FRAMEWORK, *noisy).records[0].values == read_lines(FRAMEWORK, *BLOCK).records[0].values


def test_validation_of_the_step_is_read_and_its_accuracy_is_not_a_phase(read_lines, neutral):
    validation = (
        "📊 Validation Results:",
        "    • Accuracy: 0.5",
        "  ⏱️  Validation Timing:",
        "    • Total validation time: 12.30s",
    )
    [record] = read_lines(FRAMEWORK, "=== Step 5/9 ===", *validation, *BLOCK).records
    signals = neutral(FRAMEWORK, record, Mode.SERIAL)
    assert (signals["validation_s"], signals["step_s"], record.step) == (12.3, 60.0, 5)


def test_a_bullet_that_breaks_off_is_left_out_and_said(read_lines):
    first = read_lines(FRAMEWORK, *BLOCK[:5]).records[0]
    cut = read_lines(FRAMEWORK, *BLOCK[:4], BLOCK[4], "  • Total step time: 6", cut=True).records
    assert not first.cut
    assert all("timing/train/total_step_time" not in r.values for r in cut)


def test_metrics_of_the_single_controller_come_as_a_dict(read_lines, neutral):
    line = "step_metrics={'loss': 0.1, 'reward': np.float64(0.25), 'mean_gen_tokens_per_sample': 900.5}"
    [record] = read_lines(FRAMEWORK, *BLOCK[4:], line).records
    assert neutral(FRAMEWORK, record, Mode.SERIAL)["resp_len_mean"] == 900.5


def test_in_a_serial_job_generation_is_a_phase_and_waking_is_apart_from_the_transfer(neutral):
    record = Record(
        {
            "timing/train/total_step_time": 100.0,
            "timing/train/generation": 50.0,
            "timing/train/prepare_for_generation/total": 9.0,
            "timing/train/prepare_for_generation/transfer_and_update_weights": 6.0,
        }
    )
    signals = neutral(FRAMEWORK, record, Mode.SERIAL)
    assert (signals["rollout_s"], signals["weight_sync_s"], signals["offload_s"]) == (50.0, 6.0, 3.0)


def test_the_inverted_idle_ratio_is_hardly_trusted():
    key = "performance/training_worker_idle_time_ratio"
    [alias] = [alias for alias in FRAMEWORK.aliases if alias.key == key]
    assert (alias.signal, alias.trust) == ("published_trainer_idle_frac", 0.1)


def test_the_mode_follows_the_name_of_the_generation_timer():
    assert FRAMEWORK.mode(Observed(keys=frozenset({"timing/train/exposed_generation"}))) is Mode.OVERLAPPED
    assert FRAMEWORK.mode(Observed(keys=frozenset({"timing/train/generation"}))) is Mode.SERIAL
    assert FRAMEWORK.mode(Observed()) is Mode.UNKNOWN


def test_the_split_of_a_job_with_its_own_generation_nodes():
    config = {
        "cluster.num_nodes": 5,
        "cluster.gpus_per_node": 8,
        "policy.generation.colocated.enabled": False,
        "policy.generation.colocated.resources.num_nodes": 1,
        "policy.generation.colocated.resources.gpus_per_node": 8,
        "policy.generation.vllm_cfg.tensor_parallel_size": 2,
        "grpo.num_prompts_per_step": 32,
        "grpo.num_generations_per_prompt": 16,
        "grpo.async_grpo.enabled": True,
        "grpo.async_grpo.max_trajectory_age_steps": 1,
    }
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (topology.gpus_total, setpoints.gpus_trainer, setpoints.gpus_generator, setpoints.engines) == (40, 32, 8, 4)
    assert (setpoints.batch_rollouts, setpoints.staleness_bound, setpoints.overlap) == (512, 1.0, True)


def test_a_colocated_job_has_no_split():
    config = {"cluster.num_nodes": 1, "cluster.gpus_per_node": 8, "policy.generation.colocated.enabled": True}
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (topology.gpus_total, setpoints.gpus_trainer, setpoints.gpus_generator) == (8, None, None)
