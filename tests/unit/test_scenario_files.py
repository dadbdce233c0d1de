"""Scenario files: what is wrong is named with file, line, key, value and remedy; what is shipped can be simulated."""

import json
import tomllib
from itertools import takewhile
from pathlib import Path

import jsonschema
import pytest

from tuner.errors import ConfigError
from tuner.scenario_files import SCHEMA_FILE, load, parse, schema_json, shipped, with_settings

GOOD = """# A small job.
title = "A small job"

[horizon]
steps = 10

[topology]
mode = "overlapped"
gpus_total = 8
gpus_per_engine = 2
trainer_gpu_step = 2

[setpoints]
gpus_trainer = 2
gpus_generator = 6
group_size = 8
batch_rollouts = 64

[workload]
prompt = { mean_tokens = 200 }
response = { mean_tokens = 1000, sigma = 0.5 }

[stations.engine]
slots = 32
step = { table = [[0, 0.01], [1, 0.0102]] }

[stations.trainer]
base_s = 2
gpu_s_per_token = 2e-4

[[drift]]
path = "workload.response.sigma"
to = 1.0
end = 5

[[drift]]
path = "workload.response.mean_tokens"
to = 2000
end = 5

[[event]]
kind = "trainer-slowdown"
at = 3
factor = 2.0
"""
MISTAKES = [
    # Words and types.
    ("title = ", "titel = ", 2, "unknown key titel; did you mean 'title'?"),
    ("batch_rollouts = 64", "batch_rollout = 64", 17, "did you mean 'batch_rollouts'?"),
    ("[stations.trainer]", "[stations.trainr]", 27, "did you mean 'trainer'?"),
    ('title = "A small job"', "", None, "title is missing; it is: One sentence"),
    ('mode = "overlapped"', 'mode = "overlaped"', 8, "topology.mode='overlaped' should be 'serial', 'overlapped'"),
    ("group_size = 8", "group_size = true", 16, "setpoints.group_size=true should be a valid integer"),
    ("group_size = 8", "group_size = 8.5", 16, "8.5"),
    ("steps = 10", "steps = 100001", 5, "horizon.steps=100001 must be at most 100000"),
    ("mean_tokens = 1000", "mean_tokens = 1e9", 21, "workload.response.mean_tokens=1000000000.0 must be between"),
    ("sigma = 0.5", "sigma = 40", 21, "workload.response.sigma=40.0 must be between 0 and 5"),
    ("base_s = 2", "base_s = nan", 28, "finite"),
    ("steps = 10", "steps = 1979-05-27", 5, "1979-05-27"),
    ("[horizon]\nsteps = 10", "horizon = 10", 4, "horizon=10 should be a [section]"),
    ("steps = 10", "steps = ", None, "not valid TOML"),
    # Impossible jobs.
    ("batch_rollouts = 64", "batch_rollouts = 60", 17, "must be a multiple of group_size=8, e.g. 56"),
    ("gpus_per_engine = 2", "gpus_per_engine = 8", 15, "setpoints.gpus_generator=6 is less than one engine"),
    ("gpus_trainer = 2", "gpus_trainer = 1", 14, "must be a multiple of topology.trainer_gpu_step=2"),
    ("gpus_trainer = 2", "gpus_trainer = 4", 14, "use 10 of topology.gpus_total=8 GPUs"),
    ("gpus_per_engine = 2", "gpus_per_engine = 2\ntrainer_gpus_min = 16", 11, "no trainer size is legal"),
    ("gpus_per_engine = 2", "gpus_per_engine = 2\ntrainer_sizes = [16]", 11, "holds no size that the GPUs allow"),
    ("gpus_per_engine = 2", "gpus_per_engine = 2\nrestart_s = -1", 11, "topology.restart_s=-1.0 must be at least 0"),
    ("mean_tokens = 1000", "mean_tokens = 0", 21, "an empty workload is none"),
    ("slots = 32", "slots = 32\nkv_tokens = 500", 25, "nothing could finish"),
    ("[workload]", "[workload]\nmax_context_tokens = 90", 20, "leaves no room for a response"),
    ("slots = 32", "slots = 0", 24, "stations.engine.slots=0 must be at least 1"),
    ("[1, 0.0102]", "[1, 0.0]", 25, "must hold positive seconds"),
    ("steps = 10", "seconds = 0", 5, "must be positive"),
    ("overlapped", "engine", 8, "must be serial or overlapped"),
    ("64\n", "64\nfilter_zero_adv = true\n[workload.solve]\nnever_frac = 1.0\n", 18, "no batch ever fills"),
    # Impossible stories.
    ("sigma\"", "sigmo\"", 32, "leads nowhere at 'sigmo': there is one of mean_tokens, sigma"),
    ("to = 1.0\nend = 5", "to = 1.0\nstart = 9\nend = 5", 35, "must be after start=9"),
    ("to = 1.0\nend = 5", "to = -1.0\nend = 5", 33, "leads out of the range of workload.response.sigma"),
    ("to = 1.0\nend = 5", "to = 1.0", 31, "drift.0.end is needed by shape = linear"),
    ('to = 2000\nend = 5', 'to = 0.5\nend = 5', 21, "(after 5 steps: see drift.0, drift.1)"),
    ('"trainer-slowdown"', '"node-loss"', 41, "event.0.gpus is needed by kind = node-loss"),
    ('"trainer-slowdown"\nat = 3\nfactor = 2.0', '"node-loss"\nat = 3\ngpus = 6', 15, "(after 3 steps: see event.0)"),
    ("factor = 2.0", "gpus = 2", 41, "event.0.factor is needed by kind = trainer-slowdown"),
    ("at = 3", "at = -3", 43, "event.0.at=-3.0 must not be negative"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "words"), MISTAKES, ids=[new[:40] for _, new, _, _ in MISTAKES])
