"""prime-rl's console, old and new: `Step N | ...` of orchestrator and trainer, and the notices that belong to a step.

Only a step line that states its time is taken: other programs print `Step N | Loss ...` too.
"""

import re
from collections.abc import Iterable, Iterator

from tuner.parsing.lines import NUMBER, fraction_in, number_in, seconds_in
from tuner.records import Item, Line, Record

_STEP = re.compile(r"(?<![\w.])Step (\d{1,12}) \| ")
_FIELD = re.compile(rf"([A-Za-z][A-Za-z. -]*?):? +({NUMBER})(%?)(/\d{{1,12}})?(?: (\S+))?")
_BAR = re.compile(r"Generating rollouts \(train\):\s*100%\|[^|]*\|\s*(\d{1,9})/(\d{1,9})\s*\[((?:\d+:)?\d{1,2}:\d{2})<")
_DETECTED = re.compile(r"Detected \d{1,9}/(\d{1,9}) rollouts \(([^)]*)\)")
_ZERO = re.compile(r"\bzero_advantage=(\d{1,9})")
_STARTING = re.compile(r"Starting orchestrator step (\d{1,12})")
PAUSED = "Orchestrator paused: "
_RESUMED = re.compile(rf"Orchestrator resumed: checkpoint \d+ ready \(after ({NUMBER}s)\)")
_PIPELINE = re.compile(r"Train batch (\d{1,9})/(\d{1,9})\b.*?; (\d{1,9}) inflight episodes \(train=(\d{1,9})")
_BUFFERED = re.compile(r"\(\+(\d{1,9}) buffered\)")

ORCHESTRATOR = {
    "Time": "orchestrator/time/step",
    "Reward": "reward/all/mean",
    "Throughput": "orchestrator/perf/throughput",
    "Seq. Length": "seq_len/all/mean",
    "Async Level": "scheduler/async_level",
    "Max. Off-Policy Level": "off_policy_level/all/max",
    "Max Off-Policy": "off_policy/max",
    "Turns": "train/agg/effective/num_turns/mean",
    "Error": "train/agg/all/has_error/mean",
    "Cancelled": "train/agg/all/cancelled/mean",
    "Truncation": "train/agg/effective/is_truncated/mean",
}
"""What a step line says, under the names of the same measures in metrics.jsonl.

The two of the orchestrator that the trainer measures too keep apart: on one console their steps must not contradict."""

TRAINER = {
    "Time": "time/step",
    "Loss": "loss/mean",
    "Entropy": "entropy/all/mean",
    "Mismatch KL": "mismatch_kl/all/mean",
    "Grad. Norm": "optim/grad_norm",
    "Throughput": "perf/throughput",
    "MFU": "perf/mfu",
    "Peak Mem.": "perf/peak_memory",
}
UNIT_AFTER = {"Throughput": "tokens/s", "Seq. Length": "tokens/sample", "Peak Mem.": "GiB"}
"""Units that a field always has: without it the line broke off inside the field."""

LAST = {"Max. Off-Policy Level", "Error", "Truncation", "Peak Mem.", "Max Vio", "Routing Conf."}
"""A whole line ends with one of these."""

NEVER_PAUSED = "console/no_pause_line"
"""Our own key: the whole step was on the console of a version that prints pauses, and none was there."""


