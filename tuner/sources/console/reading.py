"""Console logs: finds the few lines worth cleaning and hands them to the frameworks' line formats."""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tuner.records import Item, Line, LineParser, Record, Remark
from tuner.sources.base import Format, Kind, Opened
from tuner.sources.console import generic
from tuner.sources.console.prefixes import WHOLE, Cleaner, Edges
from tuner.sources.lines import Block, blocks, head_text, looks_binary, text_of

PARSERS_MAX = 512
"""Parsers kept at once; a log with more speakers than this closes the one that was silent longest."""

BLOCK_LINES_MAX = 2_000
"""Lines that a block format gets after its last marker; a printed configuration is the longest block known."""

NUMERIC = b"0123456789-"
"""What differs between lines of one shape; a marker is sought without these too, and so is never missed."""

SAME_DIGIT = bytes.maketrans(b"123456789", b"0" * 9)
"""Makes lines that differ only in their digits equal, so that one look tells whether any of them may hold metrics."""

FORMAT_FAULTS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What an odd line may cost a format: counted and told, the reading goes on."""


@dataclass(slots=True)
class _Seat:
    """A parser with its speaker's place in it."""

    parser: LineParser
    format: Format
    lines_left: int = 0
    """Lines that an open block still gets."""


@dataclass(slots=True)
class _Reading:
    """What is remembered while one log is read."""

    origin: str
    formats: tuple[Format, ...]
    cleaner: Cleaner = field(default_factory=Cleaner)
    seats: OrderedDict[tuple[str | None, int], _Seat] = field(default_factory=OrderedDict)
    lone: OrderedDict[str | None, generic.Blocks] = field(default_factory=OrderedDict)
    open_blocks: int = 0
    faults: dict[str, tuple[int, str]] = field(default_factory=dict)
    found: int = 0
    awake: set[int] = field(default_factory=set)
    """Formats that have shown themselves: their faint markers count."""
    first_number: int = 0
    """The first line that says something: it may start in the middle of a record."""
    last_number: int = 0


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    """Every record that a framework's format, or else a generic one, finds; lines that start with # never count."""
    reading = _Reading(opened.origin, tuple(formats))
    markers = _markers(reading)
    for block in blocks(opened):
        if isinstance(block, Remark):
            yield block
            continue
        yield from _block_items(reading, block, markers)
    for seat in reading.seats.values():
        yield from _flush(reading, seat)
    for lone in reading.lone.values():
        yield from _placed(reading, lone.flush(), reading.last_number)
    yield from _closing_remarks(reading)


class Follow:
    """A log as it grows: the parsers of its speakers stay open between two looks."""

    def __init__(self, origin: str, formats: Iterable[Format]) -> None:
        self._reading = _Reading(origin, tuple(formats))
        self._markers = _markers(self._reading)

    def feed(self, data: bytes, number: int) -> Iterator[Item]:
        yield from _block_items(self._reading, Block(data, number), self._markers)


def _markers(reading: _Reading) -> tuple[bytes, ...]:
    return (*dict.fromkeys(m.encode() for f in reading.formats for m in (*f.markers, *f.faint) if m), b"wandb: ")


def _block_items(reading: _Reading, block: Block, markers: tuple[bytes, ...]) -> Iterator[Item]:
    pieces = block.data.split(b"\n")
    lines = block.data.translate(SAME_DIGIT).split(b"\n")
    shapes = set(lines)
    here = {marker.decode() for marker in _present(markers, shapes)}
    reading.awake |= {i for i, form in enumerate(reading.formats) if not here.isdisjoint(form.markers)}
    wanted = _wanted(reading, here)
    present = (*dict.fromkeys(m.encode() for _, _, sought in wanted for m in sought), b"wandb: ")
    telling = _telling(present, shapes)
    last = len(pieces) - 1
    if reading.first_number:
        reading.cleaner.tick(text_of(pieces[0][:120]))
    else:
        reading.first_number = next((block.number + i for i, raw in enumerate(pieces) if _says_something(raw)), 0)
    for i, (raw, shape) in enumerate(zip(pieces, lines, strict=True)):
        if not (reading.open_blocks or shape in telling):
            continue
        if raw.lstrip()[:1] == b"#":
            continue
        number = block.number + i
        torn = number == reading.first_number or (block.cut and i == last)
        edges = Edges(number == reading.first_number, block.cut and i == last) if torn else WHOLE
        for line in reading.cleaner.lines(text_of(raw.removesuffix(b"\r")), number, edges):
            yield from _line_items(reading, line, wanted)
    reading.last_number = block.number + last


def _present(markers: tuple[bytes, ...], shapes: set[bytes]) -> tuple[bytes, ...]:
    """The markers that some line may hold. Lines that differ only in their numbers, as most do, are searched once."""
    bare = b"\n".join({shape.translate(None, NUMERIC) for shape in shapes})
    return tuple(m for m in markers if m.translate(None, NUMERIC) in bare)


def _telling(present: tuple[bytes, ...], shapes: set[bytes]) -> set[bytes]:
    """The shapes of the lines that are worth cleaning: those with a marker, and those that look like metrics."""
    hit = _pattern(tuple(m.translate(SAME_DIGIT) for m in present))
    return {shape for shape in shapes if (hit is not None and hit(shape)) or generic.likely(shape)}


def _says_something(raw: bytes) -> bool:
    bare = raw.strip()
    return bool(bare) and not bare.startswith(b"#")


@lru_cache(maxsize=1024)
def _pattern(present: tuple[bytes, ...]) -> Callable[[bytes], object] | None:
    return re.compile(b"|".join(map(re.escape, present))).search if present else None


