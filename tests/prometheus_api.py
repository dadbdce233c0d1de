"""As much of a Prometheus server's HTTP API as our feed asks for, over stored samples, with faults to switch on."""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.servers import Answer, Asked

JSON = {"Content-Type": "application/json"}
_RANGE = re.compile(r"\{__name__=~?\"([^\"]*)\"(.*)\}\[(\d+)ms\]")

Labels = Mapping[str, str]


@dataclass
class PrometheusApi:
    """Serves what is stored; `fault`, where it answers, is said instead."""

    now_s: float = 1.8e9
    stored: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = field(default_factory=dict)
    up: list[tuple[dict[str, str], float]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    fault: Callable[[str], Answer | None] = lambda promql: None
    """(PromQL) -> what is answered instead; None: as usual."""
    slow_s: float = 0.0
    asked: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)

    def store(self, name: str, labels: Labels, *samples: tuple[float, float]) -> None:
        key = tuple(sorted({"__name__": name, **labels}.items()))
        self.stored.setdefault(key, []).extend(samples)

    def respond(self, asked: Asked) -> Answer | None:
        time.sleep(self.slow_s)
        self.authorizations.append(asked.headers.get("Authorization"))
        query = {k: v[0] for k, v in parse_qs(urlsplit(asked.path).query).items()}
        promql = query.get("query", "")
        self.asked.append(promql)
        said = self.fault(promql)
        if said is not None:
            return said
        if asked.path.startswith("/api/v1/label/__name__/values"):
            return self._json(sorted({dict(key)["__name__"] for key in self.stored}))
        if not asked.path.startswith("/api/v1/query"):
            return Answer(b"not found", 404)
        return self._json(self._result(promql, float(query.get("time", self.now_s))))

    def _result(self, promql: str, at_s: float) -> dict[str, object]:
        if promql == "vector(time())":
            return {"resultType": "vector", "result": [{"metric": {}, "value": [self.now_s, repr(self.now_s)]}]}
        ranged = _RANGE.fullmatch(promql)
        if ranged is None:
            return {
                "resultType": "vector",
                "result": [{"metric": labels, "value": [at_s, repr(v)]} for labels, v in self.up],
            }
        names, back_s = set(ranged[1].split("|")), int(ranged[3]) / 1000
        found = []
        for key, samples in self.stored.items():
            kept = [[t, repr(v)] for t, v in samples if at_s - back_s < t <= at_s]
            if dict(key)["__name__"] in names and kept:
                found.append({"metric": dict(key), "values": kept})
        return {"resultType": "matrix", "result": found}

    def _json(self, data: object) -> Answer:
        body: dict[str, object] = {"status": "success", "data": data}
        if self.warnings:
            body["warnings"] = self.warnings
        return Answer(json.dumps(body).encode(), headers=JSON)
