"""A run's history at W&B, by W&B's own client where that is installed."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from math import ceil
from time import monotonic
from typing import Any

from tuner.errors import ConfigError
from tuner.feeds.base import Cursor, Poll
from tuner.parsing.configuration import flatten
from tuner.records import Configuration, Item, Record
from tuner.sources.wandb.values import numbers, split_clock

PATH = re.compile(r"[\w.-]+/[\w.-]+/[\w.-]+")
SETTLED_S = 20.0
"""A row grows while its step lasts, as a process may log to one step several times: the newest counts after so long."""
PAGE_ROWS = 1000
ROWS_MAX = 2000
"""Of a run that was there before us: the last ones."""


class WandbRun:
    """Asks for the rows after the last one told. Address and key are where W&B's client looks for them."""

    def __init__(self, where: str) -> None:
        """`where`: ENTITY/PROJECT/RUN_ID, as the run's page names it. Raises ConfigError."""
        if not PATH.fullmatch(where):
            raise ConfigError(
                f"wandb+{where[:200]}: write wandb+ENTITY/PROJECT/RUN_ID; another server than wandb.ai: WANDB_BASE_URL"
            )
        try:
            self._wandb: Any = import_module("wandb")
        except ImportError:
            raise ConfigError(f"wandb+{where}: W&B's client is not installed: pip install wandb") from None
        self._where = where
        self._run: Any = None

    @property
    def name(self) -> str:
        return f"wandb+{self._where}"

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        told, until = int(cursor.get("row", -1)), monotonic() + deadline_s
        items: list[Item] = []
        try:
            items += self._opened(deadline_s)
            rows = list(self._since(told, until))
        except Exception as fault:  # the client lets through whatever its transport and its service raise
            return Poll((), cursor, 1, 0, _words(fault))
        for row in rows:
            values, place, time_s = split_clock(numbers(row.items()), None)
            unsettled = row is rows[-1] and time_s is not None and now_s - time_s < SETTLED_S
            if place is None or place <= told or unsettled:
                continue
            told = place
            if values:
                items.append(Record(values, place, time_s, origin=self.name))
        return Poll(tuple(items), {"row": told})

    def _opened(self, deadline_s: float) -> Iterator[Configuration]:
        """The run, and once what it says of its settings."""
        if self._run is not None:
            return
        run = self._wandb.Api(timeout=ceil(deadline_s)).run(self._where)
        settings = flatten({key: value for key, value in dict(run.config).items() if not key.startswith("_wandb")})
        self._run = run
        if settings:
            yield Configuration(settings, origin=self.name)

    def _since(self, told: int, until: float) -> Iterator[Mapping[str, object]]:
        """Rows after `told`, as far as the time goes: what is left out comes at the next poll."""
        newest = int(self._run.lastHistoryStep)
        first = max(told + 1, newest + 1 - ROWS_MAX)
        if newest < first:
            return
        for row in self._run.scan_history(page_size=PAGE_ROWS, min_step=first, max_step=newest + 1):
            yield row
            if monotonic() > until:
                return

    def close(self) -> None:
        self._run = None


def _words(fault: Exception) -> str:
    """The first line of what the client says; it names no key, which is in the environment or in a file of its own."""
    said = (str(fault).splitlines() or [""])[0][:200]
    return f"W&B does not answer: {type(fault).__name__}: {said}"
