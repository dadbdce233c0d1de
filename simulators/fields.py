"""What a field's name promises: its unit, its legal range, and how strictly a file may fill it."""

STRICT = {"extra": "forbid", "use_attribute_docstrings": True, "allow_inf_nan": False, "strict": True}
"""How the rim reads a record of ours from a file: `__pydantic_config__` of each. Plain data, so that nobody here
imports the library: unknown keys are refused, `true` is no number, a field's documentation is the text under it."""

LARGEST = 1e15
"""No count, time or rate of a job comes near this."""
SIGNED = {"length_correlation": (-1.0, 1.0)} | dict.fromkeys(("to", "points", "value"), (-LARGEST, LARGEST))
"""The few fields that may be negative: a correlation, and where a drift or an event leads."""
LARGEST_OF = {"sigma": 5.0, "mean_tokens": 1e7, "oversampling_ratio": 32.0}
"""Where nothing of a job comes near a smaller number: a deviation of a logarithm (the mean is then e^12 medians), the
tokens of one turn, and rollouts started for one that is kept (published recipes start up to four)."""
AT_LEAST_ONE = ("oversampling_ratio",)
"""Ratios of more to less."""
POSITIVE_COUNTS = (
    *("gpus_per_engine", "gpus_trainer", "gpus_generator", "gpus_prefill", "gpus_decode", "engines", "slots"),
    *("trainer_gpu_step", "group_size", "batch_rollouts", "sync_interval", "lockstep", "max_turns", "max_tokens"),
    *("max_in_flight", "max_in_flight_per_engine", "concurrency", "live_limit", "limit_groups", "gpus_total", "mean"),
    *("kv_tokens", "max_context_tokens", "checkpoint_interval", "validation_interval", "sandbox_quota", "steps"),
)
"""Of these, none is no count."""


def range_of(name: str) -> tuple[float, float]:
    """The least and the largest value that a field of this name may hold.

    >>> range_of("failure_frac"), range_of("group_size")[0], range_of("restart_s")[0]
    ((0.0, 1.0), 1.0, 0.0)
    """
    if name in SIGNED:
        return SIGNED[name]
    if name.endswith("_frac"):
        return (0.0, 1.0)
    if name in AT_LEAST_ONE or name in POSITIVE_COUNTS:
        return (1.0, LARGEST_OF.get(name, LARGEST))
    return (0.0, LARGEST_OF.get(name, LARGEST))


def refused(field: str, value: object, remedy: str) -> ValueError:
    """The error of a value that cannot be, to be raised."""
    return ValueError(f"{field}={value!r}: {remedy}")


def at_least(field: str, value: float, low: float) -> float:
    """The value itself. Raises ValueError where it is less, or no finite number."""
    if not (low <= value < float("inf")):
        raise refused(field, value, f"must be a finite number of at least {low:g}")
    return value
