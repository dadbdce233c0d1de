"""Sums of whole numbers as bash's `$((...))` takes them."""

import re

_SUM = re.compile(r"[\d\s+*/%()-]+\Z")


def whole_number(written: str) -> int | None:
    """The value of a sum of whole numbers with + - * / % and brackets, as bash takes it; None for anything else."""
    if len(written) > 200 or not _SUM.match(written):
        return None
    tokens = re.findall(r"\d+|[-+*/%()]|\S", written)
    try:
        value, rest = _added(tokens)
    except (ValueError, IndexError, ZeroDivisionError, RecursionError):
        return None
    return value if not rest and abs(value) < 2**63 else None


def _added(tokens: list[str]) -> tuple[int, list[str]]:
    value, rest = _multiplied(tokens)
    while rest and rest[0] in "+-":
        right, after = _multiplied(rest[1:])
        value, rest = (value + right if rest[0] == "+" else value - right), after
    return value, rest


def _multiplied(tokens: list[str]) -> tuple[int, list[str]]:
    value, rest = _factor(tokens)
    while rest and rest[0] in "*/%":
        right, after = _factor(rest[1:])
        if rest[0] == "*":
            value = value * right
        else:
            quotient = abs(value) // abs(right) * (1 if (value < 0) == (right < 0) else -1)
            value = quotient if rest[0] == "/" else value - quotient * right
        rest = after
    return value, rest


def _factor(tokens: list[str]) -> tuple[int, list[str]]:
    if tokens[0] in "+-":
        value, rest = _factor(tokens[1:])
        return (value if tokens[0] == "+" else -value), rest
    if tokens[0] == "(":
        value, rest = _added(tokens[1:])
        if rest[0] != ")":
            raise ValueError
        return value, rest[1:]
    return int(tokens[0]), tokens[1:]
