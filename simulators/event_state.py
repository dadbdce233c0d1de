"""A job as the event engine wants it: counts, rates and quantile tables instead of names and laws.

Standard library only, so that the readable twin of the engine reads the very same numbers.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import ceil, exp, lgamma, log, log1p, sqrt

from simulators.plant import Mode, Setpoints, Topology
from simulators.stations import Admission, Order, Plug, PrefillWork, Stations, StepTime, SyncMode, Verifier, Victim
from simulators.streams import normal_quantile
from simulators.workload import Duration, Lengths, SolveRates, TimeLaw, TurnLaw, Turns, Workload

CELLS = 1024
"""Cells of a quantile table."""
EDGE = 16.0 / CELLS
"""Below this share from either end a quantile is computed exactly; between, linearly inside a cell of its table.
The mean of a lognormal of sigma 1 is then right to 3e-5."""
NEVER = 1 << 60
"""A limit that is not there."""

FIXED, LOGNORMAL, EXPONENTIAL, EMPIRICAL, EMPIRICAL_SHARED, GEOMETRIC = range(6)
"""Kinds of a law."""
PLUGS = (Plug.NONE, Plug.BUFFER_CAP, Plug.WIP_CAP, Plug.DROP_OLDEST, Plug.DISCARD_STALE, Plug.PER_SYNC)
NO_PLUG, BUFFER_CAP, WIP_CAP, DROP_OLDEST, DISCARD_STALE, PER_SYNC = range(6)
IN_FLIGHT, ABORT, DRAIN = range(3)
SYNC_MODES = (SyncMode.IN_FLIGHT, SyncMode.ABORT, SyncMode.DRAIN)


@dataclass(frozen=True, slots=True)
class Job:
    """All that the event engine needs to know."""

    topology: Topology
    stations: Stations
    workload: Workload
    setpoints: Setpoints


@dataclass(frozen=True, slots=True)
class Law:
    """A distribution by its quantiles: `table[i]` is the quantile of share i/CELLS, without the prompt's own factor."""

    kind: int
    mean: float = 0.0
    location: float = 0.0
    """Mean of the logarithm, of a lognormal law."""
    own_sigma: float = 0.0
    """Of the part that differs between the rollouts of one prompt."""
    shared_sigma: float = 0.0
    """Of the factor that they have in common."""
    shared_frac: float = 0.0
    limit: int = NEVER
    pairs: tuple[tuple[float, float], ...] = ()
    table: tuple[float, ...] = (0.0,) * (CELLS + 1)


@dataclass(frozen=True, slots=True)
class Laws:
    """In the order of their rows in the compiled engine."""

    prompt: Law
    response: Law
    turns: Law
    tool_tokens: Law
    tool_time: Law
    solve_rate: Law


@dataclass(frozen=True, slots=True)
class Counts:
    """The whole numbers (flags are 0 or 1); in the order of the compiled engine's vector."""

    engines: int
    slots: int
    in_flight_limit: int
    group_size: int
    members_started: int
    """More than group_size where members are oversampled."""
    batch_groups: int
    round_groups: int
    """Groups of an oversampling round; 0: none."""
    plug: int
    plug_limit: int
    freed_at_start: int
    in_order: int
    staleness_bound: int
    sync_interval: int
    sync_mode: int
    rolling: int
    trainer_waits: int
    keeps_kv: int
    filtering: int
    partial: int
    max_context: int
    lockstep: int
    shortest_victim: int
    chunked: int
    prefix_cache: int
    prefill_engines: int
    sandboxed: int
    sandbox_limit: int
    verified: int
    verifier_limit: int
    prune_tokens: int
    tenant: int
    validation_interval: int
    checkpoint_interval: int


