"""What a step says of itself under the neutral names of docs/signals.md: added up while it runs, told at its end."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from prometheus_client.core import GaugeMetricFamily

from examples.live_job.batch import Done
from examples.live_job.rollouts import Group, Rollout

COUNTS = ("dispatched", "aborted", "dropped_stale", "filtered_zero_adv", "filtered_groups")


class Meters:
    """Of the step under way; and, as /metrics shows them, the signals of the last one, all of the same step."""

    def __init__(self, lines: Path) -> None:
        self._lines = lines
        self._shown: dict[str, float] = {}
        self._counts = dict.fromkeys(COUNTS, 0.0)
        self._finished: list[Rollout] = []
        self._gated_s, self._in_flight_s, self._clocked_at = 0.0, 0.0, time.monotonic()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, value in self._shown.items():
            yield GaugeMetricFamily(f"rl_{name}", "see docs/signals.md", value=value)

    def count(self, name: str, rollouts: float) -> None:
        self._counts[name] += rollouts

    def finish(self, rollout: Rollout) -> None:
        self._finished.append(rollout)

    def clock(self, in_flight: int, limit: int, gated: bool) -> None:
        """Before either changes: adds up what is in flight, and which share of the places stands empty because the
        trainer is behind (gated)."""
        now = time.monotonic()
        self._in_flight_s += (now - self._clocked_at) * in_flight
        if gated:
            self._gated_s += (now - self._clocked_at) * max(0.0, 1.0 - in_flight / limit)
        self._clocked_at = now

    def tell(self, version: int, times: dict[str, float], batch: list[Group], done: Done, now: dict[str, int]) -> None:
        """One step: a line of JSONL, and the gauges. `now`: what the queue and its limit are at its end."""
        trained = [rollout for group in batch for rollout in group.rollouts]
        answers = sorted(sum(rollout.chosen) for rollout in trained)
        seconds = sorted(rollout.seconds for rollout in self._finished) or [0.0]
        ages = [version - 1 - group.version for group in batch]
        values = {
            **times,
            **self._counts,
            **now,
            "generator_wait_s": min(self._gated_s, times["step_s"]),
            "batch_rollouts": len(trained),
            "accepted": len(trained),
            "inflight_rollouts": self._in_flight_s / times["step_s"],
            "staleness_mean": fmean(ages),
            "staleness_max": max(ages),
            "policy_version": version,
            "rollout_latency_s": fmean(seconds),
            "rollout_p99_s": seconds[int(0.99 * (len(seconds) - 1))],
            "slowest_s": seconds[-1],
            "non_generation_mean_s": fmean([r.outside_s for r in self._finished] or [0.0]),
            "resp_len_mean": fmean(answers),
            "resp_len_p50": answers[len(answers) // 2],
            "resp_len_max": answers[-1],
            "prompt_len_mean": fmean([len(r.tokens) for r in trained]) - fmean(answers),
            "tokens_total": sum(len(r.tokens) for r in trained),
            "turns_mean": fmean([r.turns for r in trained]),
            "reward_mean": fmean([r.reward for r in self._finished or trained]),
            "zero_adv_frac": 0.0,
            "entropy": done.entropy,
            "grad_norm": done.grad_norm,
        }
        self._counts = dict.fromkeys(COUNTS, 0.0)
        self._finished, self._gated_s, self._in_flight_s = [], 0.0, 0.0
        self._shown = {"step": version, **values}
        line = {"step": version, "timestamp": time.time(), **{k: round(v, 5) for k, v in values.items()}}
        with self._lines.open("a") as file:
            file.write(json.dumps(line) + "\n")
