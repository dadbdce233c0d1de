"""Resolved configurations as files: YAML, TOML, JSON, argument lists and launch scripts."""

from tuner.sources.base import Kind
from tuner.sources.configuration import files

KIND = Kind("configuration", files.claims, files.read)
