"""Closed forms: what a published figure must be, given other published figures, without simulating anything.

simulators/forms.py names them for case files, with units, sources and legal ranges; they rely on those ranges.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, exp, expm1, floor, inf, lgamma, log

BISECTIONS = 60
"""Halvings of an interval: more than a double can tell apart."""


Number = float | tuple[float, ...]
"""What an input may be: a number, or for a series one number for each step."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a closed form and its legal range."""

    name: str
    unit: str
    about: str
    low: float = 0.0
    high: float = inf
    above_low: bool = True
    """True when `low` itself is not allowed: it would be divided by, or mean nothing."""
    series: bool = False
    """True when a list may be given, one number for each step."""
    default: float | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """A closed form. Its first output is the one that a case means when it names none."""

    name: str
    says: str
    written: str
    inputs: tuple[Input, ...]
    outputs: Mapping[str, str]
    """Name -> unit."""
    compute: Callable[..., Mapping[str, float]]
    source: str


def answer(form: Form, given: Mapping[str, Number]) -> Mapping[str, float]:
    """All outputs of a form. ValueError names a missing, unknown or impossible input."""
    known = {each.name for each in form.inputs}
    for name in given:
        if name not in known:
            raise ValueError(f"inputs.{name}: unknown input of {form.name}; it takes {', '.join(sorted(known))}")
    return form.compute(**{each.name: _checked(form, each, given) for each in form.inputs})


def _checked(form: Form, wanted: Input, given: Mapping[str, Number]) -> Number:
    value = given.get(wanted.name, wanted.default)
    if value is None:
        raise ValueError(f"inputs.{wanted.name}: is missing; {form.name} needs it: {wanted.about} ({wanted.unit})")
    if isinstance(value, tuple) and not wanted.series:
        raise ValueError(f"inputs.{wanted.name}: must be one number, not a list")
    for number in value if isinstance(value, tuple) else (value,):
        if not wanted.low <= number <= wanted.high or (wanted.above_low and number == wanted.low):
            least = f"> {wanted.low:g}" if wanted.above_low else f">= {wanted.low:g}"
            most = "" if wanted.high == inf else f" and <= {wanted.high:g}"
            raise ValueError(f"inputs.{wanted.name}={number:g} must be {least}{most}: {wanted.about} ({wanted.unit})")
    return _series(value) if wanted.series else value


def _series(value: Number) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


