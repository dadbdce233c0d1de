"""Small stand-ins for inference engines: they answer what a router asks an SGLang engine, and generate nothing.

They are doubles and say so: `model_path` is "double".
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Engine:
    """One engine on a port of its own."""

    def __init__(self, version: str = "7", healthy: bool = True, slow_s: float = 0.0) -> None:
        self.version, self.healthy, self.slow_s = version, healthy, slow_s
        self.requests = 0
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                return

            def do_GET(self) -> None:
                path = self.path.split("?")[0]
                if path == "/health" and not engine.healthy:
                    self._say({"error": "starting"}, 503)
                elif path in ANSWERS:
                    self._say({**ANSWERS[path], "weight_version": engine.version})
                else:
                    self._say({"error": "unknown"}, 404)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                engine.requests += 1
                time.sleep(engine.slow_s)
                self._say({"text": "double", "meta_info": {"weight_version": engine.version}})

            def _say(self, document: Any, status: int = 200) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def die(self) -> None:
        self._server.shutdown()
        self._server.server_close()


MODEL = {"model_path": "double", "served_model_name": "double", "is_generation": True, "tp_size": 1, "dp_size": 1}
ANSWERS: dict[str, dict[str, Any]] = {
    "/health": {},
    "/server_info": {**MODEL, "internal_states": [{}], "version": "0.5.0"},
    "/get_server_info": {**MODEL, "internal_states": [{}], "version": "0.5.0"},
    "/model_info": MODEL,
    "/get_model_info": MODEL,
    "/v1/models": {"object": "list", "data": [{"id": "double", "object": "model", "owned_by": "sglang"}]},
}
