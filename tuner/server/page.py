"""The page for people: what is now, who waits for whom, what was decided last and why, with the reports' pictures."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from policies.commands import ControlMode
from policies.control import HoldCode
from policies.scorecard import PastShadow, coverage, unlocked
from policies.settings import ACTED, values
from policies.state import State
from simulators.plant import Setpoints
from tuner.errors import SourceError
from tuner.pages import Pages
from tuner.report import words
from tuner.report.decided import NAMES, ago, changes, clock, known, sentence, when
from tuner.report.html import page
from tuner.report.story import Picture, pictures_of
from tuner.server.board import Board, Face
from tuner.server.drawing import settings_over_time, waiting
from tuner.server.metrics import target_of
from tuner.version import VERSION

TICKS_TOLD, RUNS_TOLD = 400, 12
"""Ticks that are looked through, and runs of like decisions that are shown."""
MODES = {
    ControlMode.OBSERVE: "it watches and learns; nothing is advised or touched",
    ControlMode.ADVISE: "it says what it would do, and touches nothing",
    ControlMode.APPROVE: "it asks before each move, and acts once a person approves",
    ControlMode.AUTO: "it acts by itself on the knobs that have earned it",
}
KEY_SIGNALS = (
    ("step_s", "seconds a step"),
    ("trainer_idle_frac", "trainer waits"),
    ("generator_idle_frac", "generator waits"),
    ("gen_samples_per_s", "rollouts per second"),
    ("staleness_mean", "versions of staleness"),
    ("resp_len_mean", "response tokens"),
    ("engines", "engines that report"),
)
QUIET = frozenset(
    {HoldCode.POLICY, HoldCode.DEADBAND, HoldCode.UNCONFIRMED, HoldCode.SETTLING, HoldCode.PAYBACK}
    | {HoldCode.DONOR, HoldCode.GATE, HoldCode.ILLEGAL, HoldCode.BOUND, HoldCode.BUDGET}
)
"""Holds because there is nothing to gain, or not enough."""
ACTIONS = {"hold": "holds", "advise": "advises", "ask": "asks", "apply": "moves"}


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    actual: str
    target: str
    desired: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Seen:
    name: str
    value: str
    age: str
    trust: str


@dataclass(frozen=True, slots=True)
class Run:
    """Ticks in a row that decided alike."""

    ident: str
    action: str
    codes: str
    """The reasons' codes, with how often where there are several."""
    reason: str
    changes: str
    since: str
    until: str
    ticks: int
    trail: tuple[tuple[str, bool, str], ...]
    notes: tuple[str, ...]
    answers: tuple[str, ...]
    """What the plant said to the last order of the run."""


class Page:
    """Text for a browser; what a tick costs to draw is drawn once a tick."""

    def __init__(self, board: Board, pages: Pages) -> None:
        self._board, self._pages = board, pages
        self._drawn: tuple[Face, tuple[Picture, ...]] | None = None

    def text(self, now_s: float) -> str:
        board, face = self._board, self._board.face
        return page(
            "status.html.jinja",
            {"figure": words.figure, "percent": words.percent},
            version=VERSION,
            about=board.about,
            troubles=board.troubles(now_s),
            now=when(now_s),
            face=face,
            view=None if face is None else view_of(face, now_s),
            runs=() if face is None else self._runs(),
            pictures=() if face is None else self._pictures(face),
        )

    def _runs(self) -> tuple[Run, ...]:
        """None where the journal cannot be read now: all else is told."""
        try:
            return tuple(runs_of(self._pages.newest(TICKS_TOLD)))[:RUNS_TOLD]
        except SourceError:
            return ()

    def _pictures(self, face: Face) -> tuple[Picture, ...]:
        if self._drawn is None or self._drawn[0] is not face:
            self._drawn = (face, (*settings_over_time(face.past), *pictures_of(face.material)))
        return self._drawn[1]


def view_of(face: Face, now_s: float) -> dict[str, Any]:
    """What the template tells of one tick."""
    entry, state = face.last.entry, face.last.state
    diagnosis = face.material.advice.diagnosis
    return {
        "mode": state.mode.value,
        "mode_words": MODES[state.mode],
        "at": when(entry.at_s),
        "age": ago(now_s - entry.at_s),
        "verdict": str(diagnosis.verdict),
        "headline": diagnosis.headline,
        "waiting": waiting(diagnosis.rates),
        "decision": sentence(entry.decision),
        "settings": tuple(settings_of(face)),
        "signals": tuple(seen_of(face)),
        "pauses": [_pause(p.knob, p.author) for p in state.pauses],
        "freezes": [f"{NAMES.get(f.knob, f.knob)} until {clock(f.until_s)}: {f.reason}" for f in state.freezes
                    if f.until_s > entry.at_s],
        "alarm": state.alarm,
        "asked": _asked(state),
        "move": _move(state),
        "forecasts": _forecasts(state),
        "shadows": _shadows(state),
        "notes": [n.detail for n in entry.seen.snapshot.notes],
    }  # fmt: skip


