"""The answer to one question, in words and as JSON."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from policies.prospects import Value
from policies.questions import Gpus, Reply, State
from tuner.answers import advise as answers
from tuner.answers import whatif
from tuner.report.answer import finite
from tuner.report.text import Screen
from tuner.report.words import figure
from tuner.version import VERSION

LABEL = 9
"""Columns of the word in front of each part."""


def build(reply: Reply | None, settings: Mapping[str, Value], why_not: str) -> whatif.Asked:
    """The JSON answer; every number finite or null."""
    return _unanswered(settings, why_not) if reply is None else _answered(reply)


def _unanswered(settings: Mapping[str, Value], why_not: str) -> whatif.Asked:
    return whatif.Asked(
        schema_version=1,
        product_version=VERSION,
        settings=dict(settings),
        headline=f"The model cannot be calibrated on this data: {why_not}.",
        calibrated=False,
        now=None,
        then=None,
        gain_frac=None,
        limits=[],
        illegal=[],
        gpus=None,
        stopped=None,
        parameters=[],
        unidentified=[],
        assumed=[],
        weak=[],
        simulated=None,
        residuals=[],
    )


def _answered(reply: Reply) -> whatif.Asked:
    gain = reply.gain_frac
    return whatif.Asked(
        schema_version=1,
        product_version=VERSION,
        settings=dict(reply.settings),
        headline=headline(reply),
        calibrated=True,
        now=_state(reply.now),
        then=_state(reply.then),
        gain_frac=answers.Interval(low=gain.low, mean=gain.mean, high=gain.high),
        limits=[
            whatif.Limiter(name=limit.name, now=limit.now, raised=limit.raised, gain_frac=limit.gain_frac)
            for limit in reply.limits
            if finite(limit.gain_frac) is not None
        ],
        illegal=list(reply.illegal),
        gpus=None if reply.gpus is None else _gpus(reply.gpus),
        stopped=reply.stopped,
        parameters=list(reply.parameters),
        unidentified=list(reply.unidentified),
        assumed=list(reply.assumed),
        weak=list(reply.weak),
        simulated=reply.simulated,
        residuals=[
            whatif.Residual(signal=signal, measured=measured, predicted=predicted)
            for signal, (measured, predicted) in reply.residuals.items()
        ],
    )


def _state(state: State) -> whatif.State:
    return whatif.State(
        step_s=state.step_s,
        rollouts_per_s=state.rollouts_per_s,
        useful_rollouts_per_s=state.useful_rollouts_per_s,
        trainer_idle_frac=min(1.0, max(0.0, state.trainer_idle_frac)),
        generator_busy_frac=min(1.0, max(0.0, state.generator_busy_frac)),
        staleness_mean=state.staleness_mean,
    )


def _gpus(gpus: Gpus) -> whatif.Gpus:
    return whatif.Gpus(has=gpus.has, used=gpus.used, asked=gpus.asked, more=gpus.asked - gpus.has)


def headline(reply: Reply) -> str:
    """One sentence with numbers."""
    what = ", ".join(f"{name} {_told(value)}" for name, value in reply.settings.items()) + _other_gpus(reply.gpus)
    if reply.stopped is not None:
        return f"With {what} the job stands still: {reply.stopped}."
    gain, now, then = reply.gain_frac, reply.now, reply.then
    legal = f" Not legal: {reply.illegal[0]}." if reply.illegal else ""
    if now == then:
        why = "it is in force already, or this job's mode makes no use of it"
        return f"With {what}: nothing changes by this model; {why}.{legal}"
    return (
        f"With {what}: {gain.mean:+.0%} useful rollouts per second (80 %: {gain.low:+.0%} .. {gain.high:+.0%}), the "
        f"trainer idle for {then.trainer_idle_frac:.0%} instead of {now.trainer_idle_frac:.0%}.{legal}"
    )


def _other_gpus(gpus: Gpus | None) -> str:
    """
    >>> _other_gpus(Gpus(has=32, used=32, asked=56))
    ' (24 GPUs more than the 32 of the job)'
    """
    if gpus is None or gpus.asked == gpus.used:
        return ""
    if gpus.asked > gpus.has:
        return f" ({_gpus_told(gpus.asked - gpus.has)} more than the {gpus.has} of the job)"
    if gpus.asked < gpus.has:
        return f" (so that neither side uses {gpus.has - gpus.asked} of the job's {gpus.has} GPUs)"
    return f" (with {_gpus_told(gpus.asked - gpus.used)} that neither side uses today)"


def _gpus_told(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _told(value: Value) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else f"{value:g}"


def render(asked: whatif.Asked, screen: Screen) -> str:
    """Headline, now and then side by side, what limits then, and what the data leave open."""
    width = max(60, screen.columns)
    lines = [*textwrap.wrap(asked.headline, width), ""]
    lines += _table(asked)
    raised = [f"{one.name} {one.now:g} -> {one.raised:g}: {one.gain_frac:+.0%}" for one in asked.limits]
    for label, entries in (
        ("Illegal", asked.illegal),
        ("Limits", raised),
        ("Open", asked.unidentified),
        ("Assumed", [", ".join(asked.assumed)] if asked.assumed else []),
        ("Weak", asked.weak if asked.simulated is None else [asked.simulated]),
    ):
        lines += _part(label, entries, width)
    return "\n".join(lines).rstrip() + "\n"


def _table(asked: whatif.Asked) -> Iterator[str]:
    if asked.now is None or asked.then is None:
        return
    yield f"{'':{LABEL}}{'':26}{'now':>10}{'then':>10}"
    for name, title in (
        ("step_s", "seconds a step"),
        ("useful_rollouts_per_s", "useful rollouts a second"),
        ("trainer_idle_frac", "trainer idle (share)"),
        ("generator_busy_frac", "generator busy (share)"),
        ("staleness_mean", "staleness (versions)"),
    ):
        now, then = asked.now.model_dump()[name], asked.then.model_dump()[name]
        if now is not None and then is not None:
            yield f"{'':{LABEL}}{title:26}{figure(now):>10}{figure(then):>10}"
    yield ""


def _part(label: str, entries: Iterable[str], width: int) -> Iterator[str]:
    for i, entry in enumerate(entries):
        head = f"{label if i == 0 else '':{LABEL}}"
        yield from textwrap.wrap(entry, width, initial_indent=head, subsequent_indent=" " * LABEL)
