"""What a change would bring: the calibrated model's answer with its 80 % interval, or why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import gcd
from typing import Any

from policies.base import Interval
from policies.diagnosis.waiting import generator_is_slower
from simulators.calibration import Answer, Calibration, Change, Draw, Spread, ask, calibrate
from simulators.calibration.draws import Values, slower, solve_rates
from simulators.plant import Setpoints, Topology
from simulators.snapshot import Snapshot

Value = float | int | bool
UNMODELLED = frozenset(
    (
        *("packing", "activation_checkpointing", "gpus_prefill", "gpus_decode"),
        *("sandbox_quota", "validation_interval", "checkpoint_interval"),
    )
)
"""Settings that calibrated draws have no station for: asking about them would answer 0."""
SETTINGS = frozenset(f.name for f in fields(Setpoints)) - UNMODELLED
STRIDE_LEAST = 7
"""Far enough apart that neighbours are no neighbours any more."""
DIGITS = 6
"""Of a gain: far below its own width."""
SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
"""Trainer's shares of the GPUs that are tried where a job's sides get GPUs of their own for the first time."""


@dataclass(frozen=True, slots=True, eq=False)
class Prospects:
    """The calibrated model of one job, ready for questions. Equal to itself only: its answers are remembered."""

    calibration: Calibration | None
    why_not: str = ""

    def changes(self, settings: Mapping[str, Value]) -> list[Change]:
        """The change that these settings are. ValueError for a setting that the model does not know."""
        return [] if self.calibration is None else _changes(self.calibration.draws[0], settings)

    def gain(self, **settings: Value) -> Interval | None:
        """None also where these settings make no job, or one that stands still."""
        return gain_of(self.answer(**settings))

    def answer(self, **settings: Value) -> Answer | None:
        """The whole answer behind `gain`."""
        return _answered(self, tuple(settings.items()))

    def scaled_cap(self, factor: float) -> Answer | None:
        """The caps on rollouts in flight times the factor; None where the job states none, or nothing is calibrated.

        Without a stated cap the draws have room for all that is started: asked for more, they would answer 0.
        """
        if self.calibration is None:
            return None
        knobs = self.calibration.draws[0].setpoints
        caps = {"max_in_flight": knobs.max_in_flight, "max_in_flight_per_engine": knobs.max_in_flight_per_engine}
        wider = {name: max(1, round(factor * cap)) for name, cap in caps.items() if cap is not None}
        return self.answer(**wider) if wider else None

    def answer_of_curriculum(self, most_usable_frac: float) -> Answer | None:
        """Other tasks, of whose groups more carry advantage: each draw takes its own share from today's to the most.

        None where no draw knows today's share.
        """
        if self.calibration is None or any(d.values.usable_frac is None for d in self.calibration.draws):
            return None
        shares = self._evenly(1.0)
        return self.answer_of(lambda d: with_usable(d, shares[d.values], most_usable_frac))

    def answer_of_trainer(self, most_frac: float) -> Answer | None:
        """A share of the trainer's work goes away: each draw takes its own from 0 to the most, evenly."""
        if self.calibration is None:
            return None
        shares = self._evenly(most_frac)
        return self.answer_of(lambda d: faster_trainer(d, shares[d.values]))

    def _evenly(self, most: float) -> Mapping[Values, float]:
        """Each draw's own number from 0 to the most: midpoints, in an order that goes with nothing else."""
        draws = () if self.calibration is None else self.calibration.draws
        return {d.values: most * share for d, share in zip(draws, shuffled_midpoints(len(draws)), strict=True)}

    def answer_of(self, *changes: Change) -> Answer | None:
        """The same of changes that are told draw by draw; of several, each draw takes its best."""
        if self.calibration is None:
            return None
        try:
            answer = ask(self.calibration.draws, *changes)
        except (ValueError, ArithmeticError):
            return None
        return None if answer.stopped is not None else answer


def shuffled_midpoints(count: int) -> tuple[float, ...]:
    """(i + 1/2) / count, each once and in no order: a stride that shares no factor with the count meets them all.

    # 5 -> 0.1, 0.5, 0.9, 0.3, 0.7
    """
    stride = next(s for s in range(STRIDE_LEAST, STRIDE_LEAST + count + 1) if gcd(s, count) == 1)
    return tuple((stride * i % count + 0.5) / count for i in range(count))


