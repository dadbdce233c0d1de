"""EventModel: the same question as the analytic model's, answered by running events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf, sqrt
from statistics import fmean, stdev

from simulators.counters import Counters
from simulators.distributions import NEVER
from simulators.event_parameters import parameters
from simulators.event_state import Job, Parameters
from simulators.model import Prediction, Staleness
from simulators.plant import Setpoints, Topology
from simulators.simulation import Simulation
from simulators.stations import Stations
from simulators.workload import Workload

WINDOWS = 10
"""Parts of a run whose spread gives the standard error (batch means)."""
SEED_STEP = 1_000_003
"""Between the seeds of two replications."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a part of a run says: by how these scatter, what all say together is uncertain."""

    trained_per_s: float
    length_ratio: float | None
    solve_ratio: float | None


@dataclass(frozen=True, slots=True)
class EventModel:
    """Steady state by simulation: warm-up, then `batches` trainer steps, in each of `replications` seeds.

    Two settings with the same seed see the same prompts, lengths and rewards.
    """

    stations: Stations
    seed: int = 0
    batches: int = 100
    replications: int = 1
    warm_up_batches: int = 20

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        job = Job(topology, self.stations, workload, setpoints)
        counted, windows = Counters(), list[Window]()
        for replication in range(self.replications):
            simulation = Simulation(job, self.seed + SEED_STEP * replication)
            marks = _measured(simulation, self.warm_up_batches, self.batches)
            if simulation.stopped:
                return _standing(simulation.stopped)
            counted += marks[-1] - marks[0]
            windows += [_window(early, late) for early, late in pairwise(marks) if late.now_s > early.now_s]
        return predicted(parameters(job), counted, windows)


def _measured(simulation: Simulation, warm_up: int, batches: int) -> list[Counters]:
    """Where its counters stood at the ends of all windows."""
    simulation.advance(until_step=simulation.step + warm_up)
    start, parts = simulation.step, min(WINDOWS, batches)
    marks = [simulation.counters()]
    for part in range(1, parts + 1):
        simulation.advance(until_step=start + batches * part // parts)
        marks.append(simulation.counters())
    return marks


def _window(early: Counters, late: Counters) -> Window:
    trained, attempted = late.trained - early.trained, late.attempted - early.attempted
    lengths = (late.trained_response - early.trained_response, late.attempted_response - early.attempted_response)
    solved = (late.trained_solved - early.trained_solved, late.attempted_solved - early.attempted_solved)
    return Window(
        trained / (late.now_s - early.now_s),
        _ratio(lengths[0], trained, lengths[1], attempted),
        _ratio(solved[0], trained, solved[1], attempted),
    )


def _standing(reason: str) -> Prediction:
    return Prediction(0.0, 0.0, 0.0, inf, 1.0, 0.0, stopped=reason)


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


def capacity_tokens_per_s(made: Parameters, context_tokens: float, prefilled_per_token: float = 0.0) -> float:
    """What the engines would decode if nothing held them back, at this context per resident.

    b = min(slots, KV / context),   rate = b / (f(b) + m b context + b prefilled prefill_s)

    `prefilled_per_token` are the tokens they prefill for each one that they decode, those of preempted rollouts too.
    """
    rates, slots = made.rates, made.counts.slots
    fit = max(1, int(min(slots, rates.kv_tokens / context_tokens))) if context_tokens > 0.0 else slots
    step = made.step_s[fit] + rates.per_context_token_s * fit * context_tokens
    step += fit * prefilled_per_token * rates.prefill_s_per_token
    return sum(fit / (step * slow) for slow in made.slowness)


def predicted(made: Parameters, c: Counters, windows: Sequence[Window]) -> Prediction:
    """One prediction from what one or several runs counted, and what their windows say."""
    counts, seconds = made.counts, c.now_s
    context = c.context_area / c.area_resident if c.area_resident else 0.0
    prefilled = c.prefilled_tokens / c.decoded_tokens if c.decoded_tokens else 0.0
    busy = c.decoded_tokens / seconds / capacity_tokens_per_s(made, context, prefilled)
    return Prediction(
        rollouts_per_s=c.trained / seconds,
        useful_rollouts_per_s=c.useful / seconds,
        tokens_per_s=c.trained_tokens / seconds,
        step_s=seconds / c.step,
        trainer_idle_frac=max(0.0, 1.0 - (c.training_s + c.sync_s) / seconds),
        generator_busy_frac=min(1.0, busy),
        staleness=_staleness(c.staleness),
        token_staleness_mean=_mean(c.spanned, c.finished),
        resumed_frac=_mean(c.trained_resumed, c.trained) if counts.partial else None,
        queue_groups=c.area_ring / seconds,
        queue_age_s=_mean(c.queue_age_s, c.trained_groups),
        in_flight=c.area_in_flight / seconds,
        rollout_s=_mean(c.rollout_s, c.finished),
        group_s=_mean(c.group_s, c.finished_groups),
        waste={cause: count / c.dispatched for cause, count in c.waste.items() if count},
        kept_length_ratio=_ratio(c.trained_response, c.trained, c.attempted_response, c.attempted),
        kept_solve_ratio=_ratio(c.trained_solved, c.trained, c.attempted_solved, c.attempted),
        kept_length_error=_standard_error([w.length_ratio for w in windows]),
        kept_solve_error=_standard_error([w.solve_ratio for w in windows]),
        sandbox_wait_s=_mean(c.box_wait_s, c.boxes_started) if counts.sandboxed else None,
        sandbox_failed_frac=_mean(c.boxes_failed, c.boxes_started) if counts.sandboxed else None,
        preemptions_per_rollout=_mean(c.preempted, c.finished) if made.rates.kv_tokens < NEVER else None,
        prefix_hit_frac=_mean(c.prefix_tokens, c.prefix_tokens + c.prefilled_tokens),
        tenant_tokens_per_s=c.tenant_tokens / seconds if counts.tenant else None,
        standard_error_frac=_standard_error_frac([w.trained_per_s for w in windows]),
    )


def _ratio(kept_sum: float, kept: int, all_sum: float, attempted: int) -> float | None:
    if not kept or not attempted or not all_sum:
        return None
    return (kept_sum / kept) / (all_sum / attempted)


def _standard_error(values: Iterable[float | None]) -> float | None:
    """Of their mean, taken for independent (batch means); None for fewer than two."""
    known = [value for value in values if value is not None]
    return stdev(known) / sqrt(len(known)) if len(known) > 1 else None


def _standard_error_frac(rates: list[float]) -> float | None:
    error = _standard_error(rates)
    return error / fmean(rates) if error is not None and any(rates) else None


def _staleness(histogram: tuple[int, ...]) -> Staleness | None:
    total = sum(histogram)
    if not total:
        return None
    below = list(accumulate(histogram))
    p95 = next(age for age, count in enumerate(below) if count >= 0.95 * total)
    oldest = max(i for i, count in enumerate(histogram) if count)
    return Staleness(sum(i * n for i, n in enumerate(histogram)) / total, float(p95), float(oldest))
