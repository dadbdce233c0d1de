"""Laws of advice: whatever is known of a job, the answer is finite, ordered, and does not contradict itself."""

from dataclasses import fields, is_dataclass, replace
from math import isclose, isfinite

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.base import Advice, Interval
from policies.recommendations import advise
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.signals import LARGEST, LARGEST_VALUE, SIGNALS, SMALLEST, is_possible
from simulators.snapshot import DroppedStep, Row, Signal, Snapshot, Window, fold_rows

EXTREME = (0.0, SMALLEST, 1e-9, 1.0, 1e9, LARGEST, LARGEST_VALUE, -LARGEST_VALUE)
POWERS = st.integers(-3, 5).map(lambda n: 2.0**n)
EVERY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


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
topologies = st.builds(
    Topology,
    mode=st.sampled_from(Mode),
    gpus_total=WHOLE.map(lambda n: n and min(n, 10**6)),
    gpus_per_engine=st.none() | st.sampled_from((1, 2, 8, 16)),
    trainer_gpu_step=st.none() | st.sampled_from((1, 2, 8, 32)),
    trainer_gpus_min=st.none() | st.integers(1, 64),
    trainer_sizes=st.just(()) | st.lists(st.integers(1, 256), max_size=4).map(tuple),
    batch_must_divide=st.booleans(),
    max_response_tokens=WHOLE,
)
setpoints = st.builds(
    Setpoints,
    gpus_trainer=st.none() | st.integers(1, 256),
    gpus_generator=st.none() | st.integers(1, 256),
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


@EVERY
@given(topologies, setpoints, snapshots(), bounds)
def test_a_serial_job_is_never_told_to_move_gpus_between_sides(
    topology: Topology, knobs: Setpoints, snapshot: Snapshot, limits: Bounds
) -> None:
    advice = advise(replace(topology, mode=Mode.SERIAL), knobs, snapshot, limits)
    assert advice.split_curve is None
    assert {"gpus_trainer", "gpus_generator"}.isdisjoint(r.knob for r in advice.recommendations)


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
