"""What became of a simulated job, in words and as JSON: figures over the run, waste by cause, what would help."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from policies.levers import Lever
from simulators.drift import By
from simulators.pipeline import SimulatedPlant
from simulators.scenario import Scenario
from simulators.signals import SIGNALS
from simulators.step_log import StepLog
from simulators.unused import unused_in
from tuner.answers import simulate as answer
from tuner.report.answer import finite
from tuner.report.text import Screen
from tuner.report.words import figure, percent
from tuner.version import VERSION

USEFUL, TRAINER_IDLE, GENERATOR_USE = "useful_samples_per_s", "trainer_idle_frac", "generator_util_frac"
"""The first two are not measured by a job: computed from what truly happened."""
FIGURES = (
    *(USEFUL, "gen_samples_per_s", "step_s", TRAINER_IDLE, GENERATOR_USE, "inflight_rollouts", "queue_depth"),
    *("staleness_mean", "staleness_max", "resp_len_mean", "turns_mean", "rollout_latency_s", "sandbox_start_s"),
)
"""What is shown of a run, where it is known."""
NAMES = {
    USEFUL: "useful rollouts/s",
    "gen_samples_per_s": "trained rollouts/s",
    "step_s": "step, s",
    TRAINER_IDLE: "trainer idle",
    GENERATOR_USE: "generator in use",
    "inflight_rollouts": "in flight",
    "queue_depth": "queue, rollouts",
    "staleness_mean": "staleness, versions",
    "staleness_max": "staleness, worst",
    "resp_len_mean": "response, tokens",
    "turns_mean": "turns",
    "rollout_latency_s": "rollout, s",
    "sandbox_start_s": "sandbox start, s",
}
LEFT_OUT = ("turns_mean", "gen_samples_per_s", "staleness_max", "rollout_latency_s", "queue_depth", "inflight_rollouts")
"""What a small screen does without, in this order; --json and --html have it."""
PARTS = 5
"""First, middle and last are this part of the steps each."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished simulation with all that was asked about it."""

    name: str
    path: str
    scenario: Scenario
    seed: int
    settings: tuple[str, ...]
    plant: SimulatedPlant
    advice: str | None = None
    levers: tuple[Lever, ...] = ()


def build(run: Run) -> answer.Simulated:
    """The JSON answer; every number finite or null."""
    log = run.plant.log
    waste = waste_of(log)
    figures = [f for name in FIGURES if (f := figure_of(name, log)) is not None]
    return answer.Simulated(
        schema_version=1,
        product_version=VERSION,
        scenario=answer.Story(
            name=run.name,
            path=run.path,
            title=run.scenario.title,
            outside_class=run.scenario.outside_class,
            seed=run.seed,
            settings=list(run.settings),
        ),
        headline=_headline(run, figures, waste),
        stopped=run.plant.stopped,
        totals=_totals(run),
        figures=figures,
        waste=waste,
        events=_happenings(run),
        not_reached=_not_reached(run),
        unused_gpus=unused_in(run.scenario),
        advice=run.advice,
        levers=[_lever(lever) for lever in run.levers],
        steps=[_step(entry) for entry in log],
    )


def true_values(entry: StepLog) -> dict[str, float]:
    """The signals of a step with the shares that no job measures."""
    values = dict(entry.row.values)
    seconds = values["step_s"]
    if seconds > 0.0:
        values |= {USEFUL: entry.useful / seconds, TRAINER_IDLE: values["trainer_wait_s"] / seconds}
    return values


