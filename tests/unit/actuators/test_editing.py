"""Configuration text after an edit: the ordered setting is there, and every other byte that people care for too."""

import pytest

from tuner.actuators.dialect import Written
from tuner.actuators.editing import edited
from tuner.errors import ActuationError

TOML = """\
# The run of Tuesday.
max_steps = 400   # until the budget ends

[deployment]
num_train_gpus = 4          # FSDP
num_infer_gpus = 4

[orchestrator]
group_size = 16
env = [{ id = "math" }, { id = "code" }]  # two of them
"""
YAML = """\
# GRPO, asynchronous
max_inflight_tasks: 64   # per rank
max_staleness: 4
report_to: ["none"]
envs:
  - name: 'math'   # quoted
    weight: 1.0
  - name: code
"""


def test_toml_keeps_comments_and_order() -> None:
    after = edited(
        "toml", TOML, [Written("deployment.num_train_gpus", 4, 2), Written("deployment.num_infer_gpus", 4, 6)]
    )
    assert after == TOML.replace("num_train_gpus = 4 ", "num_train_gpus = 2 ").replace(
        "infer_gpus = 4", "infer_gpus = 6"
    )


def test_toml_gets_a_new_table_where_there_is_none() -> None:
    after = edited("toml", TOML, [Written("orchestrator.concurrency.max_inflight", None, 512)])
    assert after.startswith(TOML.rstrip("\n"))
    assert "max_inflight = 512" in after


def test_an_empty_toml_file_becomes_an_override() -> None:
    assert edited("toml", "", [Written("deployment.num_train_gpus", 4, 2)]) == "[deployment]\nnum_train_gpus = 2\n"


def test_yaml_keeps_comments_quotes_and_indents() -> None:
    after = edited("yaml", YAML, [Written("max_inflight_tasks", 64, 128)])
    assert after == YAML.replace("max_inflight_tasks: 64 ", "max_inflight_tasks: 128 ").replace("128   #", "128  #")


@pytest.mark.parametrize("dash", ["- a\n- b\n", "  - a\n  - b\n", "    - a\n    - b\n"])
def test_yaml_lists_stay_as_they_are_indented(dash: str) -> None:
    text = f"max_staleness: 4\nlist:\n{dash}"
    assert edited("yaml", text, [Written("max_staleness", 4, 2)]) == text.replace("4", "2")


def test_hydra_overrides_are_replaced_and_added_at_the_end() -> None:
    text = "++trainer.nnodes=8\ntrainer.project_name='a b'\n"
    after = edited("hydra", text, [Written("trainer.nnodes", 8, 6), Written("rollout.nnodes", 24, 26)])
    assert after == "trainer.project_name='a b'\n++trainer.nnodes=6\n++rollout.nnodes=26\n"


def test_arguments_are_replaced_and_added_at_the_end() -> None:
    text = "--rollout-num-gpus 192\n--rollout-num-gpus-per-engine 8\n"
    after = edited("arguments", text, [Written("--rollout-num-gpus", 192, 184), Written("max_staleness", 4, 2)])
    assert after == "--rollout-num-gpus-per-engine 8\n--rollout-num-gpus 184\n--max_staleness 2\n"


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("toml", "a = \n"),
        ("toml", ".".join("a" * 5000) + " = 1\n"),
        ("yaml", BOMB),
        ("yaml", "[" * 5000),
        ("yaml", "a: 1\n---\nb: 2\n"),
        ("yaml", "- a\n- b\n"),
        ("yaml", "a:\n\t- b\n"),
        ("toml", "deployment = 3\n"),
        ("yaml", "deployment: 3\n"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(style: str, text: str) -> None:
    with pytest.raises(ActuationError):
        edited(style, text, [Written("deployment.num_train_gpus", 4, 2)])


def test_a_switch_cannot_be_taken_back_by_an_argument() -> None:
    with pytest.raises(ActuationError, match="is a switch"):
        edited("arguments", "", [Written("--partial-rollout", True, False)])
