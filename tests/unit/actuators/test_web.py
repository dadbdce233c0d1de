"""What a misbehaving server can do to us: nothing but a refusal, in time."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from simulators.plant import Topology
from tuner.actuators.registry import make
from tuner.actuators.router import newest_of
from tuner.actuators.site import Site
from tuner.actuators.web import Web
from tuner.errors import ActuationError, ConfigError


@pytest.fixture
def server() -> Iterator[str]:
    """Each path is one kind of misbehaviour."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            try:
                self._misbehave()
            except OSError:  # the client has had enough
                return

        def _misbehave(self) -> None:
            if self.path == "/hang":
                time.sleep(3)
            self.send_response(302 if self.path == "/elsewhere" else 200)
            if self.path == "/elsewhere":
                self.send_header("Location", "/token")
            self.end_headers()
            if self.path == "/drip":
                while True:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.05)
            if self.path == "/flood":
                for _ in range(100):
                    self.wfile.write(b" " * (1 << 20))
            if self.path == "/html":
                self.wfile.write(b"<html>Please log in</html>")
            if self.path == "/token":
                # Backwards, because the client hides its own token in whatever comes back.
                self.wfile.write(b'{"got": "%s"}' % (self.headers.get("Authorization") or "")[::-1].encode())

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


@pytest.mark.parametrize("path", ["/hang", "/drip", "/flood"])
def test_a_server_that_hangs_drips_or_floods_is_given_up(server: str, path: str) -> None:
    with pytest.raises(ActuationError):
        Web(server, 0.4).ask("GET", path)


@pytest.mark.parametrize("url", ["http://a b", "http://localhost:99999"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ActuationError):
        Web(url, 0.4).ask("GET", "/")


def test_a_login_page_is_no_answer(server: str) -> None:
    assert Web(server, 2.0).ask("GET", "/html").body == {}


def test_a_token_is_read_anew_and_does_not_follow_a_redirect(server: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    web = Web(server, 2.0, token)
    for word in ("first", "second"):
        token.write_text(word + "\n")
        assert web.ask("GET", "/token").body == {"got": f"Bearer {word}"[::-1]}
    assert web.ask("GET", "/elsewhere").status == 302


def test_no_token_and_a_token_with_a_line_break_are_refused_without_showing_it(server: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    for text in ("", "hush\r\nX-Admin: 1"):
        token.write_text(text)
        with pytest.raises(ActuationError) as refused:
            Web(server, 2.0, token).ask("GET", "/token")
        assert "hush" not in str(refused.value)


def test_versions_are_compared_as_numbers_where_they_are() -> None:
    assert newest_of(["9", "10", None]) == "10"
    assert newest_of(["default", "3"]) == "3"
    assert newest_of([None]) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "ftp://router", "engines": ["http://a"]}, "url='ftp://router'"),
        ({"url": "http://me:pass@router", "engines": ["http://a"]}, "url: String should match pattern"),
        ({"url": "http://router", "engines": ["http://a", "http://a"]}, "stands there twice"),
        (
            {"url": "http://router", "engines": ["http://a"], "knobs": ["gpus_trainer"]},
            "Extra inputs are not permitted",
        ),
    ],
)
def test_a_wrong_section_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make("router", options, Site(Topology(gpus_per_engine=8)))
    assert words in str(refused.value)


def test_a_router_without_the_size_of_an_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"set \[topology\] gpus_per_engine"):
        make("router", {"url": "http://router", "engines": ["http://a"]}, Site())
