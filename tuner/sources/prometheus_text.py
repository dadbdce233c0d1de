"""Prometheus text: what an engine or a router answers at /metrics, once or many times in one file."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isnan

from tuner.errors import SourceError
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources.base import Format, Kind, Opened
from tuner.sources.flatten import EARLIEST_S, NUMBER, number_of, printable, time_of
from tuner.sources.lines import Block, RawLine, head_text, lines_of, looks_binary, raw_lines

SERIES_MAX = 100_000
"""Series kept of one scrape; more are a mistake of labelling."""

_RANKS = ("engine", "engine_id", "engine_index", "engine_type", "dp_rank", "tp_rank", "pp_rank", "moe_ep_rank", "rank")
_PLACES = (
    "worker",
    "worker_id",
    "worker_addr",
    "worker_url",
    "server",
    "instance",
    "job",
    "pod",
    "node",
    "host",
    "pid",
    "WorkerId",
    "ReplicaId",
)
SPEAKERS = frozenset((*_RANKS, *_PLACES, "replica", "server_id", "hostname", "ip", "model_name", "model"))
"""Labels that say who speaks. Any other label splits one figure into parts, whose sum is kept beside them."""

_DROPPED = ("_bucket", "_created")
"""Samples that no signal needs: the edges of histograms, the birth times of counters."""

_INTERPRETER = "python_"
"""What the client library says of the interpreter it runs in."""

_SAMPLE = re.compile(
    r"(?P<series>[A-Za-z_:][\w:.]*\s?(?:\{(?:[^\"}]++|\"(?:[^\"\\]++|\\.)*+\")*+\})?)\s+(?P<value>[-+]?[\w.+-]+)"
    r"(?:\s+(?P<time>-?[\d.eE+]+))?\s*(?:#\s*\{.*)?"
)
_FAMILY = re.compile(r"#\s(?:HELP|TYPE)\s(?P<name>\S+)")
_HELP = re.compile(r"#\sHELP\s(?P<name>\S+)")


@dataclass(frozen=True, slots=True)
class Series:
    """A metric's name and its labels, parted into who speaks and what part of the figure it is."""

    name: str
    speaker: tuple[tuple[str, str], ...]
    part: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        return f"{self.name}{{{','.join(f'{k}={v}' for k, v in self.part)}}}" if self.part else self.name


Parse = Callable[[str], Series | None]
"""From the text before a sample's value to its series."""
Moment = tuple[int | None, float | None]
"""Number of the scrape, and its time."""


@dataclass(slots=True)
class _Scrape:
    """The samples of one moment."""

    samples: dict[Series, float] = field(default_factory=dict)
    time_s: float | None = None
    number: int = 0
    """Line of its first sample."""


@dataclass(slots=True)
class _Reading:
    """One file on its way through.

    A family announced again opens a `section`. Only when the section repeats a series of the scrape is it a new
    scrape; else it is another engine's part of the same one.
    """

    origin: str
    parse: Parse
    scrape: _Scrape = field(default_factory=_Scrape)
    section: _Scrape = field(default_factory=_Scrape)
    announced: set[str] = field(default_factory=set)
    scrapes: int = 0
    good: int = 0
    broken: int = 0
    first_broken: tuple[int, str] = (0, "")
    next_time_s: float | None = None
    overfull: bool = False
    cut_at: int = 0
    """Line that ends without newline or is too long: its value may be cut."""


def read(opened: Opened, formats: Iterable[Format], parse: Parse | None = None) -> Iterator[Item]:
    """Per scrape one record a speaker; `step` counts the scrapes from 0. SourceError when most lines are no samples."""
    del formats
    reading = _Reading(opened.origin, parse or series_of)
    for raw in raw_lines(opened):
        if isinstance(raw, Remark):
            yield raw
        elif raw.text.strip():
            yield from _line(reading, raw)
    yield from _close_section(reading)
    yield from _items(reading)
    yield from _verdict(reading)


