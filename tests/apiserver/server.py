"""The double on the wire."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.apiserver.store import Key, Object, RefusedError, Store, json_patched, merge_patched


@dataclass(frozen=True)
class Rule:
    """What a token may do, as a Role's rule."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    """A request path, taken apart."""

    group: str
    collection: str
    namespace: str
    name: str
    part: str
    """A subresource, or empty."""

    @property
    def key(self) -> Key:
        return (self.collection, self.namespace, self.name)

    @property
    def resource(self) -> str:
        plural = self.collection.rpartition("/")[2]
        return f"{plural}/{self.part}" if self.part else plural


class ApiServer:
    """One API server on a port of its own."""

    def __init__(self, roles: Mapping[str, tuple[Rule, ...]], tls: SSLContext | None = None) -> None:
        self.store, self.roles = Store(), dict(roles)
        self.before_write: list[Any] = []
        """Called once each, before the next writes: for what happens between a client's reading and its writing."""
        self.slow_s = 0.0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.port = int(self._http.server_port)
        self.url = f"http{'s' * (tls is not None)}://127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def may(self, token: str, verb: str, route: Route) -> bool:
        rules = self.roles.get(token)
        if rules is None:
            raise RefusedError(401, "Unauthorized", "Unauthorized")
        return any(
            route.group in rule.groups and route.resource in rule.resources and verb in rule.verbs for rule in rules
        )

    def write(self, verb: str, route: Route, body: Any, kind: str) -> Object:
        while self.before_write:
            self.before_write.pop(0)()
        done = {"create": self._create, "update": self._update, "patch": self._patch, "delete": self._delete}[verb](
            route, body, kind
        )
        self.store.writes += 1
        return done

    def _create(self, route: Route, body: Any, kind: str) -> Object:
        name = body["metadata"]["name"]
        return self.store.create((route.collection, route.namespace, name), body)

    def _update(self, route: Route, body: Any, kind: str) -> Object:
        return self.store.replace(route.key, body, status=route.part == "status")

    def _delete(self, route: Route, body: Any, kind: str) -> Object:
        return self.store.delete(route.key)

    def _patch(self, route: Route, body: Any, kind: str) -> Object:
        held = self.store.get(route.key)
        shown = scale_of(held) if route.part == "scale" else held
        if kind == "application/json-patch+json":
            wanted = json_patched(shown, body)
        elif kind in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
            wanted = merge_patched(shown, body)
        else:
            raise RefusedError(415, "UnsupportedMediaType", f"this double does not know {kind}")
        if route.part == "scale":
            named = wanted["metadata"].get("resourceVersion")
            held["metadata"]["resourceVersion"] = named
            held["spec"]["replicas"] = wanted["spec"]["replicas"]
            return scale_of(self.store.replace(route.key, held))
        return self.store.replace(route.key, wanted, status=route.part == "status")


def scale_of(held: Object) -> Object:
    meta = held["metadata"]
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: meta[key] for key in ("name", "namespace", "resourceVersion")},
        "spec": {"replicas": held["spec"].get("replicas", 1)},
        "status": {"replicas": (held.get("status") or {}).get("replicas", 0)},
    }


def route_of(path: str) -> Route:
    """/apis/GROUP/VERSION/namespaces/SPACE/PLURAL[/NAME[/PART]] or /api/v1/..."""
    parts = [unquote(part) for part in path.split("/") if part]
    head = 2 if parts[:1] == ["api"] else 3
    if len(parts) < head + 3 or parts[head] != "namespaces":
        raise RefusedError(404, "NotFound", f"the server could not find the requested resource: {path}")
    group = "" if head == 2 else parts[1]
    space, plural, *rest = parts[head + 1 :]
    name, part = (*rest, "", "")[:2]
    return Route(group, "/".join([*parts[:head], plural]), space, name, part)


def _handler(api: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            with self._told() as route:
                query = {key: values[-1] for key, values in parse_qs(urlsplit(self.path).query).items()}
                if route.name:
                    self._allowed("get", route)
                    held = api.store.get(route.key)
                    self._say(200, scale_of(held) if route.part == "scale" else held)
                elif query.get("watch") in ("1", "true", "True"):
                    self._allowed("watch", route)
                    self._watch(route, query)
                else:
                    self._allowed("list", route)
                    items = api.store.listed(route.collection, route.namespace, query.get("labelSelector", ""))
                    meta = {"resourceVersion": str(api.store.version)}
                    self._say(200, {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items})

        def do_POST(self) -> None:
            self._write("create", 201)

        def do_PUT(self) -> None:
            self._write("update", 200)

        def do_PATCH(self) -> None:
            self._write("patch", 200)

        def do_DELETE(self) -> None:
            self._write("delete", 200)

        def _write(self, verb: str, code: int) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with self._told() as route:
                self._allowed(verb, route)
                kind = (self.headers.get("Content-Type") or "").partition(";")[0]
                self._say(code, api.write(verb, route, json.loads(data or b"{}"), kind))

        @contextmanager
        def _told(self) -> Iterator[Route]:
            time.sleep(api.slow_s)
            try:
                yield route_of(urlsplit(self.path).path)
            except RefusedError as refused:
                told = {"reason": refused.reason, "message": refused.message, "code": refused.code}
                self._say(refused.code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", **told})

        def _allowed(self, verb: str, route: Route) -> None:
            scheme, _, given = (self.headers.get("Authorization") or "").partition(" ")
            token = given if scheme.lower() == "bearer" else ""
            if not api.may(token, verb, route):
                group = f' in API group "{route.group}" in the namespace "{route.namespace}"'
                message = f'User "{token}" cannot {verb} resource "{route.resource}"{group}'
                raise RefusedError(403, "Forbidden", message)

        def _watch(self, route: Route, query: Mapping[str, str]) -> None:
            seen = int(query.get("resourceVersion") or api.store.version)
            events = api.store.since(seen, route.collection, route.namespace)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            deadline = time.monotonic() + float(query.get("timeoutSeconds", 5))
            while time.monotonic() < deadline:
                for event in events:
                    seen = event.version
                    self.wfile.write(json.dumps({"type": event.kind, "object": event.object}).encode() + b"\n")
                    self.wfile.flush()
                with api.store.changed:
                    api.store.changed.wait(0.05)
                    events = api.store.since(seen, route.collection, route.namespace)

        def _say(self, code: int, document: Object) -> None:
            data = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
