"""`python -m benchmarks.soak`: seven simulated days of the daemon's ticks; its memory and its journal must stay flat.

    8 engines and a trainer over HTTP -> feeds -> controller in auto -> journal of one day -> page and metrics

All is the daemon's own but the clock. The job drifts by day and night, restarts each day, and an engine is replaced by
one of another name every hour, so that whatever is remembered by name would grow.
"""

import argparse
import gc
import json
import math
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import resident_mb
from policies.commands import ControlMode
from simulators.clock import VirtualClock
from tests.servers import Asked, serving
from tuner.charter import rules_of
from tuner.config import load
from tuner.loop import Parts, one_tick
from tuner.server.board import About, Board
from tuner.server.metrics import Metrics
from tuner.wiring import Pruned, live, setup_of, started

START_S, DAY_S, PERIOD_S, STEP_S = 1.8e9, 86_400.0, 30.0, 120.0
ENGINES, BEFORE_S = 8, DAY_S
KEEP_TICKS = int(DAY_S / PERIOD_S)
FLAT_FRAC = 0.10
"""Largest growth from the end of the first full day to the last day's end."""
JOB = """\
[topology]
mode = "overlapped"
gpus_total = 128
gpus_per_engine = 8
trainer_gpu_step = 8
[setpoints]
gpus_trainer = 64
gpus_generator = 64
batch_rollouts = 512
[[source]]
path = "scrape+file:{targets}"
[[actuator]]
kind = "dry_run"
[policy]
earn_auto = false
[journal]
path = "{journal}"
keep_ticks = {keep}
"""


class Clock(VirtualClock):
    def wake(self) -> None:
        return None


@dataclass
class Job:
    """What the targets say at a moment of the week."""

    now_s: float = START_S

    def respond(self, asked: Asked) -> bytes:
        return self._engine(asked.path) if asked.path.startswith("/engine") else self._trainer()

    def _engine(self, path: str) -> bytes:
        passed_s, load = self.now_s - START_S, self._load()
        name = f'{{engine="0",model_name="m{path.rpartition("/")[2]}"}}'
        return (
            f"vllm:num_requests_running{name} {30 + 30 * load:.0f}\nvllm:num_requests_waiting{name} {40 * load:.0f}\n"
            f"vllm:kv_cache_usage_perc{name} {0.3 + 0.5 * load:.3f}\n"
            f"vllm:generation_tokens_total{name} {(1000 + 1500 * load) * passed_s:.0f}\n"
            f"vllm:num_preemptions_total{name} {passed_s // 900:.0f}\n"
        ).encode()

    def _trainer(self) -> bytes:
        load = self._load()
        said = {
            "rl_step": 1 + (self.now_s - START_S) % DAY_S // STEP_S,
            "rl_step_s": STEP_S,
            "rl_trainer_wait_s": 10.0 + 60.0 * load,
            "rl_trainer_busy_s": 105.0 - 60.0 * load,
            "rl_batch_rollouts": 512,
            "rl_resp_len_mean": 4000 + 4000 * load,
            "rl_sandboxes_started_total": (self.now_s - START_S) * 4,
            "rl_sandboxes_ended_total": (self.now_s - START_S) * 4 - 500,
        }
        return "".join(f"{name} {value:.3f}\n" for name, value in said.items()).encode()

    def _load(self) -> float:
        """0 at night, 1 at noon."""
        return 0.5 - 0.5 * math.cos(2.0 * math.pi * (self.now_s - START_S) / DAY_S)


def targets(url: str, hour: int) -> str:
    """The hosts: each hour one engine goes and another comes."""
    return "".join(f"{url}/engine/{hour + place}\n" for place in range(ENGINES)) + f"{url}/trainer\n"


def soak(days: float, folder: Path, told: Callable[[dict[str, float]], None]) -> list[dict[str, float]]:
    """What stands at the end of each half day."""
    job, clock, seen = Job(), Clock(START_S), list[dict[str, float]]()
    hosts, journal = folder / "hosts", folder / "soak.journal"
    with serving(job.respond) as server, ExitStack() as stack:
        hosts.write_text(targets(server.url, 0))
        file = folder / "job.toml"
        file.write_text(JOB.format(targets=hosts, journal=journal, keep=KEEP_TICKS))
        setup = setup_of(load(file), ControlMode.AUTO)
        world = live(setup.job, clock, stack)
        start = started(setup, world, "")
        stack.callback(start.journal.close)
        rules, state = rules_of(start.charter), start.state
        parts = Parts(world.plant, rules, clock, Pruned(start.journal, KEEP_TICKS), start.inbox, PERIOD_S, start.token)
        board = Board(About("soak", journal.name, rules, PERIOD_S, start.token, START_S, True, ""))
        metrics, orders, began_s = Metrics(board.about), 0, time.process_time()
        for tick in range(1, int(days * DAY_S / PERIOD_S) + 1):
            clock.wait_until(START_S + PERIOD_S * tick)
            job.now_s = clock.now_s()
            if tick % 120 == 0:
                hosts.write_text(targets(server.url, tick // 120))
            ticked = one_tick(parts, state, clock.now_s())
            state = ticked.state
            orders += ticked.receipt is not None
            board.ticked(ticked)
            metrics.ticked(ticked)
            server.asked.clear()
            if tick % (KEEP_TICKS // 2) == 0:
                gc.collect()
                row: dict[str, Any] = {
                    "days": PERIOD_S * tick / DAY_S,
                    "resident_mb": round(resident_mb(), 1),
                    "python_mb": round(tracemalloc.get_traced_memory()[0] / 1e6, 2),
                    "journal_mb": round(journal.stat().st_size / 1e6, 2),
                    "orders": orders,
                    "engines": ticked.entry.seen.snapshot.get("engines") or 0.0,
                    "cpu_ms_a_tick": round(1e3 * (time.process_time() - began_s) / tick, 2),
                }
                seen.append(row)
                told(row)
    return seen


def growth(rows: list[dict[str, float]], what: str) -> float:
    """From the end of the first day on which the journal was full to the end."""
    first = next((row for row in rows if row["days"] * DAY_S >= BEFORE_S + DAY_S / 2), rows[-1])
    return rows[-1][what] / first[what] - 1.0


def main() -> int:
    asked = argparse.ArgumentParser(description="Seven simulated days of ticks: memory and journal.")
    asked.add_argument("--days", type=float, default=7.0)
    asked.add_argument("--record", type=Path, help="a JSON file for what was measured")
    given = asked.parse_args()
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as folder:
        rows = soak(given.days, Path(folder), lambda row: print(json.dumps(row), flush=True))
    grown = {what: growth(rows, what) for what in ("resident_mb", "python_mb", "journal_mb")}
    print(", ".join(f"{what} {part:+.1%}" for what, part in grown.items()))
    if given.record is not None:
        given.record.write_text(json.dumps({"rows": rows, "growth_frac": grown}, indent=1) + "\n", encoding="utf-8")
    return int(any(part > FLAT_FRAC for part in grown.values()))


if __name__ == "__main__":
    sys.exit(main())