def _together(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
    """Pairs of two series; a single number goes with every one of the other."""
    count = max(len(a), len(b))
    if {len(a), len(b)} - {1, count}:
        raise ValueError(f"inputs: lists of {len(a)} and {len(b)} numbers cannot go together; make them equally long")
    return tuple(zip(a * (count // len(a)), b * (count // len(b)), strict=True))


def little(rate_per_s: float, time_s: float) -> Mapping[str, float]:
    return {"in_flight": rate_per_s * time_s}


def idle_from_rates(generator_per_s: tuple[float, ...], trainer_per_s: tuple[float, ...]) -> Mapping[str, float]:
    # one pair: 1 - lambda/mu; series of steps of one batch: weighted by the time that each step takes
    pairs = _together(generator_per_s, trainer_per_s)
    busy, wall = sum(1 / mu for _, mu in pairs), sum(1 / min(lam, mu) for lam, mu in pairs)
    return {"idle_frac": 1 - busy / wall}


def mfu(
    active_params: float, rollouts_per_s: float, tokens_per_rollout: float, gpus: float, peak_flops: float
) -> Mapping[str, float]:
    return {"mfu_frac": 6 * active_params * rollouts_per_s * tokens_per_rollout / gpus / peak_flops}


def cost_per_mtok(
    gpus: float,
    usd_per_gpu_hour: float,
    seconds: tuple[float, ...],
    rollouts: float,
    tokens_per_rollout: tuple[float, ...],
) -> Mapping[str, float]:
    steps = [
        gpus * usd_per_gpu_hour / 3600 * s / (rollouts * tokens / 1e6)
        for s, tokens in _together(seconds, tokens_per_rollout)
    ]
    return {"usd_per_mtok": sum(steps) / len(steps)}


def hosted_price(
    prompt_tokens: tuple[float, ...],
    response_tokens: tuple[float, ...],
    prefill_usd: float,
    sample_usd: float,
    train_usd: float,
) -> Mapping[str, float]:
    steps = [
        (prompt * prefill_usd + response * sample_usd) / (prompt + response) + train_usd
        for prompt, response in _together(prompt_tokens, response_tokens)
    ]
    return {"usd_per_mtok": sum(steps) / len(steps)}


def total(parts: tuple[float, ...]) -> Mapping[str, float]:
    return {"total": sum(parts)}


def ratio(over: float, under: float) -> Mapping[str, float]:
    return {"ratio": over / under}


def proportional(value: float, size: float, to_size: float, power: float) -> Mapping[str, float]:
    return {"value": value * (to_size / size) ** power}


def max_of_sides(generate_s: float, train_s: float, sync_s: float) -> Mapping[str, float]:
    longer = max(generate_s, train_s)
    return {"step_s": longer + sync_s, "trainer_idle_frac": 1 - train_s / (longer + sync_s)}


def run_time(steps: float, step_s: float, sync_s: float, sync_interval: float) -> Mapping[str, float]:
    return {"run_s": steps * (step_s + sync_s / sync_interval)}


def scaling(base_s: float, work_gpu_s: float, gpus: float, exponent: float) -> Mapping[str, float]:
    return {"step_s": base_s + work_gpu_s / gpus**exponent}


def overlap_bounds(serial_s: float) -> Mapping[str, float]:
    return {"least_s": serial_s / 2, "most_s": serial_s}


def lossless_sharing(
    gpus: float, generator_bound_s: float, generator_gpus: float, trainer_bound_s: float, trainer_gpus: float
) -> Mapping[str, float]:
    shared = (generator_bound_s * generator_gpus + trainer_bound_s * trainer_gpus) / gpus
    return {"least_s": shared, "most_s": min(generator_bound_s, trainer_bound_s)}


def async_staleness(
    in_flight: float, batch: float, queue_batches: float, rho: float, tail: float
) -> Mapping[str, float]:
    before = in_flight * tail / (batch * max(1.0, rho))
    inside = rho if rho < 1 else (2 * queue_batches + rho - 1) / (2 * rho)
    return {"staleness": before + inside, "pre_queue": before, "in_queue": inside}


def wip_step(started_batches: float, group_s: float, last_s: float, train_s: float) -> Mapping[str, float]:
    # Little on batches: started / step = group + half a step (for the rest of its batch) + last
    return {"step_s": max(train_s, (group_s + last_s) / (started_batches - 0.5))}


def wip_staleness(started_batches: float) -> Mapping[str, float]:
    return {"staleness": started_batches - 1}


def queue_lag(rho_per_unit: float, units: float, capacity_batches: float, steps: float) -> Mapping[str, float]:
    """Versions between a group's completion and its training, over the first `steps` trainer steps.

    # rho 0.5: 0.5 at every step | rho 2, capacity 5: 0 0.5 1 1.5 ... 5 5 5
    """
    rho = rho_per_unit * units
    if rho <= 1:
        return {"lag_mean": rho, "lag_max": 1.0, "lag_over_2_frac": 0.0, "queue_batches": 0.0}
    lags = [min(step * (1 - 1 / rho), capacity_batches) for step in range(floor(steps))]
    return {
        "lag_mean": sum(lags) / len(lags),
        "lag_max": float(ceil(lags[-1])),
        "lag_over_2_frac": sum(lag > 2 for lag in lags) / len(lags),
        "queue_batches": min(capacity_batches, (rho - 1) * steps),
    }


def tail_free_step(
    step_s: float, tail_s: float, tail_frac: float, mean_tokens: float, max_tokens: float
) -> Mapping[str, float]:
    """The step without its tail, when the engines stay as full as before the tail began.

    Lengths are exponential, cut at the maximum (the least that mean and maximum say), with scale a:
    a (1 - e^(-max/a)) = mean. The last tail_frac of the rollouts have by then made a ln(1/tail_frac) tokens each.
    """
    scale = _cut_exponential_scale(mean_tokens, max_tokens)
    reached = scale * log(1 / tail_frac)
    left = 0.0 if reached >= max_tokens else -tail_frac * scale * expm1(-(max_tokens - reached) / scale)
    return {"step_s": (step_s - tail_s) / (1 - left / mean_tokens), "tail_work_frac": left / mean_tokens}


def _cut_exponential_scale(mean: float, most: float) -> float:
    """a with a (1 - e^(-most/a)) = mean: the left side rises from 0 to `most`.

    >>> round(_cut_exponential_scale(1.0, 2.0), 3)
    1.255
    """
    if mean >= most:
        raise ValueError(f"inputs.mean_tokens={mean:g} must be < max_tokens={most:g}")
    low, high = mean, 2 * mean
    while -high * expm1(-most / high) < mean:
        high *= 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if -middle * expm1(-most / middle) < mean else (low, middle)
    return (low + high) / 2


def filling_latency(tokens: float, full_s_per_token: float, elapsed_s: float, fill_s: float) -> Mapping[str, float]:
    return {"latency_s": tokens * full_s_per_token * (1 - exp(-elapsed_s / fill_s))}


def saturated_latency(
    tokens: float, base_s_per_token: float, residents: float, context_s_per_token: float
) -> Mapping[str, float]:
    return {"latency_s": tokens * (base_s_per_token + context_s_per_token * residents * tokens / 2)}


def usable_share(a: float, b: float, group_size: float, always_frac: float, never_frac: float) -> Mapping[str, float]:
    def same(x: float, y: float) -> float:
        # E[p^S] of p ~ Beta(x, y): B(x + S, y) / B(x, y)
        return exp(lgamma(x + group_size) + lgamma(x + y) - lgamma(x + y + group_size) - lgamma(x))

    return {"usable_frac": (1 - always_frac - never_frac) * (1 - same(a, b) - same(b, a))}
