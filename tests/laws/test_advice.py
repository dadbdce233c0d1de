"""Laws of advice: whatever is known of a job, the answer is finite, ordered, and does not contradict itself."""

from dataclasses import fields, is_dataclass, replace
from math import isclose, isfinite

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.base import Advice, Interval
from policies.recommendations import advise
from policies.recommendations.case import GENERATOR_SIDE
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.signals import LARGEST, LARGEST_VALUE, SIGNALS, SMALLEST, is_possible
from simulators.snapshot import DroppedStep, Row, Signal, Snapshot, Window, fold_rows

EXTREME = (0.0, SMALLEST, 1e-9, 1.0, 1e9, LARGEST, LARGEST_VALUE, -LARGEST_VALUE)
POWERS = st.integers(-3, 5).map(lambda n: 2.0**n)
EVERY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def value_of(name: str) -> st.SearchStrategy[float]:
    """Any legal value; most are of ordinary size, some are not."""
    spec = SIGNALS[name]
    usual = st.floats(max(spec.low, -100.0), min(spec.high, 1000.0)).map(lambda v: v if abs(v) >= SMALLEST else 0.0)
    return st.one_of(usual, usual, st.sampled_from([x for x in EXTREME if is_possible(name, x)]))


@st.composite
def values(draw: st.DrawFn, names: list[str] | None = None) -> dict[str, float]:
    chosen = draw(st.sets(st.sampled_from(sorted(SIGNALS) if names is None else names), max_size=25))
    return {name: draw(value_of(name)) for name in sorted(chosen)}


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    names = sorted(draw(values()))
    rows = [
        Row({n: draw(value_of(n)) for n in names if draw(st.integers(0, 9))}, step=i, weight=draw(st.integers(1, 3)))
        for i in range(draw(st.integers(1, 5)))
    ]
    folded = fold_rows(rows)
    signals = {n: Signal(v, SIGNALS[n].unit, count) for n, (v, count) in folded.items() if isfinite(v)}
    dropped = (DroppedStep(0, "start-up"),) if len(rows) > 1 and draw(st.booleans()) else ()
    bare = draw(st.booleans())
    window = Window(len(rows), 0, len(rows) - 1, dropped=dropped)
    return Snapshot(signals) if bare else Snapshot(signals, tuple(rows), window=window)


WHOLE = st.none() | st.integers(1, 512) | st.sampled_from((10**6, 10**15))
GPUS = st.none() | st.integers(1, 256) | st.sampled_from((8192, 10**15))
topologies = st.builds(
    Topology,
    mode=st.sampled_from(Mode),
    gpus_total=WHOLE,
    gpus_per_engine=st.none() | st.sampled_from((1, 2, 8, 16)),
    trainer_gpu_step=st.none() | st.sampled_from((1, 2, 8, 32)),
    trainer_gpus_min=st.none() | st.integers(1, 64),
    trainer_sizes=st.just(()) | st.lists(st.integers(1, 256), max_size=4).map(tuple),
    batch_must_divide=st.booleans(),
    max_response_tokens=WHOLE,
)
setpoints = st.builds(
    Setpoints,
    gpus_trainer=GPUS,
    gpus_generator=GPUS,
    engines=st.none() | st.integers(1, 256),
    oversampling_ratio=st.none() | st.floats(1.0, 100.0),
    max_in_flight=WHOLE,
    max_in_flight_per_engine=WHOLE,
    staleness_bound=st.none() | st.floats(0.0, 100.0),
    sync_interval=WHOLE,
    group_size=WHOLE,
    batch_rollouts=WHOLE,
    filter_zero_adv=st.none() | st.booleans(),
    packing=st.none() | st.booleans(),
    checkpoint_interval=WHOLE,
    validation_interval=WHOLE,
)
bounds = st.builds(Bounds, gpus_trainer_min=st.none() | st.integers(1, 64), gpus_trainer_max=WHOLE)


def numbers(thing: object) -> list[float]:
    """Every number anywhere inside."""
    if is_dataclass(thing):
        return [n for f in fields(thing) for n in numbers(getattr(thing, f.name))]
    if isinstance(thing, dict):
        return [n for v in thing.values() for n in numbers(v)]
    if isinstance(thing, tuple | list):
        return [n for v in thing for n in numbers(v)]
    return [float(thing)] if isinstance(thing, int | float) else []


def intervals(advice: Advice) -> list[Interval]:
    points = advice.split_curve.points if advice.split_curve else ()
    gains = [r.gain_frac for r in advice.recommendations if r.gain_frac is not None]
    return [*gains, *(p.throughput for p in points)]


@EVERY
@given(topologies, setpoints, snapshots(), bounds)
def test_advice_is_finite_ordered_and_free_of_contradiction(
    topology: Topology, knobs: Setpoints, snapshot: Snapshot, limits: Bounds
) -> None:
    advice = advise(topology, knobs, snapshot, limits)
    assert all(isfinite(n) for n in numbers(advice))
    assert all(i.low <= i.mean <= i.high for i in intervals(advice))
    assert 0.0 <= advice.diagnosis.confidence <= 1.0
    budget = advice.diagnosis.budget
    claimed = max((abs(p.frac) for p in budget), default=1.0)
    assert not budget or isclose(sum(p.frac for p in budget), 1.0, abs_tol=1e-9 * max(1.0, claimed))
    taboo = {(d.knob, d.direction) for d in advice.do_not}
    assert taboo.isdisjoint((r.knob, r.direction) for r in advice.recommendations)


