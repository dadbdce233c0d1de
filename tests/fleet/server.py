"""A real Prometheus server that scrapes the emulated fleet: Debian's package, started on loopback and stopped again."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BINARY = shutil.which("prometheus")
MISSING = "no prometheus server here: `apt-get install prometheus` brings it (no service of it is used)"
START_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def prometheus(folder: Path, fleet_url: str, every: str = "500ms", port: int | None = None) -> Iterator[str]:
    """Its address, once it is ready; data and configuration are in `folder` and stay there."""
    if BINARY is None:
        raise RuntimeError(MISSING)
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [
            {"job_name": "emulated", "http_sd_configs": [{"url": f"{fleet_url}/sd", "refresh_interval": "1s"}]}
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    log = (folder / "server.log").open("ab")
    server = subprocess.Popen(
        [
            BINARY,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        _await_ready(server, f"http://127.0.0.1:{port}", folder)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


def _await_ready(server: "subprocess.Popen[bytes]", url: str, folder: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1.0) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"prometheus did not start: {(folder / 'server.log').read_text()[-500:]}")
