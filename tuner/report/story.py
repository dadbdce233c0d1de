"""Which pictures an answer gets: each with a legend, a short table beside it and the full figures behind a fold."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from policies.base import Phase, SplitCurve, SplitPoint
from policies.diagnosis.budget import NAMES
from policies.estimators import phase_s, phases_of
from simulators.plant import Mode
from simulators.snapshot import Row, Snapshot, fold_rows
from tuner.report import pictures, words
from tuner.report.answer import Material
from tuner.report.pictures import Chart, Series

WIDE, HALF, NARROW = 720, 490, 330
"""Pixels; the style sheet shows the narrow one on a phone, the other elsewhere."""
MOST_ROWS = 96
"""A chart has room for no more; longer runs are drawn as means of neighbouring steps."""

TONES = {
    "rollout_s": 0,
    "trainer_busy_s": 1,
    "reward_s": 2,
    "trainer_wait_s": 3,
    "weight_sync_s": 4,
    "validation_s": 5,
    "checkpoint_s": 6,
    "offload_s": 7,
    "overhead_s": 8,
    "unaccounted": 9,
}
"""A phase has the same colour in every report."""


LABELS = {
    "zero_adv_frac": "no advantage",
    "solved_all_frac": "all right",
    "solved_none_frac": "none right",
    "truncated_frac": "cut at the cap",
    "prompt_tokens_per_s": "prompt tokens",
    "decode_tokens_per_s": "generated tokens",
    "inflight_rollouts": "in flight",
    "kv_usage_frac": "KV in use",
    "prefix_hit_frac": "prefix hits",
}
"""Signals whose name is not a reader's word."""


