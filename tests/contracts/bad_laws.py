"""Control laws that a kit must catch: each breaks one rule, and none shows it at a first look."""

import contextlib
import logging
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from math import inf, nan
from pathlib import Path

from policies.base import Interval
from policies.control import Hold, Policy, Proposal, View
from policies.laws.parameters import within
from simulators.plant import Setpoints

CALM = Hold("nothing to do")
COUNTED: list[int] = []
SEEN: dict[str, float] = {}
HOME = os.environ.get("HOME")
WORDS = {"wait", "gate", "balance", "lend", "borrow", "rest", "grow", "shrink"}


# ---- what they look at ----


@dataclass(frozen=True)
class Looks:
    """Looks at something, and says nothing of it."""

    at: Callable[[], object]

    def decide(self, view: View) -> Proposal | Hold:
        self.at()
        return CALM


@dataclass(frozen=True)
class Environs:
    """Swallows what it is told, too."""

    def decide(self, view: View) -> Proposal | Hold:
        with contextlib.suppress(BaseException):
            return Hold("told to rest") if os.environ.get("EQUIPOISE_REST") else CALM
        return CALM


@dataclass(frozen=True)
class Imported:
    """Has looked before it was asked."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold(f"nothing to do for {HOME}")


@dataclass(frozen=True)
class Hashes:
    """Its words stand in the order that this process's seed of hashes gives them."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold(" ".join(WORDS))


# ---- what they keep ----


@dataclass(frozen=True)
class Forgets:
    """Counts in its module instead of in its memory."""

    def decide(self, view: View) -> Proposal | Hold:
        COUNTED.append(1)
        return Hold(f"tick {len(COUNTED)}")


@dataclass(frozen=True)
class Patient:
    """Counts in its class, and says nothing of it for long."""

    count = 0

    def decide(self, view: View) -> Proposal | Hold:
        Patient.count += 1
        return Hold("enough seen") if Patient.count > 220 else CALM


@dataclass(frozen=True)
class Compares:
    """Holds a job against what it saw last, of whatever job that was."""

    def decide(self, view: View) -> Proposal | Hold:
        wait = view.snapshot.get("trainer_wait_s") or 0.0
        before, SEEN["wait"] = SEEN.get("wait", wait), wait
        if before == wait or SEEN.get("at") == view.now_s:
            return CALM
        SEEN["at"] = view.now_s
        return CALM if wait < before else Hold("it waits longer")


@dataclass(frozen=True)
class Hoards:
    """Keeps all that it has seen, and uses none of it."""

    seen: list[float] = field(default_factory=list, hash=False)

    def decide(self, view: View) -> Proposal | Hold:
        self.seen.append(view.now_s)
        return CALM


@cache
def _weighed(now_s: float) -> float:
    return now_s / 2.0


@dataclass(frozen=True)
class Caches:
    """Of every second that it was asked at."""

    def decide(self, view: View) -> Proposal | Hold:
        return CALM if _weighed(view.now_s) >= 0.0 else Hold("before the beginning")


@dataclass(frozen=True)
class Diaries:
    """Writes one letter a tick into its memory."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold("noted", memory={"diary": f"{view.memory.get('diary', '')}."})


@dataclass(frozen=True)
class Lists:
    """Remembers what cannot be written down."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold("nothing to do", memory={"seen": [1.0, 2.0]})  # type: ignore[dict-item]


@dataclass
class Thaws:
    """May change while it runs."""

    def decide(self, view: View) -> Proposal | Hold:
        return CALM


# ---- how long they take ----


@dataclass(frozen=True)
class Slow:
    """Thinks for long, with its processor."""

    def decide(self, view: View) -> Proposal | Hold:
        until = sum(range(10_000_000))
        return CALM if until else Hold("never")


@dataclass(frozen=True)
class Endless:
    def decide(self, view: View) -> Proposal | Hold:
        while view.now_s >= 0.0:
            pass
        return CALM


@dataclass(frozen=True)
class Sleeps:
    def decide(self, view: View) -> Proposal | Hold:
        time.sleep(3600.0)
        return CALM


# ---- what they say ----


@dataclass(frozen=True)
class Wishes:
    """One wish wherever anything is known."""

    wish: Setpoints
    gain: Interval | None = None

    def decide(self, view: View) -> Proposal | Hold:
        return Proposal(self.wish, "as I wish", self.gain) if view.snapshot.signals else Hold("no evidence")


@dataclass(frozen=True)
class Splits:
    """Moves GPUs by its own rule, in a job that has no two sides and off the lattice too."""

    step: int = 8

    def decide(self, view: View) -> Proposal | Hold:
        trainer, generator = view.in_force.gpus_trainer, view.in_force.gpus_generator
        if not view.snapshot.signals or not trainer or not generator or generator <= self.step:
            return Hold("not enough known")
        return Proposal(Setpoints(gpus_trainer=trainer + self.step, gpus_generator=generator - self.step), "so")


@dataclass(frozen=True)
class Blind:
    """Acts on nothing."""

    def decide(self, view: View) -> Proposal | Hold:
        return Proposal(Setpoints(max_in_flight=512), "why not")


