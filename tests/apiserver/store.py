"""The objects of the double: their versions, their events, what a patch makes of them."""

import copy
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

EVENTS_KEPT = 1000
"""A watch that asks for older ones is told 410."""

Key = tuple[str, str, str]
"""(collection path, namespace, name)."""
Object = dict[str, Any]


class RefusedError(Exception):
    """An answer that is no success, as a Status object tells it."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


@dataclass
class Event:
    version: int
    kind: str
    collection: str
    namespace: str
    object: Object


@dataclass
class Store:
    """All objects. Each change counts one resourceVersion up, and is an event."""

    objects: dict[Key, Object] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    version: int = 100
    writes: int = 0
    """Successful writes by clients; a controller's own do not count."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def get(self, key: Key) -> Object:
        try:
            return copy.deepcopy(self.objects[key])
        except KeyError:
            raise RefusedError(404, "NotFound", f'{key[0].rpartition("/")[2]} "{key[2]}" not found') from None

    def listed(self, collection: str, namespace: str, selector: str) -> list[Object]:
        wanted = dict(part.split("=", 1) for part in selector.replace("==", "=").split(",") if part)
        return [
            copy.deepcopy(held)
            for (where, space, _), held in sorted(self.objects.items())
            if (where, space) == (collection, namespace)
            and all((held["metadata"].get("labels") or {}).get(name) == value for name, value in wanted.items())
        ]

    def create(self, key: Key, wanted: Object) -> Object:
        with self.changed:
            if key in self.objects:
                raise RefusedError(409, "AlreadyExists", f'"{key[2]}" already exists')
            wanted = copy.deepcopy(wanted)
            wanted["metadata"] = {**wanted.get("metadata", {}), "namespace": key[1], "generation": 1}
            return self._put(key, wanted, "ADDED")

    def replace(self, key: Key, wanted: Object, status: bool = False) -> Object:
        """The object anew; a resourceVersion that it names must be the present one."""
        with self.changed:
            held = self.get(key)
            named = wanted.get("metadata", {}).get("resourceVersion")
            if named not in (None, "", held["metadata"]["resourceVersion"]):
                raise RefusedError(
                    409,
                    "Conflict",
                    f'Operation cannot be fulfilled on "{key[2]}": the object has been modified; please apply your '
                    "changes to the latest version and try again",
                )
            merged = copy.deepcopy(wanted)
            if status:
                merged = {**held, "status": wanted.get("status")}
            elif "status" in held:
                merged["status"] = held["status"]
            meta = {**merged.get("metadata", {}), "generation": held["metadata"]["generation"]}
            if merged.get("spec") != held.get("spec"):
                meta["generation"] += 1
            merged["metadata"] = meta
            return self._put(key, merged, "MODIFIED")

    def delete(self, key: Key) -> Object:
        with self.changed:
            held = self.get(key)
            del self.objects[key]
            self._record("DELETED", key, held)
            return held

    def since(self, version: int, collection: str, namespace: str) -> list[Event]:
        if self.events and version < self.events[0].version - 1:
            raise RefusedError(410, "Expired", f"too old resource version: {version}")
        return [
            e for e in self.events if e.version > version and (e.collection, e.namespace) == (collection, namespace)
        ]

    def _put(self, key: Key, wanted: Object, kind: str) -> Object:
        self.objects[key] = wanted
        self._record(kind, key, wanted)
        return copy.deepcopy(wanted)

    def _record(self, kind: str, key: Key, held: Object) -> None:
        self.version += 1
        held["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(Event(self.version, kind, key[0], key[1], copy.deepcopy(held)))
        del self.events[:-EVENTS_KEPT]
        self.changed.notify_all()


def merge_patched(held: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(held) if isinstance(held, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patched(result.get(name), value)
    return result


def json_patched(held: Object, operations: list[Mapping[str, Any]]) -> Object:
    """RFC 6902: add, replace, remove, test."""
    result = copy.deepcopy(held)
    for step in operations:
        *path, last = _parts(step["path"])
        place: Any = result
        try:
            for part in path:
                place = place[int(part)] if isinstance(place, list) else place[part]
            _apply(place, last, step)
        except (KeyError, IndexError, ValueError, TypeError):
            raise RefusedError(
                422, "Invalid", f"the server rejected our request: {step['op']} {step['path']}"
            ) from None
    return result


def _parts(path: str) -> Iterator[str]:
    return (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def _apply(place: Any, last: str, step: Mapping[str, Any]) -> None:
    name: Any = int(last) if isinstance(place, list) and last != "-" else last
    match step["op"]:
        case "test":
            if place[name] != step["value"]:
                raise ValueError(last)
        case "add" if isinstance(place, list):
            place.insert(len(place) if last == "-" else name, copy.deepcopy(step["value"]))
        case "add":
            place[name] = copy.deepcopy(step["value"])
        case "replace":
            place[name]
            place[name] = copy.deepcopy(step["value"])
        case "remove":
            del place[name]
        case _:
            raise ValueError(step["op"])
