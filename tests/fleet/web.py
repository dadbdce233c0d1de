"""The emulated fleet over HTTP: /metrics of every engine and of the trainer, target lists, and knobs to turn."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from simulators.plant import Setpoints
from tests.fleet.fleet import Fleet

BODY_MAX = 1 << 16
TEXT = "text/plain; version=0.0.4"


class Handler(BaseHTTPRequestHandler):
    """GET /engine/N/metrics, /trainer/metrics, /sd (a target list), /settings, /truth; POST /settings, /control."""

    protocol_version = "HTTP/1.1"
    fleet: Fleet

    def do_GET(self) -> None:
        parts = self.path.strip("/").split("/")
        match parts:
            case ["engine", number, "metrics"] if number.isdigit():
                text = self.fleet.engine_text(int(number))
                self._say(503 if text is None else 200, (text or "this engine is down\n").encode(), TEXT)
            case ["trainer", "metrics"]:
                self._say(200, self.fleet.trainer_text().encode(), TEXT)
            case ["sd"]:
                self._json(self.targets())
            case ["settings"]:
                settings, inventory = self.fleet.in_force()
                self._json({"in_force": asdict(settings), "inventory": asdict(inventory)})
            case ["truth"]:
                self._json(truth(self.fleet))
            case _:
                self._say(404, b"nothing here\n", TEXT)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(min(BODY_MAX, int(self.headers.get("Content-Length", 0)))) or b"{}")
        match self.path:
            case "/settings":
                wanted = Setpoints(**body.get("setpoints", {}))
                receipt = self.fleet.order(wanted, body.get("decision_id", ""), body.get("fencing_token", 0))
                self._json(
                    {
                        "decision_id": receipt.decision_id,
                        "outcomes": {k: asdict(o) for k, o in receipt.outcomes.items()},
                    }
                )
            case "/control":
                self.fleet.control(int(body["engine"]), str(body["state"]))
                self._json({})
            case _:
                self._say(404, b"nothing here\n", TEXT)

    def targets(self) -> list[dict[str, object]]:
        """As Prometheus' HTTP and file discovery take it: one target an engine, told apart by its path."""
        here = self.headers["Host"]
        paths = {f"engine-{i}": f"/engine/{i}/metrics" for i in self.fleet.running_engines()}
        paths["trainer"] = "/trainer/metrics"
        return [
            {"targets": [here], "labels": {"__metrics_path__": path, "instance": name}} for name, path in paths.items()
        ]

    def _json(self, value: object) -> None:
        self._say(200, json.dumps(value).encode(), "application/json")

    def _say(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return None


def truth(fleet: Fleet) -> dict[str, object]:
    """What truly happened: steps, useful rollouts, and the signals of the last steps in seconds of the wall clock."""
    with fleet.lock:
        fleet.look()
        logs = fleet.plant.log
        rows = [{n: fleet.faster(n, v) for n, v in log.row.values.items()} for log in logs[-32:]]
        return {
            "job_s": fleet.plant.now_s,
            "steps": len(logs),
            "useful": sum(log.useful for log in logs),
            "stopped": fleet.plant.stopped,
            "rows": rows,
        }


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """A client that hung up is no news."""


@contextmanager
def served(fleet: Fleet, port: int = 0) -> Iterator[str]:
    """The fleet's address while it is served, on a free port of loopback."""
    handler = type("Bound", (Handler,), {"fleet": fleet})
    httpd = _Quiet(("127.0.0.1", port), handler)
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