@dataclass(frozen=True)
class Raises:
    """Takes for granted what may be missing."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold(f"a step takes {view.snapshot.signals['step_s'].value:.0f} s")


@dataclass(frozen=True)
class Edges:
    """Cannot stand one end of its own interval."""

    share: float = within(0.5, 0.0, 1.0)

    def decide(self, view: View) -> Proposal | Hold:
        return Hold(f"{1.0 / self.share:.1f} of it")


@dataclass(frozen=True)
class Remembers:
    """A memory that no journal can hold."""

    def decide(self, view: View) -> Proposal | Hold:
        return Hold("noted", memory={"most": inf})


HERE = r"at .*bad_laws.py:\d+"
MORE = Setpoints(max_in_flight=1600)
CAUGHT: tuple[tuple[Policy, str], ...] = (
    (Looks(lambda: datetime.now(UTC)), r"calls datetime.now at .*bad_laws.py:\d+: a law knows no time but view.now_s"),
    (Looks(lambda: time.time_ns()), rf"calls time.time_ns {HERE}"),
    (Looks(lambda: time.strftime("%A")), rf"calls time.strftime {HERE}"),
    (Looks(lambda: Path.home()), rf"calls os.__getitem__ {HERE}"),
    (Looks(lambda: os.getcwd()), rf"calls posix.getcwd {HERE}"),
    (Looks(lambda: open(__file__).close()), rf"calls open\('.*bad_laws.py'\) {HERE}"),
    (Looks(lambda: Path("/tmp/a.log").write_text("decided")), rf"calls open\('/tmp/a.log'\) {HERE}"),
    (Looks(lambda: list(map(open, [__file__]))), rf"calls open\('.*bad_laws.py'\) {HERE}"),
    (Looks(lambda: socket.create_connection(("127.0.0.1", 9))), rf"calls socket.create_connection {HERE}"),
    (Looks(lambda: subprocess.run(["true"])), rf"calls subprocess.run {HERE}"),
    (Looks(lambda: threading.Thread(target=print).start()), rf"calls _thread.start_(new|joinable)_thread.* {HERE}"),
    (
        Looks(lambda: logging.getLogger("law").warning("decided")),
        r"calls time.time(_ns)? at ",
    ),  # in a logging library, and whose depends on who has patched it
    (Looks(lambda: random.choice("ab")), rf"calls random.getrandbits {HERE}: a law that draws"),
    (Environs(), rf"calls os.__getitem__ {HERE}: what a law needs of the world is a field"),
    (Forgets(), "the same view must give the same answer"),
    (Hoards(), "by `memory` only: .* bytes more are kept"),
    (Caches(), "bytes more are kept .*; a cache has a size"),
    (Diaries(), "the memory is 100 bytes longer"),
    (Lists(), "finite numbers and words"),
    (Remembers(), "finite numbers and words"),
    (Slow(), r"starving: decide takes more than 0.05 s of a processor: it was at .*bad_laws.py"),
    (Endless(), r"starving: decide takes more than 1 s of a processor: it was at .*bad_laws.py"),
    (Sleeps(), r"calls time.sleep at .*bad_laws.py"),
    (Splits(), r"serial: 72 trainer GPUs are not legal"),
    (Splits(step=4), r"68 trainer GPUs are not legal: 68 is not a multiple of the trainer's step of 8 GPUs"),
    (Wishes(Setpoints(gpus_trainer=512)), "never adds"),
    (Wishes(Setpoints(gpus_prefill=128, gpus_decode=128)), "not the 192 of the generator"),
    (Wishes(Setpoints(oversampling_ratio=100.0)), "oversampling_ratio=100.0 cannot be set"),
    (Wishes(Setpoints(oversampling_ratio=inf)), "oversampling_ratio=inf cannot be set"),
    (Wishes(Setpoints(oversampling_ratio=nan)), "oversampling_ratio=nan cannot be set"),
    (Wishes(Setpoints(max_in_flight=1000.5)), "max_in_flight=1000.5 cannot be set"),  # type: ignore[arg-type]
    (Wishes(Setpoints(group_size=4)), "not all knobs of a controller"),
    (Wishes(Setpoints()), "changes something"),
    (Wishes(MORE, Interval(0.0, nan, 1.0)), "is not finite"),
    (Wishes(MORE, Interval(0.0, inf, inf)), "is not finite"),
    (Wishes(MORE, Interval(0.2, 0.1, 0.0)), "no interval"),
    (Blind(), "blind: without evidence"),
    (Raises(), r"blind: decide raised KeyError: 'step_s' at .*bad_laws.py:\d+; a Hold says why instead"),
    (Edges(), "share=0.0, starving: decide raised ZeroDivisionError"),
)
"""Each with what the kit says of it."""
APART = "another process, asked in another order, answers"
DIFFERING: tuple[tuple[Policy, str], ...] = (
    (Imported(), APART),
    (Hashes(), APART),
    (Patient(), f"long run, tick .*: {APART}"),
    (Compares(), f"long run, tick 1: {APART}"),
)
"""What only two processes show."""
