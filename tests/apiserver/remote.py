"""A real API server in the double's place: the same store, read and written over HTTP by an administrator."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.apiserver.controllers import PODS
from tests.apiserver.store import Key, Object, RefusedError

POD = {"containers": [{"name": "engine", "image": "none"}]}
WORKLOADS = (
    "apis/apps/v1/deployments",
    "apis/leaderworkerset.x-k8s.io/v1/leaderworkersets",
    "apis/ray.io/v1/rayclusters",
)


@dataclass(frozen=True)
class RemoteStore:
    """What the double keeps in memory, asked of a server. Only the namespace's workloads are its `objects`."""

    url: str
    authority: Path
    token: str
    namespace: str

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Object:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, headers, method=method)
        try:
            trust = ssl.create_default_context(cafile=str(self.authority))
            with urllib.request.urlopen(request, timeout=20.0, context=trust) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as refused:
            text = refused.read()
            said = json.loads(text) if text.startswith(b"{") else {}
            raise RefusedError(refused.code, said.get("reason", ""), said.get("message", "")) from None

    @property
    def objects(self) -> Mapping[Key, Object]:
        held: dict[Key, Object] = {}
        for collection in WORKLOADS:
            for item in self.listed(collection, self.namespace, ""):
                held[collection, self.namespace, item["metadata"]["name"]] = item
        return held

    @property
    def version(self) -> int:
        """Grows with each write, as the double's does."""
        return int(self.ask("GET", f"{_path(PODS, self.namespace)}?limit=1")["metadata"]["resourceVersion"])

    def get(self, key: Key) -> Object:
        return self.ask("GET", f"{_path(*key[:2])}/{key[2]}")

    def listed(self, collection: str, namespace: str, selector: str) -> list[Object]:
        found = self.ask("GET", f"{_path(collection, namespace)}?labelSelector={selector}")
        items = sorted(found["items"], key=lambda item: str(item["metadata"]["name"]))
        return [{**item, "kind": found["kind"].removesuffix("List")} for item in items]

    def create(self, key: Key, wanted: Object) -> Object:
        if key[0] == PODS:
            meta = {k: v for k, v in wanted["metadata"].items() if k != "creationTimestamp"}
            wanted = {**wanted, "metadata": meta, "spec": POD}
        return self.ask("POST", _path(*key[:2]), wanted)

    def replace(self, key: Key, wanted: Object, status: bool = False) -> Object:
        where = f"{_path(*key[:2])}/{key[2]}"
        if status:
            return self.ask("PUT", f"{where}/status", {**self.get(key), "status": wanted["status"]})
        return self.ask("PUT", where, wanted)

    def delete(self, key: Key) -> Object:
        return self.ask("DELETE", f"{_path(*key[:2])}/{key[2]}?gracePeriodSeconds=0")


def _path(collection: str, namespace: str) -> str:
    head, _, plural = collection.rpartition("/")
    return f"{head}/namespaces/{namespace}/{plural}"
