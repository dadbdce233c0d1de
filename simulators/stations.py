"""The stations a rollout passes, with their service rates: engine, prefill pool, sandboxes, verifier, trainer, sync.

Rates of one engine or one GPU; how many there are is a setpoint. What is not there is None and costs nothing.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from simulators.fields import STRICT


class Victim(StrEnum):
    """Whom a full KV pool evicts."""

    LAST_ADMITTED = "last-admitted"
    """vLLM: the resident that was admitted last."""
    SHORTEST_OUTPUT = "shortest-output"
    """SGLang retracts the resident with the fewest generated tokens."""


class PrefillWork(StrEnum):
    """What a prefill does to the decodes of its engine."""

    STALLING = "stalling"
    """A prefill stops every decode of its engine."""
    CHUNKED = "chunked"
    """A prefill is mixed into decode steps: it takes its work from the shared clock, and nobody stops."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one decode iteration: t = f(b) + m S, with b residents of S context tokens in total.

    f is a table, linear between its points and beyond its last; `affine` makes the usual prior a + k b.
    """

    __pydantic_config__ = STRICT

    table: tuple[tuple[float, float], ...]
    """(residents, seconds), residents rising."""
    per_context_token_s: float = 0.0
    """m."""


def affine(base_s: float, per_resident_s: float, per_context_token_s: float = 0.0) -> StepTime:
    """t = a + k b + m S."""
    return StepTime(((0.0, base_s), (1.0, base_s + per_resident_s)), per_context_token_s)


@dataclass(frozen=True, slots=True)
class Engine:
    """One inference engine (one replica)."""

    __pydantic_config__ = STRICT

    step: StepTime
    """Seconds of one decode iteration."""
    slots: int
    """Rollouts that may be resident at once."""
    kv_tokens: int | None = None
    """Capacity of the KV pool; None: never full."""
    kv_watermark_frac: float = 0.0
    """Share of the pool that an admission must leave free."""
    victim: Victim = Victim.LAST_ADMITTED
    """Whom a full KV pool evicts."""
    prefill_s_per_token: float = 0.0
    """Of one engine that does nothing else."""
    prefill: PrefillWork = PrefillWork.STALLING
    """How prefill and decode share an engine."""
    prefix_cache: bool = True
    """A paused rollout's context stays in the free part of the KV pool until others need it (least recently used)."""
    lockstep: int = 1
    """Engines that share one clock (data-parallel attention): the slowest sets the step of all."""
    speeds: tuple[float, ...] = ()
    """Relative speed of each engine, repeated as needed; empty: all alike."""


