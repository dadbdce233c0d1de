"""Which configuration entries are secrets. They are dropped while reading, so that nothing later can echo them."""

import re
from itertools import pairwise

ALWAYS_SECRET = frozenset(
    {"password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials", "apikey", "apikeys"}
)
"""A word of the key that makes any value a secret."""

SECRET_WHEN_TEXT_ANYWHERE = frozenset({"api", "auth", "authorization", "bearer"})
"""A word anywhere in the last part of the key that makes a text value a secret (`api_server_count=4` stays)."""

SECRET_WHEN_TEXT_AT_END = frozenset({"token", "tokens", "key", "keys", "wandb"})
"""A last word of the key that makes a text value a secret (`max_tokens=4096` and `ppo_max_token_len=1` stay).
OpenRLHF's `--use_wandb` takes the W&B key itself."""

TOKEN_HOLDERS = frozenset({"token", "tokens", "key", "keys", "env_vars"})
"""A whole part of the key above the last one that makes every text below it a secret."""

KEY_OWNERS = frozenset({"access", "api", "private", "ssh", "encryption", "license", "signing"})
"""`access_key_id` and its like: a secret though `key` is not the last word."""

SECRET_VALUE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[opsru]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|wandb_v\d_\w{10,})"
    r"|\A[0-9a-f]{40}\Z"
    r"|://[^/\s:@]*:[^/\s@]+@"
    r"|(?i:passw(?:or)?d|secret|token|api_?key)[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9_\-+/]{8,}"
)
"""Texts that are secrets whatever their key says: well-known token shapes, a URL with a password, `API_KEY=...`."""

LONGEST_CHECKED_CHARS = 20_000
"""Longer texts are no setting of a job; they count as secret so that nobody has to search them."""

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def is_secret(key: str, value: object) -> bool:
    """True where the entry must be forgotten. Numbers under `..._token...` keys are sizes and stay."""
    words = [word.lower() for word in _WORD.findall(key)]
    if ALWAYS_SECRET.intersection(words):
        return True
    texts = _texts(value)
    if not texts:
        return False
    return _key_of_a_secret_text(key, words) or any(_secret_text(text) for text in texts)


def _key_of_a_secret_text(key: str, words: list[str]) -> bool:
    parts = [part for part in key.split(".") if part]
    last = [word.lower() for word in _WORD.findall(parts[-1])] if parts else []
    if any(part.lower() in TOKEN_HOLDERS for part in parts[:-1]):
        return True
    if SECRET_WHEN_TEXT_ANYWHERE.intersection(last) or (last and last[-1] in SECRET_WHEN_TEXT_AT_END):
        return True
    return any(first in KEY_OWNERS and second == "key" for first, second in pairwise(words))


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [] if _is_number(value) else [value]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    return []


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _secret_text(text: str) -> bool:
    return len(text) > LONGEST_CHECKED_CHARS or SECRET_VALUE.search(text) is not None
