"""Policies on scenarios until the same number of useful rollouts is trained, with the yardstick beside."""
