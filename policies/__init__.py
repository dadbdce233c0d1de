"""First floor: reads a job's snapshot and decides. Pure functions and frozen dataclasses, no I/O, no clock."""
