"""The routes. Reading is open to whoever reaches the port; commands exist only with a token."""

import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tuner.errors import SourceError
from tuner.inbox import People
from tuner.pages import Pages
from tuner.report.html import TEMPLATES
from tuner.server import telling
from tuner.server.board import Board
from tuner.server.commanding import Commanding
from tuner.server.metrics import Metrics
from tuner.server.page import Page
from tuner.server.shield import Shield

EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
LIMIT_MOST, LIMIT_USUAL = 200, 50
IDENT = re.compile(r"d[0-9]{1,15}(\.[0-9]{1,4}b?)?")
STATIC = Path(__file__).parent / "static"
ASSETS = (
    ("page.css", "text/css", (TEMPLATES / "report.css", STATIC / "page.css")),
    ("page.js", "text/javascript", (STATIC / "page.js",)),
)
"""Files of our own: the page's style is the reports' and what only it needs."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What the routes stand on."""

    board: Board
    metrics: Metrics
    pages: Pages
    inbox: People
    token_file: Path | None = None
    wake: Callable[[], None] = lambda: None
    now_s: Callable[[], float] = time.time
    hosts: frozenset[str] | None = None
    """As in Shield."""


def app_of(ground: Ground) -> Shield:
    """The whole application behind its shield."""
    return Shield(Starlette(routes=routes_of(ground), exception_handlers=HANDLERS), ground.hosts)


def routes_of(ground: Ground) -> list[Route]:
    """All there are; those that command only with a token."""
    reading = Reading(ground)
    routes = [
        Route("/", reading.page),
        Route("/metrics", reading.metrics),
        Route("/healthz", reading.healthz),
        Route("/readyz", reading.readyz),
        Route("/api/v1/status", reading.status),
        Route("/api/v1/decisions", reading.decisions),
        Route("/api/v1/decisions/{ident}", reading.decision),
        Route("/api/v1/signals", reading.signals),
        Route("/api/v1/predictions", reading.predictions),
        *(Route(f"/{name}", asset(kind, files)) for name, kind, files in ASSETS),
    ]
    if ground.token_file is not None:
        commanding = Commanding(ground.board, ground.inbox, ground.token_file, ground.wake)
        routes += [Route(f"/api/v1/{kind}", commanding.route(kind), methods=["POST"]) for kind in commanding.kinds]
    return routes


class Reading:
    """The routes that only read."""

    def __init__(self, ground: Ground) -> None:
        self._ground, self._page = ground, Page(ground.board, ground.pages)

    async def page(self, request: Request) -> Response:
        text = await run_in_threadpool(self._page.text, self._ground.now_s())
        return Response(text, media_type="text/html")

    async def metrics(self, request: Request) -> Response:
        return Response(self._ground.metrics.text(), headers={"content-type": EXPOSITION})

    async def healthz(self, request: Request) -> Response:
        alive = self._ground.board.is_alive(self._ground.now_s())
        return JSONResponse({"alive": alive}, 200 if alive else 503)

    async def readyz(self, request: Request) -> Response:
        troubles = self._ground.board.troubles(self._ground.now_s())
        return JSONResponse({"ready": not troubles, "troubles": list(troubles)}, 503 if troubles else 200)

    async def status(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(telling.status, self._ground.board, self._ground.now_s()))

    async def decisions(self, request: Request) -> Response:
        limit = _whole(request, "limit", LIMIT_USUAL, LIMIT_MOST)
        before = _whole(request, "before", None, 2**62)
        records = await run_in_threadpool(self._ground.pages.newest, (limit or LIMIT_USUAL) + 1, before)
        return JSONResponse(telling.page_of(records, limit or LIMIT_USUAL))

    async def decision(self, request: Request) -> Response:
        ident = request.path_params["ident"]
        if not IDENT.fullmatch(ident):
            raise HTTPException(400, "a decision is called like d80, its legs like d80.1")
        found = await run_in_threadpool(self._ground.pages.of_decision, ident)
        if not found:
            raise HTTPException(404, f"the journal has no decision {ident}")
        return JSONResponse({"schema_version": telling.SCHEMA_VERSION, "ticks": [telling.stamped(r) for r in found]})

    async def signals(self, request: Request) -> Response:
        return JSONResponse(telling.signals(self._ground.board))

    async def predictions(self, request: Request) -> Response:
        return JSONResponse(telling.predictions(self._ground.board))


def asset(kind: str, files: Iterable[Path]) -> Callable[[Request], Awaitable[Response]]:
    """Files of our own after each other, read once."""
    body = b"".join(path.read_bytes() for path in files)

    async def answer(request: Request) -> Response:
        return Response(body, media_type=kind)

    return answer


def _whole(request: Request, name: str, usual: int | None, most: int) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return usual
    if not re.fullmatch(r"[0-9]{1,19}", text) or not 1 <= int(text) <= most:
        raise HTTPException(400, f"{name} must be a whole number from 1 to {most}")
    return int(text)


async def refused(request: Request, error: Exception) -> Response:
    """Every refusal is one JSON sentence."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else "internal error"
    return JSONResponse({"error": detail}, status, headers=getattr(error, "headers", None))


async def unreadable(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503, {"retry-after": "5"})


async def failed(request: Request, error: Exception) -> Response:
    """A bug of ours: its kind, and nothing of what was being worked on."""
    return JSONResponse({"error": f"this is a bug of ours ({type(error).__name__}); the loop goes on"}, 500)


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: refused,
    SourceError: unreadable,
    500: failed,
}