def _wanted(reading: _Reading, here: set[str]) -> list[tuple[int, Format, tuple[str, ...]]]:
    """The formats that any line of a block can concern, with those of their markers that the block holds."""
    sought = ((*form.markers, *form.faint * (i in reading.awake)) for i, form in enumerate(reading.formats))
    found = (
        (i, form, tuple(m for m in marks if m in here))
        for i, (form, marks) in enumerate(zip(reading.formats, sought, strict=True))
    )
    return [(i, form, markers) for i, form, markers in found if markers or form.block]


def _line_items(reading: _Reading, line: Line, wanted: Iterable[tuple[int, Format, tuple[str, ...]]]) -> Iterator[Item]:
    lone = reading.lone.get(line.speaker)
    if lone is not None and lone.expects(line):
        yield from _generic_items(reading, line, False)
        return
    taken = False
    text = line.text
    for index, form, markers in wanted:
        marked = False
        for marker in markers:
            if marker in text:
                marked = True
                break
        if not marked and not (form.block and reading.open_blocks):
            continue
        place = (None if form.shared else line.speaker, index)
        seat = reading.seats.get(place)
        if not marked and not (seat and seat.lines_left):
            continue
        if seat is None:
            seat = _Seat(form.parser(), form)
            reading.seats[place] = seat
            yield from _evict(reading)
        reading.seats.move_to_end(place)
        items = _fed(reading, seat, line)
        taken = taken or bool(items) or seat.lines_left > 0
        yield from _placed(reading, filter(None, items), line.number)
        if form.block:
            yield from _count_block(reading, seat, marked)
    if not taken or line.speaker in reading.lone:
        yield from _generic_items(reading, line, taken)


def _count_block(reading: _Reading, seat: _Seat, marked: bool) -> Iterator[Item]:
    """Opens a block at its marker, closes it when its lines run out."""
    if marked:
        reading.open_blocks += seat.lines_left == 0
        seat.lines_left = BLOCK_LINES_MAX
        return
    seat.lines_left -= 1
    if seat.lines_left == 0:
        reading.open_blocks -= 1
        yield from _flush(reading, seat)


def _generic_items(reading: _Reading, line: Line, taken: bool) -> Iterator[Item]:
    lone = reading.lone.get(line.speaker) or generic.Blocks()
    if taken:
        belongs, records = False, lone.flush()
    else:
        belongs, records = lone.feed(line)
    known = line.speaker in reading.lone
    if lone.open and not known:
        reading.lone[line.speaker] = lone
        reading.open_blocks += 1
    if known and not lone.open:
        del reading.lone[line.speaker]
        reading.open_blocks -= 1
    yield from _placed(reading, records, line.number - 1)
    if not belongs and not taken:
        yield from _placed(reading, list(generic.records_on(line)), line.number)
    if len(reading.lone) > PARSERS_MAX:
        _, oldest = reading.lone.popitem(last=False)
        reading.open_blocks -= 1
        yield from _placed(reading, oldest.flush(), line.number)


def _fed(reading: _Reading, seat: _Seat, line: Line) -> list[Item | None]:
    try:
        return list(seat.parser.feed(line))
    except FORMAT_FAULTS as fault:
        _note_fault(reading, seat, line.number, fault)
        return []


def _flush(reading: _Reading, seat: _Seat) -> Iterator[Item]:
    try:
        items = list(seat.parser.flush())
    except FORMAT_FAULTS as fault:
        _note_fault(reading, seat, reading.last_number, fault)
        return
    yield from _placed(reading, items, reading.last_number)


def _note_fault(reading: _Reading, seat: _Seat, number: int, fault: Exception) -> None:
    name = f"{seat.format.framework}/{seat.format.name}"
    count, text = reading.faults.get(name, (0, f"{reading.origin}:{number}: {type(fault).__name__}: {fault}"))
    reading.faults[name] = (count + 1, text)


def _evict(reading: _Reading) -> Iterator[Item]:
    while len(reading.seats) > PARSERS_MAX:
        _, seat = reading.seats.popitem(last=False)
        reading.open_blocks -= seat.lines_left > 0
        yield from _flush(reading, seat)


def _placed(reading: _Reading, items: Iterable[Item], number: int) -> Iterator[Item]:
    """Items with their place in the file, where the format left it open."""
    for item in items:
        reading.found += not isinstance(item, Remark)
        line = item.origin or f"{number}"
        if not line.isdigit():
            yield item
        elif isinstance(item, Record):
            item.origin = f"{reading.origin}:{line}"
            yield item
        else:
            yield replace(item, origin=f"{reading.origin}:{line}")


def _closing_remarks(reading: _Reading) -> Iterator[Remark]:
    for name, (count, text) in reading.faults.items():
        yield Remark("format-failed", f"{count} lines broke the line format {name}; the first: {text}", reading.origin)
    if not reading.found and reading.last_number:
        detail = f"{reading.last_number} lines read as a console log; none holds metrics in a form that is known"
        yield Remark("nothing-recognised", detail, f"{reading.origin}:{reading.last_number}")


_LOG_LIKE = re.compile(
    r"^(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\(\w[^()\n]{0,60}pid=\d+|\[?\d\d:\d\d:\d\d\b)"
    r"|^(?:INFO|DEBUG|WARNING|ERROR)\b|^wandb: |\bstep:\d+ - |\]\s.{0,200}#running-req|\{'[\w/]+': ",
    re.M,
)


def claims(name: str, head: bytes) -> float:
    """Any text may be a log: a weak claim that every telling format outbids; a stronger one for log-like lines."""
    if looks_binary(head):
        return 0.0
    text = head_text(head)
    if _LOG_LIKE.search(text) or text.startswith('{"log":"'):
        return 0.6
    return 0.3 if name.lower().endswith((".log", ".out", ".err", ".txt")) else 0.15


KIND = Kind("console", claims, read, Follow)
