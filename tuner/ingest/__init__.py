"""From sources to what is known of a job."""

from tuner.ingest.joining import Reading, SourceSeen
from tuner.ingest.reading import read

__all__ = ["Reading", "SourceSeen", "read"]
