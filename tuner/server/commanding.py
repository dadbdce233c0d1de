"""The routes that command: each needs the bearer token, and only puts a command into the inbox for the next tick."""

import asyncio
import hashlib
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from policies.base import Direction
from policies.commands import Command, CommandKind, ControlMode
from policies.settings import ACTED
from tuner.errors import ConfigError
from tuner.inbox import People
from tuner.server.board import Board

TOKEN_LEAST, TOKEN_MOST = 16, 1024
"""Characters of a token: fewer are guessed, more are no token."""
BODY_MOST = 4096
"""Bytes of a command."""
BODY_S = 5.0
"""A command of a few bytes is here by then."""
WRONG_MOST, WRONG_S = 10, 60.0
"""Wrong tokens in so many seconds; more are turned away unheard."""
AUTHOR = re.compile(r"[\w .@-]{1,64}")
KEYS: Mapping[str, frozenset[str]] = {
    "pause": frozenset({"knob", "direction", "author"}),
    "resume": frozenset({"knob", "author"}),
    "approve": frozenset({"id", "author"}),
    "mode": frozenset({"mode", "author"}),
}
"""What each command may say."""


def token_of(path: Path) -> bytes:
    """The token in a file. Raises ConfigError where there is none worth the name."""
    try:
        with path.open("rb") as file:
            token = file.read(TOKEN_MOST + 2).strip()
    except OSError as error:
        raise ConfigError(
            f"server.token_file={path}: cannot be read ({error.strerror}); write one: openssl rand -hex 32 > FILE"
        ) from None
    if not TOKEN_LEAST <= len(token) <= TOKEN_MOST or not re.fullmatch(rb"[!-~]+", token):
        raise ConfigError(
            f"server.token_file={path}: a token is {TOKEN_LEAST} to {TOKEN_MOST} printable characters without spaces; "
            "write one: openssl rand -hex 32 > FILE"
        )
    return token


class Commanding:
    """Four routes behind one token."""

    kinds = tuple(KEYS)

    def __init__(self, board: Board, inbox: People, token_file: Path, wake: Callable[[], None]) -> None:
        self._board, self._inbox, self._token_file, self._wake = board, inbox, token_file, wake
        self._wrong: list[float] = []

    def route(self, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            self._authorise(request)
            command = self._command(kind, await _body(request))
            if not self._inbox.put(command):
                raise HTTPException(503, "too many commands wait for the next tick; try again after it")
            self._wake()
            return JSONResponse({"taken": kind, "effect": "at the next tick"}, 202)

        return answer

    def _authorise(self, request: Request) -> None:
        """Compared by digests, in constant time. A right token is heard however many wrong ones were tried."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        try:
            known = token_of(self._token_file)
        except ConfigError:
            why = "the file of [server] token_file is gone or holds no token; write one there: openssl rand -hex 32"
            raise HTTPException(503, why) from None
        right = hmac.compare_digest(_digest(given.encode("latin-1", "replace")), _digest(known))
        if right and scheme.lower() == "bearer":
            return
        now_s = time.monotonic()
        self._wrong = [*(at for at in self._wrong if now_s - at < WRONG_S), now_s][-WRONG_MOST - 1 :]
        if len(self._wrong) > WRONG_MOST:
            raise HTTPException(429, "too many wrong tokens; wait a minute", {"retry-after": str(round(WRONG_S))})
        why = "a bearer token is needed, the one of [server] token_file"
        raise HTTPException(401, why, {"www-authenticate": "Bearer"})

    def _command(self, kind: str, told: Mapping[str, Any]) -> Command:
        unknown = sorted(set(told) - KEYS[kind])
        if unknown:
            known = ", ".join(sorted(KEYS[kind]))
            raise HTTPException(400, f"{kind} does not know {unknown[0][:40]!r}; it may say {known}")
        author = told.get("author", "api")
        if not isinstance(author, str) or not AUTHOR.fullmatch(author):
            raise HTTPException(400, "author must be up to 64 letters, digits, spaces or one of .@-_")
        match kind:
            case "pause":
                return Command(CommandKind.PAUSE, _knob(told), _direction(told), author=author)
            case "resume":
                return Command(CommandKind.RESUME, _knob(told), author=author)
            case "approve":
                return Command(CommandKind.APPROVE, decision_id=self._asked(told.get("id")), author=author)
            case _:
                return Command(CommandKind.MODE, mode=self._mode(told.get("mode")), author=author)

    def _asked(self, ident: object) -> str:
        """The decision that waits; a 409 for any other."""
        face = self._board.face
        asked = None if face is None else face.last.state.asked
        if asked is None or asked.decision_id != ident:
            waits = "nothing waits for an approval" if asked is None else f"{asked.decision_id} waits for an approval"
            raise HTTPException(409, f"{waits}; it may have expired meanwhile")
        return asked.decision_id

    def _mode(self, name: object) -> ControlMode:
        try:
            mode = ControlMode(str(name))
        except ValueError:
            raise HTTPException(400, f"mode must be one of {', '.join(ControlMode)}") from None
        if mode is ControlMode.AUTO and self._board.about.auto_refused:
            raise HTTPException(409, self._board.about.auto_refused)
        return mode


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _knob(told: Mapping[str, Any]) -> str | None:
    knob = told.get("knob")
    if knob is not None and knob not in ACTED:
        raise HTTPException(400, f"knob must be one of {', '.join(ACTED)}, or absent for all")
    return knob


def _direction(told: Mapping[str, Any]) -> Direction | None:
    way = told.get("direction")
    if way is None:
        return None
    if way not in ("up", "down"):
        raise HTTPException(400, "direction must be up or down, or absent for both")
    return Direction(way)


async def _body(request: Request) -> Mapping[str, Any]:
    """A small JSON object, soon."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "a command is application/json")
    try:
        async with asyncio.timeout(BODY_S):
            told = json.loads(await _bytes(request))
    except TimeoutError:
        raise HTTPException(408, f"a command has to be here within {BODY_S:.0f} s") from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is no JSON") from None
    if not isinstance(told, dict):
        raise HTTPException(400, 'a command is a JSON object, {} or {"knob": "max_in_flight"}')
    return told


async def _bytes(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MOST:
            raise HTTPException(413, f"a command has at most {BODY_MOST} bytes", {"connection": "close"})
    return body or b"{}"