def figure_of(name: str, log: Sequence[StepLog]) -> answer.Figure | None:
    """Means of a signal over parts of the run; None where no step has it."""
    size = max(1, len(log) // PARTS)
    middle = (len(log) - size) // 2
    parts = (log[:size], log[middle : middle + size], log[-size:], log)
    first, mid, last, whole = (_mean(name, part) for part in parts)
    if whole is None:
        return None
    unit = SIGNALS[name].unit if name in SIGNALS else "rollouts/s" if name == USEFUL else "1"
    return answer.Figure(signal=name, unit=unit, first=first, middle=mid, last=last, whole=whole)


def _mean(name: str, log: Sequence[StepLog]) -> float | None:
    """By wall time, but for the time of a step, which is one a step; the worst of what is a worst."""
    values = [(v[name], v["step_s"]) for v in map(true_values, log) if name in v]
    if not values:
        return None
    if name.endswith("_max"):
        return max(value for value, _ in values)
    if name == "step_s":
        return sum(value for value, _ in values) / len(values)
    seconds = sum(s for _, s in values)
    return finite(sum(value * s for value, s in values) / seconds) if seconds > 0.0 else None


def waste_of(log: Sequence[StepLog]) -> dict[str, float]:
    """Share of dispatched rollouts by cause, the largest first; causes that nothing was lost to are left out."""
    dispatched = sum(entry.row.values["dispatched"] for entry in log)
    causes = {cause for entry in log for cause in entry.waste}
    lost = {cause: sum(entry.waste.get(cause, 0.0) for entry in log) for cause in causes}
    shares = {cause: min(1.0, count / dispatched) for cause, count in lost.items() if count > 0 and dispatched > 0}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _headline(run: Run, figures: Iterable[answer.Figure], waste: Mapping[str, float]) -> str:
    whole = {f.signal: f.whole for f in figures}
    plant = run.plant
    if plant.stopped is not None:
        return f"The job stands still after {plant.step} steps and {_duration(plant.now_s)}: {plant.stopped}."
    if not plant.log:
        return f"Not one trainer step is finished within {_duration(plant.now_s)}."
    lost = sum(waste.values())
    return (
        f"{figure(whole[USEFUL])} useful rollouts/s over {plant.step:,} steps ({_duration(plant.now_s)}): the trainer "
        f"waits {percent(_rounded(whole[TRAINER_IDLE]))} of the time, the generator is used {_used(whole)}, "
        f"{percent(_rounded(lost))} of the started rollouts are not trained."
    )


def _used(whole: Mapping[str, float | None]) -> str:
    return percent(_rounded(whole.get(GENERATOR_USE)))


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 2)


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"


def _totals(run: Run) -> answer.Totals:
    log, total = run.plant.log, run.scenario.topology.gpus_total

    def summed(name: str) -> float:
        return sum(entry.row.values[name] for entry in log)

    return answer.Totals(
        steps=run.plant.step,
        seconds=run.plant.now_s,
        gpu_hours=None if total is None else total * run.plant.now_s / 3600,
        dispatched_rollouts=summed("dispatched"),
        trained_rollouts=summed("accepted"),
        useful_rollouts=sum(entry.useful for entry in log),
        trained_tokens=summed("tokens_total"),
    )


def _happenings(run: Run) -> list[answer.Happening]:
    """What began and ended, in the order in which it did."""
    found = []
    for event in run.scenario.event:
        for at, what in ((event.at, f"{event.kind}"), (event.until, f"{event.kind} ends")):
            place = None if at is None else _place(run.plant, event.by.value, at)
            if place is not None:
                found.append(answer.Happening(step=place[0], time_s=place[1], what=what))
    return sorted(found, key=lambda h: h.time_s)


def _not_reached(run: Run) -> list[str]:
    """Of the story, what would have begun after the end of the run."""
    scenario, at = run.scenario, {By.STEP: float(run.plant.step), By.TIME: run.plant.now_s}
    begins = [(f"drift.{place}.start", drift.start, drift.by) for place, drift in enumerate(scenario.drift)]
    begins += [(f"event.{place}.at", event.at, event.by) for place, event in enumerate(scenario.event)]
    return [f"{key}={begin:g}" for key, begin, by in begins if begin >= max(1.0, at[by])]


def _place(plant: SimulatedPlant, by: str, at: float) -> tuple[int, float] | None:
    """Step and second of a moment given by one of them; None from the end of the run on."""
    if by == "time":
        done = sum(1 for entry in plant.log if (entry.row.time_s or 0.0) <= at)
        return (done, at) if at < plant.now_s else None
    times = [0.0, *(entry.row.time_s or 0.0 for entry in plant.log)]
    return (int(at), times[int(at)]) if int(at) < max(1, len(plant.log)) else None