class StepLines:
    """One record per step line; bars, pauses and filters seen since the last one belong to it."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._started: int | None = None
        self._paused = False
        """A pause began whose end, and so whose length, was not printed."""

    def feed(self, line: Line) -> Iterator[Item]:
        text = line.text
        if (step := _STEP.search(text)) is not None:
            yield from self._step(line, int(step.group(1)), text[step.end() :])
        elif (started := _STARTING.search(text)) is not None:
            self._seen, self._started, self._paused = {}, int(started.group(1)), False
        elif (pipeline := _PIPELINE.search(text)) is not None:
            yield _pipeline(line, pipeline)
        else:
            self._notice(text)

    def flush(self) -> Iterable[Item]:
        return ()

    def _notice(self, text: str) -> None:
        if PAUSED in text:
            self._paused = True
        elif (bar := _BAR.search(text)) is not None and bar.group(1) == bar.group(2):
            self._seen["progress/samples"] = float(bar.group(2))
            self._seen["time/generate_completions"] = seconds_in(bar.group(3)) or 0.0
        elif (resumed := _RESUMED.search(text)) is not None:
            waited_s = seconds_in(resumed.group(1)) or 0.0
            self._paused = False
            self._seen["time/wait_for_ckpt"] = self._seen.get("time/wait_for_ckpt", 0.0) + waited_s
        elif (detected := _DETECTED.search(text)) is not None and float(detected.group(1)) > 0.0:
            zero = _ZERO.search(detected.group(2))
            count = float(zero.group(1)) if zero else 0.0
            self._seen["filter/zero_advantage_rate"] = count / float(detected.group(1))

    def _step(self, line: Line, step: int, text: str) -> Iterator[Item]:
        fields, cut = _fields(text, line.cut)
        of_trainer = "Loss" in fields
        names = TRAINER if of_trainer else ORCHESTRATOR
        values = {names[name]: value for name, value in fields.items() if name in names}
        if "Time" not in fields:
            return
        if of_trainer:
            yield _record(values, step, line, "trainer", cut)
            return
        if self._paused:
            self._seen.pop("time/generate_completions", None)  # the pause is inside it
        elif "Async Level" in fields and self._started == step and "time/wait_for_ckpt" not in self._seen:
            values[NEVER_PAUSED] = 0.0
        if "Trainable" in fields:
            values |= _trainable(fields)
        values |= self._seen
        self._seen, self._started, self._paused = {}, None, False
        yield _record(values, step, line, "orchestrator", cut)


def _record(values: dict[str, float], step: int | None, line: Line, writer: str, cut: bool = False) -> Record:
    labels = {"writer": writer}
    if line.speaker:
        labels["speaker"] = line.speaker
    return Record(values, step, line.time_s, labels, "prime-rl", str(line.number), cut)


def _pipeline(line: Line, found: re.Match[str]) -> Record:
    buffered = _BUFFERED.search(line.text)
    values = {
        "pipeline/train_batch": float(found.group(1)),
        "pipeline/buffered": float(buffered.group(1)) if buffered else 0.0,
        "dispatcher/inflight/train": float(found.group(4)),
    }
    return _record(values, None, line, "orchestrator")


def _fields(text: str, line_cut: bool) -> tuple[dict[str, float], bool]:
    """The `Name: number unit` or `Name number` fields of a step line, and whether its end is missing."""
    parts = [part.strip() for part in text.split(" | ")]
    fields = {name: value for part in parts for name, value in _field(part).items()}
    last = next(iter(_field(parts[-1])), "")
    torn = line_cut or last not in LAST
    if torn and last and (parts[-1][-1].isdigit() or last == "Time"):
        fields.pop(last)  # digits may be missing, or the seconds after the minutes
    return fields, torn


def _field(part: str) -> dict[str, float]:
    if (bare_s := seconds_in(part)) is not None:
        return {"Time": bare_s}
    if part.startswith("Time:"):
        stated_s = seconds_in(part.removeprefix("Time:"))
        return {} if stated_s is None else {"Time": stated_s}
    found = _FIELD.match(part)
    if found is None:
        return {}
    name, number, percent, of, unit = found.groups()
    value = number_in(number)
    if value is None or (name in UNIT_AFTER and unit != UNIT_AFTER[name]):
        return {}
    if of:
        return {name: value, f"{name}/": float(of[1:])}
    if percent and name != "MFU":
        value = fraction_in(part) or 0.0
    return {name: value}


def _trainable(fields: dict[str, float]) -> dict[str, float]:
    total = fields.get("Trainable/", 0.0)
    if total < 1.0:
        return {}
    return {"trainable/rollouts": total, "train/agg/effective/is_trainable/mean": fields["Trainable"] / total}
