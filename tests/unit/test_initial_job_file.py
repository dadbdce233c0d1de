"""`init` writes a job file that is valid as it is, and valid when its examples are uncommented."""

import re
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from simulators.plant import Mode, Setpoints, Topology, TrainerResize
from tuner.commands.init import job_file
from tuner.config import JobFile, load

TOPOLOGY = Topology(
    None, Mode.OVERLAPPED, 256, 'H200 "141GB"', 8, trainer_sizes=(32, 64), trainer_resize=TrainerResize.OK
)
KNOWN: dict[str, list[dict[str, Any]]] = {
    "job": [{"framework": "prime-rl"}],
    "topology": [
        asdict(
            Topology(
                None, Mode.OVERLAPPED, 256, 'H200 "141GB"', 8, trainer_sizes=(32, 64), trainer_resize=TrainerResize.OK
            )
        )
    ],
    "setpoints": [asdict(Setpoints(64, 192, oversampling_ratio=2.5, overlap=True))],
    "source": [
        {"path": "a b\\c.log", "kind": "console", "framework": None},
        {"path": "-", "kind": None, "framework": None},
    ],
}


def loaded(tmp_path: Path, text: str) -> JobFile:
    path = tmp_path / "job.toml"
    path.write_text(text)
    return load(path)


def test_what_the_sources_show_survives_the_round_trip(tmp_path: Path) -> None:
    read = loaded(tmp_path, job_file(KNOWN))
    assert read.job.framework == "prime-rl"
    assert read.to_topology() == Topology(
        "prime-rl", Mode.OVERLAPPED, 256, 'H200 "141GB"', 8, trainer_sizes=(32, 64), trainer_resize=TrainerResize.OK
    )
    assert read.to_setpoints() == Setpoints(64, 192, oversampling_ratio=2.5, overlap=True)
    assert [s.path for s in read.source] == ["a b\\c.log", "-"]


def test_a_source_that_shows_nothing_gives_a_file_that_states_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path, job_file({})) == JobFile()


def test_every_example_is_a_legal_value(tmp_path: Path) -> None:
    everything = re.sub(r"^# (?=[a-z_]+ = |\[\[)", "", job_file({}), flags=re.M)
    read = loaded(tmp_path, everything)
    assert read.topology.gpus_total == 256
    assert read.setpoints.group_size == 16
    assert len(read.source) == 1


def test_impossible_claims_of_a_source_are_left_out(tmp_path: Path) -> None:
    text = job_file(
        {"topology": [{"gpus_total": 8, "trainer_gpus_min": 64}], "setpoints": [{"oversampling_ratio": 0.4}]}
    )
    read = loaded(tmp_path, text)
    assert (read.topology.gpus_total, read.topology.trainer_gpus_min) == (8, None)
    assert read.setpoints.oversampling_ratio is None


@given(path=st.text(min_size=1), model=st.text())
def test_any_path_and_any_name_is_written_as_valid_toml(path: str, model: str) -> None:
    text = job_file({"source": [{"path": path}], "topology": [{"gpu_model": model}]})
    tomllib.loads(text)
