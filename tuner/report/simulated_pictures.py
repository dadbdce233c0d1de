"""The pictures of a simulated job over its progress: rates, idle shares, queue, staleness, waste, lengths."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simulators.snapshot import Row
from simulators.step_log import StepLog
from tuner.report import pictures, words
from tuner.report.pictures import Chart, Series
from tuner.report.simulated import TRAINER_IDLE, USEFUL, true_values
from tuner.report.story import MOST_ROWS, Picture, ends_table, picture

UNUSED = "generator_unused_frac"
WASTE_TONES = {"filtered": 0, "oversampled": 1, "pruned": 2, "aborted": 3, "stale": 4, "dropped": 5, "failed": 6}
"""A cause has the same colour in every report."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A line chart, drawn where one of its lines is known."""

    ident: str
    title: str
    note: str
    y_name: str
    lines: Mapping[str, str]
    """Signal -> its name in the legend; a name that starts with `~` is drawn dashed."""
    share: bool = False
    half: bool = True


PLANS = (
    Plan("rates", "Rates", "Trained is what the job achieves; the dashed line is what its trainer could take.",
         "rollouts/s", {USEFUL: "useful", "gen_samples_per_s": "trained", "dispatched_per_s": "started",
                        "train_samples_per_s": "~trainer's service rate"}, half=False),
    Plan("idle", "Idle and unused", "Trainer: share of the step without a batch. Generator: share of what full engines "
         "would decode.", "share", {TRAINER_IDLE: "trainer idle", UNUSED: "generator unused"}, share=True, half=False),
    Plan("queue", "Queue of finished rollouts", "A queue near zero starves the trainer; a full one ages.", "rollouts",
         {"queue_depth": "waiting for the trainer"}),
    Plan("staleness", "Staleness", "Versions between the model that generated and the model that trains.", "versions",
         {"staleness_mean": "mean", "staleness_max": "worst"}),
    Plan("flight", "In flight and sandboxes", "Started and not finished; of them running in engines, waiting there, "
         "and in or for a sandbox.", "rollouts",
         {"inflight_rollouts": "in flight", "running": "running", "queued": "waiting in engines",
          "sandbox_active": "sandboxes", "sandbox_pending": "waiting for a sandbox", "inflight_limit": "~limit"}),
    Plan("starts", "Sandbox starts", "Time from asking for a sandbox to having it.", "s",
         {"sandbox_start_s": "mean start"}),
    Plan("lengths", "Lengths", "Growing answers move work to the generator.", "tokens",
         {"resp_len_mean": "response", "prompt_len_mean": "prompt and tool answers"}),
    Plan("turns", "Turns", "More turns mean more prefill and more waiting on tools.", "per rollout",
         {"turns_mean": "model calls"}),
    Plan("latency", "Time of a rollout", "From start to end, tools and waiting included.", "s",
         {"rollout_latency_s": "rollout", "non_generation_mean_s": "of it outside the engine"}),
)  # fmt: skip
TONES = (0, 1, 2, 3, 5, 8)


def pictures_of_run(log: Sequence[StepLog]) -> tuple[Picture, ...]:
    """Every picture that this run carries, in reading order; none for a run of less than two steps."""
    rows = thinned(log)
    if len(rows) < 2:
        return ()
    unseen = frozenset(i for i, (_, seen) in enumerate(rows) if not seen)
    drawn = [_lines(plan, [row for row, _ in rows], unseen) for plan in PLANS]
    waste = _waste([row for row, _ in rows], unseen)
    found = [*drawn[:2], waste, *drawn[2:]]
    return tuple(p for p in found if p is not None)


def thinned(log: Sequence[StepLog], most: int = MOST_ROWS) -> list[tuple[Row, bool]]:
    """At most `most` rows with whether the job's metrics saw them; neighbouring steps become their mean by time."""
    size = max(1, -(-len(log) // most))
    return [_merged(log[start : start + size]) for start in range(0, len(log), size)]


def _merged(part: Sequence[StepLog]) -> tuple[Row, bool]:
    values = [_drawn_values(entry) for entry in part]
    seconds = [v["step_s"] or 1.0 for v in values]
    names = dict.fromkeys(name for v in values for name in v)
    merged = {}
    for name in names:
        known = [(v[name], s) for v, s in zip(values, seconds, strict=True) if name in v]
        worst = name.endswith("_max")
        mean = sum(value * s for value, s in known) / sum(s for _, s in known)
        merged[name] = max(value for value, _ in known) if worst else mean
    return Row(merged, part[0].row.step, part[0].row.time_s, len(part)), any(entry.seen for entry in part)


def _drawn_values(entry: StepLog) -> dict[str, float]:
    values = true_values(entry)
    seconds = values["step_s"]
    lost = {f"waste_{cause}": float(count) for cause, count in entry.waste.items()}
    more = {"dispatched_per_s": values["dispatched"] / seconds} if seconds > 0 else {}
    if "generator_util_frac" in values:
        more[UNUSED] = 1.0 - values["generator_util_frac"]
    return values | lost | more


def _lines(plan: Plan, rows: Sequence[Row], unseen: frozenset[int]) -> Picture | None:
    columns = {name: tuple(row.values.get(name) for row in rows) for name in plan.lines}
    known = [name for name, values in columns.items() if any(v is not None for v in values) and _tells(name, values)]
    if not known:
        return None
    series = tuple(
        Series(plan.lines[name].lstrip("~"), columns[name], TONES[i], dashed=plan.lines[name].startswith("~"))
        for i, name in enumerate(known)
    )
    return _made(plan.ident, plan.title, plan.note, plan.y_name, series, rows, unseen, plan)


def _tells(name: str, values: Sequence[float | None]) -> bool:
    """False for what never was: a line along zero says nothing of sandboxes or queues, nor does a single turn."""
    nothing = {"turns_mean": 1.0}.get(name, 0.0)
    quiet = ("queued", "sandbox_active", "sandbox_pending", "turns_mean", "non_generation_mean_s")
    return name not in quiet or any(v is not None and abs(v - nothing) > 1e-9 for v in values)


def _made(
    ident: str, title: str, note: str, y_name: str, series: tuple[Series, ...], rows: Sequence[Row],
    unseen: frozenset[int], plan: Plan,
) -> Picture:  # fmt: skip
    x = tuple(float(row.step or 0) for row in rows)
    chart = Chart(ident, title, x, "step", y_name, series, unseen, plan.share)
    how: Callable[[float], str] = words.percent if plan.share else words.figure
    merged = " Each point is the mean of neighbouring steps." if any(row.weight > 1 for row in rows) else ""
    return picture(chart, title, note + merged, pictures.lines, ends_table(series, y_name, how), half=plan.half)


def _waste(rows: Sequence[Row], unseen: frozenset[int]) -> Picture | None:
    columns = {cause: tuple(row.values.get(f"waste_{cause}", 0.0) for row in rows) for cause in WASTE_TONES}
    series = tuple(
        Series(cause, values, WASTE_TONES[cause]) for cause, values in columns.items() if any(v > 0 for v in values)
    )
    if not series:
        return None
    x = tuple(float(row.step or 0) for row in rows)
    chart = Chart("waste", "Rollouts that no batch used, by cause", x, "step", "rollouts", series, unseen)
    note = "Rollouts per step that were started for nothing, by cause."
    table = ends_table(series, "rollouts")
    return picture(chart, "Waste by cause", note, pictures.stacked, table)
