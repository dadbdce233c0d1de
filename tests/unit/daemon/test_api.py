"""The API tells what the journal and the loop know, in pages, and refuses in one sentence."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from policies.control import Action, HoldCode
from tests.unit.daemon.faces import HOUR, Face, served
from tuner.journal import viewed


def test_status_tells_now_as_the_loop_left_it(face: Face) -> None:
    told = face.ask("/api/v1/status").json
    assert (told["job"], told["mode"], told["fencing_token"]) == ("fluid", "auto", 7)
    assert told["in_force"]["gpus_trainer"] + told["in_force"]["gpus_generator"] == 256
    assert told["tick"] == face.state.tick == 60
    assert told["decision"]["reason"]
    assert told["headline"].endswith(".")
    assert told["ready"]
    assert told["alive"]
    assert told["troubles"] == []


def test_decisions_come_newest_first_and_pages_join_without_gap_or_overlap(face: Face) -> None:
    seen, before = [], ""
    while True:
        page = face.ask(f"/api/v1/decisions?limit=7{before}").json
        seen += [record["id"] for record in page["decisions"]]
        if page["next_before"] is None:
            break
        before = f"&before={page['next_before']}"
    assert seen == list(range(60, 0, -1))


def test_one_decision_is_told_with_all_legs_of_its_move_and_its_receipts(face: Face) -> None:
    journal = viewed(face.journal)
    moved = next(e.decision for e in journal.entries() if e.decision.action is Action.APPLY)
    journal.close()
    root = moved.decision_id.split(".")[0]
    ticks = face.ask(f"/api/v1/decisions/{root}").json["ticks"]
    assert {t["decision_id"] for t in ticks} == {f"{root}.1", f"{root}.2"}
    assert all(t["receipt"]["outcomes"] for t in ticks if t["order"] is not None)
    assert ticks[0]["trail"]


def test_signals_carry_unit_trust_and_sample(face: Face) -> None:
    told = face.ask("/api/v1/signals").json["signals"]
    assert told["step_s"]["unit"] == "s"
    assert told["step_s"]["value"] == pytest.approx(128.0, rel=0.1)
    assert set(told["step_s"]) == {"value", "unit", "age_s", "n", "trust", "derived_from"}


def test_predictions_tell_how_good_they_were_and_what_is_unlocked(face: Face) -> None:
    told = face.ask("/api/v1/predictions").json
    assert told["scored"] == len(face.state.scorecard.held)
    assert told["shadows"]["gpus_trainer"]["unlocked"] is False
    assert told["coverage_frac"] is None or 0.0 <= told["coverage_frac"] <= 1.0


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/v1/decisions?limit=0", 400, "limit must be a whole number from 1 to 200"),
        ("/api/v1/decisions?limit=100000", 400, "limit"),
        ("/api/v1/decisions?before=-1", 400, "before"),
        ("/api/v1/decisions?before=1e9", 400, "before"),
        ("/api/v1/decisions/d999999", 404, "no decision d999999"),
        ("/api/v1/decisions/d1%27%20OR%201=1", 400, "called like d80"),
        ("/api/v1/decisions/%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404, "Not Found"),
        ("/nowhere", 404, "Not Found"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_in_one_sentence(
    face: Face, path: str, status: int, words: str
) -> None:
    answer = face.ask(path)
    assert answer.status == status
    assert words in answer.json["error"]


def test_metrics_count_every_tick_once_by_knob_action_and_reason_of_closed_sets(face: Face) -> None:
    families = {f.name: f for f in text_string_to_metric_families(face.ask("/metrics").body.decode())}
    counts = [s for s in families["equipoise_decisions"].samples if s.name.endswith("_total")]
    assert sum(s.value for s in counts) == 60
    assert {s.labels["action"] for s in counts} <= {a.value for a in Action}
    assert {s.labels["reason"] for s in counts} <= {c.value for c in HoldCode} | {"none"}
    assert families["equipoise_actuation_duration_seconds"].samples[0].labels["knob"] == "gpus_trainer"
    modes = {s.labels["mode"]: s.value for s in families["equipoise_mode"].samples}
    assert modes == {"observe": 0.0, "advise": 0.0, "approve": 0.0, "auto": 1.0}


def test_metrics_and_status_tell_the_same_setpoints(face: Face) -> None:
    families = {f.name: f for f in text_string_to_metric_families(face.ask("/metrics").body.decode())}
    told = face.ask("/api/v1/status").json
    for metric, key in (("actual", "in_force"), ("target", "target")):
        shown = {s.labels["setpoint"]: s.value for s in families[f"equipoise_setpoint_{metric}"].samples}
        assert shown == {name: float(value) for name, value in told[key].items()}


def test_the_page_tells_what_the_plant_answered_to_an_order(face: Face) -> None:
    assert (
        "trainer GPUs, generator GPUs, rollouts in flight, at most: pending, on its way" in face.ask("/").body.decode()
    )


def test_a_daemon_before_its_first_tick_is_alive_and_not_ready(tmp_path: Path) -> None:
    with served(tmp_path, until_s=0.0) as face:
        face.now_s = 1.0
        assert face.ask("/healthz").status == 200
        assert face.ask("/readyz").json["troubles"] == ["no tick yet"]
        assert face.ask("/readyz").status == 503
        assert face.ask("/api/v1/status").json["last_tick"] is None
        assert b"No look at the job yet" in face.ask("/").body


def test_a_journal_that_is_locked_or_gone_is_said_so_and_the_rest_is_told(fresh: Face) -> None:
    fresh.journal.rename(fresh.journal.with_suffix(".moved"))
    answer = fresh.ask("/api/v1/decisions")
    assert (answer.status, "cannot be read now" in answer.json["error"]) == (503, True)
    assert fresh.ask("/api/v1/status").status == 200
    assert b"the journal cannot be read now" in fresh.ask("/").body


def test_a_loop_that_hangs_is_neither_alive_nor_ready(fresh: Face) -> None:
    assert fresh.ask("/healthz").status == fresh.ask("/readyz").status == 200
    fresh.now_s = HOUR + 600.0
    assert fresh.ask("/healthz").status == 503
    assert "the last tick was" in fresh.ask("/readyz").json["troubles"][0]


def test_the_page_tells_now_and_the_decisions_and_loads_nothing_from_elsewhere(face: Face) -> None:
    text = face.ask("/").body.decode()
    told = face.ask("/api/v1/status").json
    assert told["headline"] in text
    assert "trainer GPUs" in text
    assert "<h1>" in text
    assert "Last decisions" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert face.ask("/page.css").headers["content-type"].startswith("text/css")
    assert face.ask("/page.js").headers["content-type"].startswith("text/javascript")
