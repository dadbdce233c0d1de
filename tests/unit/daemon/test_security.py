"""Nothing is commanded without the token; nobody gets further by size, speed, paths or odd headers; no secret leaks."""

import json
import socket
import time
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from policies.commands import Command, CommandKind, ControlMode
from tests.servers import Answer, Asked
from tests.servers import serving as echoing
from tests.unit.daemon.faces import TOKEN, Face, served
from tuner.cli import main
from tuner.config import load
from tuner.errors import ConfigError
from tuner.server import commanding, serving
from tuner.server.commanding import BODY_MOST, TOKEN_MOST, token_of
from tuner.server.shield import BURST

DATA = ("status", "decisions", "decisions/d1", "signals", "predictions")
READING = ("/", "/metrics", "/healthz", "/readyz", "/page.css", "/page.js", *(f"/api/v1/{name}" for name in DATA))


def raw(face: Face, text: bytes, wait_s: float = 5.0) -> bytes:
    """What comes back for these bytes, until the other side closes or cuts the line."""
    host, port = urlsplit(face.url).netloc.split(":")
    got = b""
    with suppress(ConnectionError), socket.create_connection((host, int(port)), timeout=wait_s) as connection:
        connection.sendall(text)
        while piece := connection.recv(65536):
            got += piece
    return got


def test_without_a_token_file_no_commanding_route_exists(tmp_path: Path) -> None:
    with served(tmp_path, token=None) as face:
        for kind in ("pause", "resume", "approve", "mode"):
            assert face.tell(f"/api/v1/{kind}", {}).status == 404
        assert face.inbox.drain() == ()
        assert b"Commands are off" in face.ask("/").body


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer  {TOKEN}",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {'x' * (TOKEN_MOST * 4)}",
        "Bearer \xff\xfe\xfd",
    ],
)
def test_a_wrong_missing_or_overlong_token_commands_nothing(fresh: Face, authorization: str) -> None:
    headers = {"authorization": authorization} if authorization else {}
    answer = fresh.ask("/api/v1/pause", "POST", b"{}", content_type="application/json", **headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert fresh.inbox.drain() == ()
    assert fresh.woken == []


def test_the_right_token_commands_and_wakes_the_loop(fresh: Face) -> None:
    assert fresh.tell("/api/v1/pause", {"knob": "max_in_flight", "direction": "up", "author": "ann"}).status == 202
    assert fresh.tell("/api/v1/mode", {"mode": "observe"}).status == 202
    assert fresh.tell("/api/v1/resume", {}).status == 202
    kinds = [(c.kind, c.knob, c.mode, c.author) for c in fresh.inbox.drain()]
    assert kinds == [
        (CommandKind.PAUSE, "max_in_flight", None, "ann"),
        (CommandKind.MODE, None, ControlMode.OBSERVE, "api"),
        (CommandKind.RESUME, None, None, "api"),
    ]


def test_after_many_wrong_tokens_the_wrong_are_turned_away_and_the_right_is_heard(fresh: Face) -> None:
    statuses = [fresh.tell("/api/v1/pause", {}, token="guess").status for _ in range(14)]
    assert statuses == [401] * 10 + [429] * 4
    assert fresh.tell("/api/v1/pause", {}).status == 202


def test_a_token_that_rotates_counts_from_the_next_request_on(fresh: Face) -> None:
    (fresh.journal.parent / "token").write_text("another-token-of-good-length")
    assert fresh.tell("/api/v1/pause", {}).status == 401
    assert fresh.tell("/api/v1/pause", {}, token="another-token-of-good-length").status == 202


def test_a_token_file_that_went_away_commands_nothing_and_the_remedy_is_said(fresh: Face) -> None:
    (fresh.journal.parent / "token").unlink()
    answer = fresh.tell("/api/v1/pause", {})
    assert answer.status == 503
    assert "[server] token_file is gone or holds no token; write one there" in answer.json["error"]
    (fresh.journal.parent / "token").write_text(TOKEN)
    assert fresh.tell("/api/v1/pause", {}).status == 202


@pytest.mark.parametrize(
    "text", ["", "short", "with space in the middle!", "x" * (TOKEN_MOST + 1), "tokentoken\x00token"]
)
def test_a_file_without_a_token_worth_the_name_is_refused_at_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError, match="openssl rand"):
        token_of(tmp_path / "token")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"knob": "reward"}, "knob must be one of"),
        ({"direction": "sideways"}, "direction"),
        ({"shell": "rm -rf"}, "does not know 'shell'"),
        ({"author": "a\nb"}, "author"),
        ({"author": "x" * 65}, "author"),
        ({"author": {"a": 1}}, "author"),
        ([], "JSON object"),
        ("pause", "JSON object"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(fresh: Face, told: object, words: str) -> None:
    answer = fresh.tell("/api/v1/pause", told)
    assert answer.status == 400
    assert words in answer.json["error"]
    assert fresh.inbox.drain() == ()


def test_an_approval_of_what_nobody_asked_is_refused(fresh: Face) -> None:
    assert fresh.tell("/api/v1/approve", {"id": "d1"}).status == 409
    assert fresh.tell("/api/v1/mode", {"mode": "god"}).status == 400


def test_a_form_of_another_site_cannot_command(fresh: Face) -> None:
    answer = fresh.ask(
        "/api/v1/pause", "POST", b"{}", content_type="text/plain", authorization=f"Bearer {TOKEN}", origin="http://evil"
    )
    assert answer.status == 415


def test_an_oversized_body_is_cut_off(fresh: Face) -> None:
    body = json.dumps({"author": "x" * BODY_MOST}).encode()
    answer = fresh.ask("/api/v1/pause", "POST", body, content_type="application/json", authorization=f"Bearer {TOKEN}")
    assert answer.status == 413
    assert fresh.inbox.drain() == ()


def test_deep_json_is_refused(fresh: Face) -> None:
    body = b"[" * 2000 + b"]" * 2000
    answer = fresh.ask("/api/v1/pause", "POST", body, content_type="application/json", authorization=f"Bearer {TOKEN}")
    assert answer.status == 400


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/page.css/../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api/v1/decisions/..%2f..%2ftoken",
        "/static/page.css",
        "//etc/passwd",
        "/token",
        "/journal.db",
    ],
)
def test_no_path_leads_to_a_file_of_the_machine(face: Face, path: str) -> None:
    answer = face.ask(path)
    assert answer.status in (400, 404)
    assert b"root:" not in answer.body
    assert TOKEN.encode() not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_reading_routes_only_read(face: Face, method: str) -> None:
    assert face.ask("/api/v1/status", method).status == 405