def test_a_mistake_is_named_with_its_line_and_the_remedy(old: str, new: str, line: int | None, words: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace(old, new, 1), "job.toml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("job.toml:" if line is None else f"job.toml:{line}: ")


def test_the_good_file_is_good() -> None:
    assert parse(GOOD, "job.toml").setpoints.batch_rollouts == 64


def test_a_file_that_is_not_there_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean steady-noise-24h"):
        load("steady-noise")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x = " + b"9" * 5000, b"a" * (2 << 20)])
def test_what_is_no_text_or_endless_is_refused_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"odd\.toml"):
        load(str(path))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("gpus_trainr=4", "did you mean 'gpus_trainer'?"),
        ("gpus_trainer", "write gpus_trainer=VALUE"),
        ("gpus_trainer=many", "write gpus_trainer=VALUE"),
        ("partial_rollout=2", "VALUE is on or off"),
        ("workload.response.sigmo=1", "leads nowhere"),
        ("workload.tool.mean_s=1", "leads nowhere"),
        ("horizon.steps=3", "a path starts with workload., stations. or topology."),
        ("batch_rollouts=63", "must be a multiple of group_size=8"),
        ("=3", "is no knob"),
        ("in_flight=nan", "is no knob"),
        ("gpus_trainer=2.5", "a whole number of at least 1"),
        ("topology.gpus_total=64.5", "write a whole number"),
        ("workload.response.mean_tokens=nan", "a number between 0 and 1e+07"),
        ("stations.trainer.base_s=nan", "a number of at least 0"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_settings(parse(GOOD, "job.toml"), [setting])
    assert words in str(caught.value)
    assert "--set" in str(caught.value)


def test_settings_replace_knobs_switches_and_numbers() -> None:
    settings = ["max_in_flight=99", "partial_rollout=on", "workload.response.sigma=0.1", "topology.restart_s=5"]
    with pytest.raises(ConfigError, match="no number in this scenario"):
        with_settings(parse(GOOD, "job.toml"), settings)
    changed = with_settings(parse(GOOD, "job.toml"), settings[:3])
    assert (changed.setpoints.max_in_flight, changed.setpoints.partial_rollout) == (99, True)
    assert changed.workload.response.sigma == 0.1


@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.stem)
def test_a_shipped_file_is_valid_and_says_what_it_tells_and_where_its_numbers_are_from(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    opening = list(takewhile(lambda line: line.startswith("# "), text.splitlines()))
    assert len(opening) >= 3
    assert max(len(line) for line in text.splitlines()) <= 120
    assert load(str(path)).scenario.title
    jsonschema.validate(tomllib.loads(text), json.loads(schema_json()))


def test_what_the_reader_refuses_by_type_or_range_the_schema_refuses_too() -> None:
    schema = json.loads(schema_json())
    jsonschema.validate(tomllib.loads(GOOD), schema)
    for old, new, _, _ in MISTAKES[:6]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(tomllib.loads(GOOD.replace(old, new, 1)), schema)


def test_the_schema_in_the_package_is_that_of_the_code() -> None:
    """`make docs` writes it."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_json()


def test_the_stories_cover_sizes_and_both_sides_of_the_model_class() -> None:
    scenarios = [load(str(path)).scenario for path in shipped()]
    assert {s.topology.gpus_total for s in scenarios} >= {16, 256, 2048}
    assert sum(s.outside_class for s in scenarios) >= 5
    assert len({s.title for s in scenarios}) == len(scenarios)
