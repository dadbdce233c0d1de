"""What `equipoise validate` ships: every case is whole, and the model meets its goals on them."""

import pytest

from simulators.published import Case, Kind, Outcome, Role, summarise
from simulators.validation import run
from tuner.case_files import SHIPPED, shipped


@pytest.fixture(scope="module")
def cases() -> tuple[Case, ...]:
    """Reading a case answers its every row once: when a test needs it, not when tests are collected."""
    return shipped()


@pytest.fixture(scope="module")
def outcomes(cases: tuple[Case, ...]) -> list[Outcome]:
    return [run(case) for case in cases]


@pytest.fixture
def case(cases: tuple[Case, ...], stem: str) -> Case:
    return next(case for case in cases if case.ident == stem)


every_case = pytest.mark.parametrize("stem", sorted(path.stem for path in SHIPPED.glob("*.toml")))


def test_a_case_is_named_like_its_file(cases: tuple[Case, ...]) -> None:
    assert {case.ident for case in cases} == {path.stem for path in SHIPPED.glob("*.toml")}


@every_case
def test_every_figure_has_a_source_that_can_be_looked_up(case: Case) -> None:
    assert case.sources
    assert all(len(source.where) > 10 for source in case.sources)
    assert {source.read for source in case.sources} <= {"primary", "third-party", "chart", "computed"}


@every_case
def test_every_case_says_what_a_reader_must_know(case: Case) -> None:
    assert len(case.note) > 40


@every_case
def test_no_prediction_has_more_free_parameters_than_its_calibration_figures_carry(case: Case) -> None:
    if case.stated is Kind.PREDICTION and case.kind is not Kind.FIT:
        assert not case.parameters or case.freedom > 0
    else:
        assert not case.parameters or case.kind is Kind.FIT


@every_case
def test_every_prediction_has_a_naive_rival_in_words(case: Case) -> None:
    if case.kind is Kind.PREDICTION:
        assert case.baseline.about


def test_rows_have_their_own_names(cases: tuple[Case, ...]) -> None:
    for case in cases:
        assert len({row.label for row in case.rows}) == len(case.rows), case.ident


def test_predictions_are_within_7_hundredths_in_the_median_and_20_at_worst(outcomes: list[Outcome]) -> None:
    summary = summarise(outcomes)
    assert summary.rows[Kind.PREDICTION] >= 30
    assert summary.median_error_frac is not None
    assert summary.median_error_frac <= 0.07
    assert summary.worst_error_frac is not None
    assert summary.worst_error_frac <= 0.20


def test_predictions_beat_the_naive_baseline_in_four_of_five_rows(outcomes: list[Outcome]) -> None:
    summary = summarise(outcomes)
    assert summary.compared_with_baseline >= 30
    assert summary.better_than_baseline_frac is not None
    assert summary.better_than_baseline_frac >= 0.80


@pytest.mark.parametrize("kind", [Kind.IDENTITY, Kind.BOUND])
def test_identities_hold_and_bounds_are_true(kind: Kind, outcomes: list[Outcome]) -> None:
    judged = [(o.case.ident, c) for o in outcomes if o.case.kind is kind for c in o.judged]
    assert len(judged) >= 10
    assert [f"{ident}: {c.row.label} gives {c.predicted}" for ident, c in judged if not c.within] == []


def test_rows_add_up(cases: tuple[Case, ...], outcomes: list[Outcome]) -> None:
    summary = summarise(outcomes)
    calibration = sum(row.role is Role.CALIBRATION for case in cases for row in case.rows)
    assert sum(summary.rows.values()) + calibration == sum(len(case.rows) for case in cases)
    assert sum(summary.cases.values()) == len(cases)
