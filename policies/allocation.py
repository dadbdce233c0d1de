"""How many GPUs each side should have: the rates of today, scaled to every legal split."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean

from policies.base import Interval, SplitCurve, SplitPoint
from policies.diagnosis.waiting import generator_is_slower
from policies.prospects import Prospects
from simulators.legality import divides, lattice
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.snapshot import Snapshot

EXPONENTS = tuple(0.5 + 0.5 * (i + 0.5) / 9 for i in range(9))
"""Midpoints of U[0.5, 1]: how throughput grows with GPUs is unknown before the first resize."""
HEADROOM = tuple(1.0 + 0.5 * (i + 0.5) / 9 for i in range(9))
"""Midpoints of U[1, 1.5]: what a generator could do that nobody has measured, relative to what it does."""
GROWTH_MAX, SHRINK_MIN = 1.5, 0.5
"""One proposal changes neither side by more: how its throughput scales over a wider range has to be measured first."""
SPLITS_MAX = 64
"""More splits than this make no better picture and cost seconds on thousands of GPUs."""

MODELLED_MAX = 6
"""The same where each is asked of the calibrated model."""
NEAREST = 2
"""Sizes on each side of today's that are always looked at."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What each side could do alone, as multiples of today's throughput; several values where one is not known."""

    trainer: float
    generator: tuple[float, ...]


def capacities(setpoints: Setpoints, snapshot: Snapshot) -> Capacity | None:
    """1 / (1 - idle) of each side; None when the trainer's idle share is not known."""
    idle = snapshot.get("trainer_idle_frac")
    if idle is None or idle >= 1.0:
        return None
    trainer = 1.0 / (1.0 - idle)
    gated = snapshot.get("generator_idle_frac")
    if generator_is_slower(setpoints, snapshot, idle):
        return Capacity(trainer, (1.0,))
    if gated is not None and gated < 1.0:
        return Capacity(trainer, (1.0 / (1.0 - gated),))
    return Capacity(trainer, HEADROOM)


def quantile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def central(values: Iterable[float]) -> Interval:
    """The 80 % central interval and the mean of equally likely values."""
    ordered = sorted(values)
    return Interval(quantile(ordered, 0.1), mean(ordered), quantile(ordered, 0.9))


def thinned(sizes: list[int], now: int, most: int) -> list[int]:
    """At most about `most` of the sizes, evenly spread, with today's nearest among them."""
    stride = 1 + len(sizes) // most
    below, above = [t for t in sizes if t < now][-NEAREST:], [t for t in sizes if t > now][:NEAREST]
    return sorted({*sizes[::stride], *below, *above})


def split_curve(
    topology: Topology, setpoints: Setpoints, snapshot: Snapshot, bounds: Bounds, prospects: Prospects | None = None
) -> SplitCurve | None:
    """Every split on the lattice with its throughput, and the best legal one; None where no GPU can change sides.

    By the calibrated model where there is one. Else X(t, g) = min(C_g (g/g0)^b, C_t (t/t0)^a), relative to today's
    min(C_g, C_t); a and b from U[0.5, 1]. A deterministic bound: real batches vary, so the best split gains less.
    # 64 : 192, trainer idle 29 %, generator never gated: C_t = 1.41, C_g = 1
    #   48 : 208 -> 1.04..1.08 | 64 : 192 -> 1 | 40 : 216 -> 0.89..1.07
    """
    if topology.mode is not Mode.OVERLAPPED:
        return None
    now_t, now_g = setpoints.gpus_trainer, setpoints.gpus_generator
    capacity = capacities(setpoints, snapshot)
    if not now_t or not now_g or capacity is None:
        return None
    modelled = prospects is not None and prospects.calibration is not None
    sizes = thinned(lattice(topology, setpoints, bounds), now_t, MODELLED_MAX if modelled else SPLITS_MAX)
    points = []
    for t in sorted({*sizes, now_t}):
        asked = _asked(prospects, t, now_t + now_g, now_t) if modelled else None
        throughput = asked or _by_rates(capacity, t / now_t, (now_t + now_g - t) / now_g)
        points.append(_point(topology, setpoints, t, throughput))
    best = _best([p for p in points if p.legal and p.gpus_trainer != now_t], (now_t, now_g), capacity)
    return SplitCurve(tuple(points), now_t, best)


def _asked(prospects: Prospects | None, trainer: int, total: int, now: int) -> Interval | None:
    if prospects is None:
        return None
    if trainer == now:
        return Interval(1.0, 1.0, 1.0)
    gain = prospects.gain(gpus_trainer=trainer, gpus_generator=total - trainer)
    return None if gain is None else Interval(1.0 + gain.low, 1.0 + gain.mean, 1.0 + gain.high)


def _by_rates(capacity: Capacity, trainer: float, generator: float) -> Interval:
    """Both sides' GPUs as multiples of today's."""
    return central(
        min(c * generator**b, capacity.trainer * trainer**a) / min(c, capacity.trainer)
        for c in capacity.generator
        for a in EXPONENTS
        for b in EXPONENTS
    )


def _point(topology: Topology, setpoints: Setpoints, trainer: int, throughput: Interval) -> SplitPoint:
    total = (setpoints.gpus_trainer or 0) + (setpoints.gpus_generator or 0)
    fits = divides(topology, setpoints, trainer)
    legal = fits is not False or not topology.batch_must_divide
    note = f"{trainer} does not divide {setpoints.batch_rollouts} rollouts" if fits is False else ""
    return SplitPoint(trainer, total - trainer, throughput, legal, note)


def _best(legal: list[SplitPoint], now: tuple[int, int], capacity: Capacity) -> int | None:
    """The best of these splits by mean, of those that one step may reach.

    While the generator's own rate is a guess that is the next size up. Else each side stays between half and one and a
    half of its GPUs, or moves by a single size where that is more; and the side that gives, scaled linearly, still
    keeps today's pace.
    """
    trainer, generator = now
    up = [p for p in legal if p.gpus_trainer > trainer]
    down = [p for p in legal if p.gpus_trainer < trainer]
    if len(capacity.generator) > 1:
        within = up[:1]
    else:
        pace = min(capacity.trainer, capacity.generator[0])
        keeps = [
            p
            for p in legal
            if capacity.trainer * p.gpus_trainer / trainer >= pace
            and capacity.generator[0] * p.gpus_generator / generator >= pace
        ]
        within = [p for p in keeps if p in (*down[-1:], *up[:1]) or _one_step(p, now)]
    best = max(within, key=lambda p: p.throughput.mean, default=None)
    return best.gpus_trainer if best is not None and best.throughput.mean > 1.0 else None


def _one_step(point: SplitPoint, now: tuple[int, int]) -> bool:
    ratios = (point.gpus_trainer / now[0], point.gpus_generator / now[1])
    return min(ratios) >= SHRINK_MIN and max(ratios) <= GROWTH_MAX
