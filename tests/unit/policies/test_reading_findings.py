"""What is said of the data rather than of the job."""

import pytest

from policies.base import Finding, Severity
from policies.diagnosis.budget import wall_time_budget
from policies.diagnosis.notes import NOTES, note_spec
from policies.diagnosis.reading import reading_findings
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Note, Snapshot
from tests.unit.policies.conftest import Steps


def findings(
    snapshot: Snapshot, mode: Mode = Mode.OVERLAPPED, setpoints: Setpoints | None = None
) -> dict[str, Finding]:
    knobs = setpoints or Setpoints()
    budget = wall_time_budget(mode, knobs, snapshot)
    return {f.code: f for f in reading_findings(Topology(mode=mode), knobs, snapshot, budget)}


def test_a_clean_overlapped_job_has_nothing_to_say(steps: Steps) -> None:
    assert findings(steps(6, step_s=100, trainer_wait_s=40, trainer_busy_s=60)) == {}


@pytest.mark.parametrize("code", NOTES)
def test_a_note_of_the_reader_is_a_finding_under_its_own_title(code: str) -> None:
    found = findings(Snapshot({}, notes=(Note(code, "what was seen", {"count": 2.0}),)))[code]
    assert (found.title, found.severity) == (NOTES[code].title, NOTES[code].severity)
    assert (found.detail, found.evidence) == ("what was seen", {"count": 2.0})


def test_a_note_that_nobody_listed_is_told_in_its_own_words() -> None:
    spec = note_spec("never-seen-before")
    assert (spec.title, spec.severity) == ("Never seen before", Severity.INFO)


def test_phases_that_leave_time_unclaimed_or_claim_too_much_are_told_apart(steps: Steps) -> None:
    torn = findings(steps(4, step_s=100, trainer_wait_s=20, trainer_busy_s=50))["unaccounted-time"]
    over = findings(steps(4, step_s=100, trainer_wait_s=70, trainer_busy_s=60))["unaccounted-time"]
    assert torn.evidence["unaccounted_frac"] == pytest.approx(0.3)
    assert over.evidence["unaccounted_frac"] == pytest.approx(-0.3)
    assert torn.detail != over.detail


def test_an_evaluation_of_unknown_period_is_told_for_two_periods(steps: Steps) -> None:
    one = steps(1, mode=Mode.SERIAL, step_s=30, rollout_s=5, trainer_busy_s=4, validation_s=21)
    evidence = findings(one, Mode.SERIAL)["validation-share"].evidence
    assert float(evidence["every_10th_frac"]) > float(evidence["every_20th_frac"])


def test_a_printed_idle_share_is_checked_against_the_seconds(steps: Steps) -> None:
    wrong = steps(4, step_s=100, trainer_wait_s=40, trainer_busy_s=60, published_trainer_idle_frac=0.9)
    right = steps(4, step_s=100, trainer_wait_s=40, trainer_busy_s=60, published_trainer_idle_frac=0.42)
    assert "idle-mismatch" in findings(wrong)
    assert "idle-mismatch" not in findings(right)


def test_old_rollouts_are_measured_against_the_bound_in_force(steps: Steps) -> None:
    old = steps(4, staleness_mean=3)
    assert "off-policy" in findings(old, setpoints=Setpoints(staleness_bound=2))
    assert "off-policy" not in findings(old)


def test_refilled_groups_and_waste_are_told(steps: Steps) -> None:
    assert {"filtered-groups", "waste"} <= findings(steps(4, filtered_groups=6, dispatched=100, accepted=70)).keys()
    assert "waste" not in findings(steps(4, dispatched=100, accepted=95))


def test_one_scrape_is_a_moment(scrapes: Steps) -> None:
    assert "single-scrape" in findings(scrapes(1, running=64), Mode.ENGINE)
    assert "single-scrape" not in findings(scrapes(2, running=64), Mode.ENGINE)


def test_a_serial_job_has_no_split(steps: Steps) -> None:
    assert "serial-job" in findings(steps(4, step_s=100), Mode.SERIAL)
