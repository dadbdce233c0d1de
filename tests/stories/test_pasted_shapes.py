"""Stories: the shapes in which logs reach us by way of issues, trackers, notebooks and terminals."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stories.answers import Answer, figure, moves
from tests.stories.command import ask

Told = Callable[..., Answer]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """The answer to a file with that text."""

    def answer(text: str, name: str = "job.txt") -> Answer:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return ask(path)

    return answer


ROWS = [
    {"timing_s/step": 90.0, "timing_s/gen": 60.0, "timing_s/update_actor": 25.0},
    {"timing_s/step": 110.0, "timing_s/gen": 80.0, "timing_s/update_actor": 25.0},
]
STEPPED = [{"_step": i + 1, **row} for i, row in enumerate(ROWS)]
MEASURED = [
    {"key": key, "value": value, "step": i + 1, "timestamp": 1_700_000_000_000 + 100_000 * i}
    for i, row in enumerate(ROWS)
    for key, value in row.items()
]


@pytest.mark.parametrize(
    "answer",
    [
        {"data": {"run": {"name": "x", "history": STEPPED}}},
        {"data": {"run": {"history": [json.dumps(row) for row in STEPPED]}}},
        {"metrics": MEASURED},
        {"_step": [1, 2], **{key: [row[key] for row in ROWS] for key in ROWS[0]}},
    ],
    ids=["nested", "json-in-json", "key-and-value", "columns"],
)
def test_a_trackers_answer_is_as_many_steps_as_it_holds(told: Told, answer: object) -> None:
    found = told(json.dumps(answer), "run.json")
    assert (found["window"]["from_step"], found["window"]["to_step"]) == (1, 2)
    assert (figure(found, "step_s"), figure(found, "rollout_s")) == (100.0, 70.0)


def test_the_samples_inside_a_row_are_no_steps(told: Told) -> None:
    rows = [{"step": 4, **ROWS[0], "samples": [{"step": 9, "timing_s/step": 1.0}]}]
    assert told("".join(map(json.dumps, rows)), "run.jsonl")["window"]["to_step"] == 4


def test_a_chart_exported_by_wandb_is_read_without_its_bounds(told: Told) -> None:
    head = '"Step","mine - timing_s/step","mine - timing_s/step__MIN","mine - timing_s/step__MAX","mine - timing_s/gen"'
    found = told(f'{head}\n"1","90","1","999","60"\n"2","110","1","999","80"\n', "chart.csv")
    assert (figure(found, "step_s"), figure(found, "rollout_s")) == (100.0, 70.0)


def test_two_runs_of_one_chart_are_not_averaged(told: Told) -> None:
    text = '"Step","a - timing_s/step","b - timing_s/step"\n1,90,\n2,90,200\n3,90,200\n'
    found = told(text, "chart.csv")
    assert (figure(found, "step_s"), found["window"]["steps"]) == (90.0, 3)
    assert "interleaved-writers" in [finding["code"] for finding in found["findings"]]


def test_a_table_in_markdown_is_read_with_its_quote_and_rule(told: Told) -> None:
    text = "```\n| step | timing_s/step | timing_s/gen |\n|---|--:|:-:|\n| 7 | 90 | 60 |\n| 8 | 110 | 80 |\n```\n"
    found = told(text)
    assert (found["window"]["to_step"], figure(found, "step_s")) == (8, 100.0)


def test_a_notebooks_table_spells_paths_with_spaces(told: Told) -> None:
    head = "Step | Training Loss | reward | completions / mean_length | rewards / f\n-- | -- | -- | -- | --\n"
    found = told(f"{head}1 | 0.0 | 0.5 | 300 | 0.5\n2 | 0.0 | 0.7 | 500 | 0.7\n")
    assert (found["source"][0]["framework"], figure(found, "resp_len_mean")) == ("trl", 400.0)


def test_a_log_that_parts_its_fields_by_bars_is_no_table(told: Told) -> None:
    line = "12:00:0{} | INFO | trainer | step={} timing/step: 9{} timing/generate=50 timing/policy_train: 30\n"
    found = told(line.format(0, 3, 0) + line.format(5, 4, 4))
    assert found["source"][0]["kind"] == "console"
    assert figure(found, "step_s") == 92.0


def test_a_table_in_a_frame_is_read_and_cut_names_in_it_are_passed_over(told: Told) -> None:
    rows = ("time/a_name_that_was_cut_he… │ 1.1", "time/sample │ 6.0", "time/train │ 3.5", "time/total │ 10.0")
    found = told("╭── Step 4 ──╮\n" + "".join(f"│ {row} │\n" for row in rows) + "╰────╯\n")
    assert (figure(found, "step_s"), figure(found, "rollout_s")) == (10.0, 6.0)


@pytest.mark.parametrize("pair", ["{}: {} s", "`{}`: `{}s`", "- `{} = {}`", "'{}': '{}',"])
def test_pairs_one_a_line_are_read_however_they_are_quoted(told: Told, pair: str) -> None:
    text = "\n".join(pair.format(key, value) for key, value in ROWS[0].items())
    assert (figure(told(text), "step_s"), figure(told(text), "rollout_s")) == (90.0, 60.0)


def test_quoted_pairs_without_their_braces_are_a_record(told: Told) -> None:
    text = "'timing/step': '90.5', 'timing/generate': '50', 'timing/policy_train': '30.5'\n"
    assert figure(told(text), "step_s") == 90.5


RECORD = (
    "{'loss': '0.1', 'num_tokens': '9e+04', 'completions/mean_length': '300', 'reward': '0.25',\n"
    "  'frac_reward_zero_std':\n  '0.5', 'completions/clipped_ratio': '0', 'epoch': '0.1'}"
)


def test_a_record_that_a_terminal_wrapped_is_one_record(told: Told) -> None:
    found = told(f"some words\n{RECORD}\nmore words: 1, 2\n")
    assert (figure(found, "reward_mean"), figure(found, "zero_adv_frac")) == (0.25, 0.5)
    assert found["window"]["steps"] == 1


FLAT = RECORD.replace("\n ", "")
BAR = " {}% {}/96 [10:00<1:00:00, {}s/it]"


def test_the_bar_below_a_record_gives_its_step(told: Told) -> None:
    found = told(f"{FLAT}\n{BAR.format(15, 15, 40.0)}\n")
    assert (found["window"]["to_step"], figure(found, "step_s")) == (15, 40.0)


def test_a_bar_that_is_drawn_again_gives_no_step_to_the_next_record(told: Told) -> None:
    first, second = BAR.format(15, 15, 40.0), BAR.format(16, 16, 50.0)
    found = told(f"{first}\n{FLAT}\n{first}\n{FLAT}\n{second}\n")
    assert (found["window"]["from_step"], found["window"]["to_step"]) == (15, 16)
    assert (found["window"]["steps"], figure(found, "step_s")) == (2, 45.0)


def test_ms_swift_states_step_and_pace_inside_its_record(told: Told) -> None:
    more = ", 'global_step/max_steps': '5/900', 'train_speed(iter/s)': 0.05}"
    found = told(FLAT.removesuffix("}") + more)
    assert (found["window"]["to_step"], figure(found, "step_s")) == (5, pytest.approx(20.0))


def test_a_step_line_torn_inside_its_time_is_no_step(told: Told) -> None:
    whole = "12:0{}:10    INFO Step {} | 5m 20s | Reward 0.4 | Trainable 100/200 (50.0%) | Truncation 1.0%\n"
    found = told(whole.format(1, 1) + whole.format(2, 2) + "12:03:10    INFO Step 3 | 5m")
    assert (found["window"]["to_step"], figure(found, "step_s")) == (2, 320.0)


def test_a_batch_whose_advantages_are_all_zero_teaches_nothing(told: Told) -> None:
    pairs = "critic/score/mean:0.9 - critic/advantages/max:0.000 - critic/advantages/min:0.000 - timing_s/step:40.0"
    found = told(f"step:3 - {pairs} - timing_s/gen:30.0\n")
    assert (found["verdict"], moves(found)[0][0]) == ("no-signal", "curriculum_filter")
    assert "no trained group carries advantage" in found["headline"]