@lru_cache(maxsize=64)
def _answered(prospects: Prospects, settings: tuple[tuple[str, Value], ...]) -> Answer | None:
    if prospects.calibration is None:
        return None
    return prospects.answer_of(*prospects.changes(dict(settings)))


def gain_of(answer: Answer | None) -> Interval | None:
    return None if answer is None else interval(answer.gain)


def faster_trainer(draw: Draw, saved_frac: float) -> Draw:
    """The same job with that share of the trainer's work gone."""
    trainer = slower(draw.stations.trainer, 1.0 - saved_frac)
    return replace(draw, stations=replace(draw.stations, trainer=trainer))


def with_usable(draw: Draw, share: float, most_frac: float) -> Draw:
    """The same job on tasks whose usable share has gone that part of the way to the most."""
    now = draw.values.usable_frac or 0.0
    solve = solve_rates(now + share * max(0.0, most_frac - now), draw.setpoints.group_size or 1)
    return replace(draw, workload=replace(draw.workload, solve=solve))


def interval(spread: Spread) -> Interval:
    """Rounded, so that equal jobs in other units of time have equal gains to the last digit."""
    return Interval(*(round(value, DIGITS) for value in (spread.low, spread.mean, spread.high)))


def prospects_of(topology: Topology, setpoints: Setpoints, snapshot: Snapshot) -> Prospects:
    """`snapshot` with what follows from it (policies.estimators)."""
    idle = snapshot.get("trainer_idle_frac")
    limits = idle is None or generator_is_slower(setpoints, snapshot, idle)
    found = calibrate(topology, setpoints, snapshot, limits)
    return Prospects(None, found) if isinstance(found, str) else Prospects(found)


def _changes(draw: Draw, settings: Mapping[str, Value]) -> list[Change]:
    """The change as the model takes it; several where a first split is left open: each draw then has its own best."""
    unknown = sorted(set(settings) - SETTINGS)
    if unknown:
        raise ValueError(f"{unknown[0]}: no setting of the model; it knows {', '.join(sorted(SETTINGS))}")
    overlaps = settings.get("overlap") is True and draw.shared_gpus
    if not overlaps or {"gpus_trainer", "gpus_generator"} & set(settings):
        return [lambda d: d.under(*changed(d.topology, d.setpoints, settings))]
    return [_split(settings, share) for share in SHARES]


def _split(settings: Mapping[str, Value], share: float) -> Change:
    """Overlapped, with that share of the GPUs for the trainer, in whole engines."""

    def change(draw: Draw) -> Draw:
        total, engine = draw.setpoints.gpus_generator or 1, draw.topology.gpus_per_engine or 1
        if total < engine + 1:
            raise ValueError(f"gpus_total={total} holds one engine of {engine} only: there is nothing to split")
        generator = min(max(1, round((1.0 - share) * total / engine)) * engine, (total - 1) // engine * engine)
        sides = {"gpus_trainer": total - generator, "gpus_generator": generator}
        return draw.under(*changed(draw.topology, draw.setpoints, {**settings, **sides}))

    return change


def changed(topology: Topology, setpoints: Setpoints, settings: Mapping[str, Value]) -> tuple[Topology, Setpoints]:
    """Topology and setpoints with these settings, and what goes with them.

    | set | goes with it |
    |---|---|
    | one side's GPUs of an overlapped job | the other side's, the total kept |
    | engines | GPUs of the generator, by the size of an engine |
    """
    whole: dict[str, Any] = dict(settings)
    size = topology.gpus_per_engine or 1
    if "engines" in whole and "gpus_generator" not in whole:
        whole["gpus_generator"] = int(whole["engines"]) * size
    whole.pop("engines", None)
    total, overlaps = topology.gpus_total or 0, whole.get("overlap", setpoints.overlap) is not False
    for one, other in (("gpus_trainer", "gpus_generator"), ("gpus_generator", "gpus_trainer")):
        if one in settings and other not in whole and overlaps:
            whole[other] = total - int(whole[one])
            if whole[other] < 1:
                raise ValueError(f"{one}={whole[one]} leaves {other} none of the {total} GPUs that both sides share")
    return topology, replace(setpoints, **whole)
