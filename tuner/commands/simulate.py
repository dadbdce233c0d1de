"""`equipoise simulate`: runs a scenario and says what became of the job."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TextIO

from policies.allocation import split_curve
from policies.estimators import estimate
from policies.levers import Ask, Lever, levers
from policies.recommendations import advise
from simulators.event_model import EventModel
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.pipeline import SimulatedPlant, simulate
from simulators.scenario import Scenario, job_at
from tuner.answers.advise import to_json
from tuner.commands.base import screen_for
from tuner.errors import ConfigError
from tuner.report.progress import Progress, simulated
from tuner.report.simulated import Run, build, render
from tuner.scenario_files import Named, load, shipped, text_of, with_settings

LEVER_TURNS = 3e6
"""Model calls that one answer to what would help may simulate: seconds each."""
LEVER_STEPS, LEVER_WARM_UP = (40, 300), 20
"""Fewest and most trainer steps of such an answer: standard errors of 1 to 3 %."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line said."""

    scenario: str | None
    seed: int = 0
    settings: tuple[str, ...] = ()
    json: bool = False
    html: Path | None = None
    levers: bool = False


def run(wish: Wish) -> None:
    """Prints what became of the job, and writes the report where one is asked for."""
    if wish.scenario is None:
        raise ConfigError(
            "no scenario given: --scenario FILE or NAME; `equipoise simulate --list` names the shipped ones"
        )
    if wish.html is not None:
        html_room().check_target(wish.html)
    named = load(wish.scenario)
    named = replace(named, scenario=with_settings(named.scenario, wish.settings))
    told = _run(named, wish)
    answer = build(told)
    if wish.html is not None:
        html_room().write(wish.html, page_room().render_simulated(answer, told))
    sys.stdout.write(to_json(answer) + "\n" if wish.json else render(answer, screen_for(sys.stdout, os.environ)))


def _run(named: Named, wish: Wish) -> Run:
    scenario = named.scenario
    try:
        with _progress(sys.stderr) as progress:
            plant = simulate(scenario, wish.seed, progress)
        seen = plant.observe(plant.now_s)
        advice = advise(scenario.topology, seen.in_force, seen.snapshot, scenario.bounds) if plant.log else None
        found = told_levers(scenario, plant, wish.seed) if wish.levers else ()
    except ValueError as error:
        raise ConfigError(f"{named.path}: cannot be simulated: {error}") from None
    except MemoryError:
        raise ConfigError(f"{named.path}: does not fit into memory: lower engines, slots or batch_rollouts") from None
    headline = None if advice is None else advice.diagnosis.headline
    return Run(named.name, named.path, scenario, wish.seed, wish.settings, plant, headline, found)


def told_levers(scenario: Scenario, plant: SimulatedPlant, seed: int) -> tuple[Lever, ...]:
    """What would help the job as it is at the end of its run; nothing for one that stands still."""
    if plant.stopped is not None or not plant.log:
        return ()
    seen = plant.observe(plant.now_s)
    known = estimate(scenario.topology, seen.in_force, seen.snapshot)
    curve = split_curve(scenario.topology, seen.in_force, known, scenario.bounds)  # by rates: a bound beside the figure
    job = job_at(scenario, plant.step, plant.now_s, seen.in_force)
    per_step = plant.log[-1].row.values["dispatched"] * plant.log[-1].row.values.get("turns_mean", 1.0)
    fewest, most = LEVER_STEPS
    return levers(job, curve, _asker(seed, max(fewest, min(most, round(LEVER_TURNS / max(1.0, per_step))))))


def _asker(seed: int, steps: int) -> Ask:
    def ask(job: Job) -> Prediction:
        model = EventModel(job.stations, seed, steps, warm_up_batches=LEVER_WARM_UP)
        return model.predict(job.topology, job.workload, job.setpoints)

    return ask


@contextmanager
def _progress(stream: TextIO) -> Iterator[Progress]:
    progress = Progress(stream, time.monotonic, simulated)
    try:
        yield progress
    finally:
        progress.clear()


def html_room() -> ModuleType:
    """The HTML report's module; jinja2 is loaded only for those who ask for a report."""
    from tuner.report import html  # noqa: PLC0415

    return html


def page_room() -> ModuleType:
    from tuner.report import simulated_html  # noqa: PLC0415

    return simulated_html


def print_shipped() -> None:
    """The scenarios that come with the package: name, GPUs, what each tells."""
    found = [load(str(path)) for path in shipped()]
    width = max((len(n.name) for n in found), default=0)
    for n in found:
        mark = "  (outside the analytic model's class)" if n.scenario.outside_class else ""
        sys.stdout.write(f"{n.name.ljust(width)}  {n.scenario.topology.gpus_total:>5} GPUs  {n.scenario.title}{mark}\n")


def print_text(name: str) -> None:
    """A shipped scenario's own text, to copy and change."""
    sys.stdout.write(text_of(name))
