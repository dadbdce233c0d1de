"""A case file is data: a new case needs no code, and a wrong one is answered with file, key and remedy."""

from pathlib import Path

import pytest

from simulators.published import Kind
from simulators.validation import run
from tuner.case_files import read, read_folder, shipped
from tuner.errors import ConfigError

WHOLE = """
id = "mine"
title = "A job of mine"
class = "prediction"
model = "scaling"
quantity = "mean step"
unit = "s"
tolerance_frac = 0.2
[inputs]
work_gpu_s = "$work_gpu_s"
[[parameter]]
name = "work_gpu_s"
low = 1
high = 1e6
unit = "GPU s"
about = "work"
[[source]]
what = "steps"
where = "my log"
read = "primary"
[[row]]
label = "8"
role = "calibration"
measured = 101
inputs = { gpus = 8 }
[[row]]
label = "16"
role = "calibration"
measured = 50
inputs = { gpus = 16 }
[[row]]
label = "32"
measured = 25
inputs = { gpus = 32 }
"""

PLANT = """
id = "mine"
title = "A whole job"
class = "prediction"
model = "analytic"
output = "step_s"
quantity = "mean step"
unit = "s"
tolerance_frac = 0.2
[inputs.topology]
mode = "overlapped"
gpus_per_engine = 8
[inputs.workload]
prompt = { mean_tokens = 500 }
response = { mean_tokens = 4000, sigma = 1.0, max_tokens = 32768 }
[inputs.stations.engine]
slots = 64
step = { table = [[0, "$empty_s"], [64, 0.02]] }
[inputs.stations.trainer]
base_s = 5
gpu_s_per_token = 0.001
[inputs.setpoints]
gpus_trainer = 16
group_size = 8
batch_rollouts = 256
[[parameter]]
name = "empty_s"
low = 0.001
high = 0.1
unit = "s"
about = "an empty engine's iteration"
[[source]]
what = "steps"
where = "my log"
read = "primary"
[[row]]
label = "16 GPUs"
role = "calibration"
measured = 100
inputs = { setpoints = { gpus_generator = 16 } }
[[row]]
label = "24 GPUs"
role = "calibration"
measured = 70
inputs = { setpoints = { gpus_generator = 24 } }
[[row]]
label = "32 GPUs"
measured = 60
inputs = { setpoints = { gpus_generator = 32 } }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(written(folder, text))
    return str(caught.value)


def test_a_case_of_ones_own_needs_no_code(tmp_path: Path) -> None:
    outcome = run(read(written(tmp_path, WHOLE)))
    assert outcome.values["work_gpu_s"] == pytest.approx(804, rel=0.02)
    assert outcome.judged[0].predicted == pytest.approx(25, rel=0.05)
    assert outcome.judged[0].baseline == 50
    assert outcome.case.freedom == 1


def test_a_whole_job_is_stated_by_its_tables(tmp_path: Path) -> None:
    outcome = run(read(written(tmp_path, PLANT)))
    steps = [c.predicted for c in outcome.rows]
    assert steps == sorted(steps, reverse=True)
    assert 0.001 <= outcome.values["empty_s"] <= 0.1


def test_without_a_residual_degree_of_freedom_it_is_a_fit(tmp_path: Path) -> None:
    one_less = WHOLE.replace('label = "16"\nrole = "calibration"', 'label = "16"')
    case = read(written(tmp_path, one_less))
    assert (case.freedom, case.kind, case.stated) == (0, Kind.FIT, Kind.PREDICTION)


def test_what_the_other_rows_measured_moves_no_parameter(tmp_path: Path) -> None:
    values = [run(read(written(tmp_path, WHOLE.replace("measured = 25", f"measured = {y}")))).values for y in (25, 900)]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('unit = "s"\ntol', 'unitt = "s"\ntol', ("unitt: unknown key", "did you mean 'unit'?")),
        ("measured = 25", "measured = -25", ("row.2.measured=-25", "greater than or equal to 0")),
        ("measured = 25", "measured = nan", ("row.2.measured", "finite")),
        ("measured = 25", "measured = true", ("row.2.measured=True", "not true or false")),
        ("measured = 25", "measurd = 25", ("row.2.m",)),
        ("gpus = 32", "gpus = -32", ("row '32'", "inputs.gpus=-32 must be > 0")),
        ("gpus = 32", "gpu = 32", ("row '32'", "inputs.gpu: unknown input of scaling")),
        ("gpus = 32", 'gpus = "$n"', ("row '32'", "$n: no such parameter")),
        ("gpus = 32", 'gpus = "many"', ("row '32'", "inputs.gpus='many' must be a number")),
        ('model = "scaling"', 'model = "scalling"', ("model='scalling'", "did you mean 'scaling'?")),
        ('model = "scaling"\n', "", ("model: is missing",)),
        ('class = "prediction"', 'class = "fit"', ("class='fit'", "write 'prediction'")),
        ('class = "prediction"', 'class = "identity"', ("only a prediction is fitted",)),
        ('class = "prediction"', 'class = "guess"', ("class='guess'", "identity")),
        ("low = 1\n", "low = 1e7\n", ("low=1e+07 must be < high=1e+06",)),
        ('= "$work_gpu_s"', "= 800", ("parameter 'work_gpu_s' is used by no input",)),
        ('role = "calibration"\n', "", ("nothing to fit it to",)),
        ("tolerance_frac = 0.2\n", "", ("tolerance_frac or tolerance_abs is missing",)),
        ('read = "primary"', 'read = "hearsay"', ("source.0.read='hearsay'", "primary, third-party")),
        ("id =", "id", ("not valid TOML",)),
        ('id = "mine"', 'id = "My case"', ("id='My case'",)),
        ("[[source]]", "[baseline]\nkind = 'input'\ninput = 'wages'\n[[source]]", ("baseline.input='wages'",)),
    ],
)
def test_a_wrong_file_is_answered_with_file_key_and_remedy(
    old: str, new: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    assert old in WHOLE
    said = complaint(tmp_path, WHOLE.replace(old, new))
    assert said.startswith(str(tmp_path / "mine.toml"))
    assert "\n" not in said
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("slots = 64", "slot = 64", "inputs.stations.engine.slot: unknown key; did you mean 'slots'?"),
        ("slots = 64", "slots = 6.4", "inputs.stations.engine.slots=6.4 must be a whole number"),
        ("slots = 64\n", "", "inputs.stations.engine.slots: is missing"),
        (
            'mode = "overlapped"',
            'mode = "sideways"',
            "topology.mode='sideways' must be one of serial, overlapped",
        ),
        ("[inputs.topology]", "[inputs.topolgy]", "inputs.topolgy: unknown table; did you mean 'topology'?"),
        ('output = "step_s"', 'output = "step"', "output='step': did you mean 'step_s'?"),
        ('output = "step_s"\n', "", "output is missing"),
        ('output = "step_s"', 'output = "tenant_tokens_per_s"', "cannot tell"),
        ("prompt = { mean_tokens = 500 }", "prompt = 500", "inputs.workload.prompt=500 must be a table of mean_tokens"),
        ('[[0, "$empty_s"], [64, 0.02]]', '[[0, "$empty_s", 1], [64, 0.02]]', "step.table.0"),
    ],
)
def test_a_wrong_job_is_answered_by_its_dotted_path(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in PLANT
    assert words in complaint(tmp_path, PLANT.replace(old, new))


def test_two_cases_of_one_name_are_refused(tmp_path: Path) -> None:
    written(tmp_path, WHOLE).rename(tmp_path / "a.toml")
    written(tmp_path, WHOLE)
    with pytest.raises(ConfigError, match=r"mine\.toml: id='mine' is taken by a\.toml"):
        read_folder(tmp_path)


def test_an_empty_folder_is_no_folder_of_cases(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no \.toml file"):
        read_folder(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read(path)


def test_what_is_shipped_can_be_read() -> None:
    assert len(shipped()) >= 15
