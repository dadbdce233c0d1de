"""The job file: what it may say, and how it complains."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from policies.gate import GateLimits
from policies.guardrails.case import Limits
from simulators.plant import Bounds, Mode, Setpoints, Topology
from tuner.config import JobFile, in_environment, load
from tuner.config.daemon_sections import GateSection, GuardrailsSection
from tuner.config.sections import SECTIONS, BoundsSection, SetpointsSection, TopologySection
from tuner.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EQUIPOISE_TOPOLOGY__GPUS_TOTAL", "EQUIPOISE_COST__USD_PER_GPU_HOUR", "EQUIPOISE_JOB__NAME"):
        monkeypatch.delenv(name, raising=False)


def job(tmp_path: Path, text: str) -> JobFile:
    path = tmp_path / "job.toml"
    path.write_text(text)
    return load(path)


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        job(tmp_path, text)
    return str(error.value)


def test_a_stated_key_is_known_and_an_absent_one_is_unknown(tmp_path: Path) -> None:
    read = job(tmp_path, '[job]\nframework = "verl"\n[topology]\nmode = "overlapped"\ngpus_total = 64\n')
    assert read.to_topology() == Topology("verl", Mode.OVERLAPPED, 64)
    assert read.to_setpoints() == Setpoints()
    assert read.to_bounds() == Bounds()


def test_an_empty_file_states_nothing(tmp_path: Path) -> None:
    assert job(tmp_path, "").to_topology() == Topology()


DOCTORS_OWN = {"sandbox_starts_per_s_max"}
"""Held against the job before it runs; no move can break it."""


@pytest.mark.parametrize(
    ("section", "plain"), [(TopologySection, Topology), (SetpointsSection, Setpoints), (BoundsSection, Bounds)]
)
def test_every_fact_knob_and_bound_can_be_stated(section: type, plain: type) -> None:
    keys = set(SECTIONS[next(k for k, v in SECTIONS.items() if v is section)].model_fields)
    assert keys - DOCTORS_OWN == {f.name for f in fields(plain)}


def test_every_key_is_documented_and_has_an_example() -> None:
    for name, section in SECTIONS.items():
        for key, field in section.model_fields.items():
            assert field.description, f"{name}.{key}"
            assert field.examples, f"{name}.{key}"


def test_several_sources_may_be_named(tmp_path: Path) -> None:
    read = job(tmp_path, '[[source]]\npath = "a.log"\n[[source]]\npath = "b.prom"\nframework = "vllm"\n')
    assert [(s.path, s.framework) for s in read.source] == [("a.log", None), ("b.prom", "vllm")]


def test_an_unknown_key_is_refused_with_line_and_the_nearest_known(tmp_path: Path) -> None:
    text = complaint(tmp_path, "[topology]\n\ngpu_total = 64\n")
    assert "job.toml:3" in text
    assert "topology.gpu_total" in text
    assert "did you mean 'gpus_total'?" in text


def test_an_unknown_section_is_refused_with_the_nearest_known(tmp_path: Path) -> None:
    assert "did you mean 'setpoints'?" in complaint(tmp_path, "[setpoint]\nengines = 3\n")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("gpus_total = -4", "-4"),
        ("gpus_total = true", "True"),
        ('gpus_total = "many"', "many"),
        ("restart_s = nan", "nan"),
        ("restart_s = inf", "inf"),
        ('mode = "seriall"', "seriall"),
    ],
)
def test_a_bad_value_is_refused_with_place_key_value_and_meaning(tmp_path: Path, line: str, value: str) -> None:
    text = complaint(tmp_path, f"[topology]\n{line}\n")
    key = line.split(" ")[0]
    assert "job.toml:2" in text
    assert f"topology.{key}=" in text
    assert value in text
    assert f"topology.{key} is: " in text


def test_the_second_of_two_sources_is_named_by_its_own_line(tmp_path: Path) -> None:
    text = complaint(tmp_path, '[[source]]\npath = "a"\n\n[[source]]\nkind = "csv"\n')
    assert "job.toml:4" in text
    assert "source.path is missing" in text


def test_keys_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    text = complaint(tmp_path, "[topology]\ngpus_total = 4\ntrainer_gpus_min = 8\n")
    assert "trainer_gpus_min=8 must be <= gpus_total=4" in text


def test_broken_toml_is_refused_with_its_place(tmp_path: Path) -> None:
    assert re.search(r"job\.toml: not valid TOML: .*line 1", complaint(tmp_path, "gpus = = 3\n"))


def test_a_missing_file_is_refused_with_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml.*equipoise init"):
        load(tmp_path / "none.toml")


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(path)


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIPOISE_TOPOLOGY__GPUS_TOTAL", "128")
    read = job(tmp_path, "[topology]\ngpus_total = 64\ngpus_per_engine = 8\n")
    assert (read.topology.gpus_total, read.topology.gpus_per_engine) == (128, 8)


def test_a_bad_variable_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIPOISE_TOPOLOGY__GPUS_TOTAL", "many")
    assert "environment variable EQUIPOISE_TOPOLOGY__GPUS_TOTAL" in complaint(tmp_path, "")


def test_a_variable_of_an_unknown_section_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIPOISE_COSTS__USD_PER_GPU_HOUR", "2")
    assert "did you mean 'cost'?" in complaint(tmp_path, "")


def test_only_variables_of_a_section_count_as_configuration() -> None:
    assert in_environment({"EQUIPOISE_COST__USD_PER_GPU_HOUR": "2"})
    assert not in_environment({"EQUIPOISE_DEBUG": "1", "PATH": "/bin"})


@pytest.mark.parametrize(("section", "used"), [(GuardrailsSection, Limits()), (GateSection, GateLimits())])
def test_what_is_used_where_a_key_is_absent_is_what_its_text_says(section: Any, used: Any) -> None:
    taken = {f.name: getattr(used, f.name) for f in fields(used)}
    said = {n: re.search(r"([\d.]+) where absent", f.description or "") for n, f in section.model_fields.items()}
    told = {name: float(found[1]) for name, found in said.items() if found is not None and name in taken}
    assert len(told) >= 3
    assert told == {name: taken[name] for name in told}


@pytest.mark.parametrize("value", ["/", ".", "..", "", "logs/..", "a\\u0000b", "x" * 300])
@pytest.mark.parametrize("key", ["journal.path", "policy.kill_file", "server.token_file"])
def test_a_path_that_names_no_file_is_refused_where_it_stands(tmp_path: Path, key: str, value: str) -> None:
    """An empty kill_file is the folder itself: it would pause the daemon for ever."""
    section, name = key.split(".")
    said = complaint(tmp_path, f'[{section}]\n{name} = "{value}"\n')
    assert f"job.toml:2: {key}=" in said
    assert "must be the path of a file" in said


@pytest.mark.parametrize("value", ["", "  ", "a\\u0000b"])
def test_a_source_that_names_nothing_is_refused_where_it_stands(tmp_path: Path, value: str) -> None:
    assert "job.toml:2: source.path=" in complaint(tmp_path, f'[[source]]\npath = "{value}"\n')


def test_a_misspelt_knob_is_refused_with_the_nearest(tmp_path: Path) -> None:
    said = complaint(tmp_path, '[guardrails]\nauto_data_changing = ["max_inflight"]\n')
    assert "there is no knob 'max_inflight'; did you mean 'max_in_flight'?" in said


def test_a_bound_beyond_all_gpus_is_refused(tmp_path: Path) -> None:
    said = complaint(tmp_path, "[topology]\ngpus_total = 64\n[bounds]\ngpus_trainer_min = 100\n")
    assert "[bounds] gpus_trainer_min=100 must be <= [topology] gpus_total=64" in said
