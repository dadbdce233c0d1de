"""`equipoise tune` as a user meets it, on jobs of a few GPUs and a few trials."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from tuner import config
from tuner.answers.tune import SCHEMA_FILE, schema_json
from tuner.cli import main

pytestmark = pytest.mark.slow
Captured = pytest.CaptureFixture[str]
DATA = Path(__file__).parents[1] / "data" / "tuning"
LOPSIDED, DOUBLING = str(DATA / "lopsided.toml"), str(DATA / "doubling.toml")


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tuned(capsys: Captured, *arguments: str) -> dict:  # type: ignore[type-arg]
    assert main(["tune", *arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json.loads(SCHEMA_FILE.read_text()))
    return answer  # type: ignore[no-any-return]


def refused(capsys: Captured, *arguments: str) -> str:
    assert main(["tune", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_the_shipped_schema_is_the_models_own() -> None:
    assert SCHEMA_FILE.read_text() == schema_json()


def test_a_lopsided_job_is_set_right_and_the_fragment_is_a_job_file(tmp_path: Path, capsys: Captured) -> None:
    page, out = tmp_path / "study.html", tmp_path / "part.toml"
    wish = ("--scenario", LOPSIDED, "--knobs", "split", "--trials", "12", "--seeds", "2", "--storage", "sqlite:///s.db")
    answer = tuned(capsys, *wish, "--html", str(page), "--out", str(out))
    assert answer["recommended"]
    assert answer["against_now"]["interval"]["low"] > 0.1
    assert answer["against_now"]["broken"] == []
    assert answer["counts"]["complete"] + answer["counts"]["pruned"] == 12
    job = config.load(out)
    assert job.setpoints.gpus_trainer == answer["settings"][0]["found"] > 6
    assert job.setpoints.gpus_trainer + job.setpoints.gpus_generator == 28
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") >= 3
    assert "<script" not in text
    again = tuned(capsys, *wish)
    assert again["trials"] == answer["trials"], "a study that is done is shown again"


def test_same_seed_and_one_worker_same_study(capsys: Captured) -> None:
    wish = ("--scenario", LOPSIDED, "--trials", "14", "--seeds", "1")
    first, second = (tuned(capsys, *wish, "--storage", f"sqlite:///{name}.db") for name in "ab")
    for answer in (first, second):
        for key in ("wall_s", "storage"):
            answer.pop(key)
    assert first == second
    other = tuned(capsys, *wish, "--seed", "1", "--storage", "sqlite:///c.db")
    assert other["trials"] != first["trials"]


def test_a_study_that_was_stopped_goes_on_as_if_it_had_not(capsys: Captured) -> None:
    wish = ("--scenario", LOPSIDED, "--knobs", "concurrency,split", "--seeds", "1", "--study", "s")
    whole = tuned(capsys, *wish, "--trials", "12", "--storage", "sqlite:///a.db", "--sampler", "tpe")
    tuned(capsys, *wish, "--trials", "8", "--storage", "sqlite:///b.db", "--sampler", "tpe")
    parts = tuned(capsys, *wish, "--trials", "12", "--storage", "sqlite:///b.db", "--sampler", "tpe")
    assert parts["trials"] == whole["trials"]


def test_several_objectives_have_a_front(capsys: Captured) -> None:
    wish = ("--scenario", LOPSIDED, "--trials", "10", "--seeds", "1", "--objective", "useful,staleness")
    answer = tuned(capsys, *wish)
    assert answer["front"]
    front = [t["values"] for t in answer["trials"] if t["number"] in answer["front"]]
    assert all(not (a[0] >= b[0] and a[1] <= b[1] and a != b) for a in front for b in front), (
        "nothing on the front is better in both"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "either --scenario"),
        (("--scenario", LOPSIDED, "--knobs", "spilt"), "no such knob"),
        (("--scenario", LOPSIDED, "--objective", "fame"), "--objective fame: unknown"),
        (("--scenario", LOPSIDED, "--objective", "moves"), "--policy NAME"),
        (("--scenario", LOPSIDED, "--trials", "0"), "--trials 0"),
        (("--scenario", LOPSIDED, "--trial-timeout", "0"), "--trial-timeout 0"),
        (("--scenario", LOPSIDED, "--seed", "1000"), "--seed 1000"),
        (("--scenario", LOPSIDED, "--sampler", "annealing"), "--sampler annealing"),
        (("--scenario", LOPSIDED, "--policy", "none"), "no policy 'none'"),
        (("--scenario", LOPSIDED, "--policy", "nowhere.to_be:Found"), "PYTHONPATH"),
        (("--scenario", LOPSIDED, "--policy", "static"), "declares no bounds"),
        (("--scenario", LOPSIDED, "--scenario", DOUBLING), "different jobs"),
        (("--scenario", LOPSIDED, "--storage", "sqlite:////no/such/s.db"), "there is no folder /no/such"),
        (("--from", "nothing.jsonl"), "no such file"),
        (("--from", LOPSIDED, "--hold-out", DOUBLING), "--hold-out"),
        (("--from", LOPSIDED, "--policy", "predictive", "--knobs", "split"), "either settings or a policy's"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(arguments: tuple[str, ...], says: str, capsys: Captured) -> None:
    assert says in refused(capsys, *arguments)


def test_a_study_of_another_space_is_refused(capsys: Captured) -> None:
    wish = ("--scenario", LOPSIDED, "--trials", "2", "--seeds", "1", "--study", "s", "--storage", "sqlite:///s.db")
    tuned(capsys, *wish, "--knobs", "split")
    assert "study 's' is another one: space is" in refused(capsys, *wish, "--knobs", "concurrency")


def test_a_law_that_raises_costs_its_trials_only(capsys: Captured) -> None:
    wish = ("--scenario", DOUBLING, "--trials", "6", "--policy", "tests.stories.strange_laws:Raising")
    answer = tuned(capsys, *wish)
    whys = [t["why"] for t in answer["trials"] if t["state"] == "fail"]
    assert whys
    assert all("the policy failed" in why for why in whys)
    assert len(whys) < len(answer["trials"]) == 6


def test_a_law_that_hangs_costs_its_trials_only(capsys: Captured) -> None:
    wish = ("--scenario", DOUBLING, "--trials", "2", "--policy", "tests.stories.strange_laws:Hanging")
    answer = tuned(capsys, *wish, "--trial-timeout", "6")
    assert [t["state"] for t in answer["trials"]] == ["complete", "fail"], "its defaults answer, and nothing else"
    assert answer["trials"][1]["why"] == "no answer within 6 s (--trial-timeout)"
    assert not answer["recommended"]


def test_a_study_of_which_no_trial_comes_to_its_end_says_why(capsys: Captured) -> None:
    wish = ("--scenario", LOPSIDED, "--trials", "1", "--seeds", "1", "--trial-timeout", "1e-6")
    answer = tuned(capsys, *wish)
    assert answer["headline"].startswith("No trial came to its end (no answer within 1e-06 s (--trial-timeout)): keep")


def test_a_law_from_outside_the_tree_is_tuned_without_a_change(capsys: Captured) -> None:
    wish = ("--scenario", DOUBLING, "--trials", "5", "--policy", "tests.stories.strange_laws:OneStep")
    answer = tuned(capsys, *wish)
    assert [s["name"] for s in answer["settings"]] == ["policy.busy_frac"]
    assert answer["counts"]["complete"] + answer["counts"]["pruned"] == 5
    fragment = tomllib.loads(answer["fragment"])
    assert fragment.get("policy", {}).get("name") in (None, "tests.stories.strange_laws:OneStep")
