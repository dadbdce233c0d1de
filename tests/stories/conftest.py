"""Answers about the handed files, asked once a run: several tests read each."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stories.answers import Answer, case_text, without_comments
from tests.stories.command import ask

AskCase = Callable[[str], Answer]


@pytest.fixture(scope="session")
def answer_of(tmp_path_factory: pytest.TempPathFactory) -> AskCase:
    """Answer about a case file by its name, told to the product under a neutral name and without comments."""
    folder = tmp_path_factory.mktemp("jobs")
    known: dict[str, Answer] = {}

    def answer(name: str) -> Answer:
        if name not in known:
            neutral = folder / f"job{len(known)}{Path(name).suffix}"
            neutral.write_bytes(without_comments(case_text(name)).encode())
            known[name] = ask(neutral)
        return known[name]

    return answer
