"""`equipoise explain`: one decision of a journal as a person would tell it.

What was seen, what limits, what was considered, what the guardrails, the models and a simulator said, what happened
after.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from policies.alternatives import alternatives
from policies.base import Interval
from policies.control import Action, Decision, Hold, HoldCode, View
from policies.diagnosis.verdict import diagnose
from policies.estimators import estimate
from policies.fitted import fit
from policies.options import named
from policies.rules import Rules
from policies.settings import ACTED, values
from policies.viewing import view_of
from simulators.analytic import AnalyticModel
from simulators.limits import binding_limits
from simulators.plant import Setpoints, Status
from tuner.charter import Charter, decoded, rules_of
from tuner.errors import ConfigError
from tuner.hearing import overheard
from tuner.journal import Entry, viewed
from tuner.report.decided import moment
from tuner.report.why_not import why_not

SEEN = (
    ("step_s", "seconds a step"),
    ("trainer_idle_frac", "share of it the trainer waits"),
    ("trainer_wait_s", "seconds of it the trainer waits"),
    ("generator_util_frac", "share of full engines' work"),
    ("resp_len_mean", "response tokens"),
    ("staleness_mean", "versions of staleness"),
)
ENDS = ("is undone", "is stuck", "failed and stays")
"""How the story of a move that came to nothing ends, after its name."""
LIMITS_SHOWN = 3
CONSIDERED_SHOWN, CLOSED_SHOWN = 8, 3
"""Alternatives that are told, and of them those that cannot be."""


@dataclass(frozen=True, slots=True)
class Wish:
    journal: Path
    ident: str | None = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """The story of one decision."""

    ident: str
    at_s: float
    decision: Decision
    seen: tuple[str, ...]
    limits: tuple[str, ...]
    """What binds, by the model of that moment; without one, by the diagnosis."""
    considered: tuple[str, ...]
    """What else the model was asked for, with its gain; empty without a model."""
    law: str
    """The policy's own word at that moment."""
    guards: tuple[str, ...]
    models: str
    simulated: tuple[str, ...]
    """What a simulator answered, and whom."""
    after: tuple[str, ...]


def run(wish: Wish) -> None:
    with closing(viewed(wish.journal)) as journal:
        entries = list(journal.entries())
        place = _place(entries, wish.ident)
        text = journal.charter(journal.size() - len(entries) + place + 1)
    told = told_of(entries, None if text is None else decoded(text), place)
    sys.stdout.write(json.dumps(asdict(told), indent=2, default=str) + "\n" if wish.json else render(told))


def told_of(entries: Sequence[Entry], charter: Charter | None, place: int) -> Told:
    entry, decision = entries[place], entries[place].decision
    rules = None if charter is None else overheard(rules_of(charter), entry.heard)[0]
    before = entries[max(0, place - 1)].state
    view = None if rules is None else view_of(rules, before, entry.seen)
    # Between two reviews a law rests and no model is made for it; whoever asks is told what it would say.
    awake = None if rules is None else view_of(rules, replace(before, memory={}), entry.seen)
    return Told(
        _root(decision.decision_id),
        entry.at_s,
        decision,
        tuple(_seen(entry)),
        () if charter is None else tuple(_limits(charter, entry)),
        () if awake is None else tuple(_considered(awake, decision)),
        "" if view is None or rules is None else _law(rules, view),
        tuple(_guards(decision)),
        "" if decision.verdict is None else decision.verdict.reason,
        tuple(_simulated(entry)),
        tuple(_after(entries[place:], _root(decision.decision_id))) or tuple(_wanted_again(entries[place:])),
    )


def _root(ident: str) -> str:
    return ident.split(".", 1)[0]


