"""Actuators by name: what a job file may say, what it is told when it may not, and what a missing library says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tuner.actuators.registry import KINDS, make
from tuner.actuators.site import Site
from tuner.errors import ConfigError


def test_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"kind='robot': no such actuator; there are dry_run, command, control_file"):
        make("robot", {}, Site())


OWN = """
from pydantic import BaseModel
from tuner.actuators import dry_run

class Options(BaseModel):
    colour: str

def make(options, site):
    return dry_run.make(dry_run.Options(knobs=(options.colour,)), site)
"""


def test_a_module_of_ones_own_is_a_kind_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "my_actuators"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "blue.py").write_text(OWN)
    (package / "empty.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    made = make("my_actuators.blue", {"colour": "max_in_flight"}, Site())
    assert [c.knob for c in made.capabilities()] == ["max_in_flight"]
    for kind, words in (
        ("my_actuators.blue", "colour: Field required"),
        ("my_actuators.empty", "has no Options and no make"),
        ("my_actuators.none", "cannot be imported"),
    ):
        with pytest.raises(ConfigError, match=words):
            make(kind, {}, Site())


def test_every_kind_refuses_an_unknown_key_and_says_which() -> None:
    for kind in KINDS:
        with pytest.raises(ConfigError) as refused:
            make(kind, {"colour": "blue"}, Site())
        assert kind in str(refused.value)


def test_a_secret_in_the_wrong_place_is_not_repeated() -> None:
    hush = "hf_" + "x" * 24
    for options in ({"token": hush}, {"knobs": {"api_key": hush}}, {"colour": f"http://me:{hush}@host"}, {"x": hush}):
        with pytest.raises(ConfigError) as refused:
            make("dry_run", options, Site())
        assert hush not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "library", "words"), [("kubernetes", "kubernetes", "pip install 'equipoise[kubernetes]'")]
)
def test_a_missing_library_is_one_sentence_with_the_command(kind: str, library: str, words: str) -> None:
    code = f"""
import sys
sys.modules[{library!r}] = None
from tuner.actuators.registry import make
from tuner.actuators.site import Site
from tuner.errors import ConfigError
try: make({kind!r}, {{}}, Site())
except ConfigError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert words in done.stdout


def test_the_registry_brings_no_heavy_library() -> None:
    code = "import sys, tuner.actuators.registry; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"kubernetes", "ray", "requests", "tomlkit", "ruamel.yaml", "numpy", "scipy", "numba"}