@dataclass(frozen=True, slots=True)
class Rates:
    """The real numbers, in the order of the compiled engine's vector."""

    per_context_token_s: float
    trainer_base_s: float
    trainer_s_per_token: float
    sync_s: float
    validation_s: float
    checkpoint_s: float
    prefill_s_per_token: float
    kv_tokens: float
    kv_admission_tokens: float
    failure_frac: float
    pool_s_per_token: float
    pool_kv_tokens: float
    transfer_s_per_token: float
    transfer_base_s: float
    sandbox_start_s: float
    sandbox_start_gap_s: float
    sandbox_failure_frac: float
    sandbox_overload_factor: float
    sandbox_overload_failure_frac: float
    sandbox_timeout_s: float
    sandbox_leak_frac: float
    sandbox_lifetime_s: float
    verifier_s: float
    prune_frac: float
    tenant_tokens: float
    length_correlation: float


@dataclass(frozen=True, slots=True)
class Parameters:
    counts: Counts
    rates: Rates
    laws: Laws
    step_s: tuple[float, ...]
    """f(b) for b = 0..slots."""
    slowness: tuple[float, ...]
    """1 / speed of each engine."""

    @property
    def plain(self) -> bool:
        """True when nothing is asked for beyond the core: engines in processor sharing, tools, plugs, trainer."""
        c, r = self.counts, self.rates
        beyond = (c.round_groups, c.in_order, c.rolling, c.sandboxed, c.verified, c.tenant, c.prefill_engines)
        numbers = (r.prefill_s_per_token, r.failure_frac, r.prune_frac, r.length_correlation)
        return (
            not any(beyond)
            and not any(numbers)
            and c.plug in (NO_PLUG, BUFFER_CAP, WIP_CAP, DROP_OLDEST)
            and c.sync_mode == IN_FLIGHT
            and c.members_started == c.group_size
            and c.lockstep == 1
            and r.kv_tokens >= NEVER
            and set(self.slowness) == {1.0}
        )

    @property
    def one_turn(self) -> bool:
        turns = self.laws.turns
        return turns.kind == FIXED and turns.mean == 1.0


MOST_HELD = 1 << 21
"""Rollouts, in flight or of one batch, whose arrays still fit into some hundred MB; published jobs have thousands."""

MOST_PLACES = 1 << 24
"""Slots of all engines: 16 bytes each."""


def _refuse(field: str, value: object, remedy: str) -> ValueError:
    return ValueError(f"{field}={value!r}: {remedy}")


def _at_least(field: str, value: float, low: float) -> float:
    if not (low <= value < float("inf")):
        raise _refuse(field, value, f"must be a finite number of at least {low:g}")
    return value


# ---- distributions ----


def exact_quantile(law: Law, share: float) -> float:
    """The quantile itself, without the prompt's own factor."""
    if law.kind == LOGNORMAL:
        return exp(law.location + law.own_sigma * normal_quantile(share))
    if law.kind == EXPONENTIAL:
        return -law.mean * log(1.0 - share)
    if law.kind == GEOMETRIC:
        return 1.0 + float(int(log(1.0 - share) / log(1.0 - 1.0 / law.mean)))
    if law.kind == FIXED:
        return law.mean
    for (left, low), (right, high) in pairwise(law.pairs):
        if share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return law.pairs[-1][1]


@cache
def _normals() -> tuple[float, ...]:
    """Standard normal quantiles of all cells: a job that drifts asks for new lognormal tables at every step."""
    return tuple(normal_quantile(i / CELLS) for i in range(1, CELLS))


def _inner(law: Law) -> list[float]:
    """The quantiles of all cells."""
    if law.kind == LOGNORMAL:
        location, sigma = law.location, law.own_sigma
        return [exp(location + sigma * z) for z in _normals()]
    return [exact_quantile(law, i / CELLS) for i in range(1, CELLS)]


def _tabled(law: Law) -> Law:
    """The law with its table. The two outermost points are never read (EDGE)."""
    inner = _inner(law)
    table = (inner[0], *inner, inner[-1])
    return Law(
        law.kind,
        law.mean,
        law.location,
        law.own_sigma,
        law.shared_sigma,
        law.shared_frac,
        law.limit,
        law.pairs,
        table,
    )


