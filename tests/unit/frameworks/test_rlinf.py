"""RLinf: the metric table of an embodied job, and where its components stand."""

import pytest

from simulators.plant import Mode
from tests.stories.answers import figure
from tests.stories.command import ask
from tuner.frameworks.base import Observed
from tuner.frameworks.rlinf import FRAMEWORK
from tuner.records import Record

TABLE = "rlinf/pr-942/console.log"


def test_a_table_is_one_record_under_the_loggers_names(read_console, neutral):
    [record] = read_console(FRAMEWORK, TABLE).records
    assert (record.step, record.values["time/step"], record.values["time/generate_rollouts"]) == (6, 712.1, 588.3)
    signals = neutral(FRAMEWORK, record, Mode.SERIAL)
    assert (signals["rollout_s"], signals["update_s"], signals["weight_sync_s"]) == (588.3, 122.6, 1.191)


def test_a_simulator_that_takes_most_of_a_rollout_is_the_bottleneck(data_path):
    answer = ask(data_path(TABLE))
    assert (answer["job"]["framework"], answer["verdict"]) == ("rlinf", "env-bound")
    assert figure(answer, "non_generation_mean_s") == 352.4


def test_two_tables_are_two_steps(read_console, read_lines):
    lines = ("├───── Metric Table ─────┤", "│ Global Step:    7/9 │ Progress │", "├─── Time ───┤", "│step=5.5  │")
    assert [r.step for r in read_lines(FRAMEWORK, *lines, *lines).records] == [7, 7]


def test_the_first_part_of_a_name_may_stand_twice(neutral):
    values = {"time/time/step": 20.0, "time/time/generate_rollouts": 13.0, "time/time/actor_training": 6.0}
    signals = neutral(FRAMEWORK, Record(values), Mode.SERIAL)
    assert (signals["step_s"], signals["rollout_s"], signals["update_s"]) == (20.0, 13.0, 6.0)


@pytest.mark.parametrize(
    ("placement", "split"),
    [
        ({"rollout": "0-5", "inference": "6", "actor": "7"}, (1, 6)),
        ({"actor,rollout,reward": "0-7"}, (None, None)),
        ({"actor,rollout": "all"}, (None, None)),
    ],
)
def test_components_apart_are_a_split(placement, split):
    config = {f"cluster.component_placement.{roles}": where for roles, where in placement.items()}
    setpoints = FRAMEWORK.facts(Observed(config=config))[1]
    assert (setpoints.gpus_trainer, setpoints.gpus_generator) == split
