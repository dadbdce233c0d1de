"""Stories: a real file goes in, the right reading comes out; its name and its comments do not matter."""

import json
from collections.abc import Callable
from math import isclose
from pathlib import Path
from typing import Any

import pytest

from tests.stories.answers import (
    CASES,
    Answer,
    bare,
    case_text,
    codes,
    figure,
    moves,
    rank_of,
    without_comments,
    wrong_moves,
)
from tests.stories.command import ask
from tests.stories.conftest import AskCase

EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))["files"]
FEW_STEPS_CONFIDENCE_MAX = 0.3
"""With fewer than three ordinary steps nothing is said with more confidence (design: verdicts)."""

every_file = pytest.mark.parametrize("name", sorted(EXPECTED))


@every_file
def test_the_verdict_is_one_that_a_person_would_give(name: str, answer_of: AskCase) -> None:
    answer = answer_of(name)
    assert answer["verdict"] in EXPECTED[name]["verdicts"], answer["headline"]


@every_file
def test_the_mode_of_the_job_is_recognised(name: str, answer_of: AskCase) -> None:
    assert answer_of(name)["job"]["mode"] == EXPECTED[name]["mode"]


@pytest.mark.parametrize(
    ("name", "quantity"), [(name, figure) for name, case in sorted(EXPECTED.items()) for figure in case["figures"]]
)
def test_a_figure_agrees_with_the_hand_calculation(name: str, quantity: str, answer_of: AskCase) -> None:
    value, tolerance = EXPECTED[name]["figures"][quantity]
    got = figure(answer_of(name), quantity)
    assert got is not None, f"{quantity} is neither a signal nor a rate nor in any evidence"
    assert isclose(got, value, rel_tol=tolerance), f"{quantity}: got {got}, expected {value} within {tolerance}"


@every_file
def test_what_a_reader_must_know_is_found(name: str, answer_of: AskCase) -> None:
    absent = set(EXPECTED[name]["findings"]) - codes(answer_of(name))
    assert not absent


@every_file
def test_no_wrong_move_is_among_the_first_three(name: str, answer_of: AskCase) -> None:
    assert wrong_moves(answer_of(name), EXPECTED[name]["forbidden"]) == []


@pytest.mark.parametrize("name", sorted(n for n, case in EXPECTED.items() if case["first"]))
def test_the_clear_first_move_comes_first(name: str, answer_of: AskCase) -> None:
    answer = answer_of(name)
    assert rank_of(answer, [EXPECTED[name]["first"]]) == 1, moves(answer)


@pytest.mark.parametrize("name", sorted(n for n, case in EXPECTED.items() if case["mode"] == "serial"))
def test_a_serial_job_gets_no_gpu_split_at_any_rank(name: str, answer_of: AskCase) -> None:
    assert [m for m in moves(answer_of(name)) if m.knob in ("gpus_trainer", "gpus_generator")] == []


@pytest.mark.parametrize("name", sorted(n for n, case in EXPECTED.items() if "few-steps" in case["findings"]))
def test_few_steps_mean_low_confidence(name: str, answer_of: AskCase) -> None:
    assert answer_of(name)["verdict_confidence"] <= FEW_STEPS_CONFIDENCE_MAX


@every_file
def test_no_move_is_recommended_and_warned_of_at_once(name: str, answer_of: AskCase) -> None:
    answer = answer_of(name)
    warned = {(d["knob"], d["direction"]) for d in answer["do_not"]}
    assert warned.isdisjoint(moves(answer))


def substance(answer: Answer) -> dict[str, Any]:
    """The answer less what rightly differs between two copies of a file: paths and line numbers in sentences."""
    return {
        "job": answer["job"],
        "signals": {name: signal["value"] for name, signal in answer["signals"].items()},
        "rates": answer["rates"],
        "verdict": (answer["verdict"], answer["verdict_confidence"], answer["headline"]),
        "findings": [finding["code"] for finding in answer["findings"]],
        "moves": [(r["knob"], r["direction"], r["proposed"], r["gain_frac"]) for r in answer["recommendations"]],
        "do_not": [(d["knob"], d["direction"]) for d in answer["do_not"]],
        "missing": [gap["signal"] for gap in answer["missing"]],
    }


@every_file
@pytest.mark.parametrize("copy", [str, bare], ids=["as handed", "without a single comment line"])
def test_names_and_comments_do_not_change_the_answer(
    name: str, copy: Callable[[str], str], answer_of: AskCase, tmp_path: Path
) -> None:
    text = case_text(name)
    if copy(text) == without_comments(text) and copy is not str:
        pytest.skip("the file has no comment lines of its format")
    path = tmp_path / name
    path.write_bytes(copy(text).encode())
    assert substance(ask(path)) == substance(answer_of(name))


@pytest.mark.parametrize("name", ["A03_verl_smollm_1gpu_steps.log", "A13_trl_grpo_truncation.jsonl"])
def test_an_answer_about_a_misleading_name_is_the_same(name: str, answer_of: AskCase, tmp_path: Path) -> None:
    path = tmp_path / "A10_prime_rl_console_saturated_curriculum.txt"
    path.write_bytes(without_comments(case_text(name)).encode())
    assert substance(ask(path)) == substance(answer_of(name))