def _lever(lever: Lever) -> answer.LeverAnswer:
    return answer.LeverAnswer(
        name=lever.name,
        change=lever.change,
        bound_low_frac=None if lever.bound is None else finite(lever.bound.low),
        bound_high_frac=None if lever.bound is None else finite(lever.bound.high),
        simulated_frac=finite(lever.simulated_frac),
        error_frac=finite(lever.error_frac),
        note=lever.note,
    )


def _step(entry: StepLog) -> dict[str, float]:
    values = {"step": float(entry.row.step or 0), "time_s": entry.row.time_s or 0.0} | true_values(entry)
    lost = {f"waste_{cause}": float(count) for cause, count in entry.waste.items() if count}
    return {name: value for name, value in (values | lost).items() if isfinite(value)}


# ---- words ----


def render(a: answer.Simulated, screen: Screen) -> str:
    """Headline, figures in columns, waste, what the advisor says, what would help: one screen."""
    shown = list(a.figures)
    lines = _lines(a, shown, screen)
    for name in LEFT_OUT:
        if len(lines) > screen.rows:
            shown = [f for f in shown if f.signal != name]
            lines = _lines(a, shown, screen)
    return "\n".join(lines).rstrip() + "\n"


def _lines(a: answer.Simulated, figures: Sequence[answer.Figure], screen: Screen) -> list[str]:
    width = max(60, screen.columns)
    lines = [*textwrap.wrap(a.headline, width), origin(a), "", *_table(figures, width)]
    lines += [""] if figures else []
    if a.waste:
        lost = ", ".join(f"{cause} {percent(_rounded(share))}" for cause, share in a.waste.items())
        lines += _entry("Waste", f"of the started rollouts: {lost}", width)
    if a.events:
        lines += _entry("Events", ", ".join(f"{e.what} at step {e.step:,}" for e in a.events), width)
    if a.not_reached:
        lines += _entry("Not reached", f"{', '.join(a.not_reached)}: the run was over; lengthen [horizon]", width)
    for sentence in a.unused_gpus:
        lines += _entry("Unused GPUs", sentence, width)
    if a.advice:
        lines += _entry("Advice", f"`advise` on this run's metrics says: {a.advice}", width)
    return lines + [line for lever in a.levers for line in _entry(*told(lever), width)]


def origin(a: answer.Simulated) -> str:
    s = a.scenario
    changed = f", with {', '.join(s.settings)}" if s.settings else ""
    outside = "; outside the analytic model's class" if s.outside_class else ""
    return f"{s.name}, seed {s.seed}{changed}{outside}"


def figure_rows(figures: Sequence[answer.Figure]) -> list[tuple[str, ...]]:
    """A line of words for each figure: its name, then first fifth, middle, last fifth, whole run."""
    return [(NAMES[f.signal], *(_shown(f, v) for v in (f.first, f.middle, f.last, f.whole))) for f in figures]


def _table(figures: Sequence[answer.Figure], width: int) -> list[str]:
    if not figures:
        return []
    rows = [("", "first fifth", "middle", "last fifth", "whole run"), *figure_rows(figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [_aligned(row, widths)[:width] for row in rows]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *cells = row
    return "  ".join([name.ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells, widths[1:], strict=True))]).rstrip()


def _shown(f: answer.Figure, value: float | None) -> str:
    return percent(_rounded(value)) if f.unit == "1" else figure(value)


def told(lever: answer.LeverAnswer) -> tuple[str, str]:
    parts = []
    if lever.bound_low_frac is not None and lever.bound_high_frac is not None:
        parts.append(f"at most {lever.bound_low_frac:+.0%}..{lever.bound_high_frac:+.0%} by rates")
    if lever.simulated_frac is not None:
        error = "" if lever.error_frac is None else f" (se {lever.error_frac:.1%})"
        parts.append(f"{lever.simulated_frac:+.1%} simulated{error}")
    parts += [lever.note] if lever.note else []
    return lever.name.capitalize(), f"{lever.change}: {'; '.join(parts)}"


def _entry(label: str, text: str, width: int) -> list[str]:
    first, rest = label.ljust(12), " " * 12
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, max_lines=3, placeholder=" ...")
