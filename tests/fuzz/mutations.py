"""Ways to spoil a log: each takes the bytes of a real sample and a seeded generator, and returns other bytes."""

import re
from collections.abc import Callable
from random import Random

Mutation = Callable[[Random, bytes, bytes], bytes]
"""(generator, sample, another sample) -> spoiled sample."""

MAX_BYTES = 600_000
"""Mutations that make a sample longer stop here, so that one input stays a matter of milliseconds."""

NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")

ODD_NUMBERS = (
    b"nan",
    b"NaN",
    b"inf",
    b"-inf",
    b"Infinity",
    b"-Infinity",
    b"1e308",
    b"-1e308",
    b"1e309",
    b"1e-320",
    b"0",
    b"-0.0",
    b"-1",
    b"-7.5",
    b"1e18",
    b"9007199254740993",
    b"99999999999999999999999999999999999999",
    b"1" * 400,
    b"0." + b"3" * 300,
    b"0x1F",
    b"1_000",
    b"1,234.5",
    b"12e",
    b"--3",
    b"null",
    b"None",
    b"true",
    b'"7"',
    b"[]",
    b"{}",
    b"np.float64(nan)",
    b"tensor(3.5)",
    b"",
)

GARBAGE = (
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"PK\x03\x04",
    b"\x1f\x8b\x08\x00",
    b"\x00" * 64,
    b"{",
    b"[",
    b'{"step": 1',
    b"<!doctype html>\n",
    b"# HELP\n# TYPE x histogram\n",
    b"step,step,step\n",
    b"\x1b[31m\x1b[2K\r",
    b"Traceback (most recent call last):\n",
    b"---\n",
    b"(TaskRunner pid=1) (TaskRunner pid=1) ",
    b":W&B\xe1\xbe\x00",
    b"\n\n\n\n",
    b"'''",
    b"%s%n%d",
    b"../../../etc/passwd\n",
)


def bit_flips(rng: Random, data: bytes, _: bytes) -> bytes:
    out = bytearray(data)
    for _flip in range(rng.choice((1, 3, 20, 200)) if out else 0):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut_start(rng: Random, data: bytes, _: bytes) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def cut_end(rng: Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def cut_middle(rng: Random, data: bytes, _: bytes) -> bytes:
    start, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[:start] + data[end:]


def swap_lines(rng: Random, data: bytes, _: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    for _swap in range(rng.choice((1, 5, 50)) if len(lines) > 1 else 0):
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def reverse_lines(_: Random, data: bytes, __: bytes) -> bytes:
    """Clocks and steps run backwards."""
    return b"".join(reversed(data.splitlines(keepends=True)))


def drop_lines(rng: Random, data: bytes, _: bytes) -> bytes:
    keep = rng.choice((0.1, 0.5, 0.9))
    return b"".join(line for line in data.splitlines(keepends=True) if rng.random() < keep)


def duplicate_block(rng: Random, data: bytes, _: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    start = rng.randrange(len(lines))
    block = lines[start : start + rng.choice((1, 3, 30))]
    out = b"".join(lines[:start] + block * rng.choice((2, 3, 40)) + lines[start:])
    return out[:MAX_BYTES]


def repeat_whole(rng: Random, data: bytes, _: bytes) -> bytes:
    """A restart: the same steps again."""
    return (data * rng.choice((2, 3)))[:MAX_BYTES]


def interleave(rng: Random, data: bytes, other: bytes) -> bytes:
    """Two writers in one file, sometimes torn in the middle of a line."""
    ours, theirs = data.splitlines(keepends=True), other.splitlines(keepends=True)
    out: list[bytes] = []
    while ours or theirs:
        source = ours if ours and (not theirs or rng.random() < len(ours) / (len(ours) + len(theirs))) else theirs
        line = source.pop(0)
        out.append(line[: rng.randrange(len(line))] if rng.random() < 0.02 else line)
    return b"".join(out)[:MAX_BYTES]


def append_other(_: Random, data: bytes, other: bytes) -> bytes:
    return (data + other)[:MAX_BYTES]


def odd_numbers(rng: Random, data: bytes, _: bytes) -> bytes:
    share = rng.choice((0.01, 0.1, 1.0))
    odd = rng.sample(ODD_NUMBERS, rng.choice((1, 3, len(ODD_NUMBERS))))
    return NUMBER.sub(lambda found: rng.choice(odd) if rng.random() < share else found.group(), data)[:MAX_BYTES]


def scaled_numbers(rng: Random, data: bytes, _: bytes) -> bytes:
    """Every number stays a number, but magnitudes and signs no longer fit each other."""
    factors = rng.choice(((-1.0,), (0.0, 1.0), (1e-12, 1.0, 1e12), (1e150, 1e-150)))

    def scaled(found: re.Match[bytes]) -> bytes:
        return b"%r" % (float(found.group()) * rng.choice(factors)) if rng.random() < 0.3 else found.group()

    return NUMBER.sub(scaled, data)[:MAX_BYTES]


def digits_changed(rng: Random, data: bytes, _: bytes) -> bytes:
    share = rng.choice((0.01, 0.2))
    return re.sub(rb"\d", lambda found: b"%d" % rng.randrange(10) if rng.random() < share else found.group(), data)


def unicode_scattered(rng: Random, data: bytes, _: bytes) -> bytes:
    out = bytearray(data)
    for _spot in range(rng.choice((1, 10, 100))):
        code = rng.choice(
            (rng.randrange(0x20, 0xD800), rng.randrange(0xE000, 0x110000), 0x85, 0x2028, 0x200B, 0x202E, 0x0664)
        )
        at = rng.randrange(len(out) + 1)
        out[at:at] = chr(code).encode()
    return bytes(out)


def header_garbage(rng: Random, data: bytes, _: bytes) -> bytes:
    return rng.choice(GARBAGE) + data


def garbage_inside(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(GARBAGE) * rng.choice((1, 5)) + data[at:]


def long_line(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    filler = rng.choice((b"x", b"9", b"{", b" - a/b:1", b"'k': 1, ", b"\x1b[0m", b"(", b"\\"))
    size = rng.choice((2_000, 20_000, 400_000))
    return (data[:at] + (filler * (size // len(filler) + 1))[:size] + data[at:])[: MAX_BYTES + size]


def line_ends(rng: Random, data: bytes, _: bytes) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r", b"\r\n", b"", b" ", b"\n\n", b"\x00", b"\x0b")))


def punctuation(rng: Random, data: bytes, _: bytes) -> bytes:
    old, new = rng.choice(b"\"'{}[]:,-=/|()."), rng.choice(b"\"'{}[]:,-=/|(). ")
    share = rng.choice((0.01, 1.0))
    return bytes(new if byte == old and rng.random() < share else byte for byte in data)


def encoding(rng: Random, data: bytes, _: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32-le", "latin-1", "utf-7")), "replace")[
        :MAX_BYTES
    ]


def noise(rng: Random, data: bytes, _: bytes) -> bytes:
    return rng.randbytes(min(len(data), rng.choice((0, 1, 100, 5_000))))


MUTATIONS: tuple[Mutation, ...] = (
    bit_flips,
    cut_start,
    cut_end,
    cut_middle,
    swap_lines,
    reverse_lines,
    drop_lines,
    duplicate_block,
    repeat_whole,
    interleave,
    append_other,
    odd_numbers,
    odd_numbers,
    scaled_numbers,
    digits_changed,
    unicode_scattered,
    header_garbage,
    garbage_inside,
    long_line,
    line_ends,
    punctuation,
    encoding,
    noise,
)
"""Numbers count twice: they reach deepest."""
