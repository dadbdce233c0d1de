"""Ways to turn a job's knobs: each one file, each with the same contract (tests/contracts/actuator_kit.py)."""
