"""The report in a real browser: draws, fetches nothing, and never scrolls sideways, wide or narrow, light or dark."""

import shutil
from pathlib import Path

import pytest

from simulators.pipeline import simulate
from tests.unit.report.answers_by_hand import MATERIALS
from tuner.report import html, simulated
from tuner.report.answer import build
from tuner.report.simulated_html import render_simulated
from tuner.scenario_files import load

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)

CARDS_SCROLL = "[...document.querySelectorAll('.card.scroll')].filter(c => c.scrollWidth > c.clientWidth).length"
"""Tables that need a bar of their own at the width of a common screen."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)"),
]


SIZES = [(1200, "light"), (1280, "dark"), (700, "light"), (360, "dark")]


@pytest.mark.parametrize("name", sorted(MATERIALS))
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_report_draws_without_requests_or_sideways_scrolling(
    name: str, width: int, scheme: str, tmp_path: Path
) -> None:
    material = MATERIALS[name]()
    look_at(html.render(build(material), material), width, scheme, tmp_path / "report.html")


@pytest.mark.parametrize("name", ["metrics-outage", "length-x3-in-25-steps"])
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_report_of_a_simulated_job_draws_alike(name: str, width: int, scheme: str, tmp_path: Path) -> None:
    named = load(name)
    run = simulated.Run(named.name, named.path, named.scenario, 0, (), simulate(named.scenario))
    look_at(render_simulated(simulated.build(run), run), width, scheme, tmp_path / "report.html")


def look_at(text: str, width: int, scheme: str, path: Path) -> None:
    """Opens the page; fails where it asks for anything, scrolls sideways, or leaves a chart out."""
    sync_api = pytest.importorskip("playwright.sync_api")
    html.write(path, text)
    requests: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert width < 1200 or page.evaluate(CARDS_SCROLL) == 0
        charts = page.locator("section svg:visible")
        assert charts.count() == page.locator("section").count()
        for chart in range(charts.count()):
            box = charts.nth(chart).bounding_box()
            assert box is not None
            assert box["width"] <= width
        browser.close()
    assert requests == [path.as_uri()]
