"""The answer told in words, JSON and pictures."""
