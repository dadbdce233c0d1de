"""The speed table of the event engine: simulated hours, what-ifs, memory, and ratios to SimPy and to C++."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from math import log
from pathlib import Path
from statistics import median

from benchmarks.speed import Row, machine, publish, table
from benchmarks.yardsticks import build_cpp, run_cpp, simpy_events_per_s
from simulators import compiled
from simulators.counters import Counters
from simulators.event_state import Job
from simulators.plant import Setpoints, Topology
from simulators.simulation import Simulation
from simulators.stations import Admission, Engine, Plug, Stations, StepTime, Trainer, WeightSync, affine
from simulators.workload import Duration, Lengths, Turns, Workload

REPEATS = 7
HOUR_S = 3600.0
MEGA = 1_000_000
WARM_STEPS = 10


def base_job(engines: int = 24, turns: int = 1) -> Job:
    """The job of the speed table, its trainer in proportion to its engines."""
    scale = engines / 24
    batch_groups = round(64 * scale)
    stations = Stations(
        Engine(affine(0.008, 0.0001), 64),
        Trainer(5.0, 1.0 / 200_000.0 / scale),
        WeightSync(2.0),
        Admission(Plug.BUFFER_CAP, 2 * batch_groups),
    )
    work = Workload(Lengths(0.0), Lengths(8000.0 / turns, 1.0), Turns(float(turns)), tool=Duration(5.0))
    knobs = Setpoints(gpus_trainer=1, engines=engines, group_size=8, batch_rollouts=8 * batch_groups)
    return Job(Topology(), stations, work, knobs)


def timed(job: Job, steps: int, seed: int = 0) -> tuple[float, Counters]:
    """Processor seconds of so many steps after the warm-up, and what they counted."""
    simulation = Simulation(job, seed)
    simulation.advance(until_step=WARM_STEPS)
    before, started_s = simulation.counters(), time.process_time()
    simulation.advance(until_step=WARM_STEPS + steps)
    spent_s = time.process_time() - started_s
    return spent_s, simulation.counters() - before


def hours_per_s(job: Job, steps: int, repeats: int = REPEATS) -> tuple[float, Counters]:
    runs = [timed(job, steps) for _ in range(repeats)]
    counters = runs[0][1]
    return counters.now_s / HOUR_S / median(spent_s for spent_s, _ in runs), counters


# ---- rows ----


def queue_job(sources: int, think_s: float) -> Job:
    """A closed M/M/8: an engine of eight slots that are never slowed by each other, sources as tools."""
    low = tuple((i / 400, -1000.0 * log(1.0 - i / 400)) for i in range(400))
    lengths = Lengths(1000.0, quantiles=(*low, (0.9999, 9210.0), (1.0, 16_000.0)))
    stations = Stations(Engine(StepTime(((0.0, 0.001), (1.0, 0.001))), 8), Trainer(0.0, 0.0))
    work = Workload(Lengths(0.0), lengths, Turns(1_000_000), tool=Duration(think_s))
    return Job(Topology(), stations, work, Setpoints(1, engines=1, batch_rollouts=1, max_in_flight=sources))


def path_events_per_s(customers: int, seed: int) -> float:
    started_s = time.process_time()
    compiled.multi_server(8, 7.2, 1.0, customers, seed)
    return 2.0 * customers / (time.process_time() - started_s)


def whole_events_per_s(seed: int) -> float:
    simulation = Simulation(queue_job(1000, 137.0), seed)
    simulation.advance(until_s=1000.0)
    before, started_s = simulation.counters(), time.process_time()
    simulation.advance(until_s=150_000.0)
    return (simulation.counters() - before).events / (time.process_time() - started_s)


def queue_rows() -> list[Row]:
    paths, wholes, theirs = [], [], []
    for seed in range(REPEATS):
        paths.append(path_events_per_s(2 * MEGA, seed))
        wholes.append(whole_events_per_s(seed))
        theirs.append(simpy_events_per_s(30_000))
    path, whole, simpy = (median(rates) for rates in (paths, wholes, theirs))
    against = f"against {simpy / MEGA:.3f} million events/s"
    return [
        Row("M/M/8, multi-server path", "times SimPy", path / simpy, 100.0, 150.0,
            note=f"{path / MEGA:.1f} {against}; the engine's heap and keyed draws without the rest of a job"),
        Row("M/M/8, as a whole job", "times SimPy", whole / simpy,
            note=f"{whole / MEGA:.1f} {against}; 1,000 sources that return, with draws by table and all counters"),
    ]  # fmt: skip


def scale_rows() -> list[Row]:
    unit = "simulated h per CPU s"
    one, _ = hours_per_s(base_job(), 1000)
    twenty, _ = hours_per_s(base_job(turns=20), 60)
    ten_fold, _ = hours_per_s(base_job(240), 100, 5)
    exact, counted = hours_per_s(base_job(2400), 12, 3)
    reduced = [timed(base_job(24), 12, seed)[1] for seed in range(1, 201)]
    rates = [c.trained / c.now_s * 100.0 for c in reduced]
    mean = sum(rates) / len(rates)
    error = mean / (counted.trained / counted.now_s) - 1.0
    spread = (sum((r - mean) ** 2 for r in rates) / len(rates) ** 2) ** 0.5 / mean
    note = f"its throughput is {error:+.2%} off the exact run of 12 batches, standard error {spread:.2%}"
    return [
        Row("N = 24, 1 turn", unit, one, 150.0, 300.0),
        Row("N = 24, 20 turns", unit, twenty, 5.0, 10.0),
        Row("N = 240, 1 turn", unit, ten_fold, 10.0, 25.0),
        Row("N = 2,400, 1 turn, exact", unit, exact, 0.8, 1.8),
        Row("N = 2,400, 1 turn, reduced to 24", unit, one, 50.0, 300.0, note=note),
    ]


def what_if_row(turns: int, floor_s: float, goal_s: float) -> Row:
    spent = []
    for seed in range(REPEATS):
        started_s = time.process_time()
        simulation = Simulation(base_job(turns=turns), seed)
        simulation.advance(until_step=100)
        simulation.counters()
        spent.append(time.process_time() - started_s)
    plural = "turn" if turns == 1 else "turns"
    return Row(f"what-if of 51,200 rollouts, {turns} {plural}", "CPU s", median(spent), floor_s, goal_s, True)


def cpp_rows(program: Path | None) -> list[Row]:
    return [
        cpp_row("N = 24, 1 turn", base_job(), 1000, program),
        cpp_row("N = 24, 20 turns", base_job(turns=20), 60, program),
        cpp_row("N = 240, 1 turn", base_job(240), 100, program),
        cpp_row("N = 2,400, 1 turn", base_job(2400), 12, program),
    ]


def cpp_row(name: str, job: Job, steps: int, program: Path | None) -> Row:
    what, unit, floor, goal = f"{name}, against C++", "of C++'s speed", 0.6, 0.9
    if program is None:
        return Row(what, unit, None, floor, goal, note="no C++ compiler here")
    ours, theirs = [], []
    for _ in range(REPEATS):
        spent_s, counters = timed(job, steps)
        ours.append(spent_s)
        cpp = run_cpp(program, job, 0, WARM_STEPS, steps)
        theirs.append(cpp.cpu_s)
    simulation = Simulation(job, 0)
    simulation.advance(until_step=WARM_STEPS + steps)
    if abs(simulation.now_s / cpp.now_s - 1.0) > 1e-9:
        return Row(what, unit, None, floor, goal, note=f"other paths: {simulation.now_s} s and {cpp.now_s} s")
    each = 1e9 / counters.events
    note = f"{median(ours) * each:.0f} against {median(theirs) * each:.0f} ns an event, on one path"
    note += f"; C++ itself makes {counters.now_s / HOUR_S / median(theirs):.3g} simulated h per CPU s"
    return Row(what, unit, median(theirs) / median(ours), floor, goal, note=note)


def memory_row(rollouts: int) -> Row:
    """In a process of its own, since a peak never falls."""
    command = [sys.executable, "-m", "benchmarks.simulator", "--peak", str(rollouts)]
    peak, arrays = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    note = f"of which the job's arrays {float(arrays) / MEGA:.2f} MB; the rest is Python, numpy and numba"
    return Row(f"peak memory, {rollouts:.0e} rollouts", "MB", float(peak) / MEGA, note=note)


def print_peak(rollouts: int) -> None:
    simulation = Simulation(base_job(), 0)
    simulation.advance(until_step=rollouts // 512)
    print(peak_bytes(), simulation.memory_bytes)


def peak_bytes() -> int:
    """Of this program alone: getrusage would count the one that started it too."""
    status = Path("/proc/self/status")
    if not status.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def main() -> int:
    print("the event engine; compiling first if need be", flush=True)
    compiled.warm_up()
    rows = [*queue_rows(), *scale_rows(), what_if_row(1, 0.010, 0.005), what_if_row(20, 0.4, 0.2)]
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as folder:
        rows += cpp_rows(build_cpp(folder))
    rows += [memory_row(10 * MEGA), *([memory_row(100 * MEGA)] if os.environ.get("BENCH_HUGE") == "1" else [])]
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(table(rows))
    print("\n".join(f"- {row.what}: {row.note}" for row in rows if row.note))
    publish(rows)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print_peak(int(sys.argv[2]))
    else:
        sys.exit(main())
