"""The HTML report: one file, nothing fetched, everything escaped, tables beside pictures, written in one go."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from policies.base import Finding, Severity
from tuner.errors import ConfigError
from tuner.report import html
from tuner.report.answer import Material, build

VOID = {"meta", "br", "wbr", "line", "rect", "circle", "polyline", "polygon"}


class Outline(HTMLParser):
    """Checks that tags nest and collects what a test asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h2", "h3"):
            self.titles.append(data.strip())


def page(material: Material) -> str:
    return html.render(build(material), material)


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    return parser


def test_every_report_is_well_formed_and_fetches_nothing(material: Material) -> None:
    text = page(material)
    parsed = outline(text)
    assert parsed.open == []
    assert not [a for a in parsed.attributes if a[0] in ("src", "href", "srcset", "data")]
    assert "<script" not in text
    assert not re.search(r"@import|url\((?!#)", text)


def test_the_ids_of_a_page_are_unique(overlapped: Material) -> None:
    ids = [value for name, value in outline(page(overlapped)).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_an_overlapped_job_gets_all_its_pictures(overlapped: Material) -> None:
    titles = outline(page(overlapped)).titles
    wanted = [
        "Where the step goes",
        "Idle and utilisation",
        "Throughput against split",
        "Queue depth and rollouts in flight",
        "Staleness",
        "Response length",
        "Tool calls and turns",
        "Reward",
        "Cost",
        "What to change, in order",
        "What not to do",
        "What is missing",
        "What was read",
        "How to read this",
    ]
    assert [w for w in wanted if w not in titles] == []


def test_every_picture_has_a_table_beside_it(material: Material) -> None:
    text = page(material)
    for section in re.findall(r'<section class="card.*?</section>', text, re.S):
        assert "<svg" in section
        assert "<table" in section


def test_text_from_a_log_cannot_become_markup(overlapped: Material) -> None:
    evil = Finding("drift", Severity.INFO, "<script>alert(1)</script>", "<img src=x>", {"<b>": "</table>"})
    diagnosis = replace(overlapped.advice.diagnosis, findings=(evil,), headline="</title><script>1</script>")
    text = page(replace(overlapped, advice=replace(overlapped.advice, diagnosis=diagnosis)))
    assert "<script" not in text
    assert "<img" not in text
    assert outline(text).open == []


def test_a_report_into_a_missing_folder_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mkdir -p"):
        html.check_target(tmp_path / "none" / "report.html")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        html.check_target(tmp_path)


def test_a_report_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    html.write(target, "new")
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_report_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("old")
    link.symlink_to(real)
    html.write(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
