"""Scales one side of the job on Kubernetes: a scale subresource, a LeaderWorkerSet, a RayCluster's worker group.

look (spec, pods, resourceVersion) -> lease -> write that very version -> wait until ready -> done
    409, replicas as we saw them    read again and write again: only the status moved
    409, replicas changed           refused: somebody else scales this object
    not ready in time               scaled back, and refused with the reason
"""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.control import Capability
from policies.settings import values
from simulators.plant import Change, Inventory, Order, Setpoints, Status
from tuner.actuators.base import Actuator
from tuner.actuators.guarded import Failed, Guarded, Outcomes, Trouble, alike
from tuner.actuators.kube_api import ConflictError, KubeApi, Resource
from tuner.actuators.kube_lease import Lease, Note
from tuner.actuators.kube_targets import LEADER_WORKER_SETS, RAY_CLUSTERS, Scaled, Seen, Target, WorkerGroup
from tuner.actuators.site import GENERATOR, Site, capabilities
from tuner.errors import ActuationError, ConfigError

TRIES = 5
"""Of a write that meets a changed status."""
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$")]


class Options(BaseModel):
    """`[[actuator]] kind = "kubernetes"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    target: Literal["scale", "raycluster", "leaderworkerset"]
    """What is scaled."""
    namespace: Name
    """Its namespace."""
    name: Name
    """Its name."""
    resource: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[a-z0-9]+/[a-z]+$")] = "apps/v1/deployments"
    """group/version/plural of a `scale` target: apps/v1/statefulsets, ..."""
    group: str | None = None
    """groupName of a RayCluster's worker group."""
    side: Literal["gpus_generator", "gpus_trainer"] = "gpus_generator"
    """The knob: the GPUs of which side these replicas are."""
    gpus_per_replica: Annotated[int, Field(ge=1, le=100_000)]
    """GPUs of one replica; of a worker group all hosts of one replica together."""
    kubeconfig: Path | None = None
    """Absent: the pod's own service account."""
    context: str | None = None
    """A context of the kubeconfig; the current one where absent."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    """For one answer of the API."""
    ready_timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    """Replicas that are not ready (or not gone) by then are scaled back."""
    actuation_s: Annotated[float, Field(ge=0)] = 300.0
    """A prior, until it is measured."""
    identity: str | None = None
    """Who holds the lease; the host's name where absent."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.target == "raycluster") != (self.group is not None):
            raise ValueError("group names a RayCluster's worker group: with target='raycluster', and only there")
        return self


def make(options: Options, site: Site) -> Actuator:
    try:
        api = KubeApi(options.timeout_s, options.kubeconfig, options.context)
    except ActuationError as error:
        raise ConfigError(f"[[actuator]] kind='kubernetes': {error}") from None
    hand = _Replicas(options, site, api)
    return Guarded(hand, site, hand.troubles)


def _target(options: Options, api: KubeApi) -> Target:
    match options.target:
        case "raycluster":
            at = Resource(*RAY_CLUSTERS, options.namespace, options.name)
            return WorkerGroup(api, at, options.group or "")
        case "leaderworkerset":
            return Scaled(api, Resource(*LEADER_WORKER_SETS, options.namespace, options.name))
    group, version, plural = options.resource.split("/")
    return Scaled(api, Resource(group, version, plural, options.namespace, options.name))


