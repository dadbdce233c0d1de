"""Bytes in, raw records out: one file a kind of source."""
