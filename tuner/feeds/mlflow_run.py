"""A run's history at MLflow (server, folder or database), by MLflow's own client where that is installed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from time import monotonic
from typing import Any

from tuner.errors import ConfigError
from tuner.feeds.base import Cursor, Poll
from tuner.records import Record

RUN = re.compile(r"[0-9a-f]{32}")
KEYS_MAX = 400
"""Metrics of one run that are read; each costs a question whenever a step is new."""
SYSTEM = "system/"
"""What MLflow itself says of the machine."""
SETTLED_S = 20.0
"""A step's metrics are logged one by one: the newest step counts once a later one began, or after so long."""


@dataclass(slots=True)
class _Step:
    time_s: float = 0.0
    values: dict[str, float] = field(default_factory=dict)


class MlflowRun:
    """Asks for what is new since the last step told. Where nothing was logged it costs one question a tick."""

    def __init__(self, where: str) -> None:
        """`where`: tracking URI, a slash, the run's id. Raises ConfigError."""
        uri, _, run = where.rpartition("/")
        if not uri or not RUN.fullmatch(run):
            raise ConfigError(
                f"mlflow+{where[:200]}: write mlflow+TRACKING_URI/RUN_ID, the id of 32 hexadecimal digits"
            )
        if "@" in uri:
            raise ConfigError("mlflow+...: no user or password in a URL; MLflow's client takes MLFLOW_TRACKING_TOKEN")
        try:
            mlflow = import_module("mlflow")
        except ImportError:
            raise ConfigError("mlflow+...: MLflow's client is not installed: pip install 'equipoise[mlflow]'") from None
        self._uri, self._run = uri, run
        self._client: Any = mlflow.MlflowClient(tracking_uri=uri)
        self._latest: Mapping[str, float] = {}

    @property
    def name(self) -> str:
        return f"mlflow+{self._uri}/{self._run}"

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        until, told = monotonic() + deadline_s, int(cursor.get("step", -1))
        try:
            latest = {k: v for k, v in self._client.get_run(self._run).data.metrics.items() if not k.startswith(SYSTEM)}
            steps = {} if latest == self._latest else self._since(told, sorted(latest)[:KEYS_MAX], until)
        except Exception as fault:  # the client lets through whatever its transport and its store raise
            return Poll((), cursor, 1, 0, _words(fault))
        if steps is None:
            return Poll((), cursor, 1, 0, f"no answer in time: {len(latest)} metrics to read")
        newest = max(steps, default=told)
        ready = [s for s in sorted(steps) if s < newest or now_s - steps[s].time_s >= SETTLED_S]
        if len(ready) == len(steps):
            self._latest = latest
        items = tuple(Record(steps[s].values, s, steps[s].time_s, origin=self.name) for s in ready)
        return Poll(items, {"step": ready[-1] if ready else told})

    def _since(self, told: int, keys: list[str], until: float) -> dict[int, _Step] | None:
        """The steps after `told`; None when the time was over."""
        steps: dict[int, _Step] = {}
        for key in keys:
            if monotonic() > until:
                return None
            for metric in self._client.get_metric_history(self._run, key):
                if metric.step > told:
                    step = steps.setdefault(metric.step, _Step())
                    step.values[key] = float(metric.value)
                    step.time_s = max(step.time_s, metric.timestamp / 1000.0)
        return steps

    def close(self) -> None:
        return None


def _words(fault: Exception) -> str:
    """The first line of what the client says; it names no credential, which are in the environment."""
    said = (str(fault).splitlines() or [""])[0][:200]
    return f"MLflow does not answer: {type(fault).__name__}: {said}"
