"""The launcher: runs this installation's own packages, even where a user's PYTHONPATH holds others of their names."""

import sys
from importlib import import_module
from pathlib import Path

PACKAGES = ("simulators", "policies", "tuner")


def home() -> Path:
    """The folder of our packages: beside this file, or for an editable install the checkout that sys.path names."""
    beside = Path(__file__).resolve().parent
    places = [beside, *(Path(entry).resolve() for entry in sys.path if entry)]
    ours = (p for p in places if (p / "equipoise.py").is_file() and all((p / name).is_dir() for name in PACKAGES))
    return next(ours, beside)


def main() -> int:
    """Imports our three packages from their home, or says whose stand in the way."""
    place = home()
    sys.path.insert(0, str(place))
    for name in PACKAGES:
        found = Path(import_module(name).__file__ or "nowhere").resolve()
        if found != place / name / "__init__.py":
            sys.stderr.write(f"error: {found} shadows {place / name}; rename it or take its folder off PYTHONPATH\n")
            return 2
    sys.path.remove(str(place))
    run = import_module("tuner.cli").main
    return int(run())


if __name__ == "__main__":
    sys.exit(main())
