"""One GET over HTTP: under a deadline, up to a size, with a secret that only the server sees."""

import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from tuner.errors import ConfigError

CONNECT_S = 2.0
"""A host that is there answers sooner, over any distance."""
LABEL_MAX = 63
"""Bytes of one part of a host's name."""
SECRET_BYTES_MAX = 16_384
"""A token is a few hundred bytes, with certificates in it some thousand."""
CHUNK_BYTES = 1 << 16
HIDDEN = b"(secret)"
PAGE_BYTES = 512
"""Of an answer, to see that it is a web page."""


class UnansweredError(Exception):
    """A server did not give what it was asked for; the sentence says why, and names no secret."""

    def __init__(self, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.again = again
        """True where the next attempt may succeed by itself: an overloaded or restarting server."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to be let in. Secrets are files, read at each request: they may be rotated while we run."""

    token_file: Path | None = None
    """Holds a bearer token."""
    user: str | None = None
    """With `password_file`: basic authentication."""
    password_file: Path | None = None
    ca_file: Path | None = None
    """Certificates to trust instead of the system's."""

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password_file is None):
            raise ConfigError("basic authentication needs both user and password_file")
        if self.token_file is not None and self.user is not None:
            raise ConfigError("token_file and user are both given; a server takes one of them")

    def headers(self) -> dict[str, str]:
        """Raises UnansweredError where a secret cannot be read."""
        if self.token_file is not None:
            return {"Authorization": f"Bearer {_secret(self.token_file)}"}
        if self.user is not None and self.password_file is not None:
            pair = f"{self.user}:{_secret(self.password_file)}".encode()
            return {"Authorization": f"Basic {b64encode(pair).decode()}"}
        return {}

    def hidden(self, body: bytes) -> bytes:
        """An answer without what was sent to be let in: error pages of proxies may repeat it."""
        for secret in self._sent():
            body = body.replace(secret.encode(), HIDDEN)
        return body

    def _sent(self) -> tuple[str, ...]:
        try:
            sent = self.headers().get("Authorization", "").partition(" ")[2]
            own = () if self.password_file is None else (_secret(self.password_file),)
        except UnansweredError:
            return ()
        return (*own, sent) if sent else own


def _secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(SECRET_BYTES_MAX + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "not text"
        raise UnansweredError(f"the secret file {path} cannot be read: {why}") from None
    if not text or len(text) > SECRET_BYTES_MAX or not text.isprintable():
        raise UnansweredError(f"the secret file {path} must hold one line of text")
    return text


def checked_url(url: str) -> str:
    """The URL where it is one of a server, without a secret in it; raises ConfigError."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.port != 0 and _is_host(parts.hostname or "")
    except ValueError:
        raise ConfigError(f"{_bare(url)}: not a URL; write http://host:port") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{_bare(url)}: no user or password in a URL; give them by file (token_file, password_file)")
    if not good or not url.isprintable() or " " in url:
        raise ConfigError(f"{_bare(url)}: not a URL; write http://host:port")
    if parts.query or parts.fragment:
        raise ConfigError(f"{_bare(url)}: no ? or # in it; write http://host:port/path")
    return url.rstrip("/")


def _is_host(name: str) -> bool:
    """True of an address, and of a name whose parts between the dots are as long as DNS allows (RFC 1035, 2.3.4)."""
    return ":" in name or all(0 < len(part) <= LABEL_MAX for part in name.removesuffix(".").split("."))


def _bare(url: str) -> str:
    """The URL up to 200 characters, what may be a secret left out."""
    head, at, tail = url.rpartition("@")
    scheme = head.split("://")[0] + "://" if "://" in head else ""
    return (f"{scheme}...@{tail}" if at else url).split("?")[0][:200]


class Client:
    """Keeps connections open between polls; may be used from many threads."""

    def __init__(self, access: Access, connections: int = 1) -> None:
        self._access = access
        self._pool = PoolManager(
            num_pools=connections, maxsize=4, retries=False, ssl_context=_trust(access.ca_file), block=False
        )

    def get(self, url: str, deadline_at: float, bytes_max: int, accept: str = "*/*") -> bytes:
        """The body of a 200. Raises UnansweredError for all else, and when it is `deadline_at` (of monotonic)."""
        left_s = deadline_at - monotonic()
        if left_s <= 0.0:
            raise UnansweredError("no time was left to ask")
        headers = {"Accept": accept, "Accept-Encoding": "gzip", **self._access.headers()}
        timeout = Timeout(connect=min(CONNECT_S, left_s), read=left_s)
        try:
            answer = self._pool.request(
                "GET", url, headers=headers, timeout=timeout, redirect=False, preload_content=False
            )
        except (HTTPError, OSError, ValueError) as fault:
            raise UnansweredError(why(fault), again=isinstance(fault, ProtocolError)) from None
        try:
            refuse(answer.status, answer.headers)
            body = self._access.hidden(body_of(answer, deadline_at, bytes_max))
            answer.release_conn()
            refuse(answer.status, answer.headers, body)
            return body
        except (HTTPError, OSError, ValueError) as fault:
            raise UnansweredError(why(fault), again=isinstance(fault, ProtocolError)) from None
        finally:
            answer.close()

    def close(self) -> None:
        self._pool.clear()


def _trust(ca_file: Path | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as fault:
        raise ConfigError(f"ca_file={ca_file}: cannot be used: {fault}; it must hold certificates in PEM") from None


def body_of(answer: BaseHTTPResponse, deadline_at: float, bytes_max: int) -> bytes:
    """All that an answer brings; raises UnansweredError when it is too much, or comes too slowly."""
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read1(CHUNK_BYTES, decode_content=True):
        size += len(piece)
        if size > bytes_max:
            raise UnansweredError(f"its answer is over {bytes_max >> 20} MiB")
        if monotonic() > deadline_at:
            raise UnansweredError(f"too slow: {size} bytes when the time was over")
        pieces.append(piece)
    return b"".join(pieces)


def refuse(status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
    """Raises UnansweredError where a status, or a body, is not what a metrics server answers."""
    if status in (301, 302, 303, 307, 308):
        there = urlsplit(headers.get("Location", "")).hostname or "another page"
        raise UnansweredError(
            f"it redirects to {there[:100]}: is a login needed? give a token, or the address behind it"
        )
    if status in (401, 403):
        raise UnansweredError(f"HTTP {status}: it wants a login; give token_file, or user and password_file")
    if status == 404:
        raise UnansweredError("HTTP 404: nothing is served under this address; check host, port and path")
    if status != 200:
        raise UnansweredError(f"HTTP {status}", again=status in (408, 429) or status >= 500)
    if body[:PAGE_BYTES].lstrip().lower().startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        raise UnansweredError("it answers a web page instead of metrics: a login page, or the wrong port or path")


def why(fault: Exception) -> str:
    """What went wrong, in words that hold neither headers nor anything else that was sent."""
    match fault:
        case ReadTimeoutError():
            return "no answer in time"
        case NewConnectionError():
            return "cannot connect: nobody listens there, or the name is unknown"
        case ConnectTimeoutError():
            return "cannot connect in time"
        case SSLError():
            return f"its certificate is not trusted or TLS fails ({_tls(fault)}); give ca_file"
        case ProtocolError():
            return "the connection broke off"
    return f"{type(fault).__name__}"


def _tls(fault: Exception) -> str:
    inner = fault.args[0] if fault.args else ""
    return str(getattr(inner, "reason", inner))[:120]
