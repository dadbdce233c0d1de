"""Facts of a job that a table may state in columns: the fields of Topology and Setpoints, also by their short names."""

from dataclasses import fields

from simulators.plant import Mode, Setpoints, Topology, TrainerResize
from tuner.sources.flatten import number_of

_TYPES: dict[str, str] = {f.name: str(f.type) for kind in (Topology, Setpoints) for f in fields(kind)}

_LISTS = ("trainer_sizes", "self_tuned")
"""A cell holds one value."""

_ALSO = {
    "gpus_train": "gpus_trainer",
    "train_gpus": "gpus_trainer",
    "trainer_gpus": "gpus_trainer",
    "gpus_gen": "gpus_generator",
    "gpus_rollout": "gpus_generator",
    "rollout_gpus": "gpus_generator",
    "generator_gpus": "gpus_generator",
    "n_engines": "engines",
}

FACT_COLUMNS: dict[str, str] = {name: name for name in _TYPES if name not in _LISTS} | _ALSO
"""Column name in lower case -> field."""

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_CHOICES: dict[str, frozenset[str]] = {
    "mode": frozenset(Mode),
    "trainer_resize": frozenset(TrainerResize),
}


def fact_value(name: str, cell: str) -> object | None:
    """The cell as the field's own type; None when it is no such value."""
    text = cell.strip()
    if name in _CHOICES:
        return text.lower() if text.lower() in _CHOICES[name] else None
    kind = _TYPES[name]
    if "bool" in kind:
        return _WORDS.get(text.lower())
    if "int" not in kind and "float" not in kind:
        return text[:200]
    number = number_of(text)
    if number is None or not 0.0 <= number < 1e15:
        return None
    if "float" in kind:
        return number
    return int(number) if number == int(number) else None
