"""The answer on one screen."""

from dataclasses import replace

import pytest

from policies.base import Direction, DoNot, Finding, Missing, Recommendation, Severity
from simulators.plant import Change
from tests.unit.report.answers_by_hand import empty_material, overlapped_advice
from tuner.answers.advise import Interval
from tuner.frameworks.base import KnobKey
from tuner.report.answer import Material, build
from tuner.report.text import NARROW, Screen, render
from tuner.report.words import gain


def shown(material: Material, screen: Screen = Screen()) -> str:  # noqa: B008
    return render(build(material), screen, material.advice.diagnosis.budget)


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_an_answer_fits_one_screen(material: Material, columns: int) -> None:
    lines = shown(material, Screen(columns)).splitlines()
    assert len(lines) <= 24
    assert max(len(line) for line in lines) <= columns


def test_a_narrow_terminal_wraps_without_overflow(material: Material) -> None:
    assert max(len(line) for line in shown(material, Screen(NARROW)).splitlines()) <= NARROW


def test_the_headline_comes_first_and_then_the_verdict(overlapped: Material) -> None:
    lines = shown(overlapped).splitlines()
    assert lines[0].startswith("The trainer waits 29%")
    assert any(line.startswith("generation-bound (confidence 0.82)") for line in lines[:4])


def test_a_change_is_told_with_now_proposed_when_and_gain(overlapped: Material) -> None:
    text = shown(overlapped, Screen(120, 60))
    row = next(line for line in text.splitlines() if line.startswith("3  gpus_trainer down"))
    assert [part for part in ("64", "48 GPUs", "restart, 900 s", "+5.5% (1..8)") if part not in row] == []
    assert "deployment.num_train_gpus" in text


def test_a_gain_that_cannot_be_told_says_so_and_why(overlapped: Material) -> None:
    text = shown(overlapped, Screen(120, 60))
    assert "not tellable" in text
    assert "slowest rollout's time is not logged" in text


def test_what_not_to_do_and_what_is_missing_and_what_was_left_out_are_said(overlapped: Material) -> None:
    text = shown(overlapped, Screen(120, 60))
    assert "raise gpus_trainer: The trainer already waits" in text
    assert "kv_usage_frac" in text
    assert "2 steps left out of rates and trends: start-up (0); evaluation (12)" in text


def test_more_findings_than_fit_are_counted(overlapped: Material) -> None:
    many = tuple(Finding("drift", Severity.INFO, f"Finding {i}", "Something moved.") for i in range(40))
    diagnosis = replace(overlapped_advice().diagnosis, findings=many)
    text = shown(replace(overlapped, advice=replace(overlapped.advice, diagnosis=diagnosis)))
    assert len(text.splitlines()) <= 24
    assert "more)" in text


def test_the_worst_finding_is_told_first(overlapped: Material) -> None:
    text = shown(overlapped, Screen(120, 60))
    assert text.index("Most rollouts are thrown away") < text.index("Answers grow")


def test_a_taller_screen_shows_more(overlapped: Material) -> None:
    assert "partial_rollout on" not in shown(overlapped)
    assert "partial_rollout on" in shown(overlapped, Screen(100, 60))


def test_colour_appears_only_where_it_is_wanted(overlapped: Material) -> None:
    assert "\x1b" not in shown(overlapped)
    assert "\x1b[" in shown(overlapped, Screen(colour=True))


def test_without_advice_the_answer_says_that_nothing_is_recommended() -> None:
    text = shown(empty_material())
    assert "Nothing to change is recommended" in text
    assert "log the time of each step" in text


def test_warnings_of_one_reason_are_told_once(overlapped: Material) -> None:
    why = "Both take turns on the same GPUs."
    twice = tuple(DoNot(knob, Direction.SET, why) for knob in ("gpus_trainer", "gpus_generator"))
    text = shown(replace(overlapped, advice=replace(overlapped.advice, do_not=twice)), Screen(120, 60))
    assert "change gpus_trainer or gpus_generator: Both take turns" in text
    assert text.count(why) == 1


def test_what_is_missing_is_told_by_what_brings_it(overlapped: Material) -> None:
    how = "Give the resolved configuration."
    gaps = tuple(Missing(signal, "It matters.", how) for signal in ("gpus_trainer", "batch_rollouts"))
    text = shown(replace(overlapped, advice=replace(overlapped.advice, missing=gaps)), Screen(120, 60))
    assert f"gpus_trainer, batch_rollouts: {how}" in text


def test_a_large_gain_is_not_written_in_powers_of_ten() -> None:
    assert gain(Interval(low=0.18, mean=0.88, high=1.6)) == "+88% (18..160)"
    assert gain(Interval(low=0.012, mean=0.055, high=0.08)) == "+5.5% (1.2..8)"


def test_what_is_not_known_is_said_in_words(overlapped: Material) -> None:
    vague = Recommendation("gpus_generator", Direction.UP, None, None, "GPUs", None, "It is the slower side.")
    text = shown(replace(overlapped, advice=replace(overlapped.advice, recommendations=(vague,))))
    row = next(line for line in text.splitlines() if line.startswith("1  gpus_generator up"))
    assert [part for part in ("unknown", "more GPUs", "not tellable") if part not in row] == []


def test_an_engine_setting_carries_only_the_key_that_is_about_it(overlapped: Material) -> None:
    key = KnobKey("engine_settings", "actor_rollout_ref.rollout.enforce_eager", Change.RESTART)

    def keyed(proposed: str) -> str | None:
        change = Recommendation("engine_settings", Direction.SET, None, proposed, "", None, "Because.")
        advice = replace(overlapped.advice, recommendations=(change,))
        return build(replace(overlapped, advice=advice, knobs={"engine_settings": key})).recommendations[0].key

    assert keyed("CUDA graphs on, check each engine") == key.key
    assert keyed("offload off") is None
