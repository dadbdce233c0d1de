"""Reads sample files through an adapter alone: line formats and aliases, without detection, merging or history."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from simulators.plant import Mode
from simulators.signals import SIGNALS
from simulators.snapshot import fold_values
from tuner.frameworks.base import Framework
from tuner.records import Configuration, Item, Line, Record
from tuner.sources import prometheus_text
from tuner.sources.base import Opened

DATA = Path(__file__).parents[2] / "data"


@dataclass(frozen=True)
class Reading:
    """What an adapter made of a sample."""

    records: list[Record] = field(default_factory=list)
    configuration: dict[str, object] = field(default_factory=dict)


def feed(framework: Framework, lines: Iterable[Line]) -> Reading:
    """Each line to every format that it concerns, blocks as long as the file goes on."""
    parsers = [(form, form.parser()) for form in framework.formats]
    begun: set[str] = set()
    items: list[Item] = []
    for line in lines:
        for form, parser in parsers:
            if form.name in begun or any(marker in line.text for marker in form.markers):
                items += parser.feed(line)
                begun |= {form.name} if form.block else set()
    for _, parser in parsers:
        items += parser.flush()
    configuration = {k: v for item in items if isinstance(item, Configuration) for k, v in item.values.items()}
    return Reading([item for item in items if isinstance(item, Record)], configuration)


def translate(framework: Framework, record: Record, mode: Mode) -> dict[str, float]:
    """Neutral signals of one record by the Alias contract, the most trusted alias first; no running totals."""
    found: dict[str, float] = {}
    for alias in sorted(framework.aliases, key=lambda alias: -alias.trust):
        if alias.counter or (alias.only is not None and alias.only is not mode):
            continue
        values = [value for key, value in record.values.items() if fnmatchcase(key, alias.key)]
        if values and (alias.add or alias.signal not in found):
            value = (sum(values) + found.get(alias.signal, 0.0) / alias.scale) if alias.add else values[0]
            found[alias.signal] = value * alias.scale
    return found | (framework.interpret(record, found, mode) if framework.interpret else {})


@pytest.fixture
def read_console() -> Callable[..., Reading]:
    """(framework, path under tests/data, speaker) -> what its line formats find in the file."""

    def read(framework: Framework, path: str, speaker: str | None = None) -> Reading:
        texts = (DATA / path).read_text(encoding="utf-8").splitlines()
        return feed(framework, [Line(text, n, speaker) for n, text in enumerate(texts, start=1)])

    return read


@pytest.fixture
def data_path() -> Callable[[str], Path]:
    """A path under tests/data, for the command itself."""
    return DATA.joinpath


@pytest.fixture
def read_lines() -> Callable[..., Reading]:
    def read(framework: Framework, *texts: str, speaker: str | None = None, cut: bool = False) -> Reading:
        return feed(framework, [Line(text, n, speaker, cut=cut) for n, text in enumerate(texts, start=1)])

    return read


@pytest.fixture
def scrape() -> Callable[[str], list[Record]]:
    """A metrics dump as the source of such dumps reads it."""

    def read(path: str) -> list[Record]:
        with (DATA / path).open("rb") as stream:
            items = list(prometheus_text.KIND.read(Opened(stream, path), ()))
        return [item for item in items if isinstance(item, Record)]

    return read


@pytest.fixture
def neutral() -> Callable[[Framework, Record, Mode], dict[str, float]]:
    return translate


@pytest.fixture
def neutral_across() -> Callable[[Framework, list[Record]], dict[str, float]]:
    """Signals of several speakers at one moment, each folded by its own rule."""

    def fold(framework: Framework, records: list[Record]) -> dict[str, float]:
        columns: dict[str, list[float]] = {}
        for record in records:
            for name, value in translate(framework, record, Mode.ENGINE).items():
                columns.setdefault(name, []).append(value)
        return {name: fold_values(SIGNALS[name].across, values) for name, values in columns.items()}

    return fold
