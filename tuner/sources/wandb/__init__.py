"""Weights & Biases on disk: the run file of an offline or local run, and the small files beside it."""

from tuner.sources.base import Kind
from tuner.sources.wandb import config_file, metadata_file, run_file, summary_file

KINDS = (
    Kind("wandb-run", run_file.claims, run_file.read),
    Kind("wandb-summary", summary_file.claims, summary_file.read),
    Kind("wandb-config", config_file.claims, config_file.read),
    Kind("wandb-metadata", metadata_file.claims, metadata_file.read),
)
"""`files/output.log` is a console log and belongs to that source."""