def test_a_line_break_in_a_path_or_query_makes_no_header(face: Face) -> None:
    for path in (b"/api/v1/decisions/d1%0d%0aX-Evil:%201", b"/?a=%0d%0aX-Evil:%201"):
        got = raw(face, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"\r\nX-Evil" not in got
    got = raw(face, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rX-Evil: 1\r\nConnection: close\r\n\r\n")
    assert b"X-Evil" not in got


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9464", "127.0.0.1.evil.example", ""])
def test_a_stranger_s_page_whose_name_was_pointed_here_reads_nothing(face: Face, host: str) -> None:
    got = raw(face, b"GET /api/v1/status HTTP/1.1\r\nHost: " + host.encode() + b"\r\nConnection: close\r\n\r\n")
    assert b"421" in got.split(b"\r\n")[0]
    assert b"fluid" not in got


def test_a_head_without_end_is_refused(face: Face) -> None:
    got = raw(face, b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"a" * 200_000)
    assert got == b"" or b"400" in got.split(b"\r\n")[0]


def test_slow_senders_hold_nobody_up(face: Face) -> None:
    host, port = urlsplit(face.url).netloc.split(":")
    slow = [socket.create_connection((host, int(port)), timeout=5.0) for _ in range(20)]
    for connection in slow:
        connection.sendall(b"POST /api/v1/pause HTTP/1.1\r\nHost: x\r\nX-Half: ")
    began = time.monotonic()
    assert face.ask("/healthz").status == 200
    assert time.monotonic() - began < 5.0
    for connection in slow:
        connection.close()


@pytest.mark.slow
def test_a_command_whose_body_does_not_come_is_given_up(fresh: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commanding, "BODY_S", 0.2)
    head = f"POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    assert b"408" in raw(fresh, head.encode(), wait_s=20.0).split(b"\r\n")[0]
    assert fresh.inbox.drain() == ()


def test_a_sender_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LIFE_S", 0.3)
    with served(tmp_path) as face:
        assert raw(face, b"POST /api/v1/pause HTTP/1.1\r\nHost: x\r\nX-Half: ", wait_s=20.0) == b""


def test_a_flood_is_slowed_down_but_probes_and_metrics_are_answered(fresh: Face) -> None:
    statuses = [fresh.ask("/page.css").status for _ in range(round(BURST) * 3)]
    assert 429 in statuses
    assert statuses[:20] == [200] * 20
    assert {fresh.ask(path).status for path in ("/healthz", "/readyz", "/metrics")} == {200}


@pytest.mark.parametrize("path", READING)
def test_every_answer_forbids_a_browser_what_the_page_does_not_need(face: Face, path: str) -> None:
    headers = face.ask(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_no_answer_holds_the_token_or_its_place(fresh: Face) -> None:
    fresh.tell("/api/v1/pause", {"author": "ann"})
    answers = [fresh.ask(path) for path in READING]
    answers += [fresh.tell("/api/v1/pause", {}, token="wrong"), fresh.tell("/api/v1/mode", {"mode": TOKEN[:4]})]
    for answer in answers:
        everything = answer.body + repr(answer.headers).encode()
        assert TOKEN.encode() not in everything
        assert str(fresh.journal.parent).encode() not in everything
    assert TOKEN.encode() not in fresh.journal.read_bytes()


def test_what_a_job_writes_into_its_logs_is_text_on_the_page(tmp_path: Path) -> None:
    script = "<script>alert(1)</script>"
    with served(tmp_path, said=(Command(CommandKind.PAUSE, author=script),)) as face:
        text = face.ask("/").body.decode()
    assert script not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


TOLD_AT_ONCE = """\
[topology]
mode = "overlapped"
gpus_total = 64
gpus_per_engine = 8
[setpoints]
gpus_trainer = 16
gpus_generator = 48
[[source]]
path = "prometheus+{url}/json"
token_file = "secrets/bearer"
[[source]]
path = "prometheus+{url}/html"
user = "ann"
password_file = "secrets/password"
[[source]]
path = "scrape+{url}/metrics"
token_file = "secrets/bearer"
[[actuator]]
kind = "router"
url = "{url}"
token_file = "secrets/bearer"
engines = ["http://127.0.0.1:9", "http://127.0.0.1:8"]
[server]
enabled = false
"""


@pytest.mark.parametrize("status", [200, 401, 500])
def test_servers_that_hand_our_secrets_back_put_them_into_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    """Every secret that a job file can name goes to servers whose errors repeat it, as JSON, as HTML, as a header."""
    secrets = {"bearer": "swordfish-of-the-bearer", "password": "swordfish-of-ann"}
    (tmp_path / "secrets").mkdir()
    for name, secret in secrets.items():
        (tmp_path / "secrets" / name).write_text(secret)
    basic = b64encode(f"ann:{secrets['password']}".encode()).decode()
    monkeypatch.chdir(tmp_path)

    def echo(asked: Asked) -> Answer:
        sent = asked.headers.get("Authorization", "")
        bodies = {"json": json.dumps({"status": "error", "error": sent}), "html": f"<html><title>{sent}</title>"}
        kind = asked.path.strip("/").split("/")[0]
        return Answer(bodies.get(kind, f"# {sent}\n{sent} 1\n").encode(), status, {"WWW-Authenticate": sent})

    with echoing(echo) as server:
        (tmp_path / "job.toml").write_text(TOLD_AT_ONCE.format(url=server.url))
        for words in (
            ("doctor", "--job", "job.toml"),
            ("doctor", "--job", "job.toml", "--json"),
            ("run", "--job", "job.toml", "--once"),
            ("run", "--job", "job.toml", "--once", "--json"),
            ("journal", "export", "equipoise.journal"),
            ("explain", "d1", "--journal", "equipoise.journal"),
        ):
            main(words)
        sent = [asked.headers.get("Authorization") for asked in server.asked]
    said = capsys.readouterr()
    files = [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir() if path.is_file()]
    assert {f"Bearer {secrets['bearer']}", f"Basic {basic}"} <= set(sent)
    assert said.out
    assert [
        text for text in (said.out, said.err, *files) for secret in (*secrets.values(), basic) if secret in text
    ] == []


@pytest.mark.parametrize(
    "bomb",
    [
        "a = " + "[" * 100_000,
        ".".join("a" * 50_000) + " = 1\n",
        "a = " + "{a=" * 20_000,
        "[" + ".".join("a" * 20_000) + "]\n",
        "a = " + "1" * 10_000 + "\n",
        'a = """' + "x" * (5 << 20) + '"""\n',
    ],
    ids=["arrays", "keys", "tables", "headings", "number", "size"],
)
def test_a_job_file_made_to_break_its_reader_is_refused_in_a_line(tmp_path: Path, bomb: str) -> None:
    (tmp_path / "job.toml").write_text(bomb)
    with pytest.raises(ConfigError) as refused:
        load(tmp_path / "job.toml")
    assert len(str(refused.value)) < 1000
    assert "job.toml" in str(refused.value)
