"""`equipoise status` and `pause` where no daemon of ours answers: nothing is reported as done."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import ClassVar

import pytest

from tests.unit.daemon.logged_job import SECRET, Command


def test_nobody_at_home_is_said_so(equipoise: Command) -> None:
    done = equipoise("status", "--url", "http://127.0.0.1:9")
    assert done.code == 3
    assert "no daemon answers" in done.err


class Stranger(BaseHTTPRequestHandler):
    """Some other server behind the port that an operator mistook for ours."""

    said: ClassVar[tuple[int, bytes]] = (200, b"{}")

    def do_GET(self) -> None:
        status, body = self.said
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))  # closed on what was not read, a socket resets
        self.do_GET()

    def log_message(self, *told: object) -> None:
        return None


@pytest.mark.parametrize(
    "said",
    [
        (200, b"{}"),
        (200, b'{"status": "success"}'),
        (200, b"[" * 100_000),
        (404, b"404 page not found"),
        (404, b"[" * 9_000),
        (500, b"oops"),
    ],
)
def test_another_server_is_not_taken_for_a_daemon(equipoise: Command, folder: Path, said: tuple[int, bytes]) -> None:
    """Nothing is reported as paused or approved because some server said 200."""
    (folder / "token").write_text(SECRET)
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Said", (Stranger,), {"said": said})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        asked = [equipoise("status", "--url", url), equipoise("pause", "--url", url, "--token-file", "token")]
        server.shutdown()
    for done in asked:
        assert (done.code, done.out) == (3, "")
        assert f"{url}: what answers there is no daemon of ours" in done.err


class Banner(StreamRequestHandler):
    """What speaks first and not HTTP, as sshd and databases do."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")


def test_what_speaks_no_http_is_not_taken_for_a_daemon_that_is_down(equipoise: Command, folder: Path) -> None:
    with ThreadingTCPServer(("127.0.0.1", 0), Banner) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = equipoise("status", "--url", f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert (done.code, done.out) == (3, "")
    assert "no daemon of ours (no HTTP); check the port" in done.err


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:nine", "http://h:0"])
def test_an_address_that_is_none_is_refused_with_its_form(equipoise: Command, url: str) -> None:
    done = equipoise("status", "--url", url)
    assert done.code == 2
    assert f"--url {url}: write http://host:port" in done.err


def test_a_daemon_on_any_free_port_is_asked_by_its_address(equipoise: Command) -> None:
    done = equipoise("status", "--job", "job.toml")
    assert done.code == 2
    assert "server.port=0 is any free port" in done.err
