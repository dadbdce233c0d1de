"""The few questions that we ask a Kubernetes API, through the official client; every failure is one sentence.

Each write names the resourceVersion that it was decided on, so that it fails (409) where anybody wrote since. No
server-side apply: whoever made the object owns its replicas, so that every apply of ours would conflict for ever, or,
with `force`, take a number from another writer without a word. No watch: a tick looks at one object anew.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException, OpenApiException
from urllib3.exceptions import HTTPError

from tuner.errors import ActuationError

MERGE, STEPS = "application/merge-patch+json", "application/json-patch+json"
MANAGER = "equipoise"
"""Who wrote, as `kubectl get --show-managed-fields` shows it."""
REVIEWS = ("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
Object = dict[str, Any]


class ConflictError(ActuationError):
    """Somebody wrote between our reading and our writing."""


class MissingError(ActuationError):
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One object's address."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{kind}/{self.name} in {self.namespace}"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one object, or on a part of it."""

    verb: str
    at: Resource
    part: str = ""
    """A subresource."""

    def __str__(self) -> str:
        return f"{self.verb} {f'the {self.part} of ' if self.part else ''}{self.at}"


class KubeApi:
    """A connection with a time limit for each answer."""

    def __init__(self, timeout_s: float, kubeconfig: Path | None = None, context: str | None = None) -> None:
        settings = client.Configuration()
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
            else:
                config.load_kube_config(str(kubeconfig), context, settings)  # type: ignore[no-untyped-call]
        except (config.ConfigException, OSError) as error:
            raise ActuationError(f"no access to Kubernetes: {str(error)[:200]}") from None
        settings.retries = 0
        self._timeout_s = timeout_s
        self._api = client.ApiClient(settings)
        self._objects = client.CustomObjectsApi(self._api)
        self._core = client.CoreV1Api(self._api)

    def get(self, at: Resource) -> Object:
        return self._asked("get", at, lambda: self._objects.get_namespaced_custom_object(*_parts(at), **self._limits))

    def create(self, at: Resource, body: Object) -> Object:
        address = (at.group, at.version, at.namespace, at.plural)
        call = self._objects.create_namespaced_custom_object
        return self._asked("create", at, lambda: call(*address, body, **self._writing))

    def replace(self, at: Resource, body: Object) -> Object:
        call = self._objects.replace_namespaced_custom_object
        return self._asked("update", at, lambda: call(*_parts(at), body, **self._writing))

    def patch(self, at: Resource, steps: list[dict[str, Any]]) -> Object:
        """A JSON patch: all of its steps, or none."""
        call = self._objects.patch_namespaced_custom_object
        return self._asked("patch", at, lambda: call(*_parts(at), steps, _content_type=STEPS, **self._writing))

    def scale(self, at: Resource, replicas: int, resource_version: str) -> Object:
        """The scale subresource, of the version that was read and of no other."""
        body = {"metadata": {"resourceVersion": resource_version}, "spec": {"replicas": replicas}}
        call = self._objects.patch_namespaced_custom_object_scale
        return self._asked("patch", at, lambda: call(*_parts(at), body, _content_type=MERGE, **self._writing))

    def may(self, right: Right) -> bool | None:
        """Whether we have it, as the API itself says; None where it does not tell."""
        attributes = {"namespace": right.at.namespace, "group": right.at.group, "resource": right.at.plural}
        named = {} if right.verb == "create" else {"name": right.at.name}
        spec = {"resourceAttributes": {**attributes, **named, "verb": right.verb, "subresource": right.part}}
        body = {"apiVersion": f"{REVIEWS[0]}/{REVIEWS[1]}", "kind": "SelfSubjectAccessReview", "spec": spec}
        call = self._objects.create_cluster_custom_object
        try:
            told = self._asked("review", right.at, lambda: call(*REVIEWS, body, **self._limits)).get("status") or {}
        except ActuationError:
            return None
        allowed = told.get("allowed")
        return allowed if isinstance(allowed, bool) else None

    def pods(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        at = Resource("", "v1", "pods", namespace, selector)

        def call() -> Any:
            ask: Callable[..., Any] = self._core.list_namespaced_pod
            return json.loads(ask(namespace, label_selector=selector, _preload_content=False, **self._limits).data)

        return list(self._asked("list", at, call).get("items") or [])

    @property
    def _limits(self) -> dict[str, Any]:
        return {"_request_timeout": self._timeout_s}

    @property
    def _writing(self) -> dict[str, Any]:
        return {"field_manager": MANAGER, **self._limits}

    def _asked(self, verb: str, at: Resource, call: Callable[[], Any]) -> Object:
        try:
            answer = call()
        except ApiException as error:
            raise _told(verb, at, error) from None
        except (HTTPError, OSError, OpenApiException, config.ConfigException, ValueError) as error:
            raise ActuationError(f"Kubernetes does not {verb} {at}: {type(error).__name__}") from None
        if not isinstance(answer, dict):
            raise ActuationError(f"Kubernetes answers to {verb} {at} with no object")
        return answer

    def close(self) -> None:
        self._api.rest_client.pool_manager.clear()


def _parts(at: Resource) -> tuple[str, str, str, str, str]:
    return (at.group, at.version, at.namespace, at.plural, at.name)


def writer_of(held: Object, field: str) -> str:
    """Who set this field of the spec last, other than we; empty where the API does not tell."""
    entries = (held.get("metadata") or {}).get("managedFields") or []
    owners = [e for e in entries if f"f:{field}" in ((e.get("fieldsV1") or {}).get("f:spec") or {})]
    last: Object = max(owners, key=lambda e: str(e.get("time", "")), default={})
    return "" if last.get("manager") == MANAGER else str(last.get("manager", ""))


def _told(verb: str, at: Resource, error: ApiException) -> ActuationError:
    """The Status object's message; a refusal for want of rights says which rule is missing."""
    try:
        message = str(json.loads(error.body or "{}").get("message") or error.reason)
    except (ValueError, AttributeError, TypeError):
        message = str(error.reason)
    words = f"Kubernetes refuses to {verb} {at}: {message[:300]}"
    match error.status:
        case 409:
            return ConflictError(words)
        case 404:
            return MissingError(words)
        case 403:
            return ActuationError(f"{words}; give its role the verb {verb} (deploy/kubernetes/rbac.yaml)")
    return ActuationError(words)
