"""Launch scripts are read as bash would, as far as the script alone tells, and nothing in them is run."""

import pytest

from tuner.records import Configuration, Remark
from tuner.sources.configuration.launch import launches
from tuner.sources.configuration.sums import whole_number


def configurations(text: str) -> list[dict[str, object]]:
    return [dict(item.values) for item in launches(text, "run.sh") if isinstance(item, Configuration)]


def remarks(text: str) -> list[Remark]:
    return [item for item in launches(text, "run.sh") if isinstance(item, Remark)]


ARRAYS = r"""#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node 8   # all of them
pkill -9 python; sleep 3
set -ex
NUM_GPUS=${NUM_GPUS:-8}
prompt_len=$((1024 * 2))
answer_len=4096
source "${SCRIPT_DIR}/models/some.sh"
ROLLOUT_ARGS=(
   --prompt-data /data/train.jsonl
   #--rollout-batch-size 999
   --rollout-batch-size 32   # prompts
   --rollout-max-response-len $((prompt_len + ${answer_len}))
   --balance-data
)
NEVER_USED=( --rollout-batch-size 777 )
SAVE_ARGS=( --save "$HOME/out" --save-interval 20 )
ray start --head --num-gpus 1 --dashboard-port=8265
RUNTIME="{
  \"env_vars\": {\"NCCL_DEBUG\": \"INFO\"}
}"
ray job submit --address="http://127.0.0.1:8265" --runtime-env-json="${RUNTIME}" \
   -- python3 train.py \
   --actor-num-nodes 1 \
   --actor-num-gpus-per-node ${NUM_GPUS} \
   ${MODEL_ARGS[@]} "${ROLLOUT_ARGS[@]}" ${SAVE_ARGS[@]} --colocate 2>&1 | tee log.txt
"""


def test_arrays_of_arguments_are_followed_into_the_command():
    assert configurations(ARRAYS) == [
        {
            "sbatch.nodes": 4,
            "sbatch.gpus_per_node": 8,
            "actor_num_nodes": 1,
            "actor_num_gpus_per_node": 8,
            "prompt_data": "/data/train.jsonl",
            "rollout_batch_size": 32,
            "rollout_max_response_len": 6144,
            "balance_data": True,
            "save_interval": 20,
            "colocate": True,
            "launcher.entry": "train.py",
        }
    ]


def test_what_the_script_does_not_tell_is_left_out_and_named():
    (remark,) = remarks(ARRAYS)
    assert remark.code == "unresolved-variable"
    assert "save" in remark.detail


def test_overrides_after_a_module_are_the_settings():
    text = """
    files="['/a.parquet', '/b.parquet']"
    python3 -u -m verl.trainer.main_ppo --config-name='grpo' \\
        data.train_files="$files" trainer.nnodes=${NNODES:-2} +actor_rollout_ref.x=1 trainer.logger='["console"]' $@
    """
    assert configurations(text) == [
        {
            "config_name": "grpo",
            "data.train_files": ["/a.parquet", "/b.parquet"],
            "trainer.nnodes": 2,
            "actor_rollout_ref.x": 1,
            "trainer.logger": ["console"],
            "launcher.entry": "verl.trainer.main_ppo",
        }
    ]


