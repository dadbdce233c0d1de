"""The launcher: runs this installation's own packages, even where a user's PYTHONPATH holds others of their names."""

import sys
from importlib import import_module
from pathlib import Path

HOME = Path(__file__).resolve().parent


def main() -> int:
    """Imports our three packages from beside this file, or says whose stand in the way."""
    sys.path.insert(0, str(HOME))
    for name in ("simulators", "policies", "tuner"):
        found = Path(import_module(name).__file__ or "nowhere").resolve()
        if found != HOME / name / "__init__.py":
            sys.stderr.write(f"error: {found} shadows {HOME / name}; rename it or take its folder off PYTHONPATH\n")
            return 2
    sys.path.remove(str(HOME))
    run = import_module("tuner.cli").main
    return int(run())


if __name__ == "__main__":
    sys.exit(main())
