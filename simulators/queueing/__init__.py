"""Queueing theory as pure functions: each formula with its source and numbers that anybody can check."""
