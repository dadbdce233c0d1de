"""Resizes the engines of a Ray Serve application by its external scaling, and watches the nodes of the Ray cluster.

It speaks to the dashboard's HTTP API, so that its own environment need not hold the cluster's very version of Ray.
The application has to be deployed with `external_scaler_enabled: true` (and without Serve's own autoscaling).
A placement group cannot be resized, and a trainer's world not while it runs: those are config_restart's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from policies.control import Capability
from simulators.plant import Change, Inventory, Order, Setpoints, Status
from tuner.actuators.base import Actuator
from tuner.actuators.guarded import Failed, Guarded, Outcomes, Trouble, alike
from tuner.actuators.site import GENERATOR, Site, capabilities
from tuner.actuators.web import Web
from tuner.errors import ActuationError, ConfigError


class Options(BaseModel):
    """`[[actuator]] kind = "ray"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    url: Annotated[str, Field(pattern=r"^https?://[^\s@]+$")] = "http://127.0.0.1:8265"
    """The dashboard's address."""
    application: Annotated[str, Field(min_length=1)]
    """The Serve application."""
    deployment: Annotated[str, Field(min_length=1)]
    """Its deployment whose replicas are the engines."""
    trainer_resource: str | None = None
    """A custom resource that the trainer's nodes have; the GPUs of all other nodes are the generator's."""
    token_file: Path | None = None
    """Holds Ray's authentication token, where the cluster demands one."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    """For one answer of the dashboard."""
    ready_timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    """Replicas that do not run (or are not gone) by then are scaled back."""
    actuation_s: Annotated[float, Field(ge=0)] = 120.0
    """A prior, until it is measured."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """One look at the deployment."""

    wanted: int
    running: int
    going: int
    """Still there and on their way out, or not yet running."""
    fault: str = ""
    """What Serve says is wrong."""

    @property
    def in_force(self) -> int:
        """What serves; while one too many is still there, never the goal."""
        if self.running + self.going > self.wanted:
            return max(self.running, self.wanted + 1)
        return self.running


@dataclass(frozen=True, slots=True)
class Move:
    order: Order
    wanted: int
    before: int
    begun_s: float


def make(options: Options, site: Site) -> Actuator:
    if not site.topology.gpus_per_engine:
        raise ConfigError("[[actuator]] kind='ray' counts engines: set [topology] gpus_per_engine")
    hand = _Serve(options, site, site.topology.gpus_per_engine)
    return Guarded(hand, site, hand.troubles)


class _Serve:
    """A hand on the number of replicas of one Serve deployment."""

    def __init__(self, options: Options, site: Site, gpus_per_engine: int) -> None:
        self._options, self._site, self._gpus = options, site, gpus_per_engine
        self._ray = Web(options.url, options.timeout_s, options.token_file)
        self._move: Move | None = None

    @property
    def name(self) -> str:
        return "ray"

    def capabilities(self) -> tuple[Capability, ...]:
        o = self._options
        usual = Capability("", Change.HOT, o.actuation_s, gives_up_s=o.ready_timeout_s)
        return capabilities(GENERATOR, self._site, usual)

    def current(self) -> Setpoints:
        try:
            engines = self._look().in_force
        except ActuationError:
            return Setpoints()
        return Setpoints(gpus_generator=engines * self._gpus, engines=engines)

    def inventory(self) -> Inventory:
        """GPUs of the nodes that are alive, and the replicas that run."""
        try:
            trainer, generator = self._alive()
            return Inventory(trainer, generator, self._look().running)
        except ActuationError:
            return Inventory()

    def troubles(self) -> Iterator[Trouble]:
        self._alive()
        fault = self._look().fault
        if fault:
            yield Trouble(f"Serve says: {fault}", blocks=False)

    def seen_token(self) -> int:
        return 0

    def pending(self, now_s: float) -> Setpoints | Failed:
        move = self._move
        if move is None:
            return Setpoints()
        try:
            outcome = self._outcome(move, now_s)
        except ActuationError:  # a node that is lost may take the dashboard's answer with it: look again
            outcome = None
        if outcome is None:
            return move.order.setpoints
        self._move = None
        return Failed(move.order.decision_id, outcome) if outcome else Setpoints()

    def _outcome(self, move: Move, now_s: float) -> str | None:
        """None: under way. Empty: done. Else what failed; what is only late is scaled back."""
        seen = self._look()
        if seen.wanted != move.wanted:
            return f"somebody else set the replicas to {seen.wanted}: two writers"
        if seen.in_force == move.wanted:
            return ""
        if now_s - move.begun_s <= self._options.ready_timeout_s:
            return None
        self._set(move.before)
        waited = f"{seen.in_force} of {move.wanted} replicas in force after {self._options.ready_timeout_s:.0f} s"
        return f"{waited}: scaled back to {move.before} {seen.fault}".rstrip()

    def turn(self, order: Order, now_s: float) -> Outcomes:
        try:
            wanted, seen = self._wanted(order.setpoints), self._look()
            self._demand_room(wanted, seen)
            if wanted != seen.wanted:
                self._set(wanted)
        except ActuationError as error:
            return alike(order, Status.REFUSED, str(error))
        self._move = Move(order, wanted, seen.wanted, now_s)
        told = f"replicas of {self._options.deployment}: {seen.wanted} -> {wanted}"
        return alike(order, Status.PENDING, told, now_s + self._options.actuation_s)

    def _demand_room(self, wanted: int, seen: Replicas) -> None:
        """GPUs of nodes that are alive: a replica without them would stay pending and hold up everything."""
        _, generator = self._alive()
        if wanted > seen.wanted and wanted * self._gpus > generator:
            raise ActuationError(f"{wanted} engines take {wanted * self._gpus} GPUs, and living nodes have {generator}")

    def _wanted(self, wish: Setpoints) -> int:
        return wish.engines if wish.engines is not None else (wish.gpus_generator or 0) // self._gpus

    def _set(self, replicas: int) -> None:
        names = (quote(self._options.application, safe=""), quote(self._options.deployment, safe=""))
        path = "/api/v1/applications/{}/deployments/{}/scale".format(*names)
        answer = self._ray.ask("POST", path, {"target_num_replicas": replicas})
        if answer.status == 412:
            raise ActuationError(f"{self._options.application} is not scaled from outside: {answer.said}")
        if answer.status != 200:
            raise ActuationError(f"Serve does not scale {self._options.deployment}: {answer.said}")

    def _look(self) -> Replicas:
        answer = self._ray.ask("GET", "/api/serve/applications/")
        if answer.status != 200:
            raise ActuationError(f"Ray does not show its applications: {answer.said}")
        applications = _table(answer.body.get("applications"))
        deployments = _table(_table(applications.get(self._options.application)).get("deployments"))
        told = deployments.get(self._options.deployment)
        if not isinstance(told, Mapping):
            raise ActuationError(f"there is no deployment {self._options.deployment} in {self._options.application}")
        states = [_table(replica).get("state") for replica in told.get("replicas") or []]
        running = states.count("RUNNING")
        wanted = told.get("target_num_replicas")
        fault = str(told.get("message") or "")[:200] if told.get("status") != "HEALTHY" else ""
        return Replicas(wanted if isinstance(wanted, int) else running, running, len(states) - running, fault)

    def _alive(self) -> tuple[int | None, int]:
        """GPUs of both sides; the trainer's are unknown where nothing tells its nodes apart."""
        resource = self._options.trainer_resource
        trainer = generator = 0
        for resources in self._nodes():
            count = int(_number(resources.get("GPU")))
            if resource is not None and _number(resources.get(resource)) > 0.0:
                trainer += count
            else:
                generator += count
        return (trainer if resource is not None else None), generator

    def _nodes(self) -> Iterator[Mapping[str, Any]]:
        """The resources of each node that is alive."""
        answer = self._ray.ask("GET", "/api/v0/nodes?detail=true&limit=10000")
        told = _table(_table(answer.body.get("data")).get("result")).get("result")
        if answer.status != 200 or not isinstance(told, list):
            raise ActuationError(f"Ray does not show its nodes: {answer.said}")
        for node in told:
            if _table(node).get("state") == "ALIVE":
                yield _table(_table(node).get("resources_total"))

    def close(self) -> None:
        return


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
