"""What every command that reads sources shares: checking the request, reading with progress, preparing the answer."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from policies.estimators import estimate
from policies.recommendations import advise
from simulators.compiled import is_warm
from simulators.cost import Shares, Spending, known_price, spending
from simulators.plant import Bounds
from tuner import ingest
from tuner.answers import advise as answers
from tuner.errors import ConfigError
from tuner.frameworks.registry import FRAMEWORKS, by_name
from tuner.ingest.matching import NEUTRAL
from tuner.report.answer import Material
from tuner.report.progress import Progress
from tuner.report.text import Screen

if TYPE_CHECKING:
    from tuner.config import JobFile


@dataclass(frozen=True, slots=True)
class Ask:
    """What the command line said about reading."""

    sources: tuple[str, ...]
    framework: str = "auto"
    job: Path | None = None
    since: str | None = None
    last: str | None = None


def read(ask: Ask) -> "tuple[ingest.Reading, JobFile | None]":
    """The reading of all sources, or a ConfigError (what was asked) or SourceError (nothing could be read)."""
    config = _job_file(ask.job)
    paths = ask.sources or tuple(s.path for s in config.source) if config is not None else ask.sources
    if not paths:
        raise ConfigError(
            "no SOURCE given: name a log, a metrics file or a folder, or [[source]] in a job file (--job)"
        )
    check_sources(paths)
    framework = framework_named(_own(config) if ask.framework == "auto" else ask.framework)
    with _progress(sys.stderr) as progress:
        reading = ingest.read(
            paths,
            framework=framework,
            since=ask.since,
            last=ask.last,
            config=config,
            stdin=sys.stdin.buffer,
            progress=progress,
        )
    return reading, config


def _job_file(path: Path | None) -> "JobFile | None":
    if path is None and not any(name.upper().startswith("EQUIPOISE_") for name in os.environ):
        return None
    from tuner import config  # noqa: PLC0415  (pydantic-settings costs 0.3 s; most runs have no job file)

    if path is None and not config.in_environment(os.environ):
        return None
    job = config.load(path)
    stated = job.topology.framework or job.job.framework
    if stated is None:
        return job
    known = by_name(stated)
    name = framework_named(stated, "job file: framework") if known is None else known.name
    return job.model_copy(update={"topology": job.topology.model_copy(update={"framework": name})})


def _own(job: "JobFile | None") -> str:
    """The user's own framework that a job file names; `auto` where it names one of ours, which the sources show too."""
    return job.job.framework if job is not None and job.job.framework and ":" in job.job.framework else "auto"


@contextmanager
def _progress(stream: TextIO) -> Iterator[Progress]:
    progress = Progress(stream, time.monotonic)
    try:
        yield progress
    finally:
        progress.clear()


def check_sources(paths: Iterable[str]) -> None:
    """Raises ConfigError for a path that is not there, with the nearest name that is."""
    for path in paths:
        if path == "-" or "://" in path or os.path.lexists(path):
            continue
        folder, name = os.path.split(path)
        try:
            there = os.listdir(folder or ".")
        except OSError:
            raise ConfigError(f"{path}: no such file, nor a folder {folder}; check the path") from None
        near = get_close_matches(name, there, n=1, cutoff=0.6)
        hint = f"did you mean {os.path.join(folder, near[0])}?" if near else "check the path"
        raise ConfigError(f"{path}: no such file or folder; {hint}")


def framework_named(name: str, place: str = "--framework") -> str:
    """The registered spelling of a framework's name (`prime-rl`, `Prime_RL`), or a ConfigError with the nearest. One's
    own, `package.module:NAME`, stays as it is."""
    if ":" in name:
        return name
    known = {_folded(f.name): f.name for f in (*FRAMEWORKS, NEUTRAL)} | {"auto": "auto"}
    if _folded(name) in known:
        return known[_folded(name)]
    near = get_close_matches(_folded(name), known, n=1, cutoff=0.5)
    hint = f"did you mean {known[near[0]]!r}? " if near else ""
    raise ConfigError(f"{place} {name}: unknown; {hint}Known: {', '.join(sorted(known.values()))}")


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def material_of(reading: ingest.Reading, bounds: Bounds, usd_per_gpu_hour: float | None) -> Material:
    """Diagnosis, advice and cost of a reading: all that an answer is made of."""
    snapshot = estimate(reading.topology, reading.setpoints, reading.snapshot)
    advice = advise(reading.topology, reading.setpoints, reading.snapshot, bounds, is_warm)
    rates = advice.diagnosis.rates
    price = usd_per_gpu_hour if usd_per_gpu_hour is not None else known_price(reading.topology.gpu_model)
    spent: Spending | None = None
    if price is not None:
        shares = Shares(rates.trainer_idle_frac, rates.generator_idle_frac)
        spent = spending(reading.topology, reading.setpoints, snapshot, shares, price)
    sources = tuple(answers.Source(**asdict(s)) for s in reading.sources)
    return Material(reading.topology, reading.setpoints, snapshot, advice, sources, reading.knobs, spent)


def screen_for(stream: TextIO, environ: Mapping[str, str]) -> Screen:
    """Width and height of the terminal, colour where it is wanted; 100 columns without colour in a pipe or a file."""
    if not stream.isatty():
        return Screen()
    size = get_terminal_size((100, 25))
    plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    return Screen(size.columns, max(24, size.lines - 1), not plain)
