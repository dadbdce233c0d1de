"""Reads W&B's small files whole, within a bound."""

from tuner.records import Remark
from tuner.sources.base import Opened

LARGEST_BYTES = 16 << 20
"""A summary holds one value a key; a larger file is none."""


def text_of(opened: Opened) -> str | Remark:
    """The file's text, or why it is not read."""
    content = opened.stream.read(LARGEST_BYTES + 1)
    if not content.strip():
        return Remark("empty-file", "nothing in this file", opened.origin)
    if len(content) > LARGEST_BYTES:
        return Remark("large-file", f"over {LARGEST_BYTES:,} bytes: no W&B summary or configuration", opened.origin)
    return content.decode("utf-8-sig", "replace")


def unreadable(opened: Opened, why: str) -> Remark:
    return Remark("unreadable-file", f"{why}; the file is left out", opened.origin)