class Follow:
    """A file to which some loop appends scrapes; each is known when the next begins."""

    def __init__(self, origin: str, formats: Iterable[Format]) -> None:
        del formats
        self._reading = _Reading(origin, series_of)

    def feed(self, data: bytes, number: int) -> Iterator[Item]:
        for raw in lines_of(Block(data, number)):
            if raw.text.strip():
                yield from _line(self._reading, raw)


def _line(reading: _Reading, raw: RawLine) -> Iterator[Item]:
    text = raw.text.strip()
    if text.startswith("#"):
        help_of = _HELP.match(text)
        if help_of is None:
            return
        if help_of["name"] in reading.announced:
            yield from _close_section(reading)
        reading.announced.add(help_of["name"])
        return
    match = _SAMPLE.fullmatch(text)
    series = reading.parse(match["series"]) if match else None
    value = number_of(match["value"].replace("+Inf", "inf")) if match else None
    if raw.cut:
        reading.cut_at = raw.number
        return
    if match is None or series is None or value is None:
        yield from _between(reading, raw, text)
        return
    reading.good += 1
    if series.name.startswith(_INTERPRETER):
        return
    if series in reading.section.samples:
        yield from _close_section(reading)
    _add(reading, series, value, raw.number)
    stamp = time_of(number_of(match["time"] or ""))
    if stamp is not None:
        reading.section.time_s = max(stamp, reading.section.time_s or stamp)


def _between(reading: _Reading, raw: RawLine, text: str) -> Iterator[Item]:
    """A line that is no sample: the time that a shell loop printed between two scrapes, or broken."""
    stamp = time_of(number_of(text)) if NUMBER.fullmatch(text) else time_of(text)
    if stamp is not None and stamp > EARLIEST_S:
        yield from _close_section(reading)
        reading.next_time_s = stamp
        return
    reading.broken += 1
    if not reading.first_broken[0]:
        reading.first_broken = (raw.number, text[:60])


def _add(reading: _Reading, series: Series, value: float, number: int) -> None:
    section = reading.section
    if not section.samples:
        section.number = number
        section.time_s, reading.next_time_s = reading.next_time_s, None
    if len(section.samples) >= SERIES_MAX:
        reading.overfull = True
        return
    section.samples[series] = value


