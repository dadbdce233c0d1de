"""Lists of what to scrape, read again when they change: Prometheus' file discovery, a Prometheus configuration (verl
writes one), or lines of hosts."""

import json
import os
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path

from tuner.errors import ConfigError, SourceError
from tuner.feeds.http import checked_url
from tuner.parsing.yaml_text import parse_yaml

METRICS_PATH = "/metrics"
BYTES_MAX = 1 << 20
"""A target takes some 100 bytes."""
FILES_MAX = 64
"""Files that one configuration may point to."""
REMEDY = "read are a file_sd list (JSON or YAML), a prometheus.yml with static or file targets, or lines host:port"

Stamp = tuple[int, int, int]
"""When a file was written, its size and its inode."""


class TargetList:
    """The targets of a file, as they are now. The last good list holds while the file is being rewritten."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamps: Mapping[str, Stamp | None] = {}
        self._targets: tuple[str, ...] = ()

    def __call__(self) -> tuple[str, ...]:
        """Raises SourceError where nothing could be read yet."""
        if not self._stamps or any(_stamp(path) != stamp for path, stamp in self._stamps.items()):
            self._read()
        return self._targets

    def _read(self) -> None:
        stamps: dict[str, Stamp | None] = {self._path: _stamp(self._path)}
        try:
            targets = tuple(dict.fromkeys(_targets_in(self._path, stamps)))
        except SourceError:
            if not self._targets:
                raise
            return
        self._targets, self._stamps = targets, stamps


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _targets_in(path: str, stamps: dict[str, Stamp | None]) -> Iterator[str]:
    """The URLs that a file lists, itself or through other files, which are noted."""
    text = _text(path)
    document = _document(path, text)
    match document:
        case {"scrape_configs": list(jobs)}:
            for job in jobs:
                yield from _of_job(path, job, stamps)
        case [*groups] if all(isinstance(group, Mapping) and "targets" in group for group in groups):
            for group in groups:
                yield from _of_group(path, group, {})
        case _:
            yield from _of_lines(path, text)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as fault:
        raise SourceError(f"{path}: the list of targets cannot be read: {fault.strerror}") from None
    if len(data) > BYTES_MAX:
        raise SourceError(f"{path}: a list of targets of over {BYTES_MAX >> 20} MiB; {REMEDY}")
    return data.decode("utf-8", errors="replace")


def _document(path: str, text: str) -> object:
    """The JSON or YAML in a text; None where it is plain lines."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        documents, why = parse_yaml(text)
    if why and path.endswith((".yml", ".yaml", ".json")):
        raise SourceError(f"{path}: {why}; {REMEDY}")
    return documents[0] if len(documents) == 1 else None


def _of_job(path: str, job: object, stamps: dict[str, Stamp | None]) -> Iterator[str]:
    """The targets of one scrape configuration: static ones, and those of the files that it names."""
    if not isinstance(job, Mapping):
        raise SourceError(f"{path}: an entry of scrape_configs is no mapping; {REMEDY}")
    defaults = {"__scheme__": job.get("scheme", "http"), "__metrics_path__": job.get("metrics_path", METRICS_PATH)}
    for group in _listed(job.get("static_configs")):
        yield from _of_group(path, group, defaults)
    for entry in _listed(job.get("file_sd_configs")):
        patterns = _listed(entry.get("files")) if isinstance(entry, Mapping) else []
        for pattern in patterns:
            yield from _of_files(path, str(pattern), defaults, stamps)


def _of_files(
    path: str, pattern: str, defaults: Mapping[str, object], stamps: dict[str, Stamp | None]
) -> Iterator[str]:
    whole = pattern if os.path.isabs(pattern) else str(Path(path).parent / pattern)
    for name in sorted(glob(whole))[:FILES_MAX]:
        stamps[name] = _stamp(name)
        for group in _listed(_document(name, _text(name))):
            yield from _of_group(name, group, defaults)


def _of_group(path: str, group: object, defaults: Mapping[str, object]) -> Iterator[str]:
    if not isinstance(group, Mapping):
        raise SourceError(f"{path}: a group of targets is no mapping; {REMEDY}")
    labels = group.get("labels")
    labels = {**defaults, **labels} if isinstance(labels, Mapping) else dict(defaults)
    scheme, where = labels.get("__scheme__", "http"), str(labels.get("__metrics_path__", METRICS_PATH))
    for target in _listed(group.get("targets")):
        yield _url(path, f"{scheme}://{target}/{where.lstrip('/')}")


def _of_lines(path: str, text: str) -> Iterator[str]:
    """`host:port` or a URL a line; # begins a comment."""
    for number, line in enumerate(text.splitlines(), start=1):
        target = line.split("#")[0].strip()
        if not target:
            continue
        url = target if "://" in target else f"http://{target}"
        yield with_path(_url(f"{path}:{number}", url))


def _url(place: str, url: str) -> str:
    try:
        return checked_url(url)
    except ConfigError as fault:
        raise SourceError(f"{place}: {fault}; {REMEDY}") from None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def with_path(url: str) -> str:
    """The URL with /metrics where it names a server only."""
    return url if "/" in url.split("://", 1)[1] else url + METRICS_PATH
