"""`python -m tests.fuzz --count 100000`: exit 0 when nothing failed, 1 with the failing inputs kept."""

import argparse
import sys
from pathlib import Path

from tests.fuzz.driver import fuzz, replay, show


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="inputs (default 100000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other inputs (default 1)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--case", type=int, metavar="INDEX", help="only this input of the seed")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="a kept failure again")
    args = parser.parse_args()
    if args.replay is not None:
        return replay(args.replay)
    if args.case is not None:
        return show(args.seed, args.case)
    return fuzz(args.seed, args.count, args.processes)


if __name__ == "__main__":
    sys.exit(main())
