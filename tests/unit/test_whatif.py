"""`equipoise whatif`: what is asked, what is refused, what is answered."""

import json
from pathlib import Path

import jsonschema
import pytest

from tuner.answers.whatif import SCHEMA_FILE, schema_json
from tuner.cli import main
from tuner.commands.whatif import parsed
from tuner.errors import ConfigError

JOB = Path(__file__).parents[1] / "data" / "published" / "case1"
SOURCES = [str(JOB / "times.csv"), str(JOB / "rl.toml")]


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["whatif", *SOURCES, *arguments]) == 0
    return capsys.readouterr().out


def test_the_shipped_schema_is_the_models_own() -> None:
    assert SCHEMA_FILE.read_text() == schema_json()


def test_the_json_answer_keeps_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(asked(capsys, "--set", "gpus_trainer=48", "--json"))
    jsonschema.validate(answer, json.loads(SCHEMA_FILE.read_text()))
    assert answer["calibrated"]
    assert answer["now"]["step_s"] == pytest.approx(260.0, rel=0.05)
    assert answer["gain_frac"]["low"] < answer["gain_frac"]["mean"] < answer["gain_frac"]["high"] < 0.15


def test_taking_gpus_from_the_slower_side_costs(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(asked(capsys, "--set", "gpus_trainer=96", "--json"))
    assert answer["gain_frac"]["high"] < 0.0
    assert answer["limits"][0]["name"] == "gpus_generator"


def test_the_text_answer_says_what_is_not_identified(capsys: pytest.CaptureFixture[str]) -> None:
    out = asked(capsys, "--set", "gpus_trainer=48")
    assert "useful rollouts per second (80 %:" in out
    assert "alpha of the trainer is not identified" in out


def test_a_split_off_the_lattice_is_answered_and_called_illegal(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(asked(capsys, "--set", "gpus_trainer=44", "--json"))
    assert answer["illegal"]


def test_data_without_a_step_time_get_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,reward_mean\n1,0.5\n2,0.6\n")
    assert main(["whatif", str(path), "--set", "gpus_trainer=48", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert not answer["calibrated"]
    assert "step time" in answer["headline"]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("gpus_trainr=48", "did you mean gpus_trainer"),
        ("gpus_trainer", "name=value"),
        ("gpus_trainer=many", "whole number"),
        ("gpus_trainer=4.5", "whole number"),
        ("staleness_bound=-1", "at least 0"),
        ("partial_rollout=perhaps", "on or off"),
        ("packing=on", "no setting of the model"),
    ],
)
def test_what_makes_no_question_is_refused_with_the_remedy(wish: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parsed(wish)


def test_settings_that_make_no_job_are_an_error_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", *SOURCES, "--set", "gpus_trainer=5000"]) == 2
    assert "leaves gpus_generator none of the" in capsys.readouterr().err
    assert main(["whatif", *SOURCES, "--set", "gpus_trainer=48", "--set", "gpus_trainer=56"]) == 2
    assert "gpus_trainer: given twice" in capsys.readouterr().err


def test_a_setting_that_a_serial_job_makes_no_use_of_is_said_to_change_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = JOB.parents[1] / "cases" / "A06_verl_long_tail_7412.log"
    assert main(["whatif", str(job), "--set", "staleness_bound=2"]) == 0
    assert "nothing changes by this model" in capsys.readouterr().out


def test_a_command_without_a_question_says_how_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", *SOURCES]) == 2
    assert "--set gpus_trainer=48" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wishes", "asked_gpus", "said"),
    [
        (["gpus_trainer=64", "gpus_generator=216"], 280, "(24 GPUs more than the 256 of the job)"),
        (["engines=25"], 264, "(8 GPUs more than the 256 of the job)"),
        (["gpus_trainer=32", "gpus_generator=64"], 96, "neither side uses 160 of the job's 256 GPUs"),
    ],
)
def test_gpus_that_the_job_has_not_or_leaves_to_nobody_are_said(
    capsys: pytest.CaptureFixture[str], wishes: list[str], asked_gpus: int, said: str
) -> None:
    arguments = [part for wish in wishes for part in ("--set", wish)]
    answer = json.loads(asked(capsys, *arguments, "--json"))
    assert answer["gpus"] == {"has": 256, "used": 256, "asked": asked_gpus, "more": asked_gpus - 256}
    assert said in answer["headline"]
    assert said in " ".join(asked(capsys, *arguments).split())


def test_a_split_of_the_jobs_own_gpus_needs_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(asked(capsys, "--set", "gpus_trainer=48", "--json"))
    assert answer["gpus"]["more"] == 0
    assert "of the job" not in answer["headline"]


JOB_FILE = """
[topology]
mode = "overlapped"
{total}
[setpoints]
batch_rollouts = 512
group_size = 16
gpus_generator = 16
{trainer}
"""


def stated(tmp_path: Path, total: str, trainer: str) -> list[str]:
    path = tmp_path / "job.toml"
    path.write_text(JOB_FILE.format(total=total, trainer=trainer))
    return ["whatif", SOURCES[0], "--job", str(path)]


def test_gpus_that_neither_side_uses_today_are_said_when_a_question_takes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = stated(tmp_path, "gpus_total = 32", "gpus_trainer = 8")
    assert main([*job, "--set", "gpus_generator=24"]) == 0
    assert "(with 8 GPUs that neither side uses today)" in " ".join(capsys.readouterr().out.split())
    assert main([*job, "--set", "staleness_bound=2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["gpus"] == {"has": 32, "used": 24, "asked": 24, "more": -8}
    assert "GPUs" not in answer["headline"]


def test_a_trainer_that_nobody_counted_has_what_the_generator_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*stated(tmp_path, "gpus_total = 24", ""), "--set", "staleness_bound=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpus"]["used"] == 24


def test_a_trainer_that_nobody_counted_in_a_job_that_nobody_counted_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*stated(tmp_path, "", ""), "--set", "gpus_trainer=10"]) == 2
    assert "how many GPUs each side has" in capsys.readouterr().err


def test_a_serial_job_uses_its_gpus_once_and_splits_them_when_it_overlaps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIPOISE_TOPOLOGY__GPUS_TOTAL", "8")
    job = str(JOB.parents[1] / "cases" / "A06_verl_long_tail_7412.log")
    for wishes, asked_gpus in (
        (["gpus_generator=16"], 16),
        (["overlap=on", "gpus_trainer=2"], 8),
        (["overlap=on", "gpus_trainer=2", "gpus_generator=7"], 9),
    ):
        assert main(["whatif", job, "--json", *(part for wish in wishes for part in ("--set", wish))]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["gpus"] == {"has": 8, "used": 8, "asked": asked_gpus, "more": asked_gpus - 8}


UNCOUNTED = str(Path(__file__).parents[2] / "examples" / "prime-rl-saturated-curriculum.log")
"""A log that says nothing of GPUs."""


def test_a_split_of_gpus_that_nobody_counted_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", UNCOUNTED, "--set", "gpus_trainer=4"]) == 2
    assert "job file" in capsys.readouterr().err


def test_made_up_counts_are_nobodys_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", UNCOUNTED, "--set", "staleness_bound=0", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert not {"gpus_trainer", "gpus_generator"} & {limit["name"] for limit in answer["limits"]}


def test_a_bound_of_zero_is_no_staleness_and_costs_the_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", UNCOUNTED, "--set", "staleness_bound=0", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["then"]["staleness_mean"] == 0.0
    assert answer["gain_frac"]["high"] < 0.0