def _place(entries: Sequence[Entry], ident: str | None) -> int:
    """The tick that gave a decision its name; of no name, the last move's."""
    if not entries:
        raise ConfigError("no tick is written in this journal yet: there is no decision to explain")
    names = [_root(entry.decision.decision_id) for entry in entries]
    if ident is None:
        begun = [i for i, e in enumerate(entries) if e.decision.action in (Action.APPLY, Action.ASK, Action.ADVISE)]
        if not begun:
            raise ConfigError(
                "nothing was moved or advised in this journal; name a tick to have its hold explained: d1"
            )
        ident = names[begun[-1]]
    if _root(ident) not in names:
        # A tick that served a move already begun has that move's name, not its own.
        within = next((i for i, e in enumerate(entries) if f"d{e.state.tick}" == _root(ident)), None)
        if within is not None:
            sys.stderr.write(f"{ident} is a tick of the move {names[within]}, which is told\n")
            return names.index(names[within])
        raise ConfigError(f"there is no decision {ident} in this journal; they run from {names[0]} to {names[-1]}")
    return names.index(_root(ident))


def _guards(decision: Decision) -> Iterator[str]:
    """Those that changed or held it; the others only by their number. JSON has the whole trail."""
    told = [step for step in decision.trail if step.reason or not step.passed]
    for step in told:
        yield f"{'narrowed' if step.passed else 'held'} by {step.guard}: {step.reason}"
    silent = len(decision.trail) - len(told)
    if silent:
        yield f"{silent} {'others' if told else 'guardrails'} had nothing against it"


def _seen(entry: Entry) -> Iterator[str]:
    for name, words in SEEN:
        value = entry.seen.snapshot.get(name)
        if value is not None:
            yield f"{words}: {value:.4g}"
    yield f"in force: {_setting(entry.seen.in_force)}"


def _limits(charter: Charter, entry: Entry) -> Iterator[str]:
    fitted = None if charter.stated is None else fit(charter.stated, entry.seen)
    if fitted is None:
        seen = entry.seen
        known = estimate(charter.topology, seen.in_force, seen.snapshot)
        yield diagnose(charter.topology, seen.in_force, known).headline
        return
    try:
        found = binding_limits(AnalyticModel, fitted.job)
    except ValueError:
        return
    for limit in found[:LIMITS_SHOWN]:
        yield f"{limit.name} {limit.now:g} -> {limit.raised:g} alone would gain {limit.gain_frac:+.1%}"


def _considered(view: View, decision: Decision) -> Iterator[str]:
    """The best ones and those that cannot be, each with its gain and why it is not done."""
    found = alternatives(view)
    wanted = next((a for a in found if a.changes == decision.proposed), None)
    open_ones, closed = [a for a in found if not a.why_not], [a for a in found if a.why_not]
    for one in (*open_ones[: CONSIDERED_SHOWN - min(len(closed), CLOSED_SHOWN)], *closed[:CLOSED_SHOWN]):
        gain = "" if one.gain_frac is None else f" {one.gain_frac:+.1%}"
        why = "wanted" if one is wanted else why_not(view, one, wanted, decision)
        yield f"{named(one.changes)}:{gain}{f' ({why})' if why else ''}"


def _law(rules: Rules, view: View) -> str:
    answer = rules.policy.decide(view)
    return ("wants nothing: " if isinstance(answer, Hold) else "wants ") + answer.reason


def _simulated(entry: Entry) -> Iterator[str]:
    for told in entry.heard:
        found = told.prediction
        said = told.why if found is None else found.stopped or f"{found.useful_rollouts_per_s:.4g} useful rollouts/s"
        yield f"asked by the {told.asker}, {_setting(told.setpoints)}: {said}"