def series_in(text: str) -> Series | None:
    """The name and labels before a sample's value; None when they are not well formed."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415  (loads a web server with it)

    try:
        families = list(text_string_to_metric_families(f"{text} 0\n"))
    except (ValueError, IndexError, KeyError):
        return None
    if len(families) != 1 or len(families[0].samples) != 1:
        return None
    sample = families[0].samples[0]
    return parted(sample.name, sample.labels, SPEAKERS)


series_of = lru_cache(maxsize=20_000)(series_in)
"""The same, remembered: a file says the same series at every scrape."""


def parted(name: str, labels: Mapping[str, str], speakers: Collection[str]) -> Series:
    """A series with the labels that say who speaks parted from those that split the figure."""
    known = sorted((printable(k), printable(v[:1000])) for k, v in labels.items())
    speaker = tuple((k, v) for k, v in known if k in speakers)
    return Series(name, speaker, tuple((k, v) for k, v in known if k not in speakers))


def _close_section(reading: _Reading) -> Iterator[Item]:
    """Adds the section to the scrape it belongs to; emits the scrape before it when it is a new one."""
    section, reading.section = reading.section, _Scrape()
    reading.announced.clear()
    if not section.samples:
        return
    scrape = reading.scrape
    crowded = len(scrape.samples) + len(section.samples) > SERIES_MAX
    if crowded or not scrape.samples.keys().isdisjoint(section.samples):
        yield from _items(reading)
        reading.scrape = section
        return
    scrape.samples.update(section.samples)
    scrape.number = scrape.number or section.number
    if section.time_s is not None:
        scrape.time_s = max(section.time_s, scrape.time_s or section.time_s)


def _items(reading: _Reading) -> Iterator[Item]:
    """The records of the finished scrape, one a speaker, then what its info metrics state."""
    scrape, reading.scrape = reading.scrape, _Scrape()
    if not scrape.samples:
        return
    yield from items_of(scrape.samples, (reading.scrapes, scrape.time_s), f"{reading.origin}:{scrape.number}")
    reading.scrapes += 1


def items_of(samples: Mapping[Series, float], moment: Moment, origin: str) -> Iterator[Record | Configuration]:
    """The samples of one moment: what info metrics state, then one record a speaker."""
    speakers: dict[tuple[tuple[str, str], ...], list[tuple[Series, float]]] = {}
    for series, value in samples.items():
        if series.name.endswith("_info") and series.part:
            yield from _info(series, value, origin, moment)
        elif not series.name.endswith(_DROPPED):
            speakers.setdefault(series.speaker, []).append((series, value))
    for speaker, own in speakers.items():
        values = _sums(own) | {series.key: value for series, value in own}
        yield Record(values, *moment, dict(speaker), origin=origin)


def _sums(samples: Iterable[tuple[Series, float]]) -> dict[str, float]:
    """Figures that labels split, put together again; quantiles do not add up and stay apart."""
    sums: dict[str, float] = {}
    for series, value in samples:
        if series.part and not isnan(value) and "quantile" not in dict(series.part):
            sums[series.name] = sums.get(series.name, 0.0) + value
    return sums


def _info(series: Series, value: float, origin: str, moment: Moment) -> Iterator[Record | Configuration]:
    """An info metric states settings in its labels: as numbers `name/label`, as labels, and as a configuration."""
    numbers = {f"{series.name}/{k}": n for k, text in series.part if (n := number_of(text)) is not None}
    labels: Mapping[str, str] = dict(series.speaker + series.part)
    yield Record({series.name: value, **numbers}, *moment, labels, origin=origin)
    settings = {f"{series.name}/{k}": numbers.get(f"{series.name}/{k}", text) for k, text in series.part}
    yield Configuration(settings, origin=origin)


def _verdict(reading: _Reading) -> Iterator[Remark]:
    number, excerpt = reading.first_broken
    place = f"{reading.origin}:{number}"
    if reading.broken > reading.good or not reading.good:
        found = f"{place}: not a Prometheus sample: {excerpt!r}" if number else f"{reading.origin}: no sample in it"
        raise SourceError(f'{found}; read are lines `name{{label="x"}} value`, as an engine\'s /metrics answers')
    if reading.broken:
        yield Remark("broken-lines", f"{reading.broken} lines are no samples; the first: {excerpt!r}", place)
    if reading.cut_at:
        yield Remark("truncated-record", "the last sample is cut and left out", f"{reading.origin}:{reading.cut_at}")
    if reading.overfull:
        yield Remark("too-many-series", f"only {SERIES_MAX} series a scrape are kept", reading.origin)


def claims(name: str, head: bytes) -> float:
    """Sure of announced families and of a file of samples."""
    if looks_binary(head):
        return 0.0
    lines = [line.strip() for line in head_text(head).split("\n")[:200] if line.strip()]
    if len(lines) > 1 and len(head) >= 1 << 16:
        lines = lines[:-1]
    if not lines:
        return 0.0
    announced = sum(_FAMILY.match(line) is not None for line in lines)
    data = [line for line in lines if not line.startswith("#")]
    samples = sum(_is_sample(line) for line in data)
    if announced and samples >= 0.5 * len(data):
        return 0.97
    named = name.lower().endswith((".prom", ".metrics"))
    if len(data) >= 3 and samples >= 0.8 * len(data):
        return 0.9 if any("{" in line for line in data) or named else 0.5
    return 0.4 if named else 0.0


def _is_sample(line: str) -> bool:
    match = _SAMPLE.fullmatch(line)
    return match is not None and number_of(match["value"].replace("+Inf", "inf")) is not None


KIND = Kind("prometheus", claims, read, Follow)
