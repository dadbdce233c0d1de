"""Mutated real samples through the whole library path: only a TunerError may come out, and only clean JSON."""
