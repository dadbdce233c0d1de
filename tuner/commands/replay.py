"""`equipoise replay`: a journal's observations through a control law again: what would it have decided?

Under the journal's own law every decision is the same, byte for byte: what its simulator answered, or that it was late,
is taken from the journal. Another law sees what was seen under the first:
what its own moves would have changed is not there, so only its wishes are told, never what would have come of them.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

from policies.control import Action, Decision
from policies.settings import values
from simulators.plant import Setpoints
from tuner.charter import Charter, decoded, policy_named, rules_of
from tuner.errors import ConfigError
from tuner.journal import NEVER, Journal, viewed
from tuner.loop import Difference, replayed

SHOWN = 20
"""Differences that are listed; the rest is counted."""
FIELDS_SHOWN = 12
"""Of the first tick that differs."""
ANEW = (
    "At {} of them a simulator was asked anew and without a deadline, since the journal does not say what it answered "
    "to that: one that was late then has an answer now."
)


@dataclass(frozen=True, slots=True)
class Wish:
    journal: Path
    policy: str | None = None
    json: bool = False


def run(wish: Wish) -> None:
    if wish.policy is not None:
        policy_named(wish.policy)
    with closing(viewed(wish.journal)) as journal:
        charters = [(since, decoded(text)) for since, text in journal.charters()]
        if not charters:
            raise ConfigError(f"{wish.journal}: does not say what its controller went by; it cannot be replayed")
        own = ", then ".join(law for law, _ in groupby(charter.policy for _, charter in charters))
        ticks, found = journal.size(), list(_replayed(journal, charters, wish.policy))
    laws = (own, wish.policy or own)
    sys.stdout.write(_as_json(laws, ticks, found) if wish.json else _as_text(laws, ticks, found))


def _replayed(journal: Journal, charters: Sequence[tuple[int, Charter]], law: str | None) -> Iterator[Difference]:
    """Each start's ticks under what that start went by; under another law without the parameters of its own."""
    ends = [*(since for since, _ in charters[1:]), NEVER]
    for (since, charter), until in zip(charters, ends, strict=True):
        under = charter if law in (None, charter.policy) else replace(charter, policy=law or "", parameters=())
        yield from replayed(rules_of(under), journal.entries(since, until), journal.last(since))


def _as_json(laws: tuple[str, str], ticks: int, found: list[Difference]) -> str:
    answer = {
        "schema_version": 1,
        "journal_policy": laws[0],
        "policy": laws[1],
        "ticks": ticks,
        "differences": [
            {"at_s": d.at_s, "was": asdict(d.was), "now": asdict(d.now), "asked_anew": d.asked_anew, "fields": d.fields}
            for d in found
        ],
    }
    return json.dumps(answer, indent=2, default=str) + "\n"


def _as_text(laws: tuple[str, str], ticks: int, found: list[Difference]) -> str:
    own, law = laws
    if not found:
        return f"{law} decides all {ticks} ticks as they were decided under {own}, byte for byte.\n"
    other = [d for d in found if _wanted(d.was) != _wanted(d.now)]
    lines = [f"{law} differs from {own} at {len(found)} of {ticks} ticks, and wants another setting at {len(other)}:"]
    lines += [f"  {d.at_s:>9.0f} s  {own}: {_told(d.was)}\n               {law}: {_told(d.now)}" for d in other[:SHOWN]]
    if len(other) > SHOWN:
        lines.append(f"  and {len(other) - SHOWN} more (--json has them all)")
    lines += _first(found[0])
    anew = sum(d.asked_anew > 0 for d in found)
    if anew:
        lines.append(ANEW.format(anew))
    return "\n".join(lines) + "\n"


def _first(found: Difference) -> list[str]:
    """The first tick that differs, by its fields: everything later may only follow from it."""
    fields = found.fields
    lines = [f"The first tick that differs is {found.was.decision_id} at {found.at_s:.0f} s:"]
    lines += [f"  {path}: {_short(was)} -> {_short(now)}" for path, was, now in fields[:FIELDS_SHOWN]]
    if len(fields) > FIELDS_SHOWN:
        lines.append(f"  and {len(fields) - FIELDS_SHOWN} more fields (--json has them all)")
    return lines


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _wanted(decision: Decision) -> Setpoints | None:
    return decision.order or decision.changes or decision.proposed


def _told(decision: Decision) -> str:
    wish = _wanted(decision)
    what = "" if wish is None else ", ".join(f"{n} {v:g}" for n, v in values(wish).items()) + ": "
    kind = decision.action if decision.action is not Action.HOLD else f"hold ({decision.code})"
    return f"{kind}: {what}{decision.reason}"
