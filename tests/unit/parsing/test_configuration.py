"""What frameworks print of their configuration becomes flat keys with plain values."""

import pytest

from tuner.parsing.configuration import (
    flatten,
    parse_block,
    parse_call_repr,
    parse_dotted_lines,
    parse_overrides,
    parse_python_repr,
    parse_yaml,
)


def test_a_printed_nested_dict_is_read_over_many_lines():
    text = """{'actor_rollout_ref': {'actor': {'optim': {'lr': 1e-06, 'betas': [0.9, 0.999]},
                                 'strategy': 'fsdp'},
                       'rollout': {'n': 5, 'enforce_eager': False, 'max_num_seqs': None}},
     'trainer': {'nnodes': 2, 'logger': ['console', 'wandb'], 'long': ('first half '
                                                                       'second half')}}"""
    assert parse_block(text) == {
        "actor_rollout_ref.actor.optim.lr": 1e-06,
        "actor_rollout_ref.actor.optim.betas": [0.9, 0.999],
        "actor_rollout_ref.actor.strategy": "fsdp",
        "actor_rollout_ref.rollout.n": 5,
        "actor_rollout_ref.rollout.enforce_eager": False,
        "actor_rollout_ref.rollout.max_num_seqs": None,
        "trainer.nnodes": 2,
        "trainer.logger": ["console", "wandb"],
        "trainer.long": "first half second half",
    }


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("np.float64(0.25)", 0.25),
        ("np.True_", "np.True_"),
        ("PosixPath('/ckpt')", "/ckpt"),
        ("dtype('float32')", "float32"),
        ("torch.bfloat16", "torch.bfloat16"),
        ("<Mode.ASYNC: 1>", 1),
        ("<SchedulerType.LINEAR: 'linear'>", "linear"),
        ("<class 'dict'>", "class 'dict'"),
        ("OrderedDict([('a', 1)])", {"a": 1}),
        ("defaultdict(<class 'int'>, {'a': 1})", {"a": 1}),
        ("Namespace(a=1, b=[2])", {"a": 1, "b": [2]}),
        ("array([1., 2.], dtype=float32)", [1.0, 2.0]),
        ("{1, 2}", [1, 2]),
        ("()", []),
        ("(1,)", [1]),
        ("-3", -3),
        ("b'raw'", "raw"),
        (r"'it\'s\n\x41'", "it's\nA"),
    ],
)
def test_odd_printed_values_are_tolerated(printed, value):
    assert parse_python_repr(f"{{'x': {printed}}}") == {"x": value}


def test_nan_and_infinity_in_a_printed_dict_become_unknown_when_flat():
    assert flatten(parse_python_repr("{'a': nan, 'b': -inf, 'c': 1}")) == {"a": None, "b": None, "c": 1}


@pytest.mark.parametrize(
    "text", ["", "   ", "{'a': 1", "{'a': 1}}", "plain words", "[" * 500, "'unclosed", "1 2", "[}", "{]", "[1)"]
)
def test_text_that_is_no_whole_value_is_none(text):
    assert parse_python_repr(text) is None


@pytest.mark.parametrize("text", ["N(a=}", "N(]", "N(a=[1)", "N(a={'b': 1]", "N(", "N(a=1, b=2"])
def test_a_call_with_wrong_or_missing_brackets_is_empty(text):
    assert parse_call_repr(text) == {}


def test_a_value_that_is_no_python_is_its_text_up_to_the_next_comma():
    assert parse_call_repr("N(a=see [this] one, b=8x7B, c=2025-01-02, d=2)") == {
        "a": "see [this] one",
        "b": "8x7B",
        "c": "2025-01-02",
        "d": 2,
    }


def test_transformers_prints_its_arguments_without_quotes():
    text = """GRPOConfig(
_n_gpu=8,
accelerator_config={'split_batches': False, 'dispatch_batches': None},
beta=0.04,
hub_token=<HUB_TOKEN>,
lr_scheduler_type=SchedulerType.LINEAR,
output_dir=./out/it's here,
report_to=['wandb'],
vllm_mode=colocate,
)
next line of the log"""
    assert parse_call_repr(text) == {
        "_n_gpu": 8,
        "accelerator_config.split_batches": False,
        "accelerator_config.dispatch_batches": None,
        "beta": 0.04,
        "lr_scheduler_type": "SchedulerType.LINEAR",
        "output_dir": "./out/it's here",
        "report_to": ["wandb"],
        "vllm_mode": "colocate",
    }