@dataclass(frozen=True, slots=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    ident: str
    title: str
    note: str
    wide: str
    narrow: str
    legend: tuple[Series, ...]
    summary: Table
    detail: Table | None = None
    marked: bool = False
    """True when left-out steps are hatched in it."""
    half: bool = False
    """Two of these stand side by side."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A line chart to draw where at least one of its signals is known on two rows."""

    ident: str
    title: str
    note: str
    y_name: str
    signals: tuple[str, ...]
    share: bool = False


DRIFT = (
    Plan("queue", "Queue depth and rollouts in flight", "A queue near zero starves the trainer; a full one ages.",
         "rollouts", ("queue_depth", "inflight_rollouts", "queue_capacity")),
    Plan("staleness", "Staleness", "Versions between the model that generated and the model that trains.",
         "versions", ("staleness_mean", "staleness_max")),
    Plan("lengths", "Response length", "Growing answers move work to the generator.", "tokens",
         ("resp_len_mean", "resp_len_p50", "resp_len_p99", "resp_len_max", "prompt_len_mean")),
    Plan("turns", "Tool calls and turns", "More turns mean more prefill and more waiting on tools.", "per rollout",
         ("tool_calls_mean", "turns_mean")),
    Plan("reward", "Reward", "Mean raw reward of the trained rollouts.", "reward", ("reward_mean",)),
    Plan("signal", "Groups and answers that teach nothing", "Groups without advantage and answers cut at the cap.",
         "share", ("zero_adv_frac", "solved_all_frac", "solved_none_frac", "truncated_frac"), share=True),
    Plan("entropy", "Entropy", "Token entropy of the model; near zero it has collapsed.", "nats", ("entropy",)),
)  # fmt: skip

ENGINES = (
    Plan("engine", "Requests in the engines", "A queue inside the engines means that they are full.", "requests",
         ("running", "queued", "running_limit")),
    Plan("kv", "KV cache in use", "Near 100% the engines preempt or refuse.", "share",
         ("kv_usage_frac", "prefix_hit_frac"), share=True),
    Plan("tokens", "Tokens per second", "Prompt tokens are prefill, generated tokens are decode.", "tokens/s",
         ("prompt_tokens_per_s", "decode_tokens_per_s")),
)  # fmt: skip


def pictures_of(material: Material) -> tuple[Picture, ...]:
    """Every picture that this data carries, in reading order. None for an empty snapshot."""
    snapshot = material.snapshot
    rows, engine_rows = thin(snapshot.rows), thin(snapshot.engine_rows)
    left_out = excluded_positions(rows, snapshot)
    found: list[Picture | None] = [
        _steps(material, rows, left_out),
        idle(rows, left_out),
        _split(material.advice.split_curve),
    ]
    found += [drawn(plan, rows, "step", left_out) for plan in DRIFT]
    found += [
        drawn(plan, engine_rows, "scrape", frozenset()) or drawn(plan, rows, "step", left_out) for plan in ENGINES
    ]
    return tuple(p for p in found if p is not None)


def thin(rows: Sequence[Row], most: int = MOST_ROWS) -> tuple[Row, ...]:
    """At most `most` rows; neighbours are folded by each signal's own rule."""
    if len(rows) <= most:
        return tuple(rows)
    size = -(-len(rows) // most)
    merged = []
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size]
        values = {name: value for name, (value, _) in fold_rows(chunk).items()}
        weight = sum(r.weight for r in chunk)
        last = chunk[-1].last_step if chunk[-1].last_step is not None else chunk[-1].step
        merged.append(Row(values, chunk[0].step, chunk[0].time_s, weight, last))
    return tuple(merged)


def excluded_positions(rows: Sequence[Row], snapshot: Snapshot) -> frozenset[int]:
    """Positions of rows that stand for dropped steps only."""
    dropped = {d.step for d in snapshot.window.dropped}
    return frozenset(
        i for i, row in enumerate(rows) if row.step in dropped and (row.last_step is None or row.last_step == row.step)
    )


def axis(rows: Sequence[Row], unit: str) -> tuple[tuple[float, ...], str]:
    """Positions of the rows: their step, else seconds since the first, else their number."""
    steps = [float(r.step) for r in rows if r.step is not None]
    if len(steps) == len(rows) and all(b > a for a, b in pairwise(steps)):
        return tuple(steps), "step"
    times = [r.time_s for r in rows if r.time_s is not None]
    if len(times) == len(rows) and all(b > a for a, b in pairwise(times)):
        return tuple(t - times[0] for t in times), "seconds"
    return tuple(float(i) for i in range(1, len(rows) + 1)), unit


def phases(row: Row, mode: Mode) -> dict[str, float]:
    """The seconds of one step by phase, closed by what no phase accounts for. Empty when no step time is known."""
    step = row.values.get("step_s")
    if step is None:
        return {}
    found = {}
    for name in phases_of(mode, row.values):
        value = phase_s(row.values, name)
        if value is not None and value > 0:
            found[name] = value
    return found | {"unaccounted": max(0.0, step - sum(found.values()))}


def plain(name: str) -> str:
    """A signal's name for people: `response mean`, `no advantage`."""
    short = LABELS.get(name) or name.replace("resp_len", "response").replace("prompt_len", "prompt")
    return short.removesuffix("_frac").replace("_", " ")


def _steps(material: Material, rows: tuple[Row, ...], left_out: frozenset[int]) -> Picture | None:
    split_up = [phases(row, material.topology.mode) for row in rows]
    names = [name for name in TONES if any(name in p for p in split_up)]
    budget = material.advice.diagnosis.budget
    if not names or names == ["unaccounted"]:
        return None
    series = tuple(Series(NAMES.get(n, n), tuple(p.get(n) for p in split_up), TONES[n]) for n in names)
    x, x_name = axis(rows, "step")
    chart = Chart("steps", "Seconds of each step by phase", x, x_name, "s", series, left_out)
    note = "Seconds of each step by phase."
    if left_out:
        note += " Hatched steps are left out of rates and trends, not of this budget."
    if any(row.weight > 1 for row in rows):
        note += " Each bar is the mean of neighbouring steps."
    summary = _budget_table(budget) if budget else ends_table(series, "s")
    return picture(chart, "Where the step goes", note, pictures.stacked, summary)


def _budget_table(budget: Iterable[Phase]) -> Table:
    rows = tuple(
        (p.name, f"{words.figure(p.seconds)} s", words.percent(p.frac)) for p in budget if abs(p.frac) >= 0.0005
    )
    return Table(("phase", "a step", "share"), rows)


def idle(rows: tuple[Row, ...], left_out: frozenset[int]) -> Picture | None:
    def share(name: str) -> tuple[float | None, ...]:
        return tuple(_over(row.values.get(name), row.values.get("step_s")) for row in rows)

    def direct(name: str) -> tuple[float | None, ...]:
        return tuple(row.values.get(name) for row in rows)

    candidates = (
        Series("trainer idle", share("trainer_wait_s"), 3),
        Series("generator gated", share("generator_wait_s"), 0),
        Series("generator utilisation", direct("generator_util_frac"), 1, dashed=True),
        Series("GPU utilisation by the driver", direct("gpu_util_frac"), 2, dashed=True),
        Series("GPUs idle while generating", direct("gpu_idle_in_rollout_frac"), 5),
    )
    series = tuple(s for s in candidates if any(v is not None for v in s.values))
    if not series or len(rows) < 2:
        return None
    x, x_name = axis(rows, "step")
    chart = Chart("idle", "Idle and busy shares of each step", x, x_name, "share", series, left_out, share=True)
    note = "Idle: the side waits for the other. Busy shares are dashed."
    return picture(chart, "Idle and utilisation", note, pictures.lines, ends_table(series, "1", words.percent))


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None or whole <= 0 else min(1.0, part / whole)


def drawn(plan: Plan, rows: tuple[Row, ...], unit: str, left_out: frozenset[int]) -> Picture | None:
    columns = [(n, tuple(row.values.get(n) for row in rows)) for n in plan.signals]
    series = tuple(
        Series(plain(name), values, (0, 3, 1, 2, 8)[i], dashed=name.endswith(("_limit", "_capacity")))
        for i, (name, values) in enumerate(columns)
        if sum(v is not None for v in values) >= 2
    )
    if not series:
        return None
    x, x_name = axis(rows, unit)
    chart = Chart(plan.ident, plan.title, x, x_name, plan.y_name, series, left_out, plan.share)
    how = words.percent if plan.share else words.figure
    return picture(chart, plan.title, plan.note, pictures.lines, ends_table(series, plan.y_name, how), half=True)


def ends_table(series: Iterable[Series], unit: str, how: Callable[[float], str] = words.figure) -> Table:
    rows = []
    for s in series:
        known = [v for v in s.values if v is not None]
        rows.append((s.name, how(known[0]), how(known[-1]), how(sum(v / len(known) for v in known))))
    name = "" if unit == "1" else unit
    return Table((name, "first", "last", "mean"), tuple(rows))


def picture(
    chart: Chart, title: str, note: str, draw: Callable[[Chart, int], str], summary: Table, *, half: bool = False
) -> Picture:
    body = tuple(
        (words.figure(x), *(words.figure(s.values[i]) for s in chart.series), "left out" if i in chart.excluded else "")
        for i, x in enumerate(chart.x)
    )
    detail = Table((chart.x_name, *(s.name for s in chart.series), ""), body)
    wide, narrow = draw(chart, HALF if half else WIDE), draw(replace(chart, ident=f"{chart.ident}-n"), NARROW)
    return Picture(chart.ident, title, note, wide, narrow, chart.series, summary, detail, bool(chart.excluded), half)


def _split(curve: SplitCurve | None) -> Picture | None:
    if curve is None or len(curve.points) < 2:
        return None
    rows = tuple(
        (
            f"{p.gpus_trainer} : {p.gpus_generator}",
            words.percent(p.throughput.mean),
            f"{100 * p.throughput.low:.3g}..{100 * p.throughput.high:.3g}",
            _remark(curve, p),
        )
        for p in curve.points
    )
    note = "Rollouts per second as a share of now for every split (trainer : generator); the band is the 80% interval."
    if any(not p.legal for p in curve.points):
        note += " Hollow: not legal for this framework."
    wide, narrow = pictures.split(curve, "split", WIDE), pictures.split(curve, "split-n", NARROW)
    table = Table(("split", "of now", "80%", ""), rows)
    return Picture("split", "Throughput against split", note, wide, narrow, (), table)


def _remark(curve: SplitCurve, p: SplitPoint) -> str:
    if p.gpus_trainer == curve.current_gpus_trainer:
        return "now"
    if p.gpus_trainer == curve.proposed_gpus_trainer:
        return "proposed"
    return "" if p.legal else "not legal"
