"""Runs the emulated fleet until it is interrupted: `python -m tests.fleet --scenario glm-5-tool-use --port 9400`."""

import argparse
import time

from tests.fleet.fleet import Fleet
from tests.fleet.web import served
from tuner.scenario_files import load


def main() -> None:
    parser = argparse.ArgumentParser(description="An emulated fleet on loopback; nothing in it is a measurement.")
    parser.add_argument("--scenario", default="glm-5-tool-use", help="a bundled scenario or a TOML file")
    parser.add_argument("--acceleration", type=float, default=64.0, help="simulated seconds in one of the wall")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", choices=("neutral", "prime-rl"), default="neutral")
    given = parser.parse_args()
    fleet = Fleet(load(given.scenario).scenario, given.acceleration, given.seed, given.names)
    with served(fleet, given.port) as url:
        print(f"emulated fleet at {url}: /sd lists its targets", flush=True)
        try:
            while not fleet.plant.done:
                time.sleep(1.0)
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