def settings_of(face: Face) -> Iterator[Setting]:
    """The setpoints that a controller turns, as they are, as we stand by them, and as the law wants them."""
    entry = face.last.entry
    actual, target = values(entry.seen.in_force), values(target_of(face.last.state) or Setpoints())
    desired = values(entry.decision.proposed or entry.decision.changes or Setpoints())
    turned = [part for parts in ACTED.values() for part in parts]
    for name in dict.fromkeys([n for n in NAMES if n in turned] + turned):
        if name not in actual and name not in target:
            continue
        now, goal, wish = actual.get(name), target.get(name), desired.get(name)
        differs = goal is not None and goal != now
        wanted = "no change" if wish is None or wish == now else words.figure(wish)
        yield Setting(NAMES.get(name, name), words.figure(now), words.figure(goal), wanted, differs)


def seen_of(face: Face) -> Iterator[Seen]:
    for name, said in KEY_SIGNALS:
        signal = face.material.snapshot.signals.get(name)
        if signal is None:
            continue
        shares = signal.unit == "1" and name.endswith("_frac")
        value = words.percent(signal.value) if shares else words.figure(signal.value)
        age = "unknown" if signal.age_s is None else ago(signal.age_s)
        yield Seen(said, value, age, words.percent(signal.trust))


def runs_of(records: Sequence[dict[str, Any]]) -> Iterator[Run]:
    """Decisions newest first, like ones in a row told as one."""
    for _, group in groupby(records, key=_alike):
        ticks = list(group)
        newest, oldest = ticks[0], ticks[-1]
        trail = tuple((s["guard"], bool(s["passed"]), s["reason"]) for s in newest["trail"])
        yield Run(
            newest["decision_id"],
            ACTIONS[newest["action"]],
            _codes(ticks),
            newest["reason"],
            changes(newest["order"] or newest["changes"]),
            clock(oldest["at_s"]),
            clock(newest["at_s"]),
            len(ticks),
            trail,
            tuple(dict.fromkeys(note for tick in ticks for note in tick["notes"])),
            tuple(_answers(newest["receipt"])),
        )


def _answers(receipt: dict[str, Any] | None) -> Iterator[str]:
    """`trainer GPUs, generator GPUs: pending, hot: takes 60 s`: settings that were answered alike are told together."""
    told: dict[str, list[str]] = {}
    for name, outcome in (receipt or {}).get("outcomes", {}).items():
        told.setdefault(f"{outcome['status']}, {outcome['reason']}", []).append(NAMES.get(name, name))
    yield from (f"{', '.join(names)}: {said}" for said, names in told.items())


def _alike(record: dict[str, Any]) -> tuple[Any, ...]:
    """Holds because nothing is worth doing are one story, whatever the wording of the day."""
    wish, code = record["order"] or record["changes"], record["code"]
    code = "quiet" if code in QUIET else code
    return record["action"], code, None if wish is None else tuple(sorted(known(wish).items()))


def _codes(ticks: Sequence[dict[str, Any]]) -> str:
    counts = Counter(tick["code"] for tick in ticks if tick["code"])
    if len(counts) < 2:
        return "".join(counts)
    return ", ".join(f"{code} {count}" for code, count in counts.most_common())


def _asked(state: State) -> dict[str, str] | None:
    asked = state.asked
    if asked is None or asked.approved:
        return None
    return {
        "id": asked.decision_id,
        "changes": changes(values(asked.changes)),
        "reason": asked.reason,
        "expires": clock(asked.expires_s),
    }


def _move(state: State) -> str:
    move = state.move
    if move is None:
        return ""
    legs = f"{move.stage.value}, leg {move.at} of {len(move.path) - 1}"
    return f"{move.decision_id} since {clock(move.begun_s)}: {legs}; {move.why_back or move.reason}"


def _forecasts(state: State) -> str:
    held = state.scorecard.held
    if not held:
        return "no forecast has come due yet"
    share = words.percent(coverage(state.scorecard))
    return f"{sum(held)} of the last {len(held)} forecasts held ({share}; honest 80 % intervals hold 80 %)"


def _shadows(state: State) -> tuple[str, ...]:
    """Moves that were not made and looked at again: enough good ones of a knob unlock auto."""
    told = []
    for knob in ACTED:
        settled = [good for name, good in state.scorecard.good if name == knob]
        if settled:
            may = "auto may turn it" if unlocked(state.scorecard, knob) else "auto may not turn it yet"
            last = next((past for past in reversed(state.scorecard.past) if past.shadow.knob == knob), None)
            rates = "" if last is None else _rates(last)
            told.append(
                f"{NAMES.get(knob, knob)}: {sum(settled)} of {len(settled)} shadow moves were good, {may}{rates}"
            )
    return tuple(told)


def _rates(past: PastShadow) -> str:
    """What the last one promised, and what came without it."""
    then, since, with_it = past.shadow.rate_then, past.rate_since, past.promised_rate
    if then is None or since is None or with_it is None:
        return ""
    promised = past.shadow.promised
    gain = "" if promised is None else f" ({promised.mean:+.1%})"
    return f"; the last: {then:.3g}/s then, {since:.3g}/s since without it, {with_it:.3g}/s promised with it{gain}"


def _pause(knob: str | None, author: str) -> str:
    what = "everything" if knob is None else NAMES.get(knob, knob)
    return f"{what}, by {author}" if author else what