@dataclass(frozen=True, slots=True)
class PrefillPool:
    """Engines that only prefill, in front of the decoding ones; their number is a setpoint (gpus_prefill)."""

    __pydantic_config__ = STRICT

    gpus_per_engine: int
    """GPUs of one prefill engine."""
    prefill_s_per_token: float
    """Of one prefill engine."""
    kv_tokens: int | None = None
    """A finished prefill holds its KV here until a decoder admits it (blocking after service)."""
    transfer_s_per_token: float = 0.0
    """Moving one token's KV from prefill to decode."""
    transfer_base_s: float = 0.0
    """What each transfer takes besides."""


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """A fleet of environments, one held by each rollout from before its first turn to its end.

    Starting s of them at once against a quota of q: time = start.mean_s x (1 + overload_factor x max(0, s/q - 1)),
    failures = failure_frac below the quota and overload_failure_frac x (1 - q/s) more above it: the cliff.
    """

    __pydantic_config__ = STRICT

    start_s: float
    """Mean time to start one while the quota is not exceeded."""
    live_limit: int | None = None
    """Sandboxes alive at once (quota): a rollout waits for one."""
    starts_per_s_limit: float | None = None
    """Starts per second that the provider carries out."""
    failure_frac: float = 0.0
    """Share of starts that fail below the quota."""
    overload_factor: float = 0.0
    """How much longer starts take above the quota, for each quota's worth of excess."""
    overload_failure_frac: float = 0.0
    """How many more starts fail far above the quota."""
    start_timeout_s: float | None = None
    """A start that takes longer fails."""
    leak_frac: float = 0.0
    """Sandboxes that go on counting against the quota after their rollout, until `lifetime_s`."""
    lifetime_s: float | None = None
    """Until a leaked sandbox is cleared away."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Reward computation with its own concurrency."""

    __pydantic_config__ = STRICT

    time_s: float
    """Mean time of one reward."""
    concurrency: int | None = None
    """Rewards computed at once; absent: any number."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """Seconds of one step: c0 + c1 x tokens / n^alpha on n GPUs."""

    __pydantic_config__ = STRICT

    base_s: float
    """c0: what does not shrink with GPUs."""
    gpu_s_per_token: float
    """c1, at alpha = 1 the GPU-seconds of one token."""
    exponent: float = 1.0
    """alpha; unknown before the first resize (prior U[0.5, 1])."""
    validation_s: float = 0.0
    """Seconds of one validation, every `validation_interval` steps."""
    checkpoint_s: float = 0.0
    """Their periods in steps are setpoints (validation_interval, checkpoint_interval)."""


class SyncMode(StrEnum):
    """What happens to rollouts in flight when new weights arrive."""

    DRAIN = "drain"
    """Nothing is admitted until the residents are done; then the weights change."""
    ABORT = "abort"
    """Residents are stopped; with partial rollout they go on afterwards, else they start anew."""
    IN_FLIGHT = "in-flight"
    """Engines pause, take the weights and go on with the same KV (PipelineRL)."""


@dataclass(frozen=True, slots=True)
class WeightSync:
    """How new weights reach the engines, and what it costs."""

    __pydantic_config__ = STRICT

    seconds: float = 0.0
    """Pause of an engine for one publication (a table by model size and transport, not a law)."""
    mode: SyncMode = SyncMode.IN_FLIGHT
    """What happens to rollouts in flight."""
    rolling: bool = False
    """One engine after another instead of all at once."""
    trainer_waits: bool = True
    """The trainer stands still for `seconds` too."""
    keeps_kv: bool = True
    """False: every resident is prefilled again under the new weights."""


class Plug(StrEnum):
    """What holds the generator back from running ahead of the trainer."""

    NONE = "none"
    """Nothing: it keeps as many in flight as it may."""
    BUFFER_CAP = "buffer-cap"
    """No new group while `limit_groups` finished groups wait. Bounds the buffer, not staleness."""
    WIP_CAP = "wip-cap"
    """At most `limit_groups` started and untrained (AReaL, Tinker). Bounds mean staleness: W/B - 1 when slots are
    freed at the end of training, W/B when at its start; the maximum is not bounded. W = B freed at the end is the
    serial job, W = B freed at the start is one step off."""
    DROP_OLDEST = "drop-oldest"
    """Beyond `limit_groups` finished groups the oldest is thrown away (Applied Compute's queue-drop); where they are
    trained in the order of dispatch, a group counts once all before it have finished."""
    DISCARD_STALE = "discard-stale"
    """A group older than the staleness bound is thrown away when its turn comes."""
    PER_SYNC = "per-sync"
    """verl: between two publications at most `limit_groups` groups are started, less what is left over."""


class Order(StrEnum):
    """In which order the trainer takes finished groups."""

    COMPLETION = "completion"
    """The first to finish first: short ones are trained sooner, and staleness has no bound."""
    ADMISSION = "admission"
    """Strictly in the order of dispatch: staleness gets a hard bound, stragglers block."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What limits the work between dispatch and training."""

    __pydantic_config__ = STRICT

    plug: Plug = Plug.NONE
    """What holds the generator back."""
    limit_groups: int | None = None
    """The plug's number of groups; absent at wip-cap: (staleness_bound + 1) batches."""
    freed_at_start: bool = False
    """WIP cap: True when a slot is free again as training of its group starts."""
    order: Order = Order.COMPLETION
    """In which order finished groups are trained."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """A rollout whose response passes `tokens` without an end is given up with chance `frac`."""

    __pydantic_config__ = STRICT

    tokens: int
    """Response tokens after which a rollout is in danger."""
    frac: float = 1.0
    """Chance that it is given up then."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A second job whose rollouts fill free slots and leave when the first wants them."""

    __pydantic_config__ = STRICT

    response_tokens: float
    """Mean length of its rollouts; there are always some waiting."""


@dataclass(frozen=True, slots=True)
class Stations:
    """All of them. How many engines and GPUs there are is in the setpoints and the topology."""

    __pydantic_config__ = STRICT

    engine: Engine
    """One inference engine; all are alike but for `speeds`."""
    trainer: Trainer
    """How long a training step takes."""
    sync: WeightSync = field(default_factory=WeightSync)
    """How new weights reach the engines."""
    admission: Admission = field(default_factory=Admission)
    """What holds the generator back from running ahead."""
    prefill: PrefillPool | None = None
    """Engines that only prefill; absent: the decoding engines prefill."""
    sandboxes: Sandboxes | None = None
    """Environments; absent: rollouts need none."""
    verifier: Verifier | None = None
    """Rewards that take time; absent: they take none."""
    pruning: Pruning | None = None
    """Giving up long rollouts; absent: none is given up."""
    tenant: Tenant | None = None
    """A second job in the free slots; absent: they stay free."""
    group_wise_oversampling: bool = True
    """True: whole groups more than needed are started; False: more members per group, of which the first are kept."""
