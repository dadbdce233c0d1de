"""The Kubernetes actuator at a real API server, with the rights of the manifest that we ship and no others."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from simulators.plant import Order, Receipt, Setpoints, Status
from tests.apiserver.controllers import Controllers
from tests.apiserver.real import Server, programs, running
from tests.apiserver.remote import RemoteStore
from tests.apiserver.store import RefusedError
from tests.integration.test_kubernetes import COLLECTIONS, RBAC, SITE, TARGETS, reason, to
from tuner.actuators.base import Actuator
from tuner.actuators.guarded import Guarded
from tuner.actuators.kube_api import ConflictError, KubeApi, Resource
from tuner.actuators.kube_targets import RAY_CLUSTERS, WorkerGroup
from tuner.actuators.registry import make
from tuner.kits.actuators import Stage, assert_conforms

FOUND = programs()
pytestmark = pytest.mark.skipif(
    FOUND is None, reason="no kube-apiserver and etcd here: name their folder in KUBEBUILDER_ASSETS"
)
RIGHT, READER, STRANGER = "right", "reader", "stranger"
NUMBERS = count()
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
DEPLOYMENT = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
GROUPS = [{"groupName": n, "replicas": 4, "minReplicas": 0, "maxReplicas": 10} for n in ("train", "rollout")]
SPECS: dict[str, dict[str, Any]] = {
    "scale": {**DEPLOYMENT, "replicas": 4},
    "leaderworkerset": {"replicas": 4},
    "raycluster": {"workerGroupSpecs": GROUPS},
}
KINDS = {"scale": "Deployment", "leaderworkerset": "LeaderWorkerSet", "raycluster": "RayCluster"}


def definition(group: str, plural: str, kind: str) -> dict[str, Any]:
    """A CustomResourceDefinition with the subresources of the real one."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}, "scale": scale},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [version]}
    meta = {"name": f"{plural}.{group}"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    assert FOUND is not None
    with running(FOUND, tmp_path_factory.mktemp("cluster"), (RIGHT, READER)) as made:
        store = made.store("default")
        for group, plural, kind in (
            ("leaderworkerset.x-k8s.io", "leaderworkersets", "LeaderWorkerSet"),
            ("ray.io", "rayclusters", "RayCluster"),
        ):
            store.ask("POST", "apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(group, plural, kind))
            deadline = time.monotonic() + 60.0
            while time.monotonic() < deadline:
                with suppress(RefusedError):
                    store.listed(f"apis/{group}/v1/{plural}", "default", "")
                    break
                time.sleep(0.2)
        yield made


class Place:
    """A namespace of its own with one workload of four replicas, named as the manifest of rights names it."""

    def __init__(self, server: Server, folder: Path, kind: str) -> None:
        self.server, self.folder, self.kind = server, folder, kind
        self.namespace = f"rl-{next(NUMBERS)}"
        self.store = server.store(self.namespace)
        self.controllers = Controllers(self.store)  # type: ignore[arg-type]
        self.store.ask("POST", "api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for document in YAML(typ="safe").load_all(RBAC):
            self._grant(json.loads(json.dumps(document)))
        group, version, _ = COLLECTIONS[kind].split("/")[1:]
        body = {"apiVersion": f"{group}/{version}", "kind": KINDS[kind], "metadata": {"name": "rollout"}}
        self.store.create(self.key, {**body, "spec": SPECS[kind]})
        self.settle()

    def _grant(self, document: dict[str, Any]) -> None:
        """The manifest as it is, in this namespace, for the user of our token; a reader gets its reading verbs."""
        plural = {"ServiceAccount": "api/v1", "Role": "", "RoleBinding": ""}[document["kind"]]
        if plural:
            return
        rights = "apis/rbac.authorization.k8s.io/v1"
        document["metadata"]["namespace"] = self.namespace
        path = f"{rights}/namespaces/{self.namespace}/{document['kind'].lower()}s"
        if document["kind"] == "RoleBinding":
            document["subjects"] = [{"kind": "User", "name": RIGHT, "apiGroup": "rbac.authorization.k8s.io"}]
            self.store.ask("POST", path, document)
            document = {**document, "metadata": {**document["metadata"], "name": READER}}
            document["roleRef"] = {**document["roleRef"], "name": READER}
            document["subjects"] = [{"kind": "User", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}]
            self.store.ask("POST", path, document)
            return
        self.store.ask("POST", path, document)
        rules = [{**rule, "verbs": ["get", "list"]} for rule in document["rules"]]
        self.store.ask("POST", path, {**document, "metadata": {**document["metadata"], "name": READER}, "rules": rules})

    @property
    def key(self) -> tuple[str, str, str]:
        return (COLLECTIONS[self.kind], self.namespace, "rollout")

    @property
    def replicas(self) -> int:
        spec = self.store.get(self.key)["spec"]
        return int(spec["workerGroupSpecs"][1]["replicas"] if self.kind == "raycluster" else spec["replicas"])

    def set(self, replicas: int, manager: str) -> None:
        """By somebody else."""
        held = self.store.get(self.key)
        spec = held["spec"]["workerGroupSpecs"][1] if self.kind == "raycluster" else held["spec"]
        spec["replicas"] = replicas
        collection, namespace, name = self.key
        head, _, plural = collection.rpartition("/")
        self.store.ask("PUT", f"{head}/namespaces/{namespace}/{plural}/{name}?fieldManager={manager}", held)

    def settle(self) -> None:
        for _ in range(10):
            self.controllers.step()

    def kubeconfig(self, token: str) -> Path:
        path = self.folder / f"kubeconfig-{token}"
        cluster = {"server": self.server.url, "certificate-authority": str(self.server.authority)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def actuator(self, token: str = RIGHT, **options: Any) -> Actuator:
        named = {**TARGETS[self.kind], "namespace": self.namespace, "name": "rollout", "gpus_per_replica": 8}
        given = {"kubeconfig": self.kubeconfig(token), "identity": "one", "timeout_s": 20.0}
        return make("kubernetes", {**named, **given, **options}, SITE)

    def obeyed(self, actuator: Actuator, order: Order, now_s: float = 1000.0) -> Receipt:
        for look in range(20):
            receipt = actuator.apply(order, now_s + look)
            if receipt.status is not Status.PENDING:
                return receipt
            self.controllers.step()
        return receipt


@pytest.fixture(params=list(TARGETS))
def place(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Place:
    return Place(server, tmp_path, str(request.param))


@pytest.fixture
def deployment(server: Server, tmp_path: Path) -> Place:
    return Place(server, tmp_path, "scale")


def test_it_conforms(place: Place) -> None:
    stage = Stage(
        place.actuator,
        Setpoints(gpus_generator=48, engines=6),
        illegal=(Setpoints(gpus_generator=52),),
        settle=place.controllers.step,
        effects=lambda: place.replicas,
        remembers_tokens=True,
        site=SITE,
    )
    assert_conforms(stage)


def test_it_grows_and_shrinks_with_the_rights_of_the_manifest(place: Place) -> None:
    actuator = place.actuator()
    assert actuator.current().gpus_generator == 32
    assert actuator.apply(to(6), 1000.0).status is Status.PENDING
    assert place.obeyed(actuator, to(6)).status is Status.APPLIED
    assert place.obeyed(actuator, to(2, "d8.1"), 1100.0).status is Status.APPLIED
    assert (actuator.current().gpus_generator, place.replicas) == (16, 2)


def test_a_write_on_what_was_read_before_another_wrote_is_a_conflict(place: Place) -> None:
    api = KubeApi(20.0, place.kubeconfig(RIGHT))
    group, version, plural = COLLECTIONS[place.kind].split("/")[1:]
    at = Resource(group, version, plural, place.namespace, "rollout")
    if place.kind == "raycluster":
        target = WorkerGroup(api, Resource(*RAY_CLUSTERS, place.namespace, "rollout"), "rollout")
        seen = target.look()
        place.set(7, "somebody")
        with pytest.raises(ConflictError):
            target.set(5, seen)
    else:
        seen_version = str(api.get(at)["metadata"]["resourceVersion"])
        place.set(7, "somebody")
        with pytest.raises(ConflictError):
            api.scale(at, 5, seen_version)
    assert place.replicas == 7


def test_the_other_writer_is_named(place: Place) -> None:
    actuator = place.actuator()
    actuator.apply(to(6), 1000.0)
    place.set(4, "hpa-of-a-colleague")
    told = reason(actuator.apply(to(6), 1001.0))
    assert "was set to 6 and is at 4 again: two writers (the other is hpa-of-a-colleague)" in told


def test_of_two_that_begin_at_once_one_writes(deployment: Place) -> None:
    actuators = [deployment.actuator(identity=name) for name in ("one", "two")]
    with ThreadPoolExecutor(2) as both:
        receipts = list(both.map(lambda a: a.apply(to(6, f"d{id(a)}.1"), 1000.0), actuators))
    written = [receipt for receipt in receipts if receipt.status is Status.PENDING]
    refused = [reason(receipt) for receipt in receipts if receipt.status is not Status.PENDING]
    assert len(written) == 1 or all("6 replicas are set" in reason(receipt) for receipt in written)
    assert all("two controllers on one job" in why or "has to wait" in why for why in refused)
    assert deployment.replicas == 6


def test_a_lease_is_respected_and_runs_out(deployment: Place) -> None:
    assert deployment.actuator(identity="one").apply(to(6), 1000.0).status is Status.PENDING
    deployment.settle()
    other = deployment.actuator(identity="two")
    assert "one holds the lease equipoise-rollout" in reason(other.apply(to(5, "d9.1"), 1010.0))
    assert other.apply(to(5, "d9.1"), 1070.0).status is Status.PENDING
    lease = ("apis/coordination.k8s.io/v1/leases", deployment.namespace, "equipoise-rollout")
    assert deployment.store.get(lease)["spec"]["renewTime"] == "1970-01-01T00:17:50.000000Z"


@pytest.mark.parametrize(("token", "words"), [(READER, "give its role the verb create"), (STRANGER, "Unauthorized")])
def test_missing_rights_are_said_with_the_verb(deployment: Place, token: str, words: str) -> None:
    assert words in reason(deployment.actuator(token).apply(to(6), 1000.0))
    assert deployment.replicas == 4


def test_what_a_doctor_says_of_rights_before_any_order(place: Place) -> None:
    right, reader = place.actuator(), place.actuator(READER)
    assert isinstance(right, Guarded)
    assert isinstance(reader, Guarded)
    assert right.troubles() == ()
    told = [trouble.said for trouble in reader.troubles()]
    assert len(told) == 3
    assert all("give its role the verb" in said for said in told)
    assert ("the scale of" in told[0]) == (place.kind != "raycluster")


def test_an_object_that_is_not_there_and_one_that_we_may_not_see_are_told_apart(deployment: Place) -> None:
    deployment.store.delete(deployment.key)
    assert "not found" in reason(deployment.actuator().apply(to(6), 1000.0))
    stranger = RemoteStore(deployment.server.url, deployment.server.authority, RIGHT, "default")
    with pytest.raises(RefusedError):
        stranger.listed("apis/apps/v1/deployments", "default", "")
    told = reason(deployment.actuator(namespace="default").apply(to(6), 1000.0))
    assert "give its role the verb get" in told
