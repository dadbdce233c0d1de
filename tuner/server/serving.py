"""The web server in a thread of its own: the loop never waits for it, and ends it."""

import asyncio
import socket
import threading
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tuner.errors import ConfigError
from tuner.server.shield import Shield

CONNECTIONS = 64
HEADERS_MOST = 16 * 1024
"""Bytes of a request's head."""
IDLE_S = 5
LIFE_S = 30.0
"""A connection that is in the middle of nothing is closed then: slow senders hold no place."""
END_S = 5.0


class Impatient(H11Protocol):
    """HTTP/1.1 for connections with an end."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._ending = asyncio.get_running_loop().call_later(LIFE_S, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ending.cancel()
        super().connection_lost(exc)

    def _end(self) -> None:
        self.transport.abort()


class Serving:
    """A running server."""

    def __init__(self, app: Shield, listening: socket.socket) -> None:
        self.host, self.port = listening.getsockname()[:2]
        self._socket = listening
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=Impatient,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS,
                timeout_keep_alive=IDLE_S,
                h11_max_incomplete_event_size=HEADERS_MOST,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._run, name="equipoise-server", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(END_S)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections. Raises ConfigError where it cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"server.host={host} server.port={port}: cannot listen there ({why}); "
            "name an address of this machine, and a port that is free or 0 for any"
        ) from None
    return found


def is_loopback(host: str) -> bool:
    """True where only this machine reaches it."""
    return host in ("127.0.0.1", "::1", "localhost")


def address_of(listening_on: socket.socket) -> str:
    host, port = listening_on.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