def test_a_namespace_is_read_with_what_stands_before_it():
    text = "Namespace(actor_num_nodes=1, vllm_num_engines=4, pretrain='a/b', colocate_all_models=True)"
    assert parse_call_repr("[rank0] " + text) == {
        "actor_num_nodes": 1,
        "vllm_num_engines": 4,
        "pretrain": "a/b",
        "colocate_all_models": True,
    }


def test_a_dotted_list_of_arguments_is_read_and_other_lines_are_skipped():
    name = "a_name_so_long_that_no_room_is_left_for_any_dots_at_all"
    lines = [
        "------------------------ arguments ------------------------",
        "  rollout_batch_size .............................. 32",
        "  eval_prompt_data ................................ ['aime', '/data/aime.jsonl']",
        "  params_dtype .................................... torch.bfloat16",
        "  custom_reward_path .............................. None",
        "  empty ........................................... ",
        f"  {name}  7",
        "-------------------- end of arguments ---------------------",
        "INFO waiting ... done",
    ]
    assert parse_dotted_lines(lines) == {
        "rollout_batch_size": 32,
        "eval_prompt_data": ["aime", "/data/aime.jsonl"],
        "params_dtype": "torch.bfloat16",
        "custom_reward_path": None,
        "empty": "",
        name: 7,
    }


def test_overrides_and_flags_share_one_line():
    line = """trainer.nnodes=1 +a.b='[x,y]' ++c="{k: 1}" ~gone --rollout-batch-size 32 --colocate \\
        --vllm.num-engines=4 --probs 0.1 0.2 --low -1 --name 'two words' --version 010"""
    assert parse_overrides(line) == {
        "trainer.nnodes": 1,
        "a.b": ["x", "y"],
        "c.k": 1,
        "rollout_batch_size": 32,
        "colocate": True,
        "vllm.num_engines": 4,
        "probs": [0.1, 0.2],
        "low": -1,
        "name": "two words",
        "version": "010",
    }


def test_the_last_of_two_settings_of_one_key_wins():
    assert parse_overrides("a.b=1 --n 2 a.b=3 --n=4") == {"a.b": 3, "n": 4}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"b": 1}, "c": [{"d": 2}]}',
        "{'a': {'b': 1}, 'c': [{'d': 2}]}",
        "Final config:\n{'a': {'b': 1}, 'c': [{'d': 2}]}",
        "[a]\nb = 1\n[[c]]\nd = 2\n",
        "a:\n  b: 1\nc:\n- d: 2\n",
        "Config(a={'b': 1}, c=[{'d': 2}])",
    ],
)
def test_every_printed_syntax_gives_the_same_flat_keys(text):
    assert parse_block(text) == {"a.b": 1, "c.0.d": 2}


def test_yaml_tags_are_never_executed_and_leave_their_plain_value():
    documents, why = parse_yaml(
        "a: !!python/object/apply:os.system ['touch /tmp/x']\nb: !!python/tuple [1, 2]\nc: !x y\n"
    )
    assert documents == [{"a": ["touch /tmp/x"], "b": [1, 2], "c": "y"}]
    assert why == ""


def test_an_alias_bomb_is_refused_and_honest_aliases_are_read():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    merges = ["m0: &m0 {k: 1}"] + [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 9)]
    for bomb in ("\n".join(levels), "\n".join(merges), "a: &a [*a]"):
        documents, why = parse_yaml(bomb)
        assert documents == []
        assert "aliases" in why
    assert parse_yaml("a: &x {b: 1}\nc: *x\n")[0] == [{"a": {"b": 1}, "c": {"b": 1}}]


def test_broken_yaml_says_in_which_line():
    documents, why = parse_yaml("a: 1\nb: [1, 2\nc: 3\n")
    assert documents == []
    assert why.startswith("line ")


def test_a_number_beyond_64_bits_and_dates_become_plain():
    documents, _ = parse_yaml(f"a: {'9' * 40}\nb: 2025-01-02\n")
    assert flatten(documents[0]) == {"a": None, "b": "2025-01-02"}


@pytest.mark.parametrize("text", ["{)", "{]}", "[}", "[1, 2)}", "f(]", "f(a=1})", "{'a': 1)}", "{'a': [1}, 2]}"])
def test_a_bracket_closed_by_another_kind_ends_the_reading(text: str):
    assert parse_python_repr(text) is None
