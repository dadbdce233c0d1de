"""The board: what the loop last did, for readers in other threads. One frozen face at a time, no lock."""

from dataclasses import dataclass
from functools import cached_property
from math import inf

from policies.estimators import estimate
from policies.guardrails.seeing import EVIDENCE, stale_after_s
from policies.recommendations import advise
from policies.rules import Rules
from simulators.plant import Setpoints
from tuner.loop import Ticked
from tuner.report.answer import Material

PAST = 480
"""Ticks whose settings are remembered for the picture: four hours of ticks every 30 s."""
LATE_PERIODS = 3.0
LATE_S = 300.0
"""A loop without a tick for longer than both is not alive: a tick may wait for sources and actuators, a minute each."""


@dataclass(frozen=True, slots=True)
class About:
    """What does not change while a daemon runs."""

    job: str
    journal: str
    """Its file's name, without the way there."""
    rules: Rules
    period_s: float
    fencing_token: int
    started_s: float
    acts: bool = False
    """True where a token is configured, so that people may command over HTTP."""
    auto_refused: str = ""
    """Why this daemon may not go into auto; empty: it may."""


@dataclass(frozen=True)
class Face:
    """The loop after one tick."""

    last: Ticked
    written: Ticked | None
    """The last tick that is in the journal."""
    ticks: int
    failures: int
    """Ticks that could not be written."""
    success_s: float | None
    """When a tick last was written with evidence in view."""
    rules: Rules
    past: tuple[tuple[float, Setpoints], ...] = ()
    """When which settings were in force, at the last ticks, oldest first."""

    @cached_property
    def material(self) -> Material:
        """What the report's pictures and headline are made of."""
        seen = self.last.entry.seen
        topology = self.rules.topology
        advice = advise(topology, seen.in_force, seen.snapshot, self.rules.bounds)
        return Material(topology, seen.in_force, estimate(topology, seen.in_force, seen.snapshot), advice)


class Board:
    """Told by the loop, read by the server."""

    def __init__(self, about: About) -> None:
        self.about = about
        self._face: Face | None = None

    @property
    def face(self) -> Face | None:
        """None before the first tick."""
        return self._face

    def ticked(self, ticked: Ticked) -> None:
        before, written = self._face, ticked.tick_id is not None
        good = written and has_evidence(ticked, self.about.rules.limits.stale_s)
        self._face = Face(
            ticked,
            ticked if written else (before.written if before is not None else None),
            1 + (before.ticks if before is not None else 0),
            (not written) + (before.failures if before is not None else 0),
            ticked.entry.at_s if good else (before.success_s if before is not None else None),
            self.about.rules,
            (*(before.past if before is not None else ()), (ticked.entry.at_s, ticked.entry.seen.in_force))[-PAST:],
        )

    def troubles(self, now_s: float) -> tuple[str, ...]:
        """Why nobody should rely on the daemon now; empty: it is ready."""
        face = self._face
        if face is None:
            return ("no tick yet",)
        found = []
        if not self.is_alive(now_s):
            found.append(f"the last tick was {now_s - face.last.entry.at_s:.0f} s ago")
        if face.last.failure:
            found.append(face.last.failure)
        snapshot = face.last.entry.seen.snapshot
        stale_s = stale_after_s(snapshot, max(self.about.rules.limits.stale_s, LATE_PERIODS * self.about.period_s))
        if now_s - (face.success_s if face.success_s is not None else -inf) > stale_s:
            found.append("nothing is seen of the job" if face.success_s is None else "what is seen of the job is old")
        return tuple(found)

    def is_alive(self, now_s: float) -> bool:
        """True while ticks come."""
        since_s = self._face.last.entry.at_s if self._face is not None else self.about.started_s
        return now_s - since_s <= max(LATE_S, LATE_PERIODS * self.about.period_s)


def has_evidence(ticked: Ticked, stale_s: float) -> bool:
    """True where one signal that a decision needs is there and recent."""
    snapshot = ticked.entry.seen.snapshot
    signals, limit = snapshot.signals, stale_after_s(snapshot, stale_s)
    return any(n in signals and (signals[n].age_s or 0.0) <= limit for n in EVIDENCE)
