"""What the job learns: prompts, what makes an answer good, and how all of it drifts in the course of a run.

An answer is good if at least `need` of its last characters are the letter e. Two in three answers of random weights
are: the solve rate rises a little in the first dozen steps, and saturates by itself. What drifts by schedule: long
prompts with short answers turn into short prompts with long answers of several turns, as when a curriculum goes from
reading to reasoning with tools.
"""

import math
import random
from dataclasses import dataclass

VOCABULARY = 2048
NEEDS = (0.04, 0.05, 0.06, 0.08, 0.12)
"""Shares of e, from what nearly every answer reaches to what few do: half of all groups are then mixed, and teach."""
LETTER = "e"
LAST_CHARACTERS = 64
"""So many are looked at, however long the answer is."""
ANSWER_SIGMA = 0.5
"""Of the logarithm of an answer's length, of which half is the prompt's and half the rollout's."""
LONGEST = 192
"""Tokens of one answer."""


@dataclass(frozen=True)
class Mix:
    """What prompts are like at one moment, on average."""

    prompt_tokens: float
    answer_tokens: float
    """Of one turn."""
    turns: float
    tool_tokens: float = 16.0
    tool_s: float = 0.1


FIRST, LAST = Mix(256.0, 10.0, 1.0), Mix(40.0, 48.0, 2.0)


@dataclass(frozen=True)
class Task:
    """One prompt: a group of rollouts answers it."""

    number: int
    prompt: tuple[int, ...]
    need: float
    turns: int
    answer_tokens: float
    tool_tokens: int
    tool_s: float


def mix_at(progress: float) -> Mix:
    """Between the first and the last, by how far the run is, 0 to 1: geometric, as lengths are."""
    p = min(1.0, max(0.0, progress))

    def between(a: float, b: float) -> float:
        return a * math.pow(b / a, p)

    return Mix(
        between(FIRST.prompt_tokens, LAST.prompt_tokens),
        between(FIRST.answer_tokens, LAST.answer_tokens),
        between(FIRST.turns, LAST.turns),
    )


def task_at(number: int, mix: Mix) -> Task:
    """The `number`-th prompt: the same in every run with the same mix."""
    draw = random.Random(number)
    whole, rest = divmod(mix.turns, 1.0)
    return Task(
        number=number,
        prompt=tuple(draw.randrange(1, VOCABULARY) for _ in range(round(mix.prompt_tokens * draw.uniform(0.7, 1.3)))),
        need=draw.choice(NEEDS),
        turns=int(whole) + (draw.random() < rest),
        answer_tokens=mix.answer_tokens * math.exp(draw.gauss(0.0, ANSWER_SIGMA / math.sqrt(2.0))),
        tool_tokens=round(mix.tool_tokens),
        tool_s=mix.tool_s,
    )


def answer_limit(task: Task, member: int, turn: int) -> int:
    """Tokens of one answer: a model this small knows no end, so its length is drawn."""
    draw = random.Random(f"{task.number}/{member}/{turn}")
    return min(LONGEST, max(2, round(task.answer_tokens * math.exp(draw.gauss(0.0, ANSWER_SIGMA / math.sqrt(2.0))))))


def tool_answer(task: Task, turn: int) -> list[int]:
    draw = random.Random(f"{task.number}/tool/{turn}")
    return [draw.randrange(1, VOCABULARY) for _ in range(task.tool_tokens)]


def reward(task: Task, text: str) -> float:
    end = text[-LAST_CHARACTERS:]
    return float(end.count(LETTER) >= task.need * max(1, len(end)))
