"""One fuzz input: which samples, spoiled how, read as what. Wholly determined by (seed, index)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.fuzz.mutations import MUTATIONS

MAX_SAMPLE_BYTES = 200_000
NOT_SAMPLES = {".md", ".py", ".pyi", ".pyc"}
ODD_NAMES = ("metrics.jsonl", "metrics.csv", "run.log", "x.prom", "trainer_state.json", "config.yaml", "config.toml",
             "wandb-summary.json", "run-1.wandb", "events.out.tfevents.1.h", "noext", "ünï cödé.log")  # fmt: skip


@dataclass(frozen=True)
class Sample:
    name: str
    data: bytes


@dataclass(frozen=True)
class Case:
    seed: int
    index: int
    files: tuple[Sample, ...]
    framework: str | None
    """None: found by the product."""
    trail: tuple[str, ...]
    """What was done, for a reader."""


def load_samples(*folders: Path) -> tuple[Sample, ...]:
    """Every file of a sample's size under the folders, in a fixed order."""
    found = (path for folder in folders for path in sorted(folder.rglob("*")))
    return tuple(
        Sample(path.name, path.read_bytes())
        for path in found
        if path.is_file() and path.suffix not in NOT_SAMPLES and path.stat().st_size <= MAX_SAMPLE_BYTES
    )


def make_case(seed: int, index: int, samples: Sequence[Sample], frameworks: Sequence[str]) -> Case:
    rng = Random(f"{seed}:{index}")
    trail: list[str] = []
    files = tuple(_spoiled(rng, samples, trail) for _ in range(rng.choices((1, 2, 3), (85, 12, 3))[0]))
    forced = rng.choice(frameworks) if frameworks and rng.random() < 0.15 else None
    return Case(seed, index, files, forced, tuple(trail))


def _spoiled(rng: Random, samples: Sequence[Sample], trail: list[str]) -> Sample:
    sample, other = rng.choice(samples), rng.choice(samples)
    name = sample.name if rng.random() < 0.85 else rng.choice(ODD_NAMES)
    data = sample.data
    trail.append(f"{sample.name} as {name}")
    for _ in range(rng.choices((0, 1, 2, 3, 5), (2, 48, 30, 15, 5))[0]):
        mutate = rng.choice(MUTATIONS)
        trail.append(mutate.__name__)
        data = mutate(rng, data, other.data)
    return Sample(name, data)
