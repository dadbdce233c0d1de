"""Routers before engines: smg (once sglang-router) and vllm-router, by their own Prometheus ports.

They count what they have sent to an engine and not yet got back, be it in the engine's batch or in its queue (0.6).
Times to and per token are known to smg where it speaks gRPC with its engines. What engines say themselves wins.
"""

from collections.abc import Mapping

from simulators.plant import Mode
from tuner.adapting import quotient
from tuner.frameworks.base import Alias, Framework
from tuner.records import Record

NAME = "router"
SMG, VLLM = "smg_", "vllm_router_"
ALIASES = (
    Alias(f"{SMG}worker_requests_active", "running", trust=0.6),
    Alias(f"{SMG}worker_pool_size", "engines"),
    Alias(f"{VLLM}running_requests", "running", trust=0.6),
    Alias(f"{VLLM}active_workers", "engines"),
)
MEANS = (("ttft_mean_s", f"{SMG}router_ttft_seconds"), ("tpot_s", f"{SMG}router_tpot_seconds"))


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Means of histograms, sum over count: of the time between two scrapes where the record is of differences."""
    del found, mode
    means = {signal: quotient(record.values, f"{name}_sum", f"{name}_count") for signal, name in MEANS}
    return {signal: mean for signal, mean in means.items() if mean is not None}


FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    serves=(SMG, VLLM, *(f"{name}_{part}" for _, name in MEANS for part in ("sum", "count"))),
    signature=(SMG, VLLM),
    step_keys=(),
    engine=True,
    relays=True,
    mode=lambda _: Mode.ENGINE,
    interpret=interpret,
    computed_trust={signal: 0.6 for signal, _ in MEANS},
)
