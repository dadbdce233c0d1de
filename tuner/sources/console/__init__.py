"""Console logs of any framework: lines found, cleaned and handed to the frameworks' line formats."""

from tuner.sources.console.reading import KIND, claims, read

__all__ = ["KIND", "claims", "read"]
