"""What the job is started with; its knobs may change later (knobs.py)."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Config:
    folder: Path
    """For its metrics, its control file and the list of its engines in use."""
    model: Path
    engines: list[str]
    engine_groups: list[str]
    """Control groups of the engines, and below of the trainer: where their slices of CPU time are set."""
    trainer_group: str
    slice_cores: float
    """One "GPU"."""
    metrics_port: int
    gpus_trainer: int
    gpus_generator: int
    in_flight_per_engine: int
    oversampling_ratio: float
    quiet_s: float
    """How long the mix of prompts stays in its first state."""
    drift_s: float
    """How long it takes from there to its last one."""
    hold_at: float | None = None
    """For calibration: no drift, this state instead."""
    learning_rate: float = 2e-3
    groups_per_batch: int = 12
    """Half of all groups teach nothing: of few the luck of a batch would outweigh every setting."""
    group_size: int = 4
    staleness_bound: int = 2
    """Of the mean: what is started and untrained is at most one batch more than this many."""
    drop_beyond: int = 4
    """Versions; a group that is older when its turn comes is dropped."""

    @classmethod
    def read(cls, path: Path) -> "Config":
        told = json.loads(path.read_text())
        return cls(**told | {"folder": Path(told["folder"]), "model": Path(told["model"])})
