"""JSON over HTTP with a deadline for the whole answer, a bound on its length, no proxy and no redirect."""

import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tuner.actuators import files
from tuner.errors import ActuationError

ANSWER_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    """Empty where it is no JSON object."""

    @property
    def said(self) -> str:
        """Its own words on what went wrong."""
        words = self.body.get("error") or self.body.get("message") or ""
        return f"HTTP {self.status} {str(words)[:300]}".rstrip()


class Web:
    """One server's address, and how long it may take."""

    def __init__(self, url: str, timeout_s: float, token_file: Path | None = None) -> None:
        self.url = url.rstrip("/")
        self._parts = urlsplit(self.url)
        self._timeout_s, self._token_file = timeout_s, token_file

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """One question; ActuationError when nothing sensible comes back in time."""
        deadline = time.monotonic() + self._timeout_s
        headers = {"Accept": "application/json", "Content-Type": "application/json", **self._headers()}
        text = None if body is None else json.dumps(body, allow_nan=False)
        try:
            with closing(self._connection()) as connection:
                connection.request(method, self._parts.path + path, text, headers)
                response = connection.getresponse()
                told = self._received(response, deadline)
                sent = headers.get("Authorization", "").partition(" ")[2]
                return Answer(response.status, _object(told.replace(sent.encode(), b"(secret)") if sent else told))
        except (OSError, HTTPException, ValueError) as error:
            raise ActuationError(f"{method} {self.url}{path} failed: {type(error).__name__}") from None

    def _connection(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return HTTPSConnection(host, port, timeout=self._timeout_s)
        return HTTPConnection(host, port, timeout=self._timeout_s)

    def _received(self, response: HTTPResponse, deadline: float) -> bytes:
        """Byte by byte as they come: a server that drips is given up at the deadline too."""
        data = bytearray()
        while chunk := response.read1(1 << 16):
            data += chunk
            if len(data) > ANSWER_BYTES_MAX:
                raise ActuationError(f"{self.url} answered with over {ANSWER_BYTES_MAX} bytes")
            if time.monotonic() > deadline:
                raise ActuationError(f"{self.url} has not finished its answer in {self._timeout_s:g} s")
        return bytes(data)

    def _headers(self) -> Mapping[str, str]:
        """The token is read anew each time: it may rotate."""
        if self._token_file is None:
            return {}
        token = (files.read(self._token_file) or b"").decode(errors="replace").strip()
        if not token.isprintable() or not token:
            raise ActuationError(f"{self._token_file} holds no token")
        return {"Authorization": f"Bearer {token}"}


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        read = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
