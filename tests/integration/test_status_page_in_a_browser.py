"""The daemon's page in a real browser: it stays fresh, asks nobody else, fits each screen, and says when it is old."""

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.daemon.faces import HOUR, Face, served

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)
NAMELESS = """[...document.querySelectorAll('button, a, summary, svg[role=img]')]
    .filter(e => !(e.textContent.trim() || e.getAttribute('aria-label'))).length"""
HEADLESS = "[...document.querySelectorAll('table')].filter(t => !t.querySelector('thead th[scope=col]')).length"
LEVELS = "[...document.querySelectorAll('h1, h2, h3')].filter(h => h.offsetParent).map(h => Number(h.tagName[1]))"
FAINT = """() => {
  const part = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4 };
  const parse = s => (s.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  const faint = [];
  for (const e of document.querySelectorAll('p, li, td, th, h1, h2, h3, a, summary, button, code, span, strong')) {
    if (!e.offsetParent || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(e.outerHTML.slice(0, 80));
  }
  return faint; }"""
"""Texts whose contrast with what is behind them is under 4.5, as WCAG 2 reckons it."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, which knows the accessibility rules; from its package, never kept here."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("npm is not installed: it brings axe-core")
    done = subprocess.run(
        [npm, "pack", "--silent", "axe-core@4"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    packages = list(folder.glob("axe-core-*.tgz"))
    if not packages:
        pytest.skip(f"the package registry gives no axe-core: {done.stderr.strip()[-200:]}")
    with tarfile.open(packages[0]) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.fixture
def face(tmp_path: Path) -> Iterator[Face]:
    with served(tmp_path) as found:
        yield found


@pytest.mark.parametrize("width", [1200, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_is_readable_and_asks_nobody_else(browser: Any, face: Face, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked, said = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(face.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(FAINT) == []
    assert page.evaluate(NAMELESS) == page.evaluate(HEADLESS) == 0
    levels = page.evaluate(LEVELS)
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert page.locator("section svg:visible").count() >= 4
    assert [url for url in asked if not url.startswith((face.url, "data:"))] == []
    assert said == []
    page.close()


def test_it_follows_the_daemon_keeps_what_is_open_and_can_be_held(browser: Any, face: Face) -> None:
    page = browser.new_page()
    page.goto(face.url)
    page.locator("details summary").first.click()
    opened = page.locator("details[open]").first.get_attribute("id")
    face.now_s = HOUR + 60.0
    page.locator("time", has_text="2 min ago").wait_for(timeout=20_000)
    assert page.locator(f"#{opened}[open]").count() == 1
    page.locator("#hold").click()
    assert page.locator("#hold").get_attribute("aria-pressed") == "true"
    face.now_s = HOUR + 1000.0
    page.wait_for_timeout(6_000)
    assert page.locator("time").text_content().startswith("2 min")
    page.close()


def test_it_says_when_the_daemon_does_not_answer(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page()
    with served(tmp_path) as face:
        page.goto(face.url)
        assert not page.locator("#lost").is_visible()
    page.wait_for_selector("#lost:visible", timeout=20_000)
    assert "What you see is old" in page.locator("#lost").text_content()
    page.close()


def test_without_script_it_tells_the_same(browser: Any, face: Face) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(face.url)
    assert page.locator("h1").text_content() == face.ask("/api/v1/status").json["headline"]
    assert not page.locator("#hold").is_visible()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, face: Face, axe: str, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(face.url)
    page.evaluate(axe)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert len(found["passes"]) > 10, "it has looked"
    serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
    assert [(v["id"], v["help"], [n["target"] for n in v["nodes"]][:3]) for v in serious] == []
    page.close()
