"""Configuration files of every syntax give the same flat keys; logs and metrics are left to other sources."""

import io

import pytest

from tuner.records import Configuration, Remark
from tuner.sources.base import Opened
from tuner.sources.configuration import KIND


def items_of(text: str | bytes, name: str) -> list:
    content = text if isinstance(text, bytes) else text.encode()
    return list(KIND.read(Opened(io.BufferedReader(io.BytesIO(content)), name), ()))


def values_of(text: str | bytes, name: str) -> dict[str, object]:
    (item,) = items_of(text, name)
    assert isinstance(item, Configuration)
    return dict(item.values)


SAME = {"trainer.nnodes": 2, "actor_rollout_ref.rollout.n": 5, "data.files": ["a", "b"]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            ".hydra/config.yaml",
            "trainer:\n  nnodes: 2\nactor_rollout_ref:\n  rollout:\n    n: 5\ndata:\n  files: [a, b]\n",
        ),
        (
            "job.yml",
            "# comment\r\ntrainer: {nnodes: 2}\r\nactor_rollout_ref: {rollout: {n: 5}}\r\ndata: {files: [a, b]}\r\n",
        ),
        ("rl.toml", "[trainer]\nnnodes = 2\n[actor_rollout_ref.rollout]\nn = 5\n[data]\nfiles = ['a', 'b']\n"),
        (
            "config.json",
            '{"trainer": {"nnodes": 2}, "actor_rollout_ref": {"rollout": {"n": 5}}, "data": {"files": ["a", "b"]}}',
        ),
        (
            "overrides.yaml",
            "- trainer.nnodes=2\n- +actor_rollout_ref.rollout.n=5\n- data.files=[a,b]\n- ~gone\n",
        ),
        ("job.args", 'trainer.nnodes=2\n++actor_rollout_ref.rollout.n=5\n# a comment\ndata.files=\'["a", "b"]\'\n'),
        ("job.args", "--trainer.nnodes 2 \\\n  --actor-rollout-ref.rollout.n=5 # why\n--data.files a b\n"),
    ],
)
def test_every_syntax_gives_the_same_keys(name, text):
    assert KIND.claims(name, text.encode()) >= 0.8
    assert values_of(text, name) == SAME


def test_utf16_and_a_byte_order_mark_are_read():
    assert values_of("a: {b: 1}\n".encode("utf-16"), "x.yaml") == {"a.b": 1}
    assert values_of(b"\xef\xbb\xbf" + b"[a]\nb = 1\n", "x.toml") == {"a.b": 1}


def test_list_of_tables_is_numbered():
    text = '[[orchestrator.env]]\nid = "math"\n[[orchestrator.env]]\nid = "code"\n'
    assert values_of(text, "orch.toml") == {"orchestrator.env.0.id": "math", "orchestrator.env.1.id": "code"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.log", "trainer:\n  nnodes: 2\n"),
        ("metrics.jsonl", '{"a": {"b": 1}}\n'),
        ("out.txt", "step:1 - timing_s/gen:40.0 - timing_s/step:65.0\n"),
        ("-", "(TaskRunner pid=1) step:1 - timing_s/gen:40.0\n"),
        ("-", '{"loss": 0.1, "reward": 0.5}\n{"loss": 0.2, "reward": 0.5}\n'),
        ("-", "+ python3 -m verl.trainer.main_ppo trainer.nnodes=2\nstep:1 - timing_s/gen:40.0\n"),
        ("-", "python3 -m verl.trainer.main_ppo trainer.nnodes=2\nstep:1 - timing_s/gen:40.0\n"),
        ("-", "[2025-01-02 10:00:00] step 1\nloss = 3\n"),
        ("summary.json", '{"timing_s/gen": 72.0, "note": "x", "config": {"a": 1}}'),
        ("summary.json", '{"step 1": {"perf/rollout_time": 72.0}}'),
        ("results.json", '{"loss": 0.1, "reward": 0.5, "step": 10}'),
        ("trainer_state.json", '{"epoch": 1.0, "log_history": [{"loss": 1.0}], "max_steps": 10}'),
        ("rows.json", '{"a": {"b": 1}}\n{"a": {"b": 2}}\n'),
        ("list.json", "[1, 2]"),
        ("x.yaml", ""),
        ("core", "\0\1\2\3"),
        ("metrics.prom", "# HELP x\nx 1\n"),
        ("README.md", "python train.py --a 1"),
    ],
)
def test_what_belongs_to_other_sources_is_not_claimed(name, text):
    assert KIND.claims(name, text.encode()) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"b": 1}, "name": "x"}',
        "[trainer]\nnnodes = 2\n",
        "python3 -m verl.trainer.main_ppo \\\n  trainer.nnodes=2\n",
        "--rollout-batch-size 32 --colocate\n",
        "#!/bin/bash\nset -x\npython train.py --n 1\n",
    ],
)
def test_on_standard_input_the_content_alone_is_enough(text):
    assert 0.5 <= KIND.claims("-", text.encode()) <= 0.7
    assert items_of(text, "-")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.toml", "a = 1\nb = = 2\n", "line 2"),
        ("x.json", '{"a": 1,\n "b": }', "line 2"),
        ("x.yaml", "a: 1\nb: [1\n", "line "),
        ("x.yaml", "just words", "no setting"),
        ("x.toml", "[" * 3000, "line 1"),
        ("x.json", "[" * 100_000, "JSON"),
        ("x.yaml", "{" * 5000, "nested"),
        ("x.bin", b"\x00\xff\xfe\x01" * 100, "neither"),
    ],
)
def test_a_broken_file_is_remarked_with_the_place(name, text, said):
    (remark,) = items_of(text, name)
    assert isinstance(remark, Remark)
    assert remark.code == "unreadable-configuration"
    assert said in remark.detail


def test_empty_and_huge_files_are_remarked():
    assert [item.code for item in items_of("", "x.yaml")] == ["empty-file"]
    assert [item.code for item in items_of("a: 1\n" * 1_000_000, "x.yaml")] == ["large-file"]
