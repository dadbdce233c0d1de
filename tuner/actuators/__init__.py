"""Ways to turn a job's knobs: each one file, each with the same contract (tuner/kits/actuators.py)."""
