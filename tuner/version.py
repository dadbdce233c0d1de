"""The product's version, as `--version` and every answer state it. A test compares it with pyproject.toml."""

VERSION = "0.1.0"
