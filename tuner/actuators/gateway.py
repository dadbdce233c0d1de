"""The control plane of sglang-router and smg, as both speak it: engines are listed, added and removed as jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.actuators.web import Answer, Web
from tuner.errors import ActuationError


@dataclass(frozen=True, slots=True)
class Worker:
    """One engine as the router lists it."""

    id: str
    url: str
    healthy: bool
    load: float
    draining: bool


class Gateway:
    """A router's address. Whatever it does not do is an ActuationError."""

    def __init__(self, web: Web) -> None:
        self._web = web

    def workers(self) -> list[Worker]:
        """All engines that it lists; one that is being added is listed once it is."""
        answer = self._web.ask("GET", "/workers")
        listed = answer.body.get("workers")
        if answer.status != 200 or not isinstance(listed, list):
            raise ActuationError(f"{self._web.url} lists no engines: {answer.said}")
        return [worker for entry in listed if (worker := _worker(entry)) is not None]

    def add(self, url: str) -> str:
        """The router's job; one that is on its way already is the same."""
        answer = self._web.ask("POST", "/workers", {"url": url})
        if answer.status == 409:
            return self._found(url)
        return _accepted(answer, f"add {url}")

    def _found(self, url: str) -> str:
        known = next((worker.id for worker in self.workers() if worker.url == url), None)
        if known is None:
            raise ActuationError(f"the router says that it has {url} already, and does not list it")
        return known

    def remove(self, worker: Worker) -> str:
        """The router's job; the engine's own number where it is gone already."""
        answer = self._web.ask("DELETE", f"/workers/{worker.id}")
        return worker.id if answer.status == 404 else _accepted(answer, f"remove {worker.url}")

    def withdraw(self, job: str) -> None:
        """Takes out again what a job was to add, however far it has come."""
        self._web.ask("DELETE", f"/workers/{job}")

    def failure(self, job: str) -> str | None:
        """Why a job failed; None while it has not."""
        answer = self._web.ask("GET", f"/workers/{job}")
        told = answer.body.get("job_status")
        if answer.status == 404:
            return "the router has dropped the job"
        if isinstance(told, Mapping) and told.get("status") == "failed":
            return str(told.get("message") or "the router's job failed")[:300]
        return None


def _worker(entry: Any) -> Worker | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("url"), str):
        return None
    load = entry.get("load")
    return Worker(
        str(entry.get("id", "")),
        entry["url"].rstrip("/"),
        entry.get("is_healthy") is True,
        float(load) if isinstance(load, int | float) else 0.0,
        entry.get("status") == "draining",
    )


def _accepted(answer: Answer, what: str) -> str:
    job = answer.body.get("worker_id")
    if answer.status not in (200, 202) or not isinstance(job, str):
        raise ActuationError(f"the router does not {what}: {answer.said}")
    return job
