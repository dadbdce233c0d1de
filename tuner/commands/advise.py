"""`equipoise advise`: reads a job's logs and says who waits for whom, what it costs and what to change first."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from simulators.plant import Bounds
from tuner.answers.advise import Answer, to_json
from tuner.commands.base import Ask, material_of, read, screen_for
from tuner.errors import ConfigError
from tuner.report.answer import Material, build
from tuner.report.text import render


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user wants to see."""

    json: bool = False
    html: Path | None = None
    usd_per_gpu_hour: str | None = None
    """As typed; wins over the job file."""


def run(ask: Ask, wish: Wish) -> None:
    """Prints the answer, and writes the report where one is asked for."""
    if wish.html is not None:
        html_room().check_target(wish.html)
    price = None if wish.usd_per_gpu_hour is None else price_of(wish.usd_per_gpu_hour)
    reading, config = read(ask)
    if price is None and config is not None:
        price = config.cost.usd_per_gpu_hour
    material = material_of(reading, config.to_bounds() if config is not None else Bounds(), price)
    show(build(material), material, wish)


def price_of(text: str) -> float:
    """The price a user typed; ConfigError where it is none.

    >>> price_of("$2.50")
    2.5
    """
    try:
        price = float(text.removeprefix("$"))
    except ValueError:
        price = -1.0
    if not 0 <= price < 1e6:
        raise ConfigError(f"--usd-per-gpu-hour {text}: must be a price in US dollars, e.g. 2.5")
    return price


def html_room() -> ModuleType:
    """The HTML report's module; jinja2 is loaded only for those who ask for a report."""
    from tuner.report import html  # noqa: PLC0415

    return html


def show(answer: Answer, material: Material, wish: Wish) -> None:
    if wish.html is not None:
        html = html_room()
        html.write(wish.html, html.render(answer, material))
    if wish.json:
        sys.stdout.write(to_json(answer) + "\n")
    else:
        sys.stdout.write(render(answer, screen_for(sys.stdout, os.environ), material.advice.diagnosis.budget))
