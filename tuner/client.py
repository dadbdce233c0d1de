"""Asks a running daemon over HTTP, and tells it what people want. Never through a proxy: a daemon is near."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from tuner.config import load
from tuner.errors import ActuationError, ConfigError, SourceError, TunerError

USUAL = "http://127.0.0.1:9464"
TIMEOUT_S = 10.0
ANSWER_MOST = 8 << 20
TOKEN_MOST = 1024
SCHEMA_VERSION = 1
"""Of the answers that we read."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """Where it listens, and the file with its token."""

    url: str = USUAL
    token_file: Path | None = None

    def get(self, path: str) -> dict[str, Any]:
        """Raises SourceError where nobody answers, or somebody else."""
        told = self._asked(Request(self._address(path)))
        if told.get("schema_version") != SCHEMA_VERSION:
            raise self._stranger("no answer of schema_version 1")
        return told

    def post(self, path: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ConfigError without a token, ActuationError where the daemon refuses."""
        if self.token_file is None:
            raise ConfigError(
                "a command needs the daemon's token: --job with its [server] token_file, or --token-file FILE"
            )
        headers = {"content-type": "application/json", "authorization": f"Bearer {_token(self.token_file)}"}
        body = json.dumps({name: value for name, value in told.items() if value is not None}).encode()
        answer = self._asked(Request(self._address(path), body, headers, method="POST"))
        if "taken" not in answer:
            raise self._stranger("no word that the command was taken")
        return answer

    def _address(self, path: str) -> str:
        try:
            parts = urlsplit(self.url)
            sound = parts.port != 0 and parts.scheme in ("http", "https") and parts.hostname and parts.username is None
        except ValueError:
            sound = False
        if not sound:
            raise ConfigError(f"--url {self.url[:200]}: write http://host:port, the port from 1 to 65535")
        return f"{parts.scheme}://{parts.netloc}{path}"

    def _asked(self, request: Request) -> dict[str, Any]:
        opener = build_opener(ProxyHandler({}), _Straight())
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                told = json.loads(answer.read(ANSWER_MOST))
        except HTTPError as error:
            raise self._refused(error, request.get_method()) from None
        except (URLError, OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            if not isinstance(why, (str, OSError)):  # somebody is there and speaks something else, as sshd does
                raise self._stranger("no HTTP") from None
            raise SourceError(
                f"{self.url}: no daemon answers ({why}); is `equipoise run` up, and on this port?"
            ) from None
        except (ValueError, RecursionError):
            raise self._stranger("no JSON") from None
        if not isinstance(told, dict):
            raise self._stranger("no JSON object")
        return told

    def _refused(self, error: HTTPError, method: str) -> TunerError:
        """Our daemon says why; who does not is none of ours."""
        try:
            why = json.loads(error.read(10_000))["error"]
        except (ValueError, RecursionError, KeyError, TypeError, OSError):
            why = None
        if not isinstance(why, str) or (method == "GET" and error.code in (404, 405)):
            return self._stranger(f"status {error.code}")
        if error.code in (404, 405):
            return ConfigError(
                f"{self.url}: this daemon takes no commands: it runs without [server] token_file ({why[:500]})"
            )
        return ActuationError(f"{self.url}: refused: {why[:500]}")

    def _stranger(self, instead: str) -> SourceError:
        return SourceError(f"{self.url}: what answers there is no daemon of ours ({instead}); check the port")


class _Straight(HTTPRedirectHandler):
    """Follows nobody elsewhere: a token must not travel."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            token = file.read(TOKEN_MOST + 2).strip()
    except OSError as error:
        raise ConfigError(f"token file {path}: cannot be read ({error.strerror}); check the path") from None
    if not token or len(token) > TOKEN_MOST or not token.isascii() or not token.decode("latin-1").isprintable():
        raise ConfigError(f"token file {path}: holds no token; it is one line of printable characters")
    return token.decode("ascii")


Where = tuple[Path | None, str | None, Path | None]
"""Job file, address, token file, as the command line has them."""


def daemon_of(where: Where) -> Daemon:
    """The daemon that is meant: by the command line, else by its job file, else the usual one on this machine."""
    job, url, token_file = where
    if job is None:
        return Daemon(url or USUAL, token_file)
    server = load(job).server
    host, port = server.host or "127.0.0.1", 9464 if server.port is None else server.port
    if port == 0 and url is None:
        raise ConfigError(
            f"{job}: server.port=0 is any free port; the daemon's log says which (page=...): give it as --url"
        )
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    stated = None if server.token_file is None else Path(server.token_file)
    return Daemon(url or place, token_file or stated)
