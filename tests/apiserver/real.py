"""A real API server with its store, started on loopback where their programs are there.

They are looked for in the folder KUBEBUILDER_ASSETS, then on the PATH: `kube-apiserver` and `etcd`, of any release.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.apiserver.remote import RemoteStore
from tests.apiserver.store import RefusedError

ADMINISTRATOR = "administrator-token"
START_S = 180.0


@dataclass(frozen=True)
class Programs:
    """Where they are."""

    etcd: str
    server: str


@dataclass(frozen=True)
class Server:
    """A running one."""

    url: str
    authority: Path

    def store(self, namespace: str) -> RemoteStore:
        return RemoteStore(self.url, self.authority, ADMINISTRATOR, namespace)


def programs() -> Programs | None:
    """None: there is none here."""
    path = os.pathsep.join([os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ.get("PATH", "")])
    etcd, server = (shutil.which(name, path=path) for name in ("etcd", "kube-apiserver"))
    return Programs(etcd, server) if etcd and server else None


@contextmanager
def running(found: Programs, folder: Path, tokens: tuple[str, ...]) -> Iterator[Server]:
    """An empty cluster without nodes; each token is a user of the same name, without any rights."""
    etcd, peer, secure = free_ports(3)
    key = folder / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    users = [f"{ADMINISTRATOR},administrator,0,system:masters", *(f"{token},{token},{token}" for token in tokens)]
    (folder / "tokens.csv").write_text("\n".join(users) + "\n")
    commands = (
        [
            *(found.etcd, f"--data-dir={folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}"),
            *(f"--advertise-client-urls=http://127.0.0.1:{etcd}", f"--listen-peer-urls=http://127.0.0.1:{peer}"),
            "--unsafe-no-fsync",
        ],
        [
            *(found.server, f"--etcd-servers=http://127.0.0.1:{etcd}", f"--cert-dir={folder}/certificates"),
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={secure}"),
            *("--authorization-mode=RBAC", f"--token-auth-file={folder}/tokens.csv"),
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            *("--service-account-issuer=https://127.0.0.1", "--service-cluster-ip-range=10.0.0.0/24"),
            *("--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"),
        ],
    )
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
        server = Server(f"https://127.0.0.1:{secure}", folder / "certificates" / "apiserver.crt")
        _await(server, started[-1], folder)
        yield server
    finally:
        for process in reversed(started):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def _await(server: Server, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError, RefusedError):
            server.store("default").ask("GET", "api/v1/namespaces/default")
            return
        time.sleep(0.2)
    said = (folder / "kube-apiserver.log").read_text(errors="replace")
    raise RuntimeError(f"the API server does not start: {said[-2000:]}")


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
