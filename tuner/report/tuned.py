"""A study's outcome in words for a terminal, as a fragment of a job file, and as data for JSON."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite

from policies.base import Interval
from policies.settings import SPLIT
from tuner.answers import advise as answers
from tuner.answers.tune import Comparison, Trial, TunedAnswer
from tuner.answers.tune import Setting as AnswerSetting
from tuner.report.evaluated import table
from tuner.report.progress import Progress
from tuner.report.words import UNKNOWN, figure, percent
from tuner.studies.knobs import LEARNING
from tuner.studies.objectives import OBJECTIVES
from tuner.studies.opening import shown
from tuner.studies.outcome import Compared, Outcome, Setting, Told
from tuner.studies.space import LIMITED, PARAMETER, Value
from tuner.studies.storage import DONE, Ledger
from tuner.version import VERSION

HEAD = ("setting", "now", "found", "does as well")
COMPARED = ("compared", "gain", "staleness", "waste", "bounds")
LEARNING_NOTE = "is learned from: what that does to learning, no simulation here prices"
"""Ends a sentence on a setting that changes what is trained."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """All that a report tells."""

    outcome: Outcome
    wall_s: float
    verdict: str
    recommended: bool


def tuned(outcome: Outcome, wall_s: float) -> Tuned:
    verdict, good = _verdict(outcome)
    return Tuned(outcome, wall_s, verdict, good)


def _verdict(told: Outcome) -> tuple[str, bool]:
    """One honest sentence, and whether the settings found are worth taking."""
    subject = f"the parameters of {told.policy}" if told.policy else "the settings"
    there = told.against_now
    failed = Counter(t.why for t in told.trials if t.state == "fail" and t.why)
    if failed and not _finished(told):
        ((why, _),) = failed.most_common(1)
        return f"no trial came to its end ({why}): keep {subject} in force", False
    if told.best is None or there is None:
        return f"no trial kept all bounds: keep {subject} in force", False
    if not any(s.value != s.now for s in told.settings):
        return f"{subject} in force are the best that {_finished(told)} trials found: keep them", False
    where = _where(told)
    if there.broken:
        return f"{where} {subject} found break a bound ({', '.join(there.broken)}): keep those in force", False
    words = f"{_gain(there.gain)} useful rollouts per GPU-hour on {where}"
    if told.objectives[0] not in ("useful", "worst"):
        title = OBJECTIVES[told.objectives[0]].title
        return f"the lowest {title} that keeps the bounds; beside it {words}", True
    if there.gain.low <= 0.0:
        kind = "in doubt" if told.doubt else "within noise"
        return f"the gain is {kind} ({words}): keep {subject} in force", False
    return f"{words}", True


def _where(told: Outcome) -> str:
    count = len(told.against_now.cases) if told.against_now is not None else 0
    if told.doubt:
        return f"{count} possible jobs behind the recording that the search has not seen"
    kind = "runs of scenarios that the search has not seen" if told.unseen else "seeds that the search has not seen"
    return f"{count} {kind}"


def _finished(told: Outcome) -> int:
    return sum(told.counts.get(state.name.lower(), 0) for state in DONE)


# ---- text ----


def render(told: Tuned) -> str:
    o = told.outcome
    lines = [f"{headline(told)}", ""]
    if o.best is not None:
        lines += [*table(HEAD, [cells(s) for s in o.settings if s.name != LIMITED]), ""]
        lines += [*table(COMPARED, comparisons(o)), ""]
    if o.front:
        lines += [*table(front_head(o), front_rows(o)), ""]
    if o.importances:
        shares = ", ".join(f"{plain(name)} {percent(share)}" for name, share in o.importances.items())
        lines += [f"What decides: {shares} of what the objective varies by.", ""]
    lines += [*notes(told), "", fragment(told).rstrip()]
    return "\n".join(lines) + "\n"


def headline(told: Tuned) -> str:
    text = told.verdict
    return text[0].upper() + text[1:] + "."


def cells(s: Setting) -> tuple[str, ...]:
    return plain(s.name), written(s.now), written(s.value), alike(s) or UNKNOWN


def alike(s: Setting) -> str:
    """The ends of what does as well; nothing where they are unknown."""
    if s.low is None or s.high is None:
        return ""
    return written(s.low) if s.low == s.high else f"{written(s.low)}..{written(s.high)}"


def written(value: Value | None) -> str:
    return "none" if value is None else figure(value)


def plain(name: str) -> str:
    return name.removeprefix(PARAMETER)


def comparisons(o: Outcome) -> list[tuple[str, ...]]:
    named = (("found, against now", o.against_now), ("even split, against now", o.against_default))
    rows = [(name, *_compared(c)) for name, c in named if c is not None]
    if o.searched_gain is not None:
        rows.append(("found, where it was searched", _gain(o.searched_gain), "", "", ""))
    return rows


def _compared(c: Compared) -> tuple[str, ...]:
    ages = f"{figure(_short(c.staleness[1]))} -> {figure(_short(c.staleness[0]))}"
    waste = f"{percent(c.waste_frac[1])} -> {percent(c.waste_frac[0])}"
    return _gain(c.gain), ages, waste, "broken: " + ", ".join(c.broken) if c.broken else "kept"


def _gain(found: Interval) -> str:
    """`+11.9% (11.6..12.2)`; of a single case without an interval."""
    if not (isfinite(found.low) and isfinite(found.high)):
        return f"{found.mean:+.1%}"
    return f"{found.mean:+.1%} ({100 * found.low:.1f}..{100 * found.high:.1f})"


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def front_head(o: Outcome) -> tuple[str, ...]:
    return ("trial", *(f"{name}" for name in o.objectives), *(plain(d.name) for d in o.space))


def front_rows(o: Outcome) -> list[tuple[str, ...]]:
    return [
        (
            str(t.number),
            *(told_value(name, v) for name, v in zip(o.objectives, t.values, strict=True)),
            *(written(t.point.get(d.name)) for d in o.space),
        )
        for t in ordered_front(o)
    ]


def ordered_front(o: Outcome) -> list[Told]:
    """The best by the first objective first."""
    return sorted(o.front, key=lambda t: t.values, reverse=OBJECTIVES[o.objectives[0]].better == "maximize")


def told_value(name: str, value: float) -> str:
    return f"{value:+.1%}" if name in ("useful", "worst") else figure(value)


def notes(told: Tuned) -> list[str]:
    o = told.outcome
    reached = " -> ".join(str(n) for n in o.levels)
    size = "" if o.size is None else f" of {o.size:,} points"
    failed = o.counts.get("fail", 0)
    found = [
        f"{_finished(o)} trials{size} by {o.sampler}, {reached} on each level of care, {o.simulations} simulated runs, "
        f"{told.wall_s:.0f} s" + (f"; {failed} failed or were lost with their worker." if failed else "."),
        f"Study {o.study!r} in {shown(o.storage)}: the same command goes on with it, or shows it again.",
    ]
    changed = [s.name for s in o.settings if s.value != s.now]
    found += [f"{name} changes what {LEARNING_NOTE}." for name in changed if name in LEARNING]
    return found


# ---- the fragment ----


def fragment(told: Tuned) -> str:
    """What was found as part of a job file; commented out where it is not recommended."""
    o = told.outcome
    head = [f"# equipoise tune: {headline(told)}", f"# study {o.study!r}, {_finished(o)} trials, seed {o.seed}"]
    changed = [s for s in o.settings if s.value != s.now]
    settings = [line for s in changed if not s.name.startswith(PARAMETER) for line in _setting(o, s)]
    parameters = [_line(s.name.removeprefix(PARAMETER), s) for s in changed if s.name.startswith(PARAMETER)]
    body = ["[setpoints]", *settings] if settings else []
    if parameters:
        body += ["[policy]", f'name = "{o.policy}"', "[policy.parameters]", *parameters]
    if not told.recommended:
        body = [f"# {line}" for line in body]
    return "\n".join([*head, *body]) + "\n"


def _setting(o: Outcome, s: Setting) -> list[str]:
    if s.name == LIMITED or s.value is None:
        return [] if s.value is not False else ["# max_in_flight: take the limit away"]
    if s.name != SPLIT:
        return [_line(s.name, s)]
    total = o.gpus_total
    rest = [] if total is None else [f"gpus_generator = {total - int(s.value)}"]
    return [_line(s.name, s), *rest]


def _line(name: str, s: Setting) -> str:
    value = str(s.value).lower() if isinstance(s.value, bool) else f"{s.value:.6g}" if s.value is not None else ""
    ends = f"{alike(s)} does as well; " if s.low != s.high else ""
    return f"{name} = {value}  # {ends}now {written(s.now)}"


# ---- while it runs ----


class Saying:
    """The progress line: what is done, the best so far, the time left."""

    def __init__(self) -> None:
        self.best: str | None = None

    def __call__(self, done: int, total: int | None, elapsed_s: float) -> str:
        best = "" if self.best is None else f", best so far {self.best}"
        if not total or done <= 0 or done > total:
            return f"tuning{best}"
        left_s = elapsed_s * (total - done) / done
        left = f"{left_s / 60:.0f} min" if left_s >= 90 else f"{left_s + 0.5:.0f} s"
        return f"tuning: {done} of {total} trials{best}, about {left} left"


def teller(progress: Progress, saying: Saying, objective: str, trials: int) -> Callable[[Ledger], None]:
    """Draws the progress line after every trial."""
    pick = max if OBJECTIVES[objective].better == "maximize" else min

    def tell(ledger: Ledger) -> None:
        done = ledger.trials(*DONE)
        kept = [t.values[0] for t in done if t.state is DONE[0] and t.values and not broken(t.constraints)]
        saying.best = None if not kept else told_value(objective, pick(kept))
        progress(len(done), trials)

    return tell


def broken(constraints: Mapping[str, float]) -> bool:
    return any(value > 0.0 for value in constraints.values())


# ---- JSON ----


def to_json(told: Tuned) -> str:
    return answers.to_json(answer_of(told))


def answer_of(told: Tuned) -> TunedAnswer:
    o = told.outcome
    return TunedAnswer(
        schema_version=1,
        product_version=VERSION,
        headline=headline(told),
        recommended=told.recommended,
        study=o.study,
        storage=shown(o.storage),
        objectives=list(o.objectives),
        sampler=o.sampler,
        seed=o.seed,
        policy=o.policy,
        trials=[Trial(**{**asdict(t), "values": list(t.values)}) for t in o.trials],
        counts=dict(o.counts),
        levels=list(o.levels),
        lattice_points=o.size,
        simulated_runs=o.simulations,
        wall_s=told.wall_s,
        settings=[AnswerSetting(name=s.name, now=s.now, found=s.value, low=s.low, high=s.high) for s in o.settings],
        front=[t.number for t in o.front],
        searched_gain=_interval(o.searched_gain),
        against_now=_comparison(o.against_now),
        even_split=_comparison(o.against_default),
        held_out_scenarios=o.unseen,
        importances=dict(o.importances),
        fragment=fragment(told),
    )


def _interval(found: Interval | None) -> answers.Interval | None:
    if found is None or not (isfinite(found.low) and isfinite(found.high)):
        return None
    return answers.Interval(low=found.low, mean=found.mean, high=found.high)


def _comparison(c: Compared | None) -> Comparison | None:
    if c is None:
        return None
    return Comparison(
        point=dict(c.point),
        gain_frac=c.gain.mean,
        interval=_interval(c.gain),
        cases=dict(c.cases),
        staleness_now=c.staleness[1],
        staleness_then=c.staleness[0],
        waste_frac_now=c.waste_frac[1],
        waste_frac_then=c.waste_frac[0],
        broken=list(c.broken),
    )
