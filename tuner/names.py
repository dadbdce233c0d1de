"""Names that a user writes into a job file, of files, sources and knobs, checked where they are read."""

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from policies.settings import ACTED, NAMES

NAME_MOST = 200
"""Bytes of a file's name: most systems allow 255, and what stands beside it (`.lock`, `.ack`) has a longer one."""
KNOBS = (*ACTED, *(name for name in NAMES if name not in ACTED))
"""What an actuator may be told to turn: knobs, and setpoints that are part of one."""


def _file(path: Path) -> Path:
    if path.name in ("", "..") or "\0" in str(path) or len(os.fsencode(path.name)) > NAME_MOST:
        raise ValueError(f"must be the path of a file, with a name of 1 to {NAME_MOST} bytes")
    return path


def _file_name(text: str) -> str:
    _file(Path(text))
    return text


def _source(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("must name a file or a server")
    return text


def _knob(name: str) -> str:
    if name not in KNOBS:
        near = get_close_matches(name, KNOBS, n=1, cutoff=0.6)
        raise ValueError(
            f"there is no knob {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(KNOBS)}")
        )
    return name


FilePath = Annotated[Path, AfterValidator(_file)]
FileName = Annotated[str, AfterValidator(_file_name)]
SourceName = Annotated[str, AfterValidator(_source)]
Knob = Annotated[str, AfterValidator(_knob)]
