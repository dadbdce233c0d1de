"""A job as the event engine wants it: counts, rates and quantile tables instead of names and laws.

Standard library only, so that the readable twin of the engine reads the very same numbers.
"""

from dataclasses import dataclass

from simulators.distributions import FIXED, NEVER, Law
from simulators.plant import Setpoints, Topology
from simulators.stations import Plug, Stations, SyncMode
from simulators.workload import Workload

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
