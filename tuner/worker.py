"""The gate's simulator: the event engine in a child of its own, as one more structure that has to agree with a move;
and what a law asks of a few settings of a job for which the analytic model is too coarse.

A child, because compiling and its memory (some 200 MB) must not be the daemon's, and because it can be killed: what it
has not answered by the deadline counts as a no, with that reason, and another child is warmed up meanwhile. What was
answered, or why nothing was, is part of the tick (tuner/hearing.py).

    daemon ── predict(stations, workload, setpoints) ──> child: EventModel     pickled over a pipe, spawned, niced
           <── Prediction, or why there is none ───────
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol

from policies.control import Draw, Modeller
from policies.gate import CALIBRATED
from policies.modelling import StatedJob
from simulators.analytic import AnalyticModel
from simulators.compiled import warm_up
from simulators.event_model import EventModel
from simulators.event_state import Job
from simulators.model import PlantModel, Prediction
from simulators.plant import Observation, Setpoints, Topology
from simulators.reduced import ReducedModel, scale_of
from simulators.workload import Workload

STRUCTURE = "simulator"
DRAWS = 3
"""Of the calibrated jobs, simulated: all have to agree."""
BATCHES, WARM_UP_BATCHES = 32, 6
"""Trainer steps that are simulated for one prediction: the noise of a paired difference is then under 1 %."""
LAW_TIMES = 2
"""So many times as long where a law asks: it goes to the best of what it hears, the gate only wants the sign."""
DEADLINE_S = 20.0
"""For all that a gate asks at one tick, a child's start included; likewise for a law."""
NICE = 10
"""The child is never in the way of the job's own processes."""
READY = "ready"

LAW, GATE = "law", "gate {}"
"""Who asks: the law of the job as fitted, the gate of the first, second, ... of the drawn jobs."""


@dataclass(frozen=True, slots=True)
class Question:
    asker: str
    """Each asks of one job in a tick: asker and setpoints tell one question of a tick from another."""
    model: PlantModel
    topology: Topology
    workload: Workload
    setpoints: Setpoints


class Engine(Protocol):
    """Something that simulates."""

    def begin(self) -> None:
        """A new gate or law asks: its deadline runs from here."""
        ...

    def ask(self, question: Question) -> Prediction:
        """Raises ValueError with the reason where there is no prediction."""
        ...


class Here:
    """In this process and without a deadline: for simulated runs, and for what a journal does not answer."""

    def begin(self) -> None:
        return None

    def ask(self, question: Question) -> Prediction:
        return _predicted(question)


class Child:
    """In a child, warmed from the start, killed and replaced when late."""

    def __init__(self, deadline_s: float = DEADLINE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._deadline_s, self._clock = deadline_s, clock
        self._until_s = 0.0
        self._process, self._pipe = _spawned()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def begin(self) -> None:
        self._until_s = self._clock() + self._deadline_s

    def ask(self, question: Question) -> Prediction:
        late = f"the simulator gave no answer within {self._deadline_s:g} s"
        if self._clock() >= self._until_s:
            raise ValueError(late)
        try:
            self._pipe.send(question)
            answer = self._next_answer()
            if answer is not None:
                return _told(answer)
            why = late
        except (OSError, EOFError):
            why = "the simulator's process ended"
        self._replace()
        raise ValueError(why)

    def close(self) -> None:
        self._pipe.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _next_answer(self) -> object | None:
        """The answer to the last question; None at the deadline. A fresh child says first that it is ready."""
        while self._pipe.poll(max(0.0, self._until_s - self._clock())):
            answer: object = self._pipe.recv()
            if answer != READY:
                return answer
        return None

    def _replace(self) -> None:
        self.close()
        self._process, self._pipe = _spawned()


def _told(answer: object) -> Prediction:
    if isinstance(answer, Prediction):
        return answer
    raise ValueError(str(answer))


def _spawned() -> tuple[BaseProcess, Connection]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), name="equipoise-simulator", daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _serve(pipe: Connection) -> None:
    """The child's life: warm up, then answer until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    sys.stdout = sys.stderr
    with suppress(EOFError, OSError):
        warm_up()
        pipe.send(READY)
        while True:
            question = pipe.recv()
            try:
                pipe.send(_predicted(question))
            except ValueError as error:
                pipe.send(str(error))


def _predicted(question: Question) -> Prediction:
    return question.model.predict(question.topology, question.workload, question.setpoints)


@dataclass(frozen=True, slots=True)
class Asked:
    """A PlantModel that is simulated elsewhere, a large fleet by a smaller one: for all settings by the same scale."""

    engine: Engine
    asker: str
    model: EventModel
    stated: Setpoints

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        scale = scale_of(Job(topology, self.model.stations, workload, self.stated))
        model: PlantModel = ReducedModel(self.model, scale) if scale > 1 else self.model
        return self.engine.ask(Question(self.asker, model, topology, workload, setpoints))


@dataclass(frozen=True, slots=True)
class Simulated:
    """A modeller whose first calibrated draws are simulated besides: both settings of a pair see the same prompts."""

    inner: Modeller
    engine: Engine = field(default_factory=Here)

    def central(self, seen: Observation) -> Draw | None:
        own = self.inner.central(seen)
        simulated = None if own is None else self._simulated(own, LAW, 0, LAW_TIMES)
        if own is None or simulated is None:
            return own
        self.engine.begin()
        return replace(own, simulator=simulated.model)

    def why_not(self, seen: Observation) -> str:
        return self.inner.why_not(seen)

    def draws(self, seen: Observation, count: int, seed: int) -> Sequence[Draw]:
        own = self.inner.draws(seen, count, seed)
        self.engine.begin()
        simulated = (self._simulated(draw, GATE.format(i + 1), seed + i) for i, draw in enumerate(own[:DRAWS]))
        return (*own, *(draw for draw in simulated if draw is not None))

    def _simulated(self, draw: Draw, asker: str, seed: int, times: int = 1) -> Draw | None:
        """The same job under the event engine; None for one that is no calibrated one of ours."""
        stated = draw.model
        if draw.structure != CALIBRATED or not isinstance(stated, StatedJob):
            return None
        if not isinstance(stated.model, AnalyticModel):
            return None
        model = EventModel(stated.model.stations, seed, times * BATCHES, 1, times * WARM_UP_BATCHES)
        asked = Asked(self.engine, asker, model, stated.stated)
        return Draw(replace(stated, model=asked), draw.workload, STRUCTURE)
