"""What can be scaled on Kubernetes: anything with a scale subresource, and one worker group of a RayCluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tuner.actuators.kube_api import KubeApi, Object, Resource, Right, writer_of
from tuner.errors import ActuationError

LEADER_WORKER_SETS = ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets")
RAY_CLUSTERS = ("ray.io", "v1", "rayclusters")


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a target, in replicas."""

    wanted: int
    """As its spec says."""
    there: int
    """In force: ready while it grows, still there while it shrinks."""
    version: str
    """resourceVersion of that look."""
    writer: str = ""
    """Who else set the replicas last, where the API tells."""
    rolling: int | None = None
    """Those that serve while old ones are replaced by new ones, and more are there than its spec says; else None."""


class Target(Protocol):
    @property
    def right(self) -> Right:
        """What setting it takes."""
        ...

    def look(self) -> Seen: ...

    def set(self, replicas: int, seen: Seen) -> None:
        """Conflict where the object is not as it was seen."""
        ...


@dataclass(frozen=True, slots=True)
class Scaled:
    """By its scale subresource: a Deployment, a StatefulSet, a LeaderWorkerSet (whose replica is a group of pods)."""

    api: KubeApi
    at: Resource

    @property
    def right(self) -> Right:
        return Right("patch", self.at, "scale")

    def look(self) -> Seen:
        held = self.api.get(self.at)
        wanted, status = _count(held.get("spec"), "replicas", 1), held.get("status") or {}
        there, ready = _count(status, "replicas", 0), _count(status, "readyReplicas", 0)
        version, writer = str(held["metadata"]["resourceVersion"]), writer_of(held, "replicas")
        rolling = min(ready, wanted) if _count(status, "updatedReplicas", there) < there else None
        return Seen(wanted, in_force(wanted, there, ready), version, writer, rolling)

    def set(self, replicas: int, seen: Seen) -> None:
        self.api.scale(self.at, replicas, seen.version)


def in_force(wanted: int, there: int, ready: int) -> int:
    """What serves; while one too many is still there, never the goal.

    # wanted 4, 4 there, 3 ready -> 3 | wanted 2, 4 there, 4 ready -> 4 | wanted 2, 3 there, 2 ready -> 3, not yet 2
    """
    return max(ready, wanted + 1) if there > wanted else ready


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """A worker group of a RayCluster: the workers that go are named, so that KubeRay does not take busy ones."""

    api: KubeApi
    at: Resource
    group: str

    @property
    def right(self) -> Right:
        return Right("patch", self.at)

    def look(self) -> Seen:
        held = self.api.get(self.at)
        _, group = self._group(held)
        wanted, hosts = _count(group, "replicas", 0), _count(group, "numOfHosts", 1)
        pods = self._pods()
        there, ready = -(-len(pods) // hosts), sum(map(_ready, pods)) // hosts
        version, writer = str(held["metadata"]["resourceVersion"]), writer_of(held, "workerGroupSpecs")
        return Seen(wanted, in_force(wanted, there, ready), version, writer)

    def set(self, replicas: int, seen: Seen) -> None:
        held = self.api.get(self.at)
        place, group = self._group(held)
        if held["spec"].get("enableInTreeAutoscaling"):
            raise ActuationError(
                f"{self.at}: Ray's own autoscaler moves its groups; only minReplicas and maxReplicas are ours"
            )
        low, high = _count(group, "minReplicas", 0), _count(group, "maxReplicas", replicas)
        if not low <= replicas <= high:
            raise ActuationError(
                f"{self.group}: {replicas} replicas are outside its minReplicas={low}, maxReplicas={high}"
            )
        here = f"/spec/workerGroupSpecs/{place}"
        going = self._dispensable(_count(group, "numOfHosts", 1), _count(group, "replicas", 0) - replicas)
        self.api.patch(
            self.at,
            [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": seen.version},
                {"op": "test", "path": f"{here}/groupName", "value": self.group},
                {"op": "replace", "path": f"{here}/replicas", "value": replicas},
                {"op": "add", "path": f"{here}/scaleStrategy", "value": {"workersToDelete": going}},
            ],
        )

    def _group(self, held: Object) -> tuple[int, Mapping[str, Any]]:
        groups = (held.get("spec") or {}).get("workerGroupSpecs") or []
        for place, group in enumerate(groups):
            if group.get("groupName") == self.group:
                return place, group
        names = ", ".join(str(group.get("groupName")) for group in groups)
        raise ActuationError(f"{self.at} has no worker group {self.group!r}; there are {names}")

    def _pods(self) -> list[Object]:
        """Those of the group that are not going already."""
        labels = {"ray.io/cluster": self.at.name, "ray.io/group": self.group}
        return [p for p in self.api.pods(self.at.namespace, labels) if "deletionTimestamp" not in p["metadata"]]

    def _dispensable(self, hosts: int, count: int) -> list[str]:
        """Names of the pods of so many replicas: unready ones first, then the youngest; a replica goes whole."""
        if count <= 0:
            return []
        replicas: dict[str, list[Object]] = {}
        for pod in self._pods():
            meta = pod["metadata"]
            of = (meta.get("labels") or {}).get("replicaIndex") if hosts > 1 else None
            replicas.setdefault(of or meta["name"], []).append(pod)
        order = sorted(replicas.values(), key=_born, reverse=True)
        order.sort(key=lambda pods: all(map(_ready, pods)))
        return sorted(pod["metadata"]["name"] for pods in order[:count] for pod in pods)


def _born(pods: list[Object]) -> str:
    return max(str(pod["metadata"].get("creationTimestamp", "")) for pod in pods)


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _count(table: Any, name: str, usual: int) -> int:
    value = (table or {}).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else usual
