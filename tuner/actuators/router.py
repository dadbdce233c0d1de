"""Adds, drains and removes engines at sglang-router or smg; the job's weight publications must reach them all.

A router takes a change as a job: 202 now, done or failed later. It is polled; what failed is taken out again.
    more engines    those of the weight-sync set that answer with the version in service, in the order of the list
    fewer engines   dead or stale ones first, then the least loaded, then the last of the list; smg drains,
                    sglang-router lets the requests under way end
An engine outside the weight-sync set is never touched, and while one serves nothing is turned: its rollouts are stale.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.control import Capability
from simulators.plant import Change, Inventory, Order, Setpoints, Status
from tuner.actuators.base import Actuator
from tuner.actuators.gateway import Gateway, Worker
from tuner.actuators.guarded import Failed, Guarded, Outcomes, Trouble, alike
from tuner.actuators.site import GENERATOR, Site, capabilities
from tuner.actuators.web import Web
from tuner.errors import ActuationError, ConfigError

AT_ONCE = 8
"""Engines that are asked for their version at the same time."""


class Options(BaseModel):
    """`[[actuator]] kind = "router"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    url: Annotated[str, Field(pattern=r"^https?://[^\s@]+$")]
    """The router's address."""
    engines: Annotated[tuple[str, ...], Field(min_length=1)]
    """The weight-sync set: addresses of all engines that weight publications reach, in and out of service."""
    token_file: Path | None = None
    """Holds the bearer token of the router's control plane."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """For one answer of the router or of an engine."""
    job_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """An addition or a drain that takes longer has failed."""
    version_path: str = "/model_info"
    """Where an engine says which weights it serves."""
    version_key: str = "weight_version"
    """And under which key."""
    actuation_s: Annotated[float, Field(ge=0)] = 30.0
    """From the order until it is in force, until it is measured."""

    @model_validator(mode="after")
    def _addresses(self) -> Self:
        if len(set(self.engines)) != len(self.engines):
            raise ValueError("engines: the same address stands there twice")
        return self


@dataclass(frozen=True, slots=True)
class Move:
    """What was asked of the router for one order."""

    order: Order
    begun_s: float
    joining: Mapping[str, str]
    """Address -> the router's job."""
    leaving: Mapping[str, str]


def make(options: Options, site: Site) -> Actuator:
    if not site.topology.gpus_per_engine:
        raise ConfigError("[[actuator]] kind='router' counts engines: set [topology] gpus_per_engine")
    hand = _Router(options, site, site.topology.gpus_per_engine)
    return Guarded(hand, site, hand.troubles)


class _Router:
    """A hand at the router's control plane."""

    def __init__(self, options: Options, site: Site, gpus_per_engine: int) -> None:
        self._options, self._site, self._gpus = options, site, gpus_per_engine
        self._set = tuple(url.rstrip("/") for url in options.engines)
        self._router = Gateway(Web(options.url, options.timeout_s, options.token_file))
        self._engines = {url: Web(url, options.timeout_s) for url in self._set}
        self._move: Move | None = None

    @property
    def name(self) -> str:
        return "router"

    def capabilities(self) -> tuple[Capability, ...]:
        o = self._options
        usual = Capability("", Change.HOT, o.actuation_s, gives_up_s=o.job_timeout_s)
        return capabilities(GENERATOR, self._site, usual)

    def current(self) -> Setpoints:
        try:
            count = len(self._in_service(self._router.workers()))
        except ActuationError:
            return Setpoints()
        return Setpoints(gpus_generator=count * self._gpus, engines=count)

    def inventory(self) -> Inventory:
        """Engines that answer and serve the newest version; two versions in service mean a publication is under way."""
        try:
            serving = [w.url for w in self._in_service(self._router.workers()) if w.healthy]
        except ActuationError:
            return Inventory()
        versions = self._versions(serving)
        newest = newest_of(versions.values())
        current = sum(version == newest for version in versions.values()) if newest is not None else 0
        known = {version for version in versions.values() if version is not None}
        return Inventory(None, len(serving) * self._gpus, current, syncing=len(known) > 1)

    def seen_token(self) -> int:
        return 0

    def pending(self, now_s: float) -> Setpoints | Failed:
        """The move under way; each look takes note of what has come of the router's jobs."""
        move = self._move
        if move is None:
            return Setpoints()
        try:
            failure = self._outcome(move, now_s)
        except ActuationError as error:
            failure = str(error) if now_s - move.begun_s > self._options.job_timeout_s else None
        if failure is None:
            return move.order.setpoints
        self._move = None
        return Failed(move.order.decision_id, failure) if failure else Setpoints()

    def turn(self, order: Order, now_s: float) -> Outcomes:
        try:
            self._move = self._begun(order, now_s)
        except ActuationError as error:
            return alike(order, Status.REFUSED, str(error))
        told = [f"adds {url}" for url in self._move.joining] + [f"drains {url}" for url in self._move.leaving]
        return alike(order, Status.PENDING, f"the router {', '.join(told)}", now_s + self._options.actuation_s)

    def troubles(self) -> Iterator[Trouble]:
        self._demand_no_strangers(self._router.workers())
        silent = [url for url, version in self._versions(self._set).items() if version is None]
        if silent:
            path = self._options.version_path
            yield Trouble(f"{len(silent)} of {len(self._set)} engines tell no version at {path}: {silent[0]}", False)

    def _demand_no_strangers(self, workers: Iterable[Worker]) -> None:
        strangers = [worker.url for worker in workers if worker.url not in self._set]
        if strangers:
            raise ActuationError(f"{strangers[0]} serves and is not in the weight-sync set: its rollouts are stale")

    def _begun(self, order: Order, now_s: float) -> Move:
        workers = self._router.workers()
        self._demand_no_strangers(workers)
        there = self._in_service(workers)
        wanted = self._wanted(order.setpoints)
        joining = self._spare(there, wanted - len(there))
        leaving = self._dispensable(there, len(there) - wanted)
        jobs: dict[str, str] = {}
        try:
            for url in joining:
                jobs[url] = self._router.add(url)
        except ActuationError as error:
            for job in jobs.values():
                self._router.withdraw(job)
            raise ActuationError(
                f"{len(jobs)} of {len(joining)} engines were accepted and taken out again: {error}"
            ) from None
        return Move(order, now_s, jobs, {worker.url: self._router.remove(worker) for worker in leaving})

    def _wanted(self, wish: Setpoints) -> int:
        if wish.engines is not None:
            return wish.engines
        return (wish.gpus_generator or 0) // self._gpus

    def _spare(self, there: list[Worker], count: int) -> list[str]:
        """Engines out of service that have the weights in service."""
        if count <= 0:
            return []
        serving = {worker.url for worker in there}
        versions = self._versions(self._set)
        newest = newest_of(versions[url] for url in serving) if serving else newest_of(versions.values())
        idle = [url for url in self._set if url not in serving]
        ready = [url for url in idle if versions[url] is not None and versions[url] == newest]
        if len(ready) < count:
            states = ", ".join(f"{url} serves {versions[url] or 'nothing'}" for url in idle if url not in ready)
            raise ActuationError(
                f"{count} more engines are wanted and {len(ready)} stand ready with version {newest}"
                + (f": {states}" if states else "; all others of the weight-sync set serve already")
            )
        return ready[:count]

    def _dispensable(self, there: list[Worker], count: int) -> list[Worker]:
        """Those that go: dead by the router's or their own silence, then behind the version, then the least loaded."""
        if count <= 0:
            return []
        versions = self._versions(worker.url for worker in there)
        newest = newest_of(versions.values())

        def worth(worker: Worker) -> tuple[bool, bool, float, int]:
            alive = worker.healthy and versions[worker.url] is not None
            return (alive, versions[worker.url] == newest, worker.load, -self._set.index(worker.url))

        return sorted(there, key=worth)[:count]

    def _outcome(self, move: Move, now_s: float) -> str | None:
        """None: under way. Empty: done. Else what failed, and the rest is undone."""
        workers = {worker.url: worker for worker in self._router.workers()}
        waiting = [url for url in move.joining if not (url in workers and workers[url].healthy)]
        waiting += [url for url in move.leaving if url in workers]
        if not waiting:
            return ""
        failures = [why for url in waiting if url in move.joining and (why := self._router.failure(move.joining[url]))]
        late = now_s - move.begun_s > self._options.job_timeout_s
        if not failures and not late:
            return None
        stuck = [url for url in waiting if url in move.joining]
        for url in stuck:
            self._router.withdraw(move.joining[url])
        done = len(move.joining) + len(move.leaving) - len(waiting)
        why = failures[0] if failures else f"{waiting[0]} is not done after {self._options.job_timeout_s:.0f} s"
        return f"{done} of {done + len(waiting)} engines were turned: {why}"

    def _in_service(self, workers: list[Worker]) -> list[Worker]:
        return [worker for worker in workers if worker.url in self._set and not worker.draining]

    def _versions(self, urls: Iterable[str]) -> dict[str, str | None]:
        """What each engine says it serves; None where it does not answer."""
        asked = list(urls)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return dict(zip(asked, pool.map(self._version, asked), strict=True))

    def _version(self, url: str) -> str | None:
        try:
            answer = self._engines[url].ask("GET", self._options.version_path)
        except ActuationError:
            return None
        value = answer.body.get(self._options.version_key)
        return str(value) if answer.status == 200 and value is not None else None

    def close(self) -> None:
        return


def newest_of(versions: Iterable[str | None]) -> str | None:
    """The largest number, or the text last in order where they are no numbers."""
    known = [version for version in versions if version is not None]
    return max(known, key=lambda v: (v.isdigit(), int(v) if v.isdigit() else 0, v), default=None)
