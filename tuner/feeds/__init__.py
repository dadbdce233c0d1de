"""Live sources: what a job says while it runs, read a little further at each tick."""
