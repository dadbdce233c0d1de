"""Secrets are forgotten at reading; sizes that merely sound like secrets stay."""

import pytest

from tuner.parsing.configuration import flatten, parse_block, parse_overrides

SECRETS = [
    ("wandb_key", "0123456789abcdef"),
    ("hub_token", "hf_abc"),
    ("api_key", "x"),
    ("trainer.apiKey", "x"),
    ("aws_access_key_id", "AKIA"),
    ("db.password", 12345),
    ("clientSecret.value", "x"),
    ("openai_api_base", "http://host"),
    ("tokens.hf", "x"),
    ("use_wandb", "key-of-the-account"),
    ("ray_init.runtime_env.env_vars.ANYTHING", "x"),
    ("command", "run --key sk-abcdefghijklmnop1234"),
    ("address", "https://user:hunter2@host/path"),
    ("note", "WANDB_API_KEY=0123456789abcdef"),
    ("list", ["fine", "hf_abcdefghijklmnopqrstuv"]),
    ("plain", "0123456789abcdef0123456789abcdef01234567"),
]

SIZES = [
    ("max_tokens", 4096),
    ("ppo_max_token_len_per_gpu", 16384),
    ("max_num_batched_tokens", 8192),
    ("rollout.max_tokens_per_gpu", "9216"),
    ("api_server_count", 4),
    ("use_wandb", True),
    ("tokenizer", "Qwen/Qwen3-4B"),
    ("loss_agg_mode", "token-mean"),
    ("calculate_per_token_loss", False),
    ("max_token", None),
]


@pytest.mark.parametrize(("key", "value"), SECRETS)
def test_a_secret_is_dropped(key, value):
    nested = value
    for part in reversed(key.split(".")):
        nested = {part: nested}
    assert flatten(nested) == {}


@pytest.mark.parametrize(("key", "value"), SIZES)
def test_a_size_stays(key, value):
    assert flatten({key: value}) == {key: value}


def test_no_reader_of_text_returns_a_secret():
    secret = "hf_abcdefghijklmnopqrstuv"
    texts = [
        f"{{'hub_token': '{secret}', 'n': 1}}",
        f'{{"hub_token": "{secret}", "n": 1}}',
        f"hub_token: {secret}\nn: 1\n",
        f'hub_token = "{secret}"\nn = 1\n',
        f"Args(hub_token={secret}, n=1)",
        f"  hub_token {'.' * 39} {secret}\n  n {'.' * 47} 1",
        f"{{'deep': [[{{'hub_token': '{secret}'}}]], 'n': 1}}",
    ]
    for text in texts:
        assert secret not in str(parse_block(text))
        assert parse_block(text)["n"] == 1
    assert parse_overrides(f"--hub-token {secret} --n 1 env.hub_token={secret}") == {"n": 1}
