"""A study on a real Ray cluster of several nodes on this machine, of which one is lost and another comes."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from tests.stories.study_run import search, where
from tuner.errors import ConfigError
from tuner.studies.finding import prepared, run
from tuner.studies.opening import opened
from tuner.studies.samplers import quiet
from tuner.studies.storage import DONE, Chooser, Ledger

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'equipoise[tune]')")
TRIALS = 400
"""So many that the study outlasts several looks at it, however short a trial is."""


@pytest.fixture
def cluster() -> Iterator[Any]:
    made = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def test_a_node_that_is_lost_and_one_that_comes_cost_no_trial(cluster: Any, tmp_path: Path) -> None:
    crew = importlib.import_module("tuner.studies.ray").crew
    url = f"sqlite:///{tmp_path}/s.db"
    doomed = cluster.add_node(num_cpus=1)
    job = prepared(search(TRIALS), where(url))
    done: list[str] = []

    def tell(ledger: Ledger) -> None:
        if len(ledger.trials(*DONE)) < 4 or done:
            return
        done.append("lost")  # both at once: the study could be over before a second look
        cluster.remove_node(doomed, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        done.append("came")

    run(job, crew(cluster.address), tell)
    assert done == ["lost", "came"]
    quiet()
    ledger = Ledger(opened(where(url)), "s", Chooser("tpe", search(TRIALS).space, 0, 3, by_model=True))
    trials = ledger.trials()
    lost = [t for t in trials if t.state is TrialState.FAIL]
    finished = sum(t.state in DONE for t in trials)
    assert TRIALS <= finished <= TRIALS + 1
    assert len(lost) <= 1
    assert len(trials) == finished + len(lost)


def test_no_cluster_is_one_sentence(tmp_path: Path) -> None:
    crew = importlib.import_module("tuner.studies.ray").crew
    job = prepared(search(2), where(f"sqlite:///{tmp_path}/s.db"))
    with pytest.raises(ConfigError, match="no cluster there"):
        run(job, crew("127.0.0.1:1"))
