"""Small real HTTP servers on loopback, to be read from or to fail on: each stopped when its test ends."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from threading import Thread

HTML = b"<!DOCTYPE html><html><body><form>Please log in</form></body></html>"


@dataclass
class Answer:
    """What a server says once."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/plain; version=0.0.4"})
    drip_s: float = 0.0
    """Between two bytes of the body."""


@dataclass
class Asked:
    """What a server was asked."""

    path: str
    headers: dict[str, str]


Respond = Callable[[Asked], Answer | bytes | None]
"""None: the connection is cut without an answer."""


@dataclass
class Server:
    url: str
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def serving(respond: Respond, tls: object = None) -> Iterator[Server]:
    """A server on a free port of loopback; `tls` is an ssl.SSLContext."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = Asked(self.path, dict(self.headers.items()))
            server.asked.append(asked)
            answer = respond(asked)
            if answer is None:
                self.close_connection = True
                return
            if isinstance(answer, bytes):
                answer = Answer(answer)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if not answer.drip_s:
                self.wfile.write(answer.body)
                return
            for byte in answer.body:
                self.wfile.write(bytes([byte]))
                time.sleep(answer.drip_s)

        def log_message(self, *_: object) -> None:
            return None

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A client that hung up is no news."""

    httpd = Quiet(("127.0.0.1", 0), Handler)
    scheme = "http"
    if tls is not None:
        httpd.socket = tls.wrap_socket(httpd.socket, server_side=True)  # type: ignore[attr-defined]
        scheme = "https"
    server = Server(f"{scheme}://127.0.0.1:{httpd.server_port}")
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def certificate(folder: Path) -> SSLContext:
    """One of its own authority, `ca.pem` in that folder, for loopback."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += [
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(folder / "key.pem"),
        "-out",
        str(folder / "ca.pem"),
    ]
    subprocess.run(made, check=True, capture_output=True)
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context