def _after(later: Sequence[Entry], root: str) -> Iterator[str]:
    """What became of it: legs, what the plant refused, verdict, undoing. Nothing is told twice running."""
    said, refused = "", ""
    for i, entry in enumerate(later):
        decision, outcome, at = entry.decision, entry.decision.outcome, moment(entry.at_s)
        if outcome is not None and _root(outcome.decision_id) == root:
            gains = f"predicted {_gain(outcome.predicted)}, realised {_gain(outcome.realised)}"
            yield f"{at}: judged: {outcome.verdict}; {gains}"
            if outcome.good is not False:
                return
        ended = decision.reason.startswith(tuple(f"{root} {end}" for end in ENDS))
        stranded = decision.code is HoldCode.STRANDED and decision.reason.startswith(f"{root} ")
        done = decision.reason.startswith(f"{root} is done")
        if not (ended or stranded or done or _root(decision.decision_id) == root):
            continue
        stage = _stage(decision)
        if i > 0 and stage != said:
            said = stage
            yield f"{at}: {_as_told(decision)}"
        no = _refusal(entry)
        if no and no != refused:
            refused = no
            yield f"{at}: refused: {no}"
        if ended:
            return


def _wanted_again(later: Sequence[Entry]) -> Iterator[str]:
    """Of a wish that was held: how often it was held again, and when it was done after all."""
    first = later[0].decision
    same = [e for e in later[1:] if first.proposed is not None and e.decision.proposed == first.proposed]
    done = next((e for e in same if e.decision.action is not Action.HOLD), None)
    held = [e for e in (same if done is None else same[: same.index(done)]) if e.decision.action is Action.HOLD]
    if held:
        last = held[-1]
        yield f"{moment(last.at_s)}: wanted and held for the last time of {len(held)} more: {last.decision.reason}"
    if done is not None:
        yield f"{moment(done.at_s)}: the same as {_root(done.decision.decision_id)}: {done.decision.action}"


def _refusal(entry: Entry) -> str:
    """What the plant would not do of an order, and why; empty where it refused nothing."""
    outcomes = {} if entry.receipt is None else entry.receipt.outcomes
    why = {knob: outcome.reason for knob, outcome in outcomes.items() if outcome.status is Status.REFUSED}
    return "; ".join(
        f"{', '.join(k for k in why if why[k] == reason)}: {reason}" for reason in dict.fromkeys(why.values())
    )


def _stage(decision: Decision) -> str:
    """A leg by its words up to the colon, one on the way back by its order; an ask or advice by its wish, since its
    figures change at every tick."""
    if decision.action in (Action.ASK, Action.ADVISE):
        return f"{decision.action} {decision.changes}"
    return f"back to {decision.order}" if _is_back(decision) else decision.reason.split(":", 1)[0]


def _is_back(decision: Decision) -> bool:
    return decision.order is not None and decision.decision_id.endswith("b")


def _as_told(decision: Decision) -> str:
    """A leg by what was ordered, on the way back with the reason; everything else by its reason."""
    if decision.action is not Action.APPLY or decision.order is None:
        return decision.reason
    ordered = f"ordered {_setting(decision.order)}"
    return f"taken back, {ordered}: {decision.reason.split(': ', 1)[-1]}" if _is_back(decision) else ordered


def _gain(gain: Interval | None) -> str:
    return "unknown" if gain is None else f"{gain.mean:+.1%} ({gain.low:+.1%}..{gain.high:+.1%})"


def _setting(settings: Setpoints) -> str:
    shown = {part for parts in ACTED.values() for part in parts}
    return ", ".join(f"{name} {value:g}" for name, value in values(settings).items() if name in shown)


def render(told: Told) -> str:
    decision = told.decision
    what = "" if decision.changes is None else f" {_setting(decision.changes)}"
    head = f"{told.ident} at {moment(told.at_s)}: {decision.action}{what}. {decision.reason}"
    parts: list[tuple[str, Sequence[str]]] = [
        ("Seen", told.seen),
        ("What limits", told.limits),
        ("Considered, each by itself and as things stand", told.considered),
        ("Beside it", decision.notes),
        ("The law", (told.law,) if told.law else ()),
        ("Guardrails", told.guards),
        ("The models", (told.models,) if told.models else ()),
        ("What the simulator answered", told.simulated),
        ("After", told.after or ("no later tick speaks of it",)),
    ]
    lines = [head]
    for title, rows in parts:
        lines += [f"\n{title}", *(f"  {row}" for row in rows)] if rows else []
    return "\n".join(lines) + "\n"
