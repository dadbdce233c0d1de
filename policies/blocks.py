"""A run cut into blocks of equal progress, and how fast each of them is made under any setting.

By the analytic model of the true job, corrected by what simulated runs of some settings took for their blocks; between
those settings the correction is that of the nearest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from policies.objective import Violation, objective_of, violations, worsened
from policies.settings import values
from simulators.analytic import AnalyticModel
from simulators.analytic.solving import usable_share
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.plant import Setpoints
from simulators.scenario import Scenario, job_at
from simulators.signals import TINY

TRUSTED = 1.5
"""A closed form that is off by more is outside what it was made for."""
CLOCK_GRAIN_S = 300.0
"""Where the world changes by the clock, it is looked at so often."""

Rates = Callable[[int, Setpoints, float], float]
"""Useful rollouts per second: of a block, a setting, at a second."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The run cut into blocks of useful rollouts."""

    marks: tuple[float, ...]
    """Useful rollouts at the blocks' ends."""
    steps: tuple[float, ...]
    """Trainer steps in the middle of each block."""

    @property
    def sizes(self) -> tuple[float, ...]:
        return tuple(end - start for start, end in zip((0.0, *self.marks), self.marks, strict=False))


def progress_of(scenario: Scenario, useful: float, blocks: int) -> Progress:
    """`blocks` equal parts of `useful` rollouts, and the steps at which they are made."""
    marks = tuple(useful * (k + 1) / blocks for k in range(blocks))
    middles = [useful * (k + 0.5) / blocks for k in range(blocks)]
    steps: list[float] = []
    made, step = 0.0, 0
    for middle in middles:
        while made < middle:
            gain = _useful_per_step(job_at(scenario, step, 0.0))
            made, step = made + max(gain, TINY), step + 1
        steps.append(float(step))
    return Progress(marks, tuple(steps))


def _useful_per_step(job: Job) -> float:
    batch = float(job.setpoints.batch_rollouts or 1)
    return (
        batch
        if job.setpoints.filter_zero_adv
        else batch * usable_share(job.workload.solve, job.setpoints.group_size or 1)
    )


def analytic_rates(scenario: Scenario, progress: Progress) -> Rates:
    """By the analytic model, of the true job; a setting that breaks a hard bound makes nothing. Asked once each."""
    by_clock = _by_clock(scenario)
    known: dict[Job, float] = {}
    asked: dict[tuple[int, Setpoints, int], float] = {}

    def rate(block: int, setting: Setpoints, at_s: float) -> float:
        minute = int(at_s / CLOCK_GRAIN_S) if by_clock else 0
        key = (block, setting, minute)
        if key not in asked:
            job = job_at(scenario, int(progress.steps[block]), minute * CLOCK_GRAIN_S, setting)
            if job not in known:
                known[job] = _useful_rate(scenario, job, replace(job, setpoints=scenario.setpoints))
            asked[key] = known[job]
        return asked[key]

    return rate


def _by_clock(scenario: Scenario) -> bool:
    return any(e.by == "time" for e in scenario.event) or any(d.by == "time" for d in scenario.drift)


def _useful_rate(scenario: Scenario, job: Job, start: Job) -> float:
    """0 where the setting cannot run, or breaks a bound further than the starting one in the same world."""
    prediction = _predicted(job)
    if prediction is None:
        return 0.0
    broken = _broken(scenario, job, prediction)
    before = _broken(scenario, start, _predicted(start)) if broken else ()
    return 0.0 if worsened(before, broken) else prediction.useful_rollouts_per_s


def _predicted(job: Job) -> Prediction | None:
    try:
        return AnalyticModel(job.stations).predict(job.topology, job.workload, job.setpoints)
    except ValueError:
        return None


def _broken(scenario: Scenario, job: Job, prediction: Prediction | None) -> tuple[Violation, ...]:
    fleet, settings = job.stations.sandboxes, job.setpoints
    if fleet is not None and settings.sandbox_quota is None:
        settings = replace(settings, sandbox_quota=fleet.live_limit)
    return violations(objective_of(job.stations.admission), scenario.bounds, settings, prediction)


def corrected(rates: Rates, progress: Progress, measured: Mapping[Setpoints, Sequence[float]]) -> Rates:
    """Rates times what simulation made of the analytic ones: of the nearest setting that was run, block by block.

    Where the closed form was off by more than TRUSTED there, its shape is not believed either: the simulated rate is.
    `measured`: the second of each block's end, of a run that stayed at that setting.
    """
    known = {setting: _measured(rates, progress, setting, ends) for setting, ends in measured.items()}

    def rate(block: int, setting: Setpoints, at_s: float) -> float:
        factor, did = known[min(known, key=lambda other: _apart(setting, other))][block]
        said = rates(block, setting, at_s)
        return said * factor if 1.0 / TRUSTED <= factor <= TRUSTED or not said else did

    return rate if known else rates


def _measured(rates: Rates, progress: Progress, setting: Setpoints, ends: Sequence[float]) -> list[tuple[float, float]]:
    """Block by block (simulated rate over the analytic one, simulated rate)."""
    starts = (0.0, *ends)
    found = []
    for block, (size, start, end) in enumerate(zip(progress.sizes, starts, ends, strict=False)):
        said, did = rates(block, setting, start), size / max(TINY, end - start)
        found.append((did / said if said > TINY else 1.0, did))
    return found


def _apart(a: Setpoints, b: Setpoints) -> float:
    """Sum of relative differences of the numbers in which two settings differ; what only one has differs wholly."""
    one, other = values(a), values(b)
    shared, alone = [name for name in one if name in other], one.keys() ^ other.keys()
    return len(alone) + float(sum(abs(one[n] - other[n]) / max(1, abs(one[n]) + abs(other[n])) for n in shared))
