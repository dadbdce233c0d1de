"""How numbers and knobs are written for people: three figures, the unit, percent in prose only."""

from collections.abc import Iterable

from policies import wording
from policies.wording import HUGE
from tuner.answers import advise as answers

UNKNOWN = "?"
MORE = {"up": "more", "down": "fewer"}
"""What is proposed where no number can be."""
VERBS = {"up": "raise", "down": "lower", "on": "turn on", "off": "turn off", "set": "change"}
"""A direction as an order."""


def figure(value: answers.Value) -> str:
    """A value at three figures: `1.95`, `0.004`, `18,294`, `on`; `?` when unknown.

    >>> figure(1.9512), figure(18294.0), figure(0.00412), figure(True), figure(None)
    ('1.95', '18,294', '0.00412', 'on', '?')
    """
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < HUGE else f"{value:.3g}"
    return wording.figure(value)


def percent(frac: float | None) -> str:
    """Three figures, and never the noise of a float: what is under a thousandth of a percent is `0%`."""
    return UNKNOWN if frac is None else f"{round(100 * frac, 3) + 0.0:.3g}%"


def gain(interval: answers.Interval | None) -> str:
    """`+12% (6..19)`, the 80% interval in brackets."""
    if interval is None:
        return "not tellable"
    low, mean, high = (100 * v for v in (interval.low, interval.mean, interval.high))
    return f"{'+' if mean > 0 else ''}{_short(mean)}% ({_short(low)}..{_short(high)})"


def _short(value: float) -> str:
    """Two figures, never in powers of ten: `5.5`, `88`, `160`."""
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"


def usd(value: float | None, per: str) -> str:
    return UNKNOWN if value is None else f"${value:,.2f} {per}"


def move(r: answers.Recommendation) -> tuple[str, str]:
    """The values now and proposed, with the unit on the second."""
    unit = "" if r.unit in ("", "1") or isinstance(r.proposed, bool | str) else f" {r.unit}"
    proposed = MORE.get(str(r.direction), str(r.direction)) if r.proposed is None else figure(r.proposed)
    return "unknown" if r.current is None else figure(r.current), f"{proposed}{unit}"


def takes_effect(r: answers.Recommendation) -> str:
    if r.change is None:
        return "unknown"
    seconds = "" if not r.cost.seconds else f", {figure(r.cost.seconds)} s"
    return {"boundary": "next step"}.get(str(r.change), str(r.change)) + seconds


def job_line(answer: answers.Answer) -> str:
    """`verl 0.7, overlapped; 256 GPUs: 64 trainer + 192 generator; steps 12..35`."""
    job, window = answer.job, answer.window
    versions = {s.version for s in answer.source if s.version and s.framework == job.framework}
    name = " ".join([job.framework or "unknown framework", *sorted(versions)[:1]])
    parts = [f"{name}, {job.mode if job.mode != 'unknown' else 'mode unknown'}"]
    sides = [
        f"{count} {side}"
        for count, side in ((job.gpus_trainer, "trainer"), (job.gpus_generator, "generator"))
        if count is not None
    ]
    total = (
        f"{job.gpus_total:,} GPU{'s' * (job.gpus_total != 1)}"
        if job.gpus_total is not None
        else "GPUs"
        if sides
        else "GPUs unknown"
    )
    parts.append(f"{total}: {' + '.join(sides)}" if sides else total)
    if window.steps:
        ends = dict.fromkeys(str(step) for step in (window.from_step, window.to_step) if step is not None)
        span = f" ({'..'.join(ends)})" if ends else ""
        seconds = f", {figure(window.seconds)} s" if window.seconds is not None else ""
        parts.append(f"{window.steps:,} step{'s' * (window.steps != 1)}{span}{seconds}")
    elif window.seconds:
        parts.append(f"{figure(window.seconds)} s of engine figures")
    return "; ".join(parts)


def left_out(answer: answers.Answer) -> str:
    """`3 steps left out of rates and trends: start-up (12), evaluation (20, 30)`; empty when none was."""
    dropped = answer.window.dropped_steps
    if not dropped:
        return ""
    reasons: dict[str, list[int]] = {}
    for d in dropped:
        reasons.setdefault(d.why, []).append(d.step)
    told = [
        f"{why} ({', '.join(map(str, steps[:4]))}{', ...' if len(steps) > 4 else ''})" for why, steps in reasons.items()
    ]
    count = f"{len(dropped)} step{'s' * (len(dropped) != 1)}"
    return f"{count} left out of rates and trends: {'; '.join(told)}"


def cost_line(answer: answers.Answer) -> str:
    """The money in one line; empty without a price."""
    if answer.cost is None:
        return ""
    c = answer.cost
    parts = [
        usd(value, per)
        for value, per in (
            (c.usd_per_mtok, "per Mtok trained"),
            (c.idle_usd_per_hour, "an hour idle"),
            (c.wasted_usd_per_hour, "an hour on unused rollouts"),
        )
        if value is not None
    ]
    unknown = "not tellable without the job's GPUs and the tokens it trains"
    return f"{', '.join(parts) or unknown} (at {usd(c.usd_per_gpu_hour, 'a GPU-hour')})"


def worst_first(findings: Iterable[answers.Finding]) -> list[answers.Finding]:
    order = {"critical": 0, "warning": 1, "info": 2}
    return sorted(findings, key=lambda f: order[str(f.severity)])


def warnings(answer: answers.Answer) -> list[tuple[str, str]]:
    """(what not to do, why), one for each reason: `raise gpus_generator or max_in_flight`."""
    moves: dict[str, dict[str, list[str]]] = {}
    for d in answer.do_not:
        moves.setdefault(d.reason, {}).setdefault(VERBS[str(d.direction)], []).append(d.knob)
    return [
        (", ".join(f"{verb} {' or '.join(knobs)}" for verb, knobs in verbs.items()), reason)
        for reason, verbs in moves.items()
    ]


def gaps(answer: answers.Answer) -> list[str]:
    """What to log, in order; what one step brings is told together, and what a recommendation says is not repeated."""
    said = " ".join(r.reason for r in answer.recommendations if r.knob == "logging")
    signals: dict[str, list[str]] = {}
    for m in (m for m in answer.missing if m.how_to_get_it not in said):
        signals.setdefault(m.how_to_get_it, []).append(m.signal)
    return [f"{', '.join(names)}: {how}" for how, names in signals.items()]
