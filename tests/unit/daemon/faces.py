"""What tests of the daemon's face build: a real server on a free port, behind it a journal that a loop has written."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from policies.commands import Command, ControlMode
from policies.laws.rate_balance import RateBalance
from policies.rules import Rules
from policies.state import State
from simulators.clock import VirtualClock
from tests.plants import TOPOLOGY, FluidPlant
from tests.unit.control.conftest import CAPABILITIES
from tuner.inbox import People
from tuner.journal import Journal
from tuner.loop import Parts, Watcher, run
from tuner.pages import Pages
from tuner.server.app import Ground, app_of
from tuner.server.board import About, Board
from tuner.server.metrics import Metrics
from tuner.server.serving import Serving, address_of, listening
from tuner.server.shield import LOOPBACK

TOKEN = "correct-horse-battery-staple"
RULES = Rules(RateBalance(), TOPOLOGY, capabilities=CAPABILITIES, gate=None, earn_auto=False)
HOUR = 3600.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Face:
    """A served daemon whose loop stands still at `now_s`."""

    url: str
    board: Board
    metrics: Metrics
    inbox: People
    journal: Path
    state: State
    now_s: float = HOUR
    woken: list[bool] = field(default_factory=list)

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=10.0)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, told, answer.read())
        finally:
            connection.close()

    def tell(self, path: str, told: object, token: str = TOKEN) -> Answer:
        body = json.dumps(told).encode()
        return self.ask(path, "POST", body, content_type="application/json", authorization=f"Bearer {token}")


def ran(folder: Path, until_s: float, said: tuple[Command, ...], *watchers: Watcher) -> State:
    journal, inbox = Journal(folder / "journal.db"), People()
    for command in said:
        inbox.put(command)
    parts = Parts(FluidPlant(), RULES, VirtualClock(), journal, inbox, 60.0, watchers=watchers)
    state = run(parts, State(mode=ControlMode.AUTO), until_s)
    journal.close()
    return state


@contextmanager
def served(
    folder: Path, token: str | None = TOKEN, until_s: float = HOUR, said: tuple[Command, ...] = ()
) -> Iterator[Face]:
    board = Board(About("fluid", "journal.db", RULES, 60.0, 7, 0.0, token is not None))
    metrics = Metrics(board.about)
    state = ran(folder, until_s, said, board, metrics)
    if token is not None:
        (folder / "token").write_text(f"{token}\n")
    socket = listening("127.0.0.1", 0)
    face = Face(address_of(socket), board, metrics, People(), folder / "journal.db", state)
    ground = Ground(
        board,
        metrics,
        Pages(folder / "journal.db"),
        face.inbox,
        folder / "token" if token is not None else None,
        lambda: face.woken.append(True),
        lambda: face.now_s,
        LOOPBACK,
    )
    server = Serving(app_of(ground), socket)
    server.start()
    try:
        yield face
    finally:
        server.stop()