@pytest.mark.parametrize(
    ("command", "values"),
    [
        (
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 8 --nnodes=2 train.py --bs 4",
            {"bs": 4, "launcher.nproc_per_node": 8, "launcher.nnodes": 2, "launcher.entry": "train.py"},
        ),
        (
            "accelerate launch --num_processes 7 grpo.py --num_generations 8",
            {"num_generations": 8, "launcher.num_processes": 7, "launcher.entry": "grpo.py"},
        ),
        (
            "python -m torch.distributed.run --nproc-per-node=4 -m pkg.train a.b=1",
            {"a.b": 1, "launcher.nproc_per_node": 4, "launcher.entry": "pkg.train"},
        ),
        (
            "uv run rl @ rl.toml --trainer.max-steps 10",
            {"trainer.max_steps": 10, "launcher.entry": "rl"},
        ),
        ("trl vllm-serve --tensor_parallel_size 2", {"tensor_parallel_size": 2, "launcher.entry": "trl"}),
        (
            "srun -N 4 bash -c 'cd /x && python -m openrlhf.cli.train_ppo_ray --vllm_num_engines 4'",
            {"vllm_num_engines": 4, "launcher.entry": "openrlhf.cli.train_ppo_ray"},
        ),
        (
            "nohup uv run python examples/run_grpo.py --config c.yaml cluster.num_nodes=2 > out.log 2>&1 &",
            {"config": "c.yaml", "cluster.num_nodes": 2, "launcher.entry": "run_grpo.py"},
        ),
    ],
)
def test_the_launchers_own_flags_are_kept_apart(command, values):
    assert configurations(command) == [values]


def test_several_commands_are_several_configurations():
    text = "trl vllm-serve --port 1 &\npython train.py --n 2\n"
    assert [values["launcher.entry"] for values in configurations(text)] == ["trl", "train.py"]


@pytest.mark.parametrize("command", ["ray start --num-gpus 8", "mkdir -m 7 x.py", "cp a.py b.py --force", "echo --n 1"])
def test_other_commands_are_no_configuration(command):
    assert configurations(command) == []
    assert [remark.code for remark in remarks(command)] == ["unreadable-configuration"]


def test_a_variable_that_depends_on_a_branch_is_unknown():
    text = """
    if [ "$FAST" = 1 ]; then N=1; else N=2; fi
    case "$DEVICE" in
        gpu) TP=2 ;;
        npu) TP=4 ;;
    esac
    ARGS=( --m 3 --switch )
    if [ -n "$MORE" ]; then ARGS+=( --m 4 --other ); fi
    python train.py --n $N --tp ${TP} --k 5 "${ARGS[@]}"
    """
    assert configurations(text) == [{"k": 5, "switch": True, "launcher.entry": "train.py"}]
    assert {"n", "tp", "m", "other"} <= set(remarks(text)[0].detail.replace(",", "").replace(";", "").split())


def test_a_command_substitution_is_never_run(tmp_path):
    marker = tmp_path / "ran"
    text = f"A=$(touch {marker})\nB=`touch {marker}`\npython train.py --a $A --b $B --c $(touch {marker}) --d 1"
    assert configurations(text) == [{"d": 1, "launcher.entry": "train.py"}]
    assert not marker.exists()


def test_heredocs_and_comments_are_no_commands():
    text = "cat > x.sh <<'EOF'\npython other.py --n 1\nEOF\n# python third.py --n 2\npython train.py --n 3\n"
    assert configurations(text) == [{"n": 3, "launcher.entry": "train.py"}]


def test_arrays_alone_are_read_where_no_command_takes_them():
    assert configurations("MODEL_ARGS=(\n --num-layers 36\n --swiglu\n)\n") == [{"num_layers": 36, "swiglu": True}]


@pytest.mark.parametrize(
    ("sum_", "value"),
    [("1024 * 2", 2048), ("(2 + 3) * -4", -20), ("7 / 2", 3), ("-7 / 2", -3), ("-7 % 4", -3), ("2 - 3 - 4", -5)]
    + [(bad, None) for bad in ("1 / 0", "2 ** 3", "1 +", "(1", "", "x", "9" * 30, "(" * 150, "1 << 99", "1 2")],
)
def test_sums_are_those_of_bash(sum_, value):
    assert whole_number(sum_) == value


def test_a_script_that_doubles_its_variables_is_cut_short():
    texts = "A=xxxxxxxxxx\n" + 'A="$A$A"\n' * 60 + "python train.py --n 1 --a $A\n"
    arrays = "A=(--x 1)\n" + 'A+=("${A[@]}")\n' * 60 + 'python train.py "${A[@]}"\n'
    assert configurations(texts) == [{"n": 1, "launcher.entry": "train.py"}]
    assert list(launches(arrays, "run.sh"))
