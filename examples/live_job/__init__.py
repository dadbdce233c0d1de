"""A real asynchronous RL job on two CPU cores, with Equipoise beside it. `make live` runs it; docs/live-job.md tells it."""
