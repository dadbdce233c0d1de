"""Inputs that no job can have, refused by field, value and remedy."""

import math
from collections.abc import Iterator
from functools import lru_cache

from simulators.stations import Stations
from simulators.workload import Lengths, TurnLaw, Workload


@lru_cache(maxsize=256)
def check(stations: Stations, workload: Workload) -> None:
    """Raises ValueError at the first impossible field; remembered, since searches repeat their inputs."""
    for name, value, low in (*_workload_floors(workload), *_station_floors(stations)):
        if not low <= value < math.inf:
            raise ValueError(f"{name}={value} must be a finite number of at least {low:g}")
    for name, value in _shares(stations, workload):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{name}={value} must be a share from 0 to 1")
    if any(not 0.0 < speed < math.inf for speed in stations.engine.speeds):
        raise ValueError(f"engine.speeds={stations.engine.speeds}: every speed must be above 0")
    _check_solve(workload)
    _check_step(stations)


def _lengths(name: str, lengths: Lengths | None, low: float) -> Iterator[tuple[str, float, float]]:
    if lengths is None:
        return
    if not lengths.quantiles:
        yield f"{name}.mean_tokens", lengths.mean_tokens, low
    yield f"{name}.sigma", lengths.sigma, 0.0
    if lengths.max_tokens is not None:
        yield f"{name}.max_tokens", float(lengths.max_tokens), 1.0
    _check_quantiles(f"{name}.quantiles", lengths.quantiles)


def _workload_floors(workload: Workload) -> Iterator[tuple[str, float, float]]:
    yield from _lengths("workload.prompt", workload.prompt, 0.0)
    yield from _lengths("workload.response", workload.response, 1e-9)
    yield from _lengths("workload.tool_tokens", workload.tool_tokens, 0.0)
    if workload.turns.law is TurnLaw.EMPIRICAL:
        _check_quantiles("workload.turns.quantiles", workload.turns.quantiles or ((1.0, 0.0),))
    else:
        yield "workload.turns.mean", workload.turns.mean, 1.0
    if workload.tool is not None:
        yield "workload.tool.mean_s", workload.tool.mean_s, 0.0
    if workload.max_context_tokens is not None:
        yield "workload.max_context_tokens", float(workload.max_context_tokens), 2.0


def _station_floors(stations: Stations) -> Iterator[tuple[str, float, float]]:
    engine, trainer = stations.engine, stations.trainer
    yield "engine.slots", float(engine.slots), 1.0
    yield "engine.prefill_s_per_token", engine.prefill_s_per_token, 0.0
    yield "engine.step.per_context_token_s", engine.step.per_context_token_s, 0.0
    yield "engine.lockstep", float(engine.lockstep), 1.0
    if engine.kv_tokens is not None:
        yield "engine.kv_tokens", float(engine.kv_tokens), 1.0
    yield "trainer.base_s", trainer.base_s, 0.0
    yield "trainer.gpu_s_per_token", trainer.gpu_s_per_token, 0.0
    yield "trainer.exponent", trainer.exponent, 0.0
    yield "sync.seconds", stations.sync.seconds, 0.0
    if stations.verifier is not None:
        yield "verifier.time_s", stations.verifier.time_s, 0.0
    if stations.sandboxes is not None:
        yield "sandboxes.start_s", stations.sandboxes.start_s, 0.0
        yield "sandboxes.overload_factor", stations.sandboxes.overload_factor, 0.0
    if stations.tenant is not None:
        yield "tenant.response_tokens", stations.tenant.response_tokens, 1.0


def _shares(stations: Stations, workload: Workload) -> Iterator[tuple[str, float]]:
    yield "workload.failure_frac", workload.failure_frac
    yield "workload.response.between_prompt_frac", workload.response.between_prompt_frac
    yield "engine.kv_watermark_frac", stations.engine.kv_watermark_frac
    if stations.sandboxes is not None:
        yield "sandboxes.failure_frac", stations.sandboxes.failure_frac
        yield "sandboxes.overload_failure_frac", stations.sandboxes.overload_failure_frac
        yield "sandboxes.leak_frac", stations.sandboxes.leak_frac
    if stations.pruning is not None:
        yield "pruning.frac", stations.pruning.frac


def _check_quantiles(name: str, pairs: tuple[tuple[float, float], ...]) -> None:
    if not pairs:
        return
    shares, values = [share for share, _ in pairs], [value for _, value in pairs]
    whole = len(pairs) > 1 and shares[0] == 0.0 and shares[-1] == 1.0
    if not whole or shares != sorted(set(shares)) or values != sorted(values) or values[0] < 0.0 or values[-1] <= 0.0:
        raise ValueError(f"{name}={pairs}: needs shares rising from 0 to 1, and values that do not fall")


def _check_solve(workload: Workload) -> None:
    solve = workload.solve
    if min(solve.always_frac, solve.never_frac) < 0.0 or solve.always_frac + solve.never_frac > 1.0 + 1e-9:
        shares = f"always_frac={solve.always_frac} + never_frac={solve.never_frac}"
        raise ValueError(f"workload.solve: {shares} must be a share from 0 to 1")
    if any(part.a <= 0.0 or part.b <= 0.0 or part.weight < 0.0 for part in solve.parts):
        raise ValueError(f"workload.solve.parts={solve.parts}: a and b must be above 0, weights at least 0")


def _check_step(stations: Stations) -> None:
    table = stations.engine.step.table
    residents = [b for b, _ in table]
    if not table or residents != sorted(set(residents)) or any(not 0.0 <= t < math.inf for _, t in table):
        raise ValueError(f"engine.step.table={table}: needs (residents, seconds), residents rising, seconds at least 0")
