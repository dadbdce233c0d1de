"""Is the model right about a real job? Measures settings, calibrates on the first one, predicts the others, compares.

One job runs all the time, with no drift and a learning rate of 0, and is turned through its control file; each setting
is measured in two or more visits, and what a visit's first steps show is of the setting before. The model is the one
that decides in `make live`; it sees only the first visit to the first setting, and as the daemon does: by Prometheus.
What it says of another setting is what the law goes by: so much more or less than what the first one delivered then.

usage: python -m examples.live_job.calibrate FOLDER [--venv VENV] [--visits 2] [--visit-s 65] [--first-s 120] [--at 0.5]
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from examples.live_job.live import MODEL, await_steps, exit_code, job_file, say, stay
from examples.live_job.report import rate, steps_of
from examples.live_job.stage import HERE, Settings, Stage, staged
from policies.modelling import NominalModeller
from simulators.plant import Observation, Setpoints
from simulators.scenario import job_at
from tuner.config import load
from tuner.live import LivePlant, Stated
from tuner.scenario_files import load as scenario
from tuner.wiring import source_behind

LATTICE = (
    Settings(2, 2, 16),
    Settings(3, 1, 16),
    Settings(1, 3, 16),
    Settings(2, 2, 8),
    Settings(2, 2, 32),
    Settings(3, 1, 32),
    Settings(2, 2, 16, 1.5),
)
"""The first is what the model is calibrated on."""
SETTLE_STEPS = 3
"""Of a visit: what was started under the setting before, three batches at most, is trained by then."""
PERIOD_S = 2.0


@dataclass(frozen=True)
class Compared:
    settings: Settings
    measured: tuple[float, ...]
    """Trained rollouts/s, visit by visit."""
    predicted: float | None

    @property
    def error(self) -> float | None:
        return None if self.predicted is None else self.predicted / fmean(self.measured) - 1.0

    @property
    def noise(self) -> float:
        """By how much the visits differ."""
        return max(self.measured) / min(self.measured) - 1.0


class Turner:
    """Writes the control file as the actuator does."""

    def __init__(self, folder: Path) -> None:
        self.path, self.sequence = folder / "control.json", 0

    def turn(self, settings: Settings, patience_s: float = 120.0) -> None:
        self.sequence += 1
        wanted = {
            "gpus_trainer": settings.gpus_trainer,
            "gpus_generator": settings.gpus_generator,
            "max_in_flight_per_engine": settings.in_flight_per_engine,
            "oversampling_ratio": settings.oversampling_ratio,
        }
        letter = {"schema": 1, "sequence": self.sequence, "fencing_token": 1, "decision_id": "m", "setpoints": wanted}
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(letter))
        os.rename(fresh, self.path)
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            answer = json.loads(self.path.with_name("control.json.ack").read_text())
            if answer["sequence"] == self.sequence and not answer["refused"]:
                return
            time.sleep(0.2)
        raise RuntimeError(f"the job did not take up {settings} in {patience_s:.0f} s: {answer}")


def measured(
    stage: Stage, options: argparse.Namespace
) -> tuple[Mapping[Settings, list[float]], Mapping[Settings, float]]:
    """All visits to all settings, and what the model says of each after the first visit to the first."""
    stage.start_engines()
    more = {"quiet_s": 0.0, "drift_s": 1.0, "hold_at": options.at, "learning_rate": 0.0}
    job, folder, metrics_port = stage.start_job("job", LATTICE[0], **more)
    await_steps(folder, job, 1)
    _, url = stage.start_prometheus(folder, metrics_port)
    file = load(job_file(stage, folder, url, 1, 3600.0))
    turner, found = Turner(folder), {settings: list[float]() for settings in LATTICE}
    await_steps(folder, job, 1 + SETTLE_STEPS)
    predictions: dict[Settings, float] = {}
    for visit in range(options.visits):
        for settings in LATTICE if visit % 2 == 0 else LATTICE[::-1]:
            if visit or settings is not LATTICE[0]:
                turner.turn(settings)
            began = len(steps_of(folder))
            if not predictions:
                with closing(
                    LivePlant([source_behind(file.source[0], "auto")], (), Stated(file.to_topology()))
                ) as plant:
                    seen = list(_watched(plant, options.first_s))[-1]
                predictions = predicted(file, settings, seen, rate(steps_of(folder)[began + SETTLE_STEPS :]))
            else:
                stay({"the job": job}, options.visit_s, stage.folder)
            steps = steps_of(folder)[began + SETTLE_STEPS :]
            found[settings].append(rate(steps))
            say(f"visit {visit + 1}, {settings}: {found[settings][-1]:.2f} rollouts/s over {len(steps)} steps")
    return found, predictions


def _watched(plant: LivePlant, seconds: float) -> Iterator[Any]:
    until = time.time() + seconds
    while time.time() < until:
        yield plant.observe(time.time())
        time.sleep(PERIOD_S)


def predicted(file: Any, now: Settings, seen: Observation, delivered: float) -> dict[Settings, float]:
    """What the law's model of the job (model.toml, followed by its metrics) says of every setting, beside what the one
    in force delivered."""
    stated = job_at(scenario(str(MODEL)).scenario, 0, 0.0)
    seen = replace(seen, in_force=_with(file.to_setpoints(), now))
    draw = NominalModeller(stated).central(seen)
    if draw is None:
        raise RuntimeError("the job showed too little, or nothing that the model can make")
    made = {
        settings: draw.model.predict(
            stated.topology, draw.workload, _with(seen.in_force, settings)
        ).useful_rollouts_per_s
        for settings in LATTICE
    }
    say(f"the model by itself makes {made[now]:.2f} rollouts/s of the first setting, which delivered {delivered:.2f}")
    return {settings: delivered * each / made[now] for settings, each in made.items()}


def _with(setpoints: Setpoints, settings: Settings) -> Setpoints:
    return replace(
        setpoints,
        gpus_trainer=settings.gpus_trainer,
        gpus_generator=settings.gpus_generator,
        max_in_flight_per_engine=settings.in_flight_per_engine,
        oversampling_ratio=settings.oversampling_ratio,
    )


def table(rows: Sequence[Compared]) -> str:
    lines = ["trainer engines in-flight ratio | measured rollouts/s        | noise | predicted | error"]
    for row in rows:
        s = row.settings
        seen = " ".join(f"{rate:.2f}" for rate in row.measured)
        said = "-" if row.predicted is None else f"{row.predicted:.2f}"
        error = "-" if row.error is None else f"{row.error:+.1%}"
        name = f"{s.gpus_trainer:7} {s.gpus_generator:7} {s.in_flight_per_engine:9} {s.oversampling_ratio:5g}"
        lines.append(f"{name} | {fmean(row.measured):5.2f}  ({seen:17}) | {row.noise:5.1%} | {said:>9} | {error}")
    errors = [abs(row.error) for row in rows[1:] if row.error is not None]
    lines.append(f"of {len(errors)} settings never seen: median error {median(errors):.1%}, worst {max(errors):.1%}")
    return "\n".join(lines)


def played(options: argparse.Namespace) -> int:
    with staged(options.folder, options.venv) as stage:
        stage.demand()
        found, told = measured(stage, options)
    print(table([Compared(s, tuple(rates), told.get(s)) for s, rates in found.items()]))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.live_job.calibrate", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--venv", type=Path, default=HERE / ".venv")
    parser.add_argument("--visits", type=int, default=2)
    parser.add_argument("--visit-s", type=float, default=65.0)
    parser.add_argument("--first-s", type=float, default=120.0, help="of the visit that the model sees")
    parser.add_argument("--at", type=float, default=0.5, help="how far the mix of prompts has drifted, 0 to 1")
    options = parser.parse_args()
    return exit_code(lambda: played(options))


if __name__ == "__main__":
    sys.exit(main())
