"""From a snapshot to ranked findings and one verdict."""

from policies.diagnosis.verdict import diagnose

__all__ = ["diagnose"]
