"""`python -m tools.audit PIP_AUDIT LOCK`: known holes in the locked packages, or that nobody could be asked.

pip-audit passes a package that its service does not know, and a mirror of a package index knows no advisories: so what
it says is counted. Exit 1 for a hole; 0 for none, and where no service answers, which is said and is not a pass.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SERVICES = ("osv", "pypi")
"""Who keeps advisories, in the order in which they are asked."""
PATIENCE_S = 180.0


@dataclass(frozen=True, slots=True)
class Report:
    """What one service said."""

    looked_at: int
    unknown: tuple[str, ...] = ()
    """Packages of which it knows nothing."""
    holes: tuple[str, ...] = field(default=())


def report_of(told: Any) -> Report:
    """From pip-audit's JSON."""
    packages: Sequence[dict[str, Any]] = told["dependencies"]
    unknown = tuple(p["name"] for p in packages if "skip_reason" in p)
    holes = [(p, hole) for p in packages for hole in p.get("vulns", ())]
    said = tuple(
        f"{p['name']} {p['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for p, hole in holes
    )
    return Report(len(packages) - len(unknown), unknown, said)


def asked(pip_audit: str, lock: Path, service: str) -> Report | str:
    """The service's report, or why there is none."""
    command = [pip_audit, "--requirement", str(lock), "--disable-pip", "--require-hashes", "--format", "json"]
    command += ["--vulnerability-service", service, "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return report_of(json.loads(done.stdout))
    except (OSError, subprocess.TimeoutExpired) as fault:
        return f"{service}: {fault}"
    except (ValueError, KeyError, TypeError):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode} without a word"]
        return f"{service}: {last[0][:200]}"


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    pip_audit, lock = sys.argv[1], Path(sys.argv[2])
    for service in SERVICES:
        found = asked(pip_audit, lock, service)
        if isinstance(found, str):
            print(f"dependency audit: no answer of {found}")
        elif not found.looked_at:
            print(f"dependency audit: {service} knows none of the {len(found.unknown)} packages of {lock.name}")
        else:
            return _judged(found, lock, service)
    print("dependency audit: SKIPPED, no advisory service answers: nothing is known of holes in the locked packages")
    return 0


def _judged(found: Report, lock: Path, service: str) -> int:
    print(f"dependency audit: {found.looked_at} packages of {lock.name} by {service}, {len(found.holes)} known holes")
    if found.unknown:
        print(f"  not looked at: {', '.join(found.unknown)}")
    for hole in found.holes:
        print(f"  {hole}")
    return int(bool(found.holes))


if __name__ == "__main__":
    sys.exit(main())
