"""`python -m benchmarks`: prints three tables, and writes the engine's to docs/benchmarks.md.

BENCH_HUGE=1 adds a 2 GB log through a pipe and 1e8 rollouts. `python -m benchmarks.simulator`: the engine only.
"""

import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks import control, logs, simulator
from benchmarks.measure import COMMAND, Run, run

MEGA = 1_000_000
LOG_BYTES = 50 * MEGA
HUGE_BYTES = 2000 * MEGA
JSONL_STEPS = 1_000_000
HEADER = f"{'what':44} {'input':>9} {'seconds':>8} {'CPU s':>6} {'MB/s':>6} {'peak MB':>8}"


def show(what: str, taken: Run, size_bytes: int = 0) -> None:
    size = f"{size_bytes / MEGA:.0f} MB" if size_bytes else "-"
    rate = f"{size_bytes / MEGA / taken.seconds:.1f}" if size_bytes else "-"
    failed = f"  exit {taken.exit_code}: {taken.stderr.strip()[-200:]}" if taken.exit_code else ""
    print(
        f"{what:44} {size:>9} {taken.seconds:8.2f} {taken.cpu_s:6.2f} {rate:>6} {taken.peak_bytes / MEGA:8.0f}{failed}",
        flush=True,
    )


def on_file(what: str, path: Path, chunks: Iterable[bytes]) -> None:
    with path.open("wb") as out:
        out.writelines(chunks)
    show(what, run(["advise", "--json", str(path)]), path.stat().st_size)
    path.unlink()


def main() -> int:
    if not COMMAND.exists():
        print(f"{COMMAND} is not there: run `make setup` first", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}")
    print(HEADER)
    best_of_5 = min((run(["--help"]) for _ in range(5)), key=lambda taken: taken.seconds)
    show("equipoise --help, best of 5", best_of_5)
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as folder:
        on_file("console log, a tenth of the lines metrics", Path(folder) / "tenth.log", logs.console(LOG_BYTES, 9))
        on_file("console log, all lines metrics", Path(folder) / "all.log", logs.console(LOG_BYTES, 0))
        on_file("JSONL, 1,000,000 steps", Path(folder) / "metrics.jsonl", logs.jsonl(JSONL_STEPS))
    if os.environ.get("BENCH_HUGE") == "1":
        show(
            "console log from a pipe, a tenth metrics",
            run(["advise", "--json", "-"], logs.console(HUGE_BYTES, 9)),
            HUGE_BYTES,
        )
    else:
        print("(BENCH_HUGE=1 adds a 2 GB log through a pipe, and 1e8 simulated rollouts)")
    control.main()
    return simulator.main()


if __name__ == "__main__":
    sys.exit(main())
