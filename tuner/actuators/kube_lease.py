"""One writer: a Lease that is held around each change, with the fencing token and the change under way beside it.

Both sides of a job may be groups of one RayCluster: they share the lease and the token, and each has its own note.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tuner.actuators.kube_api import ConflictError, KubeApi, MissingError, Object, Resource, Right
from tuner.errors import ActuationError

TOKEN = "equipoise.io/fencing-token"
MOVE = "equipoise.io/move-"
"""And the side, `gpus_generator` or `gpus_trainer`."""
DURATION_S = 60
"""A holder that has not renewed for so long is gone."""


@dataclass(frozen=True, slots=True)
class Note:
    """The change under way, for whoever comes after us."""

    decision_id: str = ""
    wanted: int = 0
    before: int = 0
    begun_s: float = 0.0
    failed: str = ""


class Lease:
    """Ours as long as it is renewed."""

    def __init__(self, api: KubeApi, at: tuple[str, str], side: str, holder: str) -> None:
        """`at`: namespace and name."""
        self._api, self._holder, self._move = api, holder, f"{MOVE}{side}"
        self._at = Resource("coordination.k8s.io", "v1", "leases", *at)

    @property
    def rights(self) -> tuple[Right, ...]:
        """What taking and renewing it takes."""
        return Right("create", self._at), Right("update", self._at)

    def token(self) -> int:
        """The largest that was written; 0 where there is no lease."""
        value = _annotations(self._held()).get(TOKEN, "0")
        return int(value) if value.isdigit() else 0

    def note(self) -> Note | None:
        """The change that was begun last; None where none was, or nobody can read it."""
        text = _annotations(self._held()).get(self._move)
        try:
            return None if not text else Note(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def take(self, token: int, note: Note, now_s: float) -> None:
        """Ours, with this token and note; ActuationError while it is another's, or another's token is larger."""
        held = self._held()
        spec = held.get("spec") or {}
        other = spec.get("holderIdentity")
        if other not in (None, "", self._holder) and _alive(spec, now_s):
            raise ActuationError(f"{other} holds the lease {self._at.name}: two controllers on one job")
        if token < self.token():
            raise ActuationError(f"a newer writer (token {self.token()}) has this job; token {token} is refused")
        wanted = self._body(held, self._holder, {TOKEN: str(token), self._move: json.dumps(_plain(note))}, now_s)
        try:
            self._api.replace(self._at, wanted) if held else self._api.create(self._at, wanted)
        except ConflictError:
            raise ActuationError(
                f"another took the lease {self._at.name} just now: two controllers on one job"
            ) from None

    def renew(self, now_s: float) -> None:
        """Keeps it ours while a change is under way; every third of its duration is often enough."""
        held = self._held()
        spec = held.get("spec") or {}
        if spec.get("holderIdentity") == self._holder and not _alive(spec, now_s, DURATION_S / 3.0):
            with suppress(ConflictError):  # whoever wrote meanwhile is seen at the next look
                self._api.replace(self._at, self._body(held, self._holder, {}, now_s))

    def release(self, now_s: float) -> None:
        held = self._held()
        if (held.get("spec") or {}).get("holderIdentity") == self._holder:
            self._api.replace(self._at, self._body(held, "", {}, now_s))

    def _held(self) -> Object:
        try:
            return self._api.get(self._at)
        except MissingError:
            return {}

    def _body(self, held: Object, holder: str, notes: Mapping[str, str], now_s: float) -> Object:
        """With the resourceVersion that was read: of two who take it at once, one succeeds."""
        meta = {"name": self._at.name, "namespace": self._at.namespace}
        if held:
            meta["resourceVersion"] = held["metadata"]["resourceVersion"]
        spec = held.get("spec") or {}
        changed = spec.get("holderIdentity") != holder
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**meta, "annotations": {**_annotations(held), **notes}},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": DURATION_S,
                "renewTime": _stamp(now_s),
                "leaseTransitions": int(spec.get("leaseTransitions") or 0) + changed,
            },
        }


def _annotations(held: Object) -> dict[str, str]:
    return dict((held.get("metadata") or {}).get("annotations") or {})


def _plain(note: Note) -> Mapping[str, Any]:
    return {name: getattr(note, name) for name in Note.__slots__}


def _stamp(now_s: float) -> str:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _alive(spec: Mapping[str, Any], now_s: float, within_s: float | None = None) -> bool:
    """Renewed inside its duration (or `within_s`); a lease that cannot be read is nobody's."""
    try:
        renewed = datetime.fromisoformat(str(spec.get("renewTime")).replace("Z", "+00:00"))
    except ValueError:
        return False
    return now_s - renewed.timestamp() < (within_s or float(spec.get("leaseDurationSeconds") or DURATION_S))
