"""The command line as a user meets it: help, mistakes, exit codes, pipes, and whose packages are run."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import forked
from tuner import commands
from tuner.cli import COMMANDS, app
from tuner.version import VERSION

ROOT = Path(__file__).parents[2]
HEAVY = (
    "pydantic",
    "numpy",
    "jinja2",
    "ruamel",
    "tensorboardX",
    "scipy",
    "google.protobuf",
    "tuner.ingest",
    "policies",
)
PLAIN = {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}


@dataclass(frozen=True)
class Told:
    returncode: int | None
    stdout: str
    stderr: str


def equipoise(*arguments: str, cwd: Path | None = None) -> Told:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EQUIPOISE_")} | PLAIN
    done = forked.equipoise(*arguments, cwd=cwd, env=environment)
    return Told(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def run_csv(tmp_path: Path) -> Path:
    """Six steps of an overlapped job in the neutral form: columns are signal names."""
    path = tmp_path / "run.csv"
    rows = [f"{i},{260 + i},{80 + i},{170},512,10000,5000" for i in range(6)]
    head = "step,step_s,trainer_wait_s,trainer_busy_s,batch_rollouts,resp_len_mean,prompt_len_mean"
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_the_list_of_commands_is_what_is_registered_and_what_has_a_file() -> None:
    registered = [(c.name, c.help) for c in app.registered_commands]
    assert registered == list(COMMANDS)
    files = {p.stem for p in Path(commands.__path__[0]).glob("*.py")} - {"__init__", "base"}
    assert files == {name for name, _ in COMMANDS}


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, tuner.cli\n"
        "result = tuner.cli.main(['--help'])\n"
        f"heavy = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "print('HEAVY', heavy, 'RESULT', result)"
    )
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)} | PLAIN
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stdout
    assert "HEAVY [] RESULT 0" in out
    assert [name for name, _ in COMMANDS if name not in out] == []


def test_the_version_is_that_of_the_distribution() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    assert hatch["version"]["path"] == "tuner/version.py"
    assert equipoise("--version").stdout == f"equipoise {VERSION}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["advise"], "no SOURCE given"),
        (["advise", "--jsn", "x"], "No such option: --jsn"),
        (["advize", "x"], "advize"),
        (["compare", "a"], "RUN_B"),
        (["advise", "/nowhere/at/all.log"], "no such file"),
        (["advise", ".", "--usd-per-gpu-hour", "cheap"], "cheap"),
        (["advise", ".", "--usd-per-gpu-hour", "nan"], "nan"),
        (["advise", ".", "--framework", "verk"], "did you mean 'verl'?"),
        (["advise", ".", "--job", "none.toml"], "none.toml"),
        (["advise", ".", "--html", "/nowhere/report.html"], "mkdir -p /nowhere"),
    ],
)
def test_a_mistake_ends_with_two_and_one_plain_sentence(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = equipoise(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_a_misspelt_path_is_answered_with_the_nearest_one(run_csv: Path) -> None:
    done = equipoise("advise", str(run_csv.with_name("rum.csv")))
    assert done.returncode == 2
    assert f"did you mean {run_csv}?" in done.stderr


def test_an_answer_goes_to_stdout_and_nothing_to_stderr(run_csv: Path) -> None:
    done = equipoise("advise", str(run_csv))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) <= 24
    assert "\x1b" not in done.stdout


def test_json_and_html_may_be_asked_for_at_once(run_csv: Path, tmp_path: Path) -> None:
    done = equipoise("advise", str(run_csv), "--json", "--html", str(tmp_path / "report.html"))
    assert json.loads(done.stdout)["window"]["steps"] == 6
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_a_price_on_the_command_line_wins_over_the_job_file(run_csv: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[topology]\nmode = "overlapped"\ngpus_total = 64\n[cost]\nusd_per_gpu_hour = 2.0\n')
    stated = json.loads(equipoise("advise", str(run_csv), "--json", "--job", str(job)).stdout)["cost"]
    given = json.loads(
        equipoise("advise", str(run_csv), "--json", "--job", str(job), "--usd-per-gpu-hour", "4").stdout
    )["cost"]
    assert (stated["usd_per_gpu_hour"], given["usd_per_gpu_hour"]) == (2.0, 4.0)
    assert given["usd_per_mtok"] == pytest.approx(2 * stated["usd_per_mtok"])


def test_without_a_price_there_is_no_cost(run_csv: Path) -> None:
    assert json.loads(equipoise("advise", str(run_csv), "--json").stdout)["cost"] is None


@pytest.mark.parametrize("name", ["prime-rl", "prime_rl", "Prime-RL"])
def test_a_framework_may_be_spelt_with_dash_or_underscore(name: str, run_csv: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(f'[job]\nframework = "{name}"\n')
    answer = json.loads(equipoise("advise", str(run_csv), "--json", "--job", str(job)).stdout)
    assert answer["job"]["framework"] == "prime-rl"


def test_an_unknown_framework_in_a_job_file_is_refused(run_csv: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[job]\nframework = "slimy"\n')
    done = equipoise("advise", str(run_csv), "--job", str(job))
    assert done.returncode == 2
    assert "did you mean 'slime'?" in done.stderr


def test_a_job_file_may_name_the_sources(run_csv: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(f'[[source]]\npath = "{run_csv}"\n')
    assert equipoise("advise", "--job", str(job)).returncode == 0


def test_an_initial_job_file_is_accepted_as_it_is(run_csv: Path, tmp_path: Path) -> None:
    done = equipoise("init", str(run_csv))
    job = tmp_path / "job.toml"
    job.write_text(done.stdout)
    assert equipoise("advise", "--job", str(job)).returncode == 0


def test_two_runs_are_compared_in_words_and_as_json(run_csv: Path, tmp_path: Path) -> None:
    other = tmp_path / "slow.csv"
    other.write_text(run_csv.read_text().replace(",170,", ",340,"))
    text = equipoise("compare", str(run_csv), str(other))
    assert text.returncode == 0
    assert "phase" in text.stdout
    answer = json.loads(equipoise("compare", str(run_csv), str(other), "--json").stdout)
    assert answer["basis"] in ("rollout", "step")


def test_a_reader_that_goes_away_is_no_error(run_csv: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -m equipoise advise {run_csv} --json | head -c 1"
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{", "")


def test_a_closed_pipe_is_no_error(run_csv: Path) -> None:
    command = f"{sys.executable} -m equipoise advise {run_csv} --json > >(exit 0); echo"
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment)
    assert done.stderr == ""


def test_a_full_disk_is_said_in_one_sentence(run_csv: Path) -> None:
    command = f"{sys.executable} -m equipoise advise {run_csv} --json > /dev/full"
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


def test_a_terminal_without_utf8_gets_plain_text(run_csv: Path) -> None:
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"} | PLAIN
    command = [sys.executable, "-m", "equipoise", "advise", str(run_csv)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert "\\x" not in done.stdout
    assert "\\u" not in done.stdout


def test_colours_in_a_file_name_do_not_reach_the_terminal(tmp_path: Path) -> None:
    done = equipoise("advise", str(tmp_path / "a\x1b[31m.log"))
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_an_unforeseen_failure_asks_for_a_report_without_a_traceback() -> None:
    code = (
        "import sys, tuner.cli\n"
        "def broken():\n    raise ZeroDivisionError('inside')\n"
        "tuner.cli.app.command('broken')(broken)\n"
        "sys.exit(tuner.cli.main(['broken']))"
    )
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 70
    assert re.fullmatch(r"error: this is a bug of ours \(ZeroDivisionError: inside\)\. .*\n", done.stderr)
    environment["EQUIPOISE_DEBUG"] = "1"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "Traceback" in done.stderr


def test_an_interrupt_ends_with_130() -> None:
    code = (
        "import sys, tuner.cli\n"
        "def stopped():\n    raise KeyboardInterrupt\n"
        "tuner.cli.app.command('stopped')(stopped)\n"
        "sys.exit(tuner.cli.main(['stopped']))"
    )
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_a_users_own_package_of_our_name_does_not_come_into_play(tmp_path: Path) -> None:
    foreign = tmp_path / "tuner"
    foreign.mkdir()
    (foreign / "__init__.py").write_text("raise SystemExit('foreign code ran')")
    (tmp_path / "go.py").write_text(
        f"import sys; sys.path.insert(1, {str(ROOT)!r}); import equipoise; sys.exit(equipoise.main())"
    )
    done = subprocess.run([sys.executable, str(tmp_path / "go.py"), "--version"], capture_output=True, text=True)
    assert done.stdout == f"equipoise {VERSION}\n", done.stderr


def test_a_package_that_was_loaded_before_ours_is_refused_with_both_paths(tmp_path: Path) -> None:
    foreign = tmp_path / "tuner"
    foreign.mkdir()
    (foreign / "__init__.py").write_text("")
    code = f"import sys, tuner; sys.path.insert(0, {str(ROOT)!r}); import equipoise; sys.exit(equipoise.main())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env={"PATH": os.environ["PATH"]}
    )
    assert done.returncode == 2
    assert str(foreign / "__init__.py") in done.stderr
    assert str(ROOT / "tuner") in done.stderr
