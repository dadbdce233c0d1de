"""`python -m benchmarks.load`: what a look of the daemon costs beside 10,000 engine series, scraped every 5 s.

500 engines x 20 vLLM series -> a Prometheus answer over HTTP -> feed -> rows of the pool -> observation
"""

import json
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

from tests.servers import Answer, Asked, serving
from tuner.feeds.promql import metric_names
from tuner.frameworks.registry import by_name
from tuner.live import LivePlant, source_at

ENGINES, SERIES, PERIOD_S, START_S = 500, 10_000, 5.0, 1.8e9
TICKS, WARM = 60, 10
JSON = {"Content-Type": "application/json"}


class Answers:
    """The answers of one tick, written before it is timed."""

    def __init__(self) -> None:
        served = metric_names(by_name("vllm") or sys.exit("no vllm"))
        self._names = [n for n in served if n.startswith("vllm:") and not n.endswith("_info")][: SERIES // ENGINES]
        self._bodies: list[tuple[str, bytes]] = []
        self.now_s = START_S

    def prepare(self, tick: int) -> None:
        """Two scrapes an engine: the last one, and the one before, which is asked for again."""
        self.now_s = START_S + PERIOD_S * tick
        self._bodies = [(name, self._series(name, tick)) for name in self._names]

    def _series(self, name: str, tick: int) -> bytes:
        parts = []
        for engine in range(ENGINES):
            at_s = self.now_s - PERIOD_S * (engine + 1) / (ENGINES + 1)
            labels = {"__name__": name, "job": "vllm", "instance": f"node-{engine}:8000", "engine": "0"}
            value = tick * 1000 + engine if name.endswith(("_total", "_sum", "_count")) else 12 + engine % 7
            samples = [[round(t, 3), str(value)] for t in (at_s - PERIOD_S, at_s) if t > START_S - PERIOD_S]
            parts.append(json.dumps({"metric": labels, "values": samples}))
        return ",".join(parts).encode()

    def respond(self, asked: Asked) -> Answer:
        promql = parse_qs(urlsplit(asked.path).query).get("query", [""])[0]
        if promql == "vector(time())":
            found = json.dumps({"metric": {}, "value": [self.now_s, repr(self.now_s)]}).encode()
            return _said("vector", found)
        wanted = [
            body for name, body in self._bodies if f'"{name}"' in promql or f"{name}|" in promql.replace('"', "|")
        ]
        return _said("matrix", b",".join(wanted))


def _said(kind: str, found: bytes) -> Answer:
    head = f'{{"status":"success","data":{{"resultType":"{kind}","result":['.encode()
    return Answer(head + found + b"]}}", headers=JSON)


def ticks(count: int) -> Iterator[tuple[float, float]]:
    """(wall seconds, CPU seconds) of each look, after some to warm up."""
    answers = Answers()
    with serving(answers.respond) as server, closing(LivePlant([source_at(f"prometheus+{server.url}")])) as plant:
        for tick in range(1, count + WARM + 1):
            answers.prepare(tick)
            began, spent = time.perf_counter(), time.process_time()
            seen = plant.observe(answers.now_s)
            taken = time.perf_counter() - began, time.process_time() - spent
            if seen.snapshot.get("engines") != ENGINES and tick > 2:
                raise RuntimeError(f"{seen.snapshot.get('engines')} engines are seen: {seen.snapshot.notes}")
            if tick > WARM:
                yield taken


def main() -> int:
    found = list(ticks(TICKS))
    wall, cpu = sorted(w for w, _ in found), [c for _, c in found]
    print(f"{SERIES} series of {ENGINES} engines, a tick every {PERIOD_S:g} s, {TICKS} ticks")
    print(f"wall seconds: median {statistics.median(wall):.3f}, p99 {wall[int(0.99 * len(wall))]:.3f}")
    print(f"CPU seconds:  median {statistics.median(cpu):.3f} = {statistics.median(cpu) / PERIOD_S:.1%} of a core")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB, the server's answers included")
    return 0


if __name__ == "__main__":
    sys.exit(main())
