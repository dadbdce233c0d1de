"""The shield in front of all routes: how much may be asked, and what a browser may do with the answer."""

import time
from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

RATE_PER_S, BURST = 20.0, 60.0
"""Requests a second, all askers together, and how many at once: a page, a scraper and a script need a tenth."""
PROBES = ("/healthz", "/readyz", "/metrics")
"""Never refused: a flood must not make a supervisor kill a healthy daemon, nor blind the monitoring."""
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names of this machine for itself."""


class Shield:
    """A token bucket, and headers on every answer.

    `hosts`: whom a request may be addressed to; None: anybody. On loopback it keeps out a stranger's page whose name
    was pointed at this machine meanwhile (DNS rebinding).
    """

    def __init__(
        self, app: ASGIApp, hosts: frozenset[str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._hosts, self._clock = app, hosts, clock
        self._room, self._at_s = BURST, clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        if self._hosts is not None and _addressed(scope) not in self._hosts:
            await JSONResponse({"error": "this daemon is not called so"}, 421)(scope, receive, sent)
            return
        if scope["type"] == "http" and scope["path"] not in PROBES and not self._admitted():
            busy = JSONResponse({"error": "too many requests; try again in a second"}, 429, {"retry-after": "1"})
            await busy(scope, receive, sent)
            return
        await self._app(scope, receive, sent)

    def _admitted(self) -> bool:
        now_s = self._clock()
        self._room = min(BURST, self._room + (now_s - self._at_s) * RATE_PER_S)
        self._at_s = now_s
        if self._room < 1.0:
            return False
        self._room -= 1.0
        return True


def _addressed(scope: Scope) -> str:
    """The name in the Host header, without its port."""
    host = next((value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"), "")
    return host if host.endswith("]") else host.rpartition(":")[0] or host
