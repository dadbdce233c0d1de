"""Which kind of source a file is: the kind that is surest of its first bytes and name."""

from collections.abc import Iterable

from tuner.errors import SourceError
from tuner.sources.base import Kind, Opened
from tuner.sources.lines import looks_binary
from tuner.sources.opening import head_of, name_of

IN_FOLDER_MIN = 0.25
"""A file that nobody named must be likelier than `some text` to be read."""


def best_kind(kinds: Iterable[Kind], name: str, head: bytes) -> tuple[Kind | None, float]:
    """The surest kind and how sure it is; (None, 0) when no kind wants it. Of equals the first wins."""
    best: Kind | None = None
    surest = 0.0
    for kind in kinds:
        claim = kind.claims(name, head)
        if claim > surest:
            best, surest = kind, claim
    return best, surest


def kind_of(kinds: tuple[Kind, ...], opened: Opened, forced: str | None = None) -> Kind:
    """The kind to read an opened file with; raises SourceError that says what was found and what is read."""
    if forced is not None:
        named = next((kind for kind in kinds if kind.name == forced), None)
        if named is not None:
            return named
        raise SourceError(f"{forced!r} is no kind of source; known are {known(kinds)}")
    head = head_of(opened)
    kind, _ = best_kind(kinds, name_of(opened), head)
    if kind is None:
        what = f"binary data ({head[:8].hex(' ')} ...)" if looks_binary(head) else f"{head[:40]!r}"
        raise SourceError(f"{opened.origin}: found {what}; read are {known(kinds)}: give the job's log or metrics file")
    return kind


def known(kinds: Iterable[Kind]) -> str:
    return ", ".join(kind.name for kind in kinds)