class _Replicas:
    """A hand on a number of replicas."""

    def __init__(self, options: Options, site: Site, api: KubeApi) -> None:
        self._options, self._site, self._api = options, site, api
        self._target = _target(options, api)
        holder = options.identity or socket.gethostname() or str(os.getpid())
        self._lease = Lease(api, (options.namespace, f"equipoise-{options.name}"), options.side, holder)
        self._now_s = 0.0
        self._under_way: Setpoints | Failed = Setpoints()
        """As the last look showed it: an API that does not answer for a moment has not ended the change."""
        self._wrote = ""
        """The decision that this process has written."""

    @property
    def name(self) -> str:
        return "kubernetes"

    def capabilities(self) -> tuple[Capability, ...]:
        knobs = GENERATOR if self._options.side == "gpus_generator" else (self._options.side,)
        usual = Capability("", Change.HOT, self._options.actuation_s, gives_up_s=self._options.ready_timeout_s)
        return capabilities(knobs, self._site, usual)

    def current(self) -> Setpoints:
        """A rolling update of somebody's is no change of the number, unless one of ours is under way."""
        try:
            seen = self._target.look()
        except ActuationError:
            return Setpoints()
        rolling = seen.rolling if self._under_way == Setpoints() else None
        return self._setpoints(seen.there if rolling is None else rolling)

    def inventory(self) -> Inventory:
        seen = self.current()
        return Inventory(gpus_trainer=seen.gpus_trainer, gpus_generator=seen.gpus_generator)

    def troubles(self) -> Iterator[Trouble]:
        self._target.look()
        self._lease.token()
        for right in (self._target.right, *self._lease.rights):
            if self._api.may(right) is False:
                yield Trouble(f"no right to {right}; give its role the verb {right.verb} (deploy/kubernetes/rbac.yaml)")

    def seen_token(self) -> int:
        try:
            return self._lease.token()
        except ActuationError:
            return 0

    def pending(self, now_s: float) -> Setpoints | Failed:
        """The change under way, by the note at the lease: so a new daemon knows it too, and a failure as well."""
        self._now_s = now_s
        with suppress(ActuationError):
            self._under_way = self._looked_at(now_s)
        return self._under_way

    def _looked_at(self, now_s: float) -> Setpoints | Failed:
        note = self._lease.note()
        if note is None:
            return Setpoints()
        if note.failed:
            return Failed(note.decision_id, note.failed)
        seen = self._target.look()
        if note.wanted != seen.wanted or seen.there == seen.wanted:
            return Setpoints()
        if now_s - note.begun_s > self._options.ready_timeout_s:
            return self._given_up(note, seen, now_s)
        self._lease.renew(now_s)
        return self._setpoints(note.wanted)

    def turn(self, order: Order, now_s: float) -> Outcomes:
        try:
            return self._turned(order, now_s)
        except ActuationError as error:
            return alike(order, Status.REFUSED, str(error))

    def _turned(self, order: Order, now_s: float) -> Outcomes:
        wanted, seen = self._wanted(order.setpoints), self._target.look()
        if wanted == seen.wanted:
            return alike(order, Status.PENDING, f"{wanted} replicas are set, {seen.there} are in force")
        if order.decision_id == self._wrote:
            told = f"{self._options.name} was set to {wanted} and is at {seen.wanted} again"
            raise ActuationError(f"{told}: two writers{_by(seen)}")
        self._lease.take(order.fencing_token, Note(order.decision_id, wanted, seen.wanted, now_s), now_s)
        self._written(wanted, seen)
        self._wrote = order.decision_id
        told = f"replicas of {self._options.name}: {seen.wanted} -> {wanted}"
        return alike(order, Status.PENDING, told, now_s + self._options.actuation_s)

    def _written(self, wanted: int, seen: Seen) -> None:
        """Write what we saw or nothing; a status that moved meanwhile is looked at anew."""
        for _ in range(TRIES):
            try:
                return self._target.set(wanted, seen)
            except ConflictError:
                again = self._target.look()
                if again.wanted != seen.wanted:
                    raise ActuationError(
                        f"somebody else set replicas of {self._options.name} from {seen.wanted} to {again.wanted} "
                        f"while we were writing: two writers{_by(again)}"
                    ) from None
                seen = again
        raise ActuationError(f"{self._options.name} changes faster than it can be written: {TRIES} conflicts")

    def _given_up(self, note: Note, seen: Seen, now_s: float) -> Failed:
        """Back to what was before, so that nothing is left hanging."""
        why = (
            f"{seen.there} of {note.wanted} replicas in force after {self._options.ready_timeout_s:.0f} s: "
            f"scaled back to {note.before}"
        )
        self._lease.take(self._lease.token(), replace(note, failed=why), now_s)
        self._written(note.before, seen)
        return Failed(note.decision_id, why)

    def _wanted(self, wish: Setpoints) -> int:
        told = values(wish)
        if self._options.side == "gpus_trainer" and set(told) != {"gpus_trainer"}:
            raise ActuationError(f"{self._options.name} is the trainer's: {', '.join(told)} belong to another actuator")
        size = told.get(self._options.side)
        per_engine = self._site.topology.gpus_per_engine
        if size is None and told.get("engines") and per_engine:
            size = told["engines"] * per_engine
        if size is None or size % self._options.gpus_per_replica:
            raise ActuationError(f"{size} GPUs are no whole number of replicas of {self._options.gpus_per_replica}")
        return int(size) // self._options.gpus_per_replica

    def _setpoints(self, replicas: int) -> Setpoints:
        size, per_engine = replicas * self._options.gpus_per_replica, self._site.topology.gpus_per_engine
        if self._options.side == "gpus_trainer":
            return Setpoints(gpus_trainer=size)
        return Setpoints(gpus_generator=size, engines=size // per_engine if per_engine else None)

    def close(self) -> None:
        with suppress(ActuationError):  # the lease runs out by itself
            self._lease.release(self._now_s)
        self._api.close()


def _by(seen: Seen) -> str:
    return f" (the other is {seen.writer})" if seen.writer else ""