@pytest.mark.slow
@EVERY
@given(topologies, setpoints, snapshots(), bounds)
def test_a_serial_job_is_never_told_to_move_gpus_between_sides(
    topology: Topology, knobs: Setpoints, snapshot: Snapshot, limits: Bounds
) -> None:
    advice = advise(replace(topology, mode=Mode.SERIAL), knobs, snapshot, limits)
    assert advice.split_curve is None
    assert {"gpus_trainer", "gpus_generator"}.isdisjoint(r.knob for r in advice.recommendations)


@pytest.mark.slow
@EVERY
@given(topologies, setpoints, snapshots(), bounds)
def test_a_proposed_split_is_legal_and_inside_the_bounds(
    topology: Topology, knobs: Setpoints, snapshot: Snapshot, limits: Bounds
) -> None:
    overlapped = replace(topology, mode=Mode.OVERLAPPED)
    advice = advise(overlapped, knobs, snapshot, limits)
    curve = advice.split_curve
    if curve is None or curve.proposed_gpus_trainer is None:
        return
    size = curve.proposed_gpus_trainer
    point = next(p for p in curve.points if p.gpus_trainer == size)
    assert point.legal
    assert point.gpus_trainer + point.gpus_generator == knobs.gpus_trainer + knobs.gpus_generator
    assert point.gpus_generator >= 1
    assert point.gpus_generator % (topology.gpus_per_engine or 1) == 0
    assert size >= max(topology.trainer_gpus_min or 1, limits.gpus_trainer_min or 1)
    assert size <= (limits.gpus_trainer_max or size)
    assert size % (topology.trainer_gpu_step or 1) == 0 or size in topology.trainer_sizes
    assert not topology.trainer_sizes or size in topology.trainer_sizes
    for r in advice.recommendations:
        if r.knob in ("gpus_trainer", "gpus_generator"):
            assert r.proposed in (point.gpus_trainer, point.gpus_generator)


SECONDS = tuple(name for name, spec in SIGNALS.items() if spec.unit == "s")
PER_SECOND = tuple(name for name, spec in SIGNALS.items() if spec.unit.endswith("/s"))
STEP_SECONDS = ("step_s", "trainer_wait_s", "trainer_busy_s", "rollout_s", "weight_sync_s", "generator_wait_s")
FLOWS = ("batch_rollouts", "queue_depth", "dispatched", "accepted", "zero_adv_frac", "kv_usage_frac", "running")


def step_signals(**more: st.SearchStrategy[float]) -> st.SearchStrategy[dict[str, float]]:
    shares = {name: st.integers(1, 99) for name in (*STEP_SECONDS[1:], *FLOWS)}
    shares |= {"zero_adv_frac": st.floats(0.0, 1.0), "kv_usage_frac": st.floats(0.0, 1.0)} | more
    return st.fixed_dictionaries({"step_s": st.just(100.0)}, optional=shares)


def snapshot_with(found: dict[str, float], factor: float = 1.0) -> Snapshot:
    """Five equal steps; all times `factor` times as long."""
    scaled = {n: v * (factor if n in SECONDS else 1.0 / factor if n in PER_SECOND else 1.0) for n, v in found.items()}
    signals = {n: Signal(float(v), SIGNALS[n].unit, 5) for n, v in scaled.items()}
    rows = tuple(Row(dict(scaled), step=i) for i in range(5))
    return Snapshot(signals, rows, window=Window(5, 0, 4))


@pytest.mark.slow
@EVERY
@given(topologies, setpoints, step_signals(), POWERS)
def test_another_unit_of_time_changes_neither_verdict_nor_gains(
    topology: Topology, knobs: Setpoints, found: dict[str, float], factor: float
) -> None:
    """Only shares decide. Tens of rollouts a second through one client are an absolute rate and are left out here."""
    calm = {n: v for n, v in found.items() if n not in ("batch_rollouts", "rollout_s")} | {"rollout_s": 60.0}
    known = replace(knobs, batch_rollouts=None)
    a, b = (advise(topology, known, snapshot_with(calm, x)) for x in (1.0, factor))
    assert a.diagnosis.verdict == b.diagnosis.verdict
    assert [p.frac for p in a.diagnosis.budget] == [p.frac for p in b.diagnosis.budget]
    assert [(r.knob, r.direction, r.gain_frac) for r in a.recommendations] == [
        (r.knob, r.direction, r.gain_frac) for r in b.recommendations
    ]


def generation_share(advice: Advice) -> float:
    return max((c.recoverable_frac for c in advice.diagnosis.causes if c.verdict in GENERATOR_SIDE), default=0.0)


@pytest.mark.slow
@EVERY
@given(st.integers(0, 99), st.integers(0, 99), st.none() | st.floats(0.0, 8.0))
def test_a_longer_wait_never_makes_generation_less_likely_the_bottleneck(
    wait: int, other: int, run_ahead: float | None
) -> None:
    topology, knobs = Topology(mode=Mode.OVERLAPPED), Setpoints(staleness_bound=run_ahead)
    less, more = (
        advise(topology, knobs, snapshot_with({"step_s": 100.0, "trainer_wait_s": w, "trainer_busy_s": 100.0 - w}))
        for w in sorted((wait, other))
    )
    assert generation_share(less) <= generation_share(more)
    if less.diagnosis.verdict in GENERATOR_SIDE:
        assert more.diagnosis.verdict in GENERATOR_SIDE
