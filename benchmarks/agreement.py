"""`python -m benchmarks.agreement`: the analytic model against the event engine on random jobs, by region.

The jobs are those of tests/oracles/configurations.py. `--rollouts` sets how long each is simulated: 1,000,000 make a
standard error of about 0.15 %. `--record` writes benchmarks/results/agreement.json, which docs/validation.md shows.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from benchmarks.speed import RESULTS, machine
from simulators.analytic import AnalyticModel
from simulators.event_model import EventModel
from simulators.model import Prediction
from simulators.plant import Mode
from simulators.stations import Plug, SyncMode
from tests.oracles.configurations import Configuration, configuration

RECORD = RESULTS.with_name("agreement.json")
FIRST, COUNT = 1000, 300
"""Seeds: the weak rule was drawn up on those below."""
ROLLOUTS = 1_000_000
BATCHES_MIN = 60


@dataclass(frozen=True, slots=True)
class Pair:
    """One job, told by both models."""

    job: Configuration
    analytic: Prediction
    events: Prediction
    analytic_cpu_s: float
    events_cpu_s: float

    @property
    def error(self) -> float:
        """Of trained rollouts per second."""
        return self.analytic.rollouts_per_s / self.events.rollouts_per_s - 1.0

    @property
    def weak(self) -> bool:
        return bool(self.analytic.weak)


def compared(seed: int, rollouts: int, extras: bool) -> Pair | None:
    """None where a model says that the job stands still (both must say so, or it counts as disagreement elsewhere)."""
    return compared_job(configuration(seed, extras), rollouts)


def compared_job(job: Configuration, rollouts: int) -> Pair | None:
    batches = max(BATCHES_MIN, round(rollouts / (job.setpoints.batch_rollouts or 1) / job.workload.turns.mean))
    began = time.process_time()
    analytic = AnalyticModel(job.stations).predict(job.topology, job.workload, job.setpoints)
    told = time.process_time()
    model = EventModel(job.stations, batches=batches, warm_up_batches=max(30, batches // 20))
    events = model.predict(job.topology, job.workload, job.setpoints)
    if events.stopped or analytic.stopped:
        return None
    return Pair(job, analytic, events, told - began, time.process_time() - told)


def quantile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


REGIONS: Sequence[tuple[str, Callable[[Pair], bool]]] = (
    ("all", lambda pair: True),
    ("outside the weak rule", lambda pair: not pair.weak),
    ("weak", lambda pair: pair.weak),
    ("serial", lambda pair: pair.job.topology.mode is Mode.SERIAL),
    ("buffer cap", lambda pair: _plug(pair) is Plug.BUFFER_CAP),
    ("cap on started groups", lambda pair: _plug(pair) is Plug.WIP_CAP),
    ("drop-oldest", lambda pair: _plug(pair) is Plug.DROP_OLDEST),
    ("discard-stale", lambda pair: _plug(pair) is Plug.DISCARD_STALE),
    ("per sync", lambda pair: _plug(pair) is Plug.PER_SYNC),
    ("several turns", lambda pair: pair.job.workload.turns.mean > 1.0),
    ("filtered", lambda pair: bool(pair.job.setpoints.filter_zero_adv)),
    ("oversampled", lambda pair: pair.job.setpoints.oversampling_ratio is not None),
    ("drain or abort", lambda pair: pair.job.stations.sync.mode is not SyncMode.IN_FLIGHT),
    ("prefill", lambda pair: pair.job.stations.engine.prefill_s_per_token > 0.0),
    ("P/D", lambda pair: pair.job.stations.prefill is not None),
    ("sandboxes", lambda pair: pair.job.stations.sandboxes is not None),
    ("KV limit", lambda pair: pair.job.stations.engine.kv_tokens is not None),
    ("trainer idle under 5 %", lambda pair: pair.events.trainer_idle_frac < 0.05),
)


def _plug(pair: Pair) -> Plug | None:
    return None if pair.job.topology.mode is Mode.SERIAL else pair.job.stations.admission.plug


@dataclass(frozen=True, slots=True)
class Region:
    """How far the models are apart on some of the jobs: throughput, trainer idle, staleness in versions."""

    name: str
    jobs: int
    median_frac: float
    p90_frac: float
    largest_frac: float
    idle_p90: float
    staleness_p90: float


def regions(pairs: Sequence[Pair]) -> list[Region]:
    inside = [(name, [p for p in pairs if holds(p)]) for name, holds in REGIONS]
    return [_region(name, found) for name, found in inside if found]


def _region(name: str, pairs: Sequence[Pair]) -> Region:
    errors = [abs(pair.error) for pair in pairs]
    idle = [abs(pair.analytic.trainer_idle_frac - pair.events.trainer_idle_frac) for pair in pairs]
    both = [(pair.analytic.staleness, pair.events.staleness) for pair in pairs]
    ages = [abs(a.mean - e.mean) for a, e in both if a is not None and e is not None]
    middle, most, largest = quantile(errors, 0.5), quantile(errors, 0.9), max(errors)
    return Region(name, len(pairs), middle, most, largest, quantile(idle, 0.9), quantile(ages, 0.9))


def table(pairs: Sequence[Pair]) -> str:
    """Relative errors by region: throughput (median, 90 %, largest), idle in points, staleness in versions."""
    head = f"{'region':24} {'jobs':>5} {'median':>8} {'p90':>8} {'largest':>8} {'idle p90':>9} {'staleness p90':>14}"
    return "\n".join([head, *map(_line, regions(pairs))])


def _line(r: Region) -> str:
    errors = f"{r.median_frac:>8.2%} {r.p90_frac:>8.2%} {r.largest_frac:>8.2%}"
    return f"{r.name:24} {r.jobs:>5} {errors} {r.idle_p90:>9.2%} {r.staleness_p90:>14.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="jobs")
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS, help="simulated per job")
    parser.add_argument("--core", action="store_true", help="without extras (see the sampler)")
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first job")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/agreement.json")
    asked = parser.parse_args()
    found = [compared(asked.first + i, asked.rollouts, not asked.core) for i in range(asked.count)]
    pairs = [pair for pair in found if pair is not None]
    print(table(pairs))
    errors = [pair.events.standard_error_frac or 0.0 for pair in pairs]
    weak, cpu = sum(pair.weak for pair in pairs) / len(pairs), [pair.analytic_cpu_s * 1e3 for pair in pairs]
    print(f"\nunder the weak rule: {weak:.0%} of {len(pairs)} jobs ({len(found) - len(pairs)} stand still)")
    print(f"standard error of the simulation: median {quantile(errors, 0.5):.2%}, 90 % {quantile(errors, 0.9):.2%}")
    print(f"CPU of one analytic answer: median {quantile(cpu, 0.5):.2f} ms, 90 % {quantile(cpu, 0.9):.2f} ms")
    print(f"CPU of all simulations: {sum(pair.events_cpu_s for pair in pairs):.0f} s")
    if asked.record:
        told = {"first": asked.first, "jobs": asked.count, "rollouts": asked.rollouts, "weak_frac": weak}
        told |= {"standard_error_frac": quantile(errors, 0.5), "analytic_ms": quantile(cpu, 0.5)}
        listed = [asdict(region) for region in regions(pairs)]
        RECORD.write_text(json.dumps({"machine": machine(), **told, "regions": listed}, indent=2) + "\n")


if __name__ == "__main__":
    main()
