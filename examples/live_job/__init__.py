"""A real asynchronous RL job on CPU cores, with Equipoise beside it: `make live` runs it (docs/live-job.md)."""
