"""docs/daemon.md names every route and every metric that there is, and no other."""

import re
from pathlib import Path

from policies.control import HoldCode
from policies.guardrails.chain import CHAIN
from tests.unit.daemon.faces import RULES
from tuner.inbox import People
from tuner.pages import Pages
from tuner.server.app import Ground, routes_of
from tuner.server.board import About, Board
from tuner.server.metrics import Metrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "daemon.md").read_text(encoding="utf-8")
ABOUT = About("job", "journal.db", RULES, 30.0, 1, 0.0)
BEFORE_A_SUFFIX = {"_target": "setpoint_target", "_actual": "setpoint_actual"} | {
    f"_{name}": f"prediction_{name}" for name in ("coverage_ratio", "bias_ratio", "scale_ratio")
}


def test_every_route_is_documented_and_every_documented_one_exists(tmp_path: Path) -> None:
    board = Board(ABOUT)
    ground = Ground(board, Metrics(ABOUT), Pages(tmp_path), People(), tmp_path / "token")
    there = {f"{'POST ' if 'POST' in (route.methods or ()) else ''}{route.path}" for route in routes_of(ground)}
    told = set(re.findall(r"^\| `((?:POST )?/[^`]*)` \|", PAGE, re.MULTILINE))
    assert told == {route for route in there if not route.startswith("/page.")}


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    text = Metrics(ABOUT).text().decode()
    there = set(re.findall(r"^# TYPE equipoise_(\w+) ", text, re.MULTILINE))
    there = {name for name in there if not name.endswith("_created")}
    table = PAGE.partition("| metric | what |")[2].partition("## ")[0]
    words = re.findall(r"`(equipoise_\w+|_\w+)(?:\{[\w,]+\})?`", table)
    told = {BEFORE_A_SUFFIX[word] if word.startswith("_") else word.removeprefix("equipoise_") for word in words}
    assert told == there


def test_every_reason_for_doing_nothing_is_documented_and_every_documented_one_exists() -> None:
    rows = re.findall(
        r"^\| (`[^|]*) \| ([^|]*)\|", PAGE.partition("## Why nothing is done")[2].partition("## ")[0], re.MULTILINE
    )
    told = {code for reasons, _ in rows for code in re.findall(r"`([\w-]+)`", reasons)}
    assert told == {str(code) for code in HoldCode}


def test_the_guardrails_stand_in_the_order_in_which_they_are_asked() -> None:
    table = PAGE.partition("## Why nothing is done")[2].partition("## ")[0]
    order = re.findall(r"^\| `[^|]*\| `([\w-]+)` \|", table, re.MULTILINE)
    assert list(dict.fromkeys(order)) == [name for name in CHAIN if name != "one-step"]
    assert "`one-step`" in table
