"""What a job costs: dollars per million trained tokens, and the dollars of idle and wasted GPUs.

Always by throughput, never by latency: the mean time of one rollout is not the time of a batch. With 256 GPUs at
$1.59, 1.95 rollouts/s of 18,294 tokens cost 256 x 1.59 / (1.95 x 18,294 x 3,600 / 1e6) = $3.17 per Mtok; taking the
576 s of one rollout for the time of a 512-rollout batch would say $6.90.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from simulators.plant import Mode, Setpoints, Topology
from simulators.signals import TINY
from simulators.snapshot import Snapshot

USD_PER_GPU_HOUR: Mapping[str, float] = {"H200": 1.59}
"""Published rental cost of one GPU for an hour, where we have a source for it; no other model has a default."""

_SAYS_NOTHING = re.compile(r"\d*x|nvidia|sxm\d?|hgx|dgx|hbm3e?|tensor|core|gpus?|\d+gi?b|")
"""Parts of a GPU's name that do not change which model it is."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of wall time that the GPUs of each side do nothing; None where unknown."""

    trainer_idle_frac: float | None = None
    generator_idle_frac: float | None = None


@dataclass(frozen=True, slots=True)
class Spending:
    usd_per_gpu_hour: float
    usd_per_mtok: float | None = None
    """Per million tokens *trained*; dropped rollouts are cost, not tokens. Sandboxes are not in it."""
    idle_usd_per_hour: float | None = None
    wasted_usd_per_hour: float | None = None
    """Generator's GPUs spent on rollouts that no batch used."""


def known_price(gpu_model: str | None) -> float | None:
    """$/GPU-hour of a model as drivers print it (`NVIDIA H200 141GB`), or None. A GH200 or an H200 NVL is another card.

    >>> known_price("NVIDIA H200 141GB"), known_price("NVIDIA GH200 480GB")
    (1.59, None)
    """
    words = re.split(r"[^a-z0-9]+", re.sub(r"\b\d+x", " ", (gpu_model or "").lower()))
    telling = {word for word in words if not _SAYS_NOTHING.fullmatch(word)}
    return next((usd for name, usd in USD_PER_GPU_HOUR.items() if telling == {name.lower()}), None)


def gpus_of(topology: Topology, setpoints: Setpoints) -> int | None:
    """GPUs that somebody pays for: the stated total, else both sides where the job has two."""
    if topology.gpus_total is not None:
        return topology.gpus_total
    trainer, generator = setpoints.gpus_trainer, setpoints.gpus_generator
    if topology.mode is not Mode.OVERLAPPED or trainer is None or generator is None:
        return None
    return trainer + generator


def trained_tokens_per_s(snapshot: Snapshot) -> float | None:
    """Tokens trained per second of wall time: raw counts over step time first, a framework's own rate last."""
    step, batch_tokens = snapshot.get("step_s"), snapshot.get("tokens_total")
    if step is not None and step > TINY and batch_tokens is not None:
        return batch_tokens / step
    prompt, response = snapshot.get("prompt_len_mean"), snapshot.get("resp_len_mean")
    if prompt is not None and response is not None:
        batch, rate = snapshot.get("batch_rollouts"), snapshot.get("gen_samples_per_s")
        if step is not None and step > TINY and batch is not None:
            return batch * (prompt + response) / step
        if rate is not None:
            return rate * (prompt + response)
    return snapshot.get("train_tokens_per_s")


def spending(
    topology: Topology, setpoints: Setpoints, snapshot: Snapshot, shares: Shares, usd_per_gpu_hour: float
) -> Spending:
    """All that the data allows to say of the money; what it does not allow stays None.

    $/Mtok = GPUs x price / (trained tokens/s x 3,600 / 1e6)
    idle $/h = price x (trainer GPUs x trainer idle + generator GPUs x generator idle), known sides only
    wasted $/h = price x generator's GPUs x waste_frac; in a serial job all GPUs for the generating share of the step
    """
    gpus, tokens_per_s = gpus_of(topology, setpoints), trained_tokens_per_s(snapshot)
    per_mtok = None
    if gpus is not None and tokens_per_s is not None and tokens_per_s > TINY:
        per_mtok = gpus * usd_per_gpu_hour / (tokens_per_s * 3600 / 1e6)
    idle_gpus = [
        count * frac
        for count, frac in (
            (setpoints.gpus_trainer, shares.trainer_idle_frac),
            (setpoints.gpus_generator, shares.generator_idle_frac),
        )
        if count is not None and frac is not None
    ]
    waste, generating = snapshot.get("waste_frac"), _generating_gpus(topology, setpoints, snapshot)
    return Spending(
        usd_per_gpu_hour,
        per_mtok,
        usd_per_gpu_hour * sum(idle_gpus) if idle_gpus else None,
        None if waste is None or generating is None else usd_per_gpu_hour * generating * waste,
    )


def _generating_gpus(topology: Topology, setpoints: Setpoints, snapshot: Snapshot) -> float | None:
    if topology.mode is not Mode.SERIAL:
        return setpoints.gpus_generator
    step, rollout = snapshot.get("step_s"), snapshot.get("rollout_s")
    if topology.gpus_total is None or step is None or rollout is None or not TINY < rollout <= step:
        return None
    return topology.gpus_total * rollout / step
