"""Stories: logs in the shape in which people paste them into issues and notes."""

from pathlib import Path

import pytest

from tests.stories.answers import Answer, figure, moves
from tests.stories.command import ask

FIELD = Path(__file__).parents[1] / "data" / "field"


def answer_to(name: str) -> Answer:
    return ask(FIELD / name)


def test_a_step_printed_one_key_a_line_is_one_step() -> None:
    answer = answer_to("verl-listed.log")
    assert (answer["verdict"], answer["job"]["mode"], answer["job"]["gpus_total"]) == ("trainer-bound", "serial", 16)
    assert figure(answer, "step_s") == pytest.approx(93.52434759191237)
    assert figure(answer, "rollout_s") == pytest.approx(24.533394969068468)
    assert figure(answer, "trainer_busy_s") == pytest.approx(35.83383133 + 13.63555206 + 12.54789730)
    assert figure(answer, "resp_len_mean") == pytest.approx(424.5494384765625)


def test_a_list_in_markdown_is_read() -> None:
    answer = answer_to("verl-markdown.md")
    assert (figure(answer, "step_s"), figure(answer, "rollout_s")) == (195.0009, 90.0713)
    assert answer["window"]["from_step"] == answer["window"]["to_step"] == 1


def test_a_dict_printed_over_several_lines_is_read() -> None:
    answer = answer_to("slime-dicts.md")
    assert (answer["verdict"], answer["job"]["mode"]) == ("generation-bound", "serial")
    assert figure(answer, "step_s") == pytest.approx(412.3236815929413)
    assert figure(answer, "resp_len_mean") == 12245.5


def test_a_step_that_the_terminal_wrapped_is_one_step_and_its_seconds_are_no_step_number() -> None:
    answer = answer_to("verl-wrapped.log")
    assert (answer["window"]["steps"], answer["window"]["from_step"]) == (1, None)
    assert figure(answer, "validation_s") == pytest.approx(21.20649)
    assert figure(answer, "step_s") == pytest.approx(30.030646292492747)


def test_engine_lines_whose_newlines_were_lost_are_told_apart() -> None:
    answer = answer_to("vllm-issue-18115.log")
    assert answer["window"]["seconds"] == 30.0
    assert (figure(answer, "running"), figure(answer, "queued")) == (8.0, 0.0)
    assert figure(answer, "kv_usage_frac") == pytest.approx(0.924)
    assert "92% full" in answer["headline"]


def test_a_pause_whose_end_is_not_printed_is_no_proof_of_a_busy_generator() -> None:
    answer = answer_to("prime-rl-pr-1630.log")
    assert answer["verdict"] == "cannot-tell"
    assert "never gated" not in answer["headline"]
    assert figure(answer, "step_s") == 5.23


def test_a_step_line_that_ends_with_the_errors_is_whole() -> None:
    answer = answer_to("prime-rl-smoke.log")
    assert "truncated-record" not in [finding["code"] for finding in answer["findings"]]


def test_the_progress_bar_gives_step_and_pace_where_the_record_has_none() -> None:
    answer = answer_to("trl-terminal.log")
    assert (answer["window"]["from_step"], answer["window"]["to_step"]) == (10, 30)
    assert figure(answer, "step_s") == pytest.approx((8.22 + 3.09 + 3.28) / 3)


def test_the_length_under_its_old_name_is_read() -> None:
    assert figure(answer_to("trl-issue-3452.log"), "resp_len_mean") == pytest.approx((232.825 + 237.0375) / 2)


def test_generators_are_not_warned_of_while_the_trainer_waits_for_them() -> None:
    answer = answer_to("nemo-rl-plain.txt")
    assert figure(answer, "trainer_wait_s") == 105.12
    assert [warning["knob"] for warning in answer["do_not"]] == []


@pytest.mark.parametrize("name", sorted(p.name for p in FIELD.iterdir() if p.suffix != ".md" or "-" in p.stem))
def test_no_change_is_proposed_that_gives_nothing(name: str) -> None:
    gains = [item["gain_frac"] for item in answer_to(name)["recommendations"] if item["gain_frac"]]
    assert all(gain["high"] > 0.0 for gain in gains), moves(answer_to(name))


def test_a_pretty_printed_record_of_a_hosted_service_gets_no_engine_setting() -> None:
    answer = answer_to("tinker-record.md")
    assert (answer["verdict"], figure(answer, "rollout_s")) == ("generation-bound", pytest.approx(213.1945617198944))
    assert "engine_settings" not in [knob for knob, _ in moves(answer)]


def test_a_pool_without_room_for_one_more_is_full_though_a_seventh_is_free() -> None:
    answer = answer_to("vllm-few-long.log")
    assert (answer["verdict"], answer["recommendations"][0]["knob"]) == ("kv-bound", "kv_memory")
    assert "max_in_flight" in [warning["knob"] for warning in answer["do_not"]]
