"""docs/live-job.md says of its contest what the contest's records say (tests/data/live_job)."""

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from examples.live_job.contest import CONTROLLED, SETTLED_S, WARM_UP_STEPS, by_minute, gain
from examples.live_job.report import rate
from tuner.journal import viewed

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "live_job"
PAGE = " ".join((ROOT / "docs" / "live-job.md").read_text(encoding="utf-8").split())
GPUS = 4
PLACES = ("/tmp/", "/home/", "/root/", "/work/")

Run = list[dict[str, Any]]


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def split(trainer: int) -> str:
    return f"{trainer} : {GPUS - trainer}"


@pytest.fixture(scope="module")
def runs() -> Mapping[str, tuple[str, Run]]:
    """Of each run its setting and its steps."""
    keys = ("timestamp", "step_s", "batch_rollouts")
    return {
        run["run"]: (run["setting"], [dict(zip(keys, step, strict=True)) for step in run["steps"]])
        for run in records("contest.jsonl")
    }


@pytest.fixture(scope="module")
def rates(runs: Mapping[str, tuple[str, Run]]) -> Mapping[str, list[float]]:
    """Useful rollouts per second of each setting, round by round."""
    found: dict[str, list[float]] = {}
    for setting, steps in runs.values():
        found.setdefault(setting, []).append(rate(steps[WARM_UP_STEPS:]))
    return found


def named(setting: str) -> str:
    """As the page calls it, at the head of a row."""
    return f"| controlled, from {split(GPUS - 1)}" if setting == CONTROLLED else f"| {split(int(setting[0]))}"


def shown(rates: Sequence[float]) -> str:
    return f"| {fmean(rates):.2f} | {', '.join(f'{rate:.2f}' for rate in rates)} |"


def test_every_setting_s_row_is_what_its_runs_delivered(rates: Mapping[str, list[float]]) -> None:
    assert len(rates) == GPUS
    for setting, found in rates.items():
        assert f"{named(setting)} {shown(found)}" in PAGE


def test_the_two_ratios_follow_from_the_rows(rates: Mapping[str, list[float]]) -> None:
    ours = fmean(rates[CONTROLLED])
    static = {setting: fmean(found) for setting, found in rates.items() if setting != CONTROLLED}
    first = next(setting for setting in static if setting.startswith(f"{GPUS - 1}:"))
    assert f"Controlled: {ours / max(static.values()):.2f} of the best static setting" in PAGE
    assert f"{100.0 * (ours / static[first] - 1.0):.0f} % above the setting that it began with" in PAGE


def test_every_setting_s_minutes_stand_there_and_what_hindsight_would_have_made_of_them(
    runs: Mapping[str, tuple[str, Run]], rates: Mapping[str, list[float]]
) -> None:
    best = [0.0] * 5
    for setting in rates:
        minutes = by_minute([steps for name, steps in runs.values() if name == setting])
        assert f"{named(setting)} | {' | '.join(f'{rate:.1f}' for rate in minutes)} |" in PAGE
        best = best if setting == CONTROLLED else [max(pair) for pair in zip(best, minutes, strict=True)]
    told = (
        f"would have made {fmean(best):.1f} a second; the controller made {fmean(rates[CONTROLLED]) / fmean(best):.2f}"
    )
    assert told in PAGE


def interval(gain: Mapping[str, float]) -> str:
    mean, low, high = (100.0 * gain[name] for name in ("mean", "low", "high"))
    return f"{mean:+.0f} % ({low:.0f} .. {high:.0f})"


def test_every_move_stands_there_with_what_it_promised_and_gave(runs: Mapping[str, tuple[str, Run]]) -> None:
    moves = records("moves.jsonl")
    assert moves
    for move in moves:
        number = int(move["run"].split("-")[1])
        static = {setting: steps for run, (setting, steps) in runs.items() if run.startswith(f"run-{number}-")}
        stayed = next(steps for setting, steps in static.items() if setting.startswith(f"{move['before']}:"))
        begin_s = move["at_s"] + SETTLED_S
        both = gain(static[CONTROLLED], stayed, begin_s)
        row = f"| {number + 1} | {begin_s:.0f} s | {split(move['before'])} -> {split(move['after'])} |"
        row += f" {interval(move['predicted'])} |"
        row += f" {interval(move['realised'])}:" if move["realised"] else " the run ended before it was judged"
        assert row in PAGE
        beside = "too few steps were left" if both is None else f"{100.0 * (both[0] / both[1] - 1.0):+.0f} %"
        assert f"| {beside} |" in PAGE.partition(row)[2][:40]
        assert move["reason"]


def test_what_the_page_says_of_the_faults_is_what_the_controller_did() -> None:
    ticks = records("faults.jsonl")
    begun = {tick["id"].split(".")[0]: tick for tick in reversed(ticks) if tick["did"] == "apply"}
    refused = next(i for i, tick in enumerate(ticks) if tick["refused"])
    assert any(reason.startswith("engine-1: ") for reason in ticks[refused]["refused"])
    undone = next(tick for tick in ticks[refused:] if "is undone" in tick["reason"])
    assert undone["did"] == "frozen"
    assert undone["split"] == begun[ticks[refused]["id"].split(".")[0]]["split"]

    blind = [tick for tick in ticks if tick["blind"] and tick["did"] != "stopped"]
    assert blind[-1]["at_s"] - blind[0]["at_s"] > 50.0
    assert blind[-1]["did"] == "stale"
    assert not [tick for tick in blind if tick in begun.values()]

    [(before, after)] = [
        (a, b) for a, b in pairwise(ticks) if b["at_s"] - a["at_s"] > 10.0
    ]  # killed, and started again
    assert int(after["id"][1:]) == int(before["id"][1:]) + 1
    assert after["split"] == before["split"]


def test_no_name_and_no_folder_of_a_machine_is_in_the_records(tmp_path: Path) -> None:
    for path in DATA.iterdir():
        kept = path.read_bytes()
        assert not [place for place in PLACES if place.encode() in kept], path
    copy = shutil.copy(DATA / "controlled.journal", tmp_path)
    with closing(viewed(Path(copy))) as book:
        told = repr([*book.entries(), book.charters(), book.writer()])  # what is deflated in the file too
    assert "generator" in told
    assert "'host': 'recorded'" in told
    assert not [place for place in PLACES if place in told]