def _checked_pairs(field: str, pairs: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    shares, values = [p[0] for p in pairs], [p[1] for p in pairs]
    rising = all(a < b for a, b in pairwise(shares)) and values == sorted(values)
    if len(pairs) < 2 or shares[0] != 0.0 or shares[-1] != 1.0 or not rising or values[0] < 0:
        raise _refuse(field, pairs, "needs two pairs or more, shares rising from 0 to 1 and values not falling")
    return pairs


@lru_cache(maxsize=64)
def length_law(lengths: Lengths, field: str = "workload.response") -> Law:
    limit = NEVER if lengths.max_tokens is None else int(_at_least(f"{field}.max_tokens", lengths.max_tokens, 1))
    h = lengths.between_prompt_frac
    if not 0.0 <= h <= 1.0:
        raise _refuse(f"{field}.between_prompt_frac", h, "must be from 0 to 1")
    if lengths.quantiles:
        pairs = _checked_pairs(f"{field}.quantiles", lengths.quantiles)
        kind = EMPIRICAL_SHARED if h > 0.0 else EMPIRICAL
        return _tabled(Law(kind, shared_frac=h, limit=limit, pairs=pairs))
    mean = _at_least(f"{field}.mean_tokens", lengths.mean_tokens, 0)
    sigma = _at_least(f"{field}.sigma", lengths.sigma, 0)
    if sigma == 0.0 or mean == 0.0:
        return _tabled(Law(FIXED, mean, limit=limit))
    location = log(mean) - sigma * sigma / 2.0
    own, shared = sigma * sqrt(1.0 - h), sigma * sqrt(h)
    return _tabled(Law(LOGNORMAL, mean, location, own, shared, h, limit))


@lru_cache(maxsize=64)
def duration_law(duration: Duration | None) -> Law:
    if duration is None:
        return Law(FIXED)
    mean = _at_least("workload.tool.mean_s", duration.mean_s, 0)
    if duration.law is TimeLaw.FIXED or mean == 0.0:
        return _tabled(Law(FIXED, mean))
    if duration.law is TimeLaw.EXPONENTIAL:
        return _tabled(Law(EXPONENTIAL, mean))
    sigma = _at_least("workload.tool.sigma", duration.sigma, 0)
    return _tabled(Law(LOGNORMAL, mean, log(mean) - sigma * sigma / 2.0, sigma))


@lru_cache(maxsize=64)
def turn_law(turns: Turns) -> Law:
    limit = NEVER if turns.max_turns is None else int(_at_least("workload.turns.max_turns", turns.max_turns, 1))
    if turns.law is TurnLaw.EMPIRICAL:
        pairs = _checked_pairs("workload.turns.quantiles", turns.quantiles)
        return _tabled(Law(EMPIRICAL, limit=limit, pairs=pairs))
    mean = _at_least("workload.turns.mean", turns.mean, 1)
    if turns.law is TurnLaw.GEOMETRIC and mean > 1.0:
        return _tabled(Law(GEOMETRIC, mean, limit=limit))
    if mean != int(mean):  # two neighbouring whole numbers in the right shares
        low = float(int(mean))
        share = low + 1.0 - mean
        return _tabled(
            Law(EMPIRICAL, limit=limit, pairs=((0.0, low), (share, low), (share + 1e-12, low + 1), (1.0, low + 1)))
        )
    return _tabled(Law(FIXED, min(mean, float(limit)), limit=limit))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (Abramowitz & Stegun 26.5.8, Lentz's method)."""
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1.0 / (1.0 + even * d), 1.0 + even / c
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1.0 / (1.0 + odd * d), 1.0 + odd / c
        value *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    return value


def beta_share(a: float, b: float, x: float) -> float:
    """The Beta(a, b) distribution at x.

    # Beta(1, 1) at 0.3: 0.3 | Beta(2, 3) at 0.5: 0.6875
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


@lru_cache(maxsize=16)
def solve_law(solve: SolveRates) -> Law:
    """Solve rates of prompts by quantile: never solved, the mixture, always solved. Read from the table only."""
    shares = (solve.never_frac, solve.always_frac)
    if min(shares) < 0.0 or sum(shares) > 1.0:
        raise _refuse("workload.solve.never_frac + always_frac", shares, "shares of prompts, together at most 1")
    weight = sum(part.weight for part in solve.parts)
    if any(p.a <= 0 or p.b <= 0 or p.weight < 0 for p in solve.parts) or (sum(shares) < 1.0 and weight <= 0.0):
        raise _refuse("workload.solve.parts", solve.parts, "needs a > 0, b > 0 and weights that add up to more than 0")
    if not -1.0 <= solve.length_correlation <= 1.0:
        raise _refuse("workload.solve.length_correlation", solve.length_correlation, "must be from -1 to 1")
    rates = [((i / 512) ** 2) * (3 - 2 * i / 512) for i in range(513)]
    varied = 1.0 - sum(shares)
    below = [
        solve.never_frac + varied * sum(p.weight * beta_share(p.a, p.b, x) for p in solve.parts) / (weight or 1.0)
        for x in rates
    ]
    return Law(EMPIRICAL, table=tuple(_interpolated(below, rates, i / CELLS) for i in range(CELLS + 1)))


def _interpolated(xs: list[float], ys: list[float], x: float) -> float:
    right = bisect_left(xs, x)
    if right == 0 or right == len(xs):
        return ys[min(right, len(ys) - 1)]
    left = right - 1
    return ys[left] + (ys[right] - ys[left]) * (x - xs[left]) / (xs[right] - xs[left])


# ---- stations and knobs ----


def step_seconds(step: StepTime, residents: float) -> float:
    """f(b): linear between the table's points and beyond its last."""
    table = step.table
    right = min(max(1, bisect_left([p[0] for p in table], residents)), len(table) - 1)
    (b0, s0), (b1, s1) = table[right - 1], table[right]
    return s0 + (s1 - s0) * (residents - b0) / (b1 - b0)


@lru_cache(maxsize=64)
def _step_table(step: StepTime, slots: int) -> tuple[float, ...]:
    points = [p[0] for p in step.table]
    if len(points) < 2 or any(a >= b for a, b in pairwise(points)):
        raise _refuse("engine.step.table", step.table, "needs two points or more, residents rising")
    seconds = (0.0, *(step_seconds(step, float(b)) for b in range(1, slots + 1)))
    if not all(0.0 < s < float("inf") for s in seconds[1:]):
        raise _refuse("engine.step.table", step.table, "gives a step of no time; every step must take some")
    return seconds


def engine_count(topology: Topology, setpoints: Setpoints) -> int:
    """How many engines decode."""
    if setpoints.engines is not None:
        count = setpoints.engines
    else:
        per_engine = topology.gpus_per_engine or 1
        serial = topology.mode is Mode.SERIAL
        gpus = topology.gpus_total if serial else setpoints.gpus_decode or setpoints.gpus_generator
        if gpus is None:
            name = "topology.gpus_total" if serial else "setpoints.gpus_generator"
            raise _refuse(name, None, "the number of engines follows from it; or give setpoints.engines")
        count = gpus // per_engine
    if count < 1:
        raise _refuse("engines", count, "the generator needs at least one engine")
    return count


def _trainer_gpus(topology: Topology, setpoints: Setpoints) -> int:
    gpus = topology.gpus_total if topology.mode is Mode.SERIAL else setpoints.gpus_trainer
    gpus = setpoints.gpus_trainer if gpus is None else gpus
    if gpus is None or gpus < 1:
        raise _refuse("setpoints.gpus_trainer", gpus, "the trainer needs at least one GPU")
    return gpus


def _batch_groups(setpoints: Setpoints) -> tuple[int, int]:
    size, batch = setpoints.group_size or 1, setpoints.batch_rollouts
    if batch is None or batch < 1 or size < 1:
        raise _refuse("setpoints.batch_rollouts", batch, "rollouts of one training step, at least 1")
    if batch % size:
        raise _refuse("setpoints.batch_rollouts", batch, f"must be a multiple of group_size={size}")
    return batch // size, size


def _admission(job: Job, batch: int, round_groups: int) -> tuple[int, int, int]:
    """Plug, its limit in groups, and whether slots are freed at the start of training."""
    rules, setpoints = job.stations.admission, job.setpoints
    needed = round_groups or batch
    if job.topology.mode is Mode.SERIAL:
        rules = Admission(Plug.WIP_CAP, needed)
    limit = rules.limit_groups
    if limit is not None and limit < 1:
        raise _refuse("admission.limit_groups", limit, "must be at least 1")
    if limit is None and rules.plug is Plug.WIP_CAP:
        limit = ceil((1.0 + (setpoints.staleness_bound or 0.0)) * needed)
    if limit is None and rules.plug in (Plug.BUFFER_CAP, Plug.DROP_OLDEST, Plug.PER_SYNC):
        raise _refuse("admission.limit_groups", None, f"plug {rules.plug.value!r} needs a limit in groups")
    return PLUGS.index(rules.plug), NEVER if limit is None else limit, int(rules.freed_at_start)


def _counts(job: Job) -> Counts:
    topology, stations, knobs = job.topology, job.stations, job.setpoints
    engine, sync, pool = stations.engine, stations.sync, stations.prefill
    engines = engine_count(topology, knobs)
    batch, size = _batch_groups(knobs)
    slots = min(engine.slots, knobs.max_in_flight_per_engine or engine.slots)
    limit = engines * slots if knobs.max_in_flight is None else knobs.max_in_flight
    for field, value in (("engine.slots", slots), ("setpoints.max_in_flight", limit), ("lockstep", engine.lockstep)):
        _at_least(field, value, 1)
    for field, value in (("setpoints.max_in_flight", limit), ("setpoints.batch_rollouts", batch * size)):
        if value > MOST_HELD:
            raise _refuse(field, value, f"a simulation holds up to {MOST_HELD:,} rollouts")
    if engines * slots > MOST_PLACES:
        raise _refuse("engine.slots", slots, f"a simulation holds up to {MOST_PLACES:,} of them in all engines")
    ratio = _at_least("setpoints.oversampling_ratio", knobs.oversampling_ratio or 1.0, 1.0)
    rounds = round(ratio * batch) if ratio > 1.0 and stations.group_wise_oversampling else 0
    started = size if stations.group_wise_oversampling else max(size, round(ratio * size))
    plug, plug_limit, freed_at_start = _admission(job, batch, rounds)
    bound = knobs.staleness_bound
    if plug == DISCARD_STALE and bound is None:
        raise _refuse("setpoints.staleness_bound", None, "plug 'discard-stale' throws away by it")
    boxes = stations.sandboxes
    quota = knobs.sandbox_quota or (boxes.live_limit if boxes else None)
    return Counts(
        engines=engines,
        slots=slots,
        in_flight_limit=limit,
        group_size=size,
        members_started=started,
        batch_groups=batch,
        round_groups=rounds if rounds > batch else 0,
        plug=plug,
        plug_limit=plug_limit,
        freed_at_start=freed_at_start,
        in_order=int(stations.admission.order is Order.ADMISSION),
        staleness_bound=NEVER if bound is None else int(bound),
        sync_interval=max(1, knobs.sync_interval or 1),
        sync_mode=SYNC_MODES.index(sync.mode),
        rolling=int(sync.rolling),
        trainer_waits=int(sync.trainer_waits),
        keeps_kv=int(sync.keeps_kv),
        filtering=int(bool(knobs.filter_zero_adv)),
        partial=int(bool(knobs.partial_rollout)),
        max_context=job.workload.max_context_tokens or NEVER,
        lockstep=engine.lockstep,
        shortest_victim=int(engine.victim is Victim.SHORTEST_OUTPUT),
        chunked=int(engine.prefill is PrefillWork.CHUNKED),
        prefix_cache=int(engine.prefix_cache),
        prefill_engines=0 if pool is None else _pool_engines(knobs, pool.gpus_per_engine),
        sandboxed=int(boxes is not None),
        sandbox_limit=NEVER if quota is None else quota,
        verified=int(stations.verifier is not None),
        verifier_limit=_verifier_limit(stations.verifier),
        prune_tokens=stations.pruning.tokens if stations.pruning else NEVER,
        tenant=int(stations.tenant is not None),
        validation_interval=knobs.validation_interval or NEVER,
        checkpoint_interval=knobs.checkpoint_interval or NEVER,
    )


def _pool_engines(knobs: Setpoints, gpus_per_engine: int) -> int:
    engines = (knobs.gpus_prefill or 0) // max(1, gpus_per_engine)
    if engines < 1:
        raise _refuse("setpoints.gpus_prefill", knobs.gpus_prefill, "a prefill pool needs at least one engine")
    return engines


def _verifier_limit(verifier: Verifier | None) -> int:
    return NEVER if verifier is None or verifier.concurrency is None else verifier.concurrency


def _rates(job: Job) -> Rates:
    stations, knobs = job.stations, job.setpoints
    engine, trainer, boxes, pool = stations.engine, stations.trainer, stations.sandboxes, stations.prefill
    never = float(NEVER)
    gpus = float(_trainer_gpus(job.topology, knobs))
    kv = never if engine.kv_tokens is None else float(engine.kv_tokens)
    numbers = Rates(
        per_context_token_s=engine.step.per_context_token_s,
        trainer_base_s=trainer.base_s,
        trainer_s_per_token=trainer.gpu_s_per_token / gpus**trainer.exponent,
        sync_s=stations.sync.seconds,
        validation_s=trainer.validation_s,
        checkpoint_s=trainer.checkpoint_s,
        prefill_s_per_token=0.0 if pool else engine.prefill_s_per_token,
        kv_tokens=kv,
        kv_admission_tokens=kv if kv >= never else kv * (1.0 - engine.kv_watermark_frac),
        failure_frac=job.workload.failure_frac,
        pool_s_per_token=pool.prefill_s_per_token if pool else 0.0,
        pool_kv_tokens=never if pool is None or pool.kv_tokens is None else float(pool.kv_tokens),
        transfer_s_per_token=pool.transfer_s_per_token if pool else 0.0,
        transfer_base_s=pool.transfer_base_s if pool else 0.0,
        sandbox_start_s=boxes.start_s if boxes else 0.0,
        sandbox_start_gap_s=1.0 / boxes.starts_per_s_limit if boxes and boxes.starts_per_s_limit else 0.0,
        sandbox_failure_frac=boxes.failure_frac if boxes else 0.0,
        sandbox_overload_factor=boxes.overload_factor if boxes else 0.0,
        sandbox_overload_failure_frac=boxes.overload_failure_frac if boxes else 0.0,
        sandbox_timeout_s=never if boxes is None or boxes.start_timeout_s is None else boxes.start_timeout_s,
        sandbox_leak_frac=boxes.leak_frac if boxes else 0.0,
        sandbox_lifetime_s=never if boxes is None or boxes.lifetime_s is None else boxes.lifetime_s,
        verifier_s=stations.verifier.time_s if stations.verifier else 0.0,
        prune_frac=stations.pruning.frac if stations.pruning else 0.0,
        tenant_tokens=stations.tenant.response_tokens if stations.tenant else 0.0,
        length_correlation=job.workload.solve.length_correlation,
    )
    for field in Rates.__dataclass_fields__:
        if field != "length_correlation":
            _at_least(field, getattr(numbers, field), 0.0)
    return numbers


@lru_cache(maxsize=16)
def parameters(job: Job) -> Parameters:
    """Raises ValueError that names field and value where the job cannot be simulated."""
    counts, work = _counts(job), job.workload
    laws = Laws(
        prompt=length_law(work.prompt, "workload.prompt"),
        response=length_law(work.response, "workload.response"),
        turns=turn_law(work.turns),
        tool_tokens=length_law(work.tool_tokens or Lengths(0.0), "workload.tool_tokens"),
        tool_time=duration_law(work.tool),
        solve_rate=solve_law(work.solve),
    )
    engine = job.stations.engine
    speeds = engine.speeds or (1.0,)
    if min(speeds) <= 0.0:
        raise _refuse("engine.speeds", speeds, "every speed must be above 0")
    slowness = tuple(1.0 / speeds[e % len(speeds)] for e in range(counts.engines))
    return Parameters(counts, _rates(job), laws, _step_table(engine.step, counts.slots), slowness)
