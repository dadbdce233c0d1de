"""What controllers and kubelets would do, one step a call: replicas come and go, pods become ready or stay pending."""

from dataclasses import dataclass
from typing import Any

from tests.apiserver.store import Key, Store

PODS = "api/v1/pods"


@dataclass
class Controllers:
    """Brings the status of each workload one replica nearer to its spec."""

    store: Store
    room: int = 1000
    """Replicas for which there are GPUs; further ones stay pending."""

    def step(self) -> None:
        for key, held in list(self.store.objects.items()):
            if held.get("kind") == "RayCluster":
                for group in held["spec"]["workerGroupSpecs"]:
                    self._group(key, group)
            elif "replicas" in held.get("spec", {}):
                self._workload(key, held)

    def _workload(self, key: Key, held: dict[str, Any]) -> None:
        want, status = held["spec"]["replicas"], held.get("status") or {}
        there, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
        there = there + (there < want) - (there > want)
        ready = min(there, self.room, ready + 1)
        told = {"replicas": there, "readyReplicas": ready, "observedGeneration": held["metadata"]["generation"]}
        if told != status:
            self.store.replace(key, {"metadata": {}, "status": told}, status=True)

    def _group(self, key: Key, group: dict[str, Any]) -> None:
        """KubeRay: the named workers go first, then whole replicas come or go until their number is right."""
        labels = {"ray.io/cluster": key[2], "ray.io/group": group["groupName"]}
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        named = (group.get("scaleStrategy") or {}).get("workersToDelete") or []
        pods = self.store.listed(PODS, key[1], selector)
        for pod in pods:
            if pod["metadata"]["name"] in named:
                self.store.delete((PODS, key[1], pod["metadata"]["name"]))
        hosts = group.get("numOfHosts", 1)
        pods = self.store.listed(PODS, key[1], selector)
        for index, pod in enumerate(pods):
            ready = index < self.room * hosts
            state = {
                "phase": "Running" if ready else "Pending",
                "conditions": [{"type": "Ready", "status": str(ready)}],
            }
            if pod.get("status") != state:
                self.store.replace((PODS, key[1], pod["metadata"]["name"]), {"status": state}, status=True)
        if len(pods) < group["replicas"] * hosts:
            self._born(key, group, labels, hosts)

    def _born(self, key: Key, group: dict[str, Any], labels: dict[str, str], hosts: int) -> None:
        number = self.store.version
        for host in range(hosts):
            name = f"{key[2]}-{group['groupName']}-{number}-{host}"
            meta = {"name": name, "labels": {**labels, "replicaIndex": f"{group['groupName']}-{number}"}}
            stamp = f"2026-11-30T00:{number // 60 % 60:02d}:{number % 60:02d}Z"
            self.store.create((PODS, key[1], name), {"kind": "Pod", "metadata": {**meta, "creationTimestamp": stamp}})
