"""`equipoise validate` as a user meets it: text, JSON by its schema, HTML, one's own cases, mistakes."""

import json
from pathlib import Path

import jsonschema
import pytest

from tests.unit.test_case_files import WHOLE
from tuner.answers.validate import SCHEMA_FILE, schema_json
from tuner.case_files import shipped
from tuner.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(WHOLE, encoding="utf-8")
    return path


def test_the_schema_that_is_shipped_is_that_of_the_answer() -> None:
    """When it is not: `python -m tuner.answers.validate > tuner/answers/schema/validate.schema.json`."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_json()


@pytest.mark.slow
def test_the_json_answer_keeps_its_schema_and_holds_every_row(capsys: Captured) -> None:
    assert main(["validate", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json.loads(schema_json()))
    assert len(answer["rows"]) == sum(len(case.rows) for case in shipped())
    keys = {"case", "class", "role", "measured", "predicted", "error_frac", "tolerance_frac", "free_parameters"}
    assert keys | {"baseline_error_frac"} <= answer["rows"][0].keys()
    assert {"median_error_frac", "worst_error_frac", "better_than_baseline_frac"} <= answer["summary"].keys()


@pytest.mark.slow
def test_the_text_begins_with_the_summary_and_fits_its_columns(capsys: Captured) -> None:
    assert main(["validate"]) == 0
    text = capsys.readouterr().out
    assert "median error" in text.splitlines()[0]
    assert max(len(line) for line in text.splitlines()) <= 100


def test_one_case_is_told_with_its_formula_note_and_sources(capsys: Captured) -> None:
    assert main(["validate", "--case", "v06-staleness"]) == 0
    text = capsys.readouterr().out
    assert [word for word in ("Model: async-staleness", "Note:", "Source (") if word not in text] == []


def test_ones_own_case_is_answered_alone_even_where_it_misses(mine: Path, capsys: Captured) -> None:
    mine.write_text(WHOLE.replace("measured = 25", "measured = 250"), encoding="utf-8")
    assert main(["validate", "--cases", str(mine)]) == 0
    out = capsys.readouterr().out
    assert "1 prediction in 1 case" in out
    assert "NO" in out


@pytest.mark.slow
def test_the_report_is_one_file_with_pictures(tmp_path: Path, capsys: Captured) -> None:
    page = tmp_path / "v.html"
    assert main(["validate", "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") >= 4
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert capsys.readouterr().out


def test_a_title_cannot_break_out_of_the_report(mine: Path, tmp_path: Path, capsys: Captured) -> None:
    mine.write_text(WHOLE.replace("A job of mine", "<script>alert(1)</script>"), encoding="utf-8")
    assert main(["validate", "--cases", str(mine), "--html", str(tmp_path / "v.html")]) == 0
    assert "<script>" not in (tmp_path / "v.html").read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--case", "v06-stalenes"], "did you mean 'v06-staleness'?"),
        (["--cases", "nowhere"], "nowhere"),
        (["--html", "nowhere/v.html"], "mkdir -p nowhere"),
    ],
)
def test_a_mistake_ends_with_two_and_one_sentence(
    arguments: list[str], words: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["validate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert words in err


def test_a_prediction_of_a_measured_nothing_is_judged_though_it_has_no_relative_error(
    mine: Path, capsys: Captured
) -> None:
    mine.write_text(WHOLE.replace("measured = 25", "measured = 0"), encoding="utf-8")
    assert main(["validate", "--cases", str(mine)]) == 0
    assert "1 prediction in 1 case: 0 within what is allowed" in capsys.readouterr().out


SIMULATED = """id = "simulated"
title = "A small job whose engines' speed is found by simulating it"
class = "prediction"
model = "event"
output = "step_s"
quantity = "time of a step"
unit = "s"
tolerance_frac = 0.2
source = [{ what = "invented figures", where = "a test of this product", read = "computed" }]
parameter = [{ name = "one_s", low = 0.01201, high = 0.02, unit = "s", about = "an iteration of one resident" }]

[inputs.run]
warm_up_batches = 5
batches = 20
replications = 1

[inputs.topology]
mode = "overlapped"
gpus_per_engine = 1

[inputs.setpoints]
gpus_trainer = 1
group_size = 8
batch_rollouts = 256
staleness_bound = 2

[inputs.workload]
prompt = { mean_tokens = 1 }
response = { mean_tokens = 1000, sigma = 0.8 }

[inputs.stations.engine]
slots = 64
step = { table = [[0, 0.012], [1, "$one_s"]] }

[inputs.stations.trainer]
base_s = 1
gpu_s_per_token = 1e-4

[inputs.stations.admission]
plug = "wip-cap"

[[row]]
label = "two engines"
role = "calibration"
measured = 110
inputs = { setpoints = { gpus_generator = 2 } }

[[row]]
label = "four engines"
role = "calibration"
measured = 70
inputs = { setpoints = { gpus_generator = 4 } }

[[row]]
label = "three engines"
measured = 80
inputs = { setpoints = { gpus_generator = 3 } }
"""


def test_a_parameter_is_found_by_simulation(mine: Path, capsys: Captured) -> None:
    """No value meets both figures; a search that stays where it begins misses the first by a third."""
    mine.write_text(SIMULATED, encoding="utf-8")
    assert main(["validate", "--cases", str(mine), "--json"]) == 0
    errors = [row["error_frac"] for row in json.loads(capsys.readouterr().out)["rows"] if row["role"] == "calibration"]
    assert max(map(abs, errors)) < 0.12
    assert errors[0] * errors[1] < 0.0


def test_a_row_may_state_its_naive_figure(mine: Path, capsys: Captured) -> None:
    mine.write_text(WHOLE + "naive = 30\n", encoding="utf-8")
    assert main(["validate", "--cases", str(mine), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][-1]["baseline_error_frac"] == pytest.approx(0.2)
