"""Workers on a Ray cluster whose nodes come and go. Ray starts them; the queue is the study's own storage.

A node that is lost takes its workers along. Their slots stop beating, and whoever is left takes them again, once: Ray
itself retries nothing, so that nothing is counted twice.
"""

import logging
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import optuna
import ray

from tuner.errors import ConfigError, TunerError
from tuner.studies.opening import joined
from tuner.studies.samplers import quiet
from tuner.studies.storage import Ledger
from tuner.studies.workers import POLL_S, Job, Tell, WorkersLostError, work
from tuner.version import VERSION

ALONE_S = 120.0
"""With trials left and no worker for so long, the cluster is given up; the study can be gone on with."""


ANSWER_S = 5.0
"""A cluster's head that does not answer within this is not there."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What must be alike on every node: a study compares values of one simulator."""

    product: str
    python: str
    optuna: str


def versions() -> Versions:
    return Versions(VERSION, ".".join(map(str, sys.version_info[:2])), optuna.__version__)


def crew(address: str) -> Callable[[Job, Tell | None], None]:
    """One worker on each free CPU of the cluster, as many as there are at any time."""

    def together(job: Job, tell: Tell | None) -> None:
        quiet()
        _joined(address)
        try:
            _demand_shared(job)
            _watched(job, tell)
        finally:
            ray.shutdown()

    return together


def _joined(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        if host and "/" not in host and port.isdecimal():  # Ray itself would wait for it for a minute
            socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True)
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or ["no answer"])[0]
        raise ConfigError(
            f"--ray {address}: no cluster there ({reason}); `ray start --head` starts one, `ray status` shows it"
        ) from None


def _demand_shared(job: Job) -> None:
    """Refuses a file of this machine as the storage of other machines."""
    cluster: Any = ray
    here = {socket.gethostname(), cluster.util.get_node_ip_address(), "127.0.0.1"}
    others = [
        n for n in cluster.nodes() if n["Alive"] and not here & {n["NodeManagerHostname"], n["NodeManagerAddress"]}
    ]
    if others and job.where.url.startswith("sqlite"):
        raise ConfigError(
            f"--storage: SQLite is a file of this machine, and {len(others)} of the cluster's nodes are others; "
            "name a database that all reach: --storage postgresql://USER@HOST/NAME"
        )


def _watched(job: Job, tell: Tell | None) -> None:
    """Keeps as many workers going as the cluster has CPUs, until the study is done."""
    ledger = Ledger(joined(job.where), job.where.study, job.chooser)
    cluster: Any = ray
    remote = ray.remote(num_cpus=1, max_retries=0)(_member).options(scheduling_strategy="SPREAD")
    shared, ours = ray.put(job), versions()
    members: list[Any] = []
    seen_s = time.monotonic()
    while open_trials := ledger.under_way(job.trials):
        done, members = ray.wait(members, num_returns=len(members), timeout=0.0) if members else ([], [])
        for member in done:
            _demand_alike(member)
        cpus = int(cluster.cluster_resources().get("CPU", 0.0))
        members += [remote.remote(shared, ours) for _ in range(min(cpus, open_trials) - len(members))]
        seen_s = time.monotonic() if cpus else seen_s
        if time.monotonic() - seen_s > ALONE_S:
            raise WorkersLostError(f"the cluster has had no CPU for {ALONE_S:g} s; the same command goes on later")
        if tell is not None:
            tell(ledger)
        time.sleep(POLL_S)
        ledger.retake()


def _demand_alike(member: Any) -> None:
    """A worker that left by itself has done its work; one that is of another version ends the study's run."""
    try:
        why = ray.get(member)
    except ray.exceptions.RayTaskError as error:
        raise TunerError(
            f"a worker on the cluster failed: {_last_line(error)}; equipoise must be on every node"
        ) from None
    except ray.exceptions.RayError:
        return  # its node is gone, or it was killed: its slot waits again when its heart has stopped
    if why is not None:
        raise TunerError(why)


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]


def _member(job: Job, demanded: Versions) -> str | None:
    """One worker; a sentence where its machine is not like ours."""
    here = versions()
    if here != demanded:
        return f"node {socket.gethostname()} has {here}, and here is {demanded}: install the same on every node"
    work(job)
    return None
