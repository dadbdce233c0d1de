"""A function's answers kept: for the few questions that every line of a file asks again."""

from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")

ANSWERS_MAX = 10_000
"""Answers kept; a file that asks more invents a key per row, and gets the later ones worked out each time."""


class Remembered(dict[Key, Answer]):
    """`answers[key]` is `find(key)`, found once: a known key costs no call of ours, only the dict's own look-up."""

    def __init__(self, find: Callable[[Key], Answer]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, key: Key) -> Answer:
        answer = self._find(key)
        if len(self) < ANSWERS_MAX:
            self[key] = answer
        return answer
