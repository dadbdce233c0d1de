"""What a daemon says of itself while it runs: one line an event on stderr, key=value, the journal's own keys."""

import json
import time
from contextlib import suppress
from typing import TextIO

from policies.control import Action
from tuner.config import JobFile
from tuner.live import LivePlant
from tuner.loop import Ticked
from tuner.preflight import Level, names
from tuner.report.decided import changes, when
from tuner.server.telling import decision_told
from tuner.version import VERSION
from tuner.wiring import Setup, Start, World

LIMIT_MB, SIMULATOR_LIMIT_MB = 200, 350
"""What a daemon and its simulator may take; its unit and its pod are told so."""


class Log:
    """One line an event; a hold that goes on, and an order that is repeated, is told once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._said = stream, ""

    def say(self, *words: str) -> None:
        """A log that cannot be written (its disk is full, its reader gone) must not end the daemon."""
        with suppress(OSError):
            self._stream.write(" ".join((f"at={when(time.time())}", *words)) + "\n")
            self._stream.flush()

    def began(self, setup: Setup, start: Start, address: str) -> None:
        self.say(
            "event=started",
            f"version={VERSION}",
            f"policy={start.charter.policy}",
            f"mode={start.state.mode}",
            f"tick={start.state.tick}",
            f"token={start.token}",
            f"journal={json.dumps(str(setup.journal))}",
            f"page={address or 'off'}",
            f"limit_mb={LIMIT_MB}",
            f"simulator_limit_mb={SIMULATOR_LIMIT_MB if start.charter.simulated else 0}",
        )
        for note in start.notes:
            self.say("event=note", f"reason={json.dumps(note)}")

    def missing(self, job: JobFile, world: World) -> None:
        """What the sources that can tell their names will not bring, once."""
        reading = world.plant.reading if isinstance(world.plant, LivePlant) else None
        seen = frozenset[str]() if reading is None else frozenset(reading.snapshot.signals)
        for check in names(job, seen):
            if check.level is not Level.OK:
                self.say("event=note", f"reason={json.dumps(check.said)}")

    def ticked(self, ticked: Ticked) -> None:
        decision = ticked.entry.decision
        if ticked.failure:
            return self._once(f"event=journal-failed reason={json.dumps(ticked.failure)}")
        kind = f"action={decision.action} code={decision.code or 'none'}"
        wish = decision.order or decision.changes
        what = "" if wish is None else f" changes={json.dumps(changes_of(ticked))}"
        line = f"event=decision {kind}{what}"
        told = f"{decision.decision_id} {line}" if decision.action is Action.APPLY else line
        if told == self._said and not decision.notes:
            return None
        self._said = told
        more = f" notes={json.dumps('; '.join(decision.notes))}" if decision.notes else ""
        return self.say(f"id={decision.decision_id}", line, f"reason={json.dumps(decision.reason)}{more}")

    def _once(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self.say(line)


def changes_of(ticked: Ticked) -> str:
    told = decision_told(ticked.entry.decision)
    return changes(told["order"] or told["changes"])
