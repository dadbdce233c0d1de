"""A `run-<id>.wandb` file: history rows as records, the run's configuration and arguments as configurations."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tuner.messages import message_types, parse
from tuner.parsing.configuration import flatten, parse_json, parse_tokens
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources.base import Format, Opened
from tuner.sources.wandb.blocks import HEADER, payloads
from tuner.sources.wandb.values import item_key, item_value, numbers, split_clock

MOST_SUMMARY_KEYS = 20_000
"""Keys of the summary that are kept for a run without history."""

_ITEM = {
    "key": (1, "bytes"),
    "nested_key": (2, "*bytes"),
    "boolean": (4, "bool"),
    "integer": (5, "sint64"),
    "number": (6, "double"),
    "json": (8, "bytes"),
    "value_json": (16, "bytes"),
}

RECORD = {
    "Record": {
        "history": (2, "History"),
        "summary": (3, "Updates"),
        "config": (5, "Updates"),
        "metric": (12, "Metric"),
        "run": (17, "Run"),
        "exit": (18, "Exit"),
        "environment": (26, "Environment"),
    },
    "History": {"item": (1, "*Item"), "step": (2, "Step")},
    "Item": _ITEM,
    "Step": {"num": (1, "int64")},
    "Updates": {"update": (1, "*Item")},
    "Run": {"config": (4, "Updates"), "start_time": (17, "Moment")},
    "Moment": {"seconds": (1, "int64"), "nanos": (2, "int32")},
    "Metric": {"name": (1, "bytes"), "glob_name": (2, "bytes"), "step_metric": (4, "bytes")},
    "Exit": {"exit_code": (1, "int32")},
    "Environment": {"args": (5, "*bytes"), "gpu_type": (18, "bytes"), "gpu_count": (19, "uint32")},
}
"""Field numbers of wandb_internal.proto as wandb 0.16 to 0.31 write them; the typed values of an item are 0.3x's."""


def claims(name: str, head: bytes) -> float:
    """By the file's header; a file only so named gets a refusal from `read`."""
    if head.startswith(HEADER):
        return 1.0
    return 0.6 if name.endswith(".wandb") else 0.0


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    """Items in the file's order. A run that was killed is read up to where its file goes."""
    types = message_types(RECORD)
    run = _Run(opened.origin)
    number = 0
    for payload in payloads(opened):
        if isinstance(payload, Remark):
            yield payload
            continue
        number += 1
        place = f"{opened.origin}:{number}"
        record = parse(types["Record"], payload)
        if record is None:
            yield Remark("damaged-record", f"record {number} does not read", place)
        else:
            yield from run.items(record, place)
    yield from run.finish(number)


@dataclass(slots=True)
class _Run:
    """What must be remembered between the records of one run."""

    origin: str
    start_s: float | None = None
    rows: int = 0
    ended: bool = False
    axes: "_Axes" = field(default_factory=lambda: _Axes())
    summary: dict[str, object] = field(default_factory=dict)

    def items(self, record: Any, place: str) -> Iterator[Item]:
        if record.HasField("history"):
            yield from self.row(record.history, place)
        elif record.HasField("summary"):
            self.summarise(record.summary)
        elif record.HasField("metric"):
            self.axes.define(record.metric)
        elif record.HasField("run"):
            start = record.run.start_time
            self.start_s = start.seconds + start.nanos * 1e-9 if start.seconds > 0 else self.start_s
            yield from _configuration(_settings(record.run.config), place)
        elif record.HasField("config"):
            yield from _configuration(_settings(record.config), place)
        elif record.HasField("environment"):
            yield from _configuration(_environment(record.environment), place)
        elif record.HasField("exit"):
            self.ended = True

    def row(self, history: Any, place: str) -> Iterator[Record]:
        values, step, time_s = split_clock(
            numbers((item_key(item), item_value(item)) for item in history.item), self.start_s
        )
        if history.HasField("step"):
            step = history.step.num
        if values:
            self.rows += 1
            self.summary.clear()
            yield Record(values, self.axes.step_of(values, step), time_s, origin=place)

    def summarise(self, summary: Any) -> None:
        """Kept only while there is no history: with it, the summary is its last row once more."""
        if self.rows == 0:
            for item in summary.update[: MOST_SUMMARY_KEYS - len(self.summary)]:
                self.summary[item_key(item)] = item_value(item)

    def finish(self, number: int) -> Iterator[Item]:
        values, step, time_s = split_clock(numbers(self.summary.items()), self.start_s)
        if self.rows == 0 and values:
            yield Record(values, step, time_s, origin=f"{self.origin}:summary")
        if number and not self.ended:
            yield Remark("unfinished-run", "no exit is recorded: the run was killed or is still going", self.origin)


class _Axes:
    """W&B's `define_metric(..., step_metric=...)`: the run says itself which value numbers which metrics.

    `_step` only counts calls of `log`. slime, for one, numbers its rows by `rollout/step` and `train/step`.
    """

    def __init__(self) -> None:
        self.named: dict[str, str] = {}
        self.prefixed: dict[str, str] = {}
        self.found: dict[str, str | None] = {}
        self.last: dict[str, int] = {}

    def define(self, metric: Any) -> None:
        axis = metric.step_metric.decode("utf-8", "replace")
        if axis and metric.name:
            self.named[metric.name.decode("utf-8", "replace")] = axis
        elif axis and metric.glob_name.endswith(b"*"):
            self.prefixed[metric.glob_name[:-1].decode("utf-8", "replace")] = axis
        self.found.clear()

    def step_of(self, values: dict[str, float], step: int | None) -> int | None:
        """The row's number on the one axis that its values are defined on; `_step` where there is none, or several."""
        if not self.named and not self.prefixed:
            return step
        axes = {axis for key in values if (axis := self.axis_of(key)) is not None}
        for axis in axes:
            if math.isfinite(values.get(axis, math.nan)):
                self.last[axis] = int(values[axis])
        return self.last.get(axes.pop(), step) if len(axes) == 1 else step

    def axis_of(self, key: str) -> str | None:
        if key not in self.found:
            globs = (axis for prefix, axis in self.prefixed.items() if key.startswith(prefix))
            self.found[key] = self.named.get(key) or next(globs, None)
        return self.found[key]


def _configuration(settings: dict[str, object], place: str) -> Iterator[Configuration]:
    if settings:
        yield Configuration(settings, origin=place)


def _settings(updates: Any) -> dict[str, object]:
    nested = {item_key(item): parse_json(item.value_json.decode("utf-8", "replace"))[0] for item in updates.update}
    return flatten({key: value for key, value in nested.items() if not key.startswith("_wandb")})


def _environment(environment: Any) -> dict[str, object]:
    settings = parse_tokens(arg.decode("utf-8", "replace") for arg in environment.args)
    if environment.gpu_count:
        settings["environment.gpu_count"] = environment.gpu_count
    if environment.gpu_type:
        settings["environment.gpu_type"] = environment.gpu_type.decode("utf-8", "replace")
    return settings
