"""The product's version, as `--version` and every answer state it. pyproject.toml takes it from here."""

VERSION = "0.1.0"
