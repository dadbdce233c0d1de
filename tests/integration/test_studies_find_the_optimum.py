"""What exhaustive search finds, a study finds in a tenth of its evaluations; and its report in a real browser."""

from pathlib import Path

import pytest

from benchmarks.tuning import SCENARIO, SEEDS, exhausted, searched
from tests.integration.test_report_in_a_browser import CHROMIUM, SIZES, look_at
from tuner.cli import main
from tuner.scenario_files import load
from tuner.studies.cases import of_stories
from tuner.studies.knobs import JobFacts, space_of


def test_a_study_finds_what_exhaustive_search_finds_in_a_tenth_of_the_evaluations() -> None:
    scenario = load(str(SCENARIO)).scenario
    space = space_of(JobFacts(scenario.topology, scenario.setpoints, scenario.bounds, scenario.stations))
    stories = [("lopsided", scenario)]
    table = exhausted(space, of_stories(stories, SEEDS))
    assert len(table) > 500
    found = searched(stories, space, table, seed=0)
    assert found.trials <= 0.1 * len(table), "those that end at the model's word are counted, too"
    assert found.runs_frac <= 0.1, str(found)
    assert found.regret.low <= 0.01, f"within noise: {found}"
    assert found.gain_frac > 0.98 * found.best_gain_frac, str(found)


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)")
def test_a_study_draws_without_requests_or_sideways_scrolling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wish = ["--scenario", str(SCENARIO), "--trials", "24", "--seeds", "1", "--objective", "useful,staleness"]
    assert main(["tune", *wish, "--html", "study.html"]) == 0
    text = Path("study.html").read_text(encoding="utf-8")
    for width, scheme in [*SIZES, (420, "light")]:
        look_at(text, width, scheme, tmp_path / "shown.html")
