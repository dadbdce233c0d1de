"""Workers: take a slot, measure it level by level, hand it back. As many as there are cores, here or elsewhere."""

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from tuner.errors import TunerError
from tuner.studies.apart import Apart, TrialFailed
from tuner.studies.objectives import Measured, excess_of, ratios, values_of
from tuner.studies.opening import Where, joined
from tuner.studies.samplers import quiet, resource
from tuner.studies.space import Point
from tuner.studies.storage import WHY, Chooser, Ledger
from tuner.studies.trials import Mark, Problem

NOTES = "equipoise:measured"
"""What a trial keeps beside its values."""
BY_MODEL = {"staleness": 0.25}
"""What the model only estimates and a simulation then measures: it rules a point out by this share of the bound."""
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Basis:
    """What every trial is compared with."""

    marks: tuple[Mark, ...]
    here: tuple[Measured, ...]
    """Each case as it is today."""


@dataclass(frozen=True, slots=True)
class Job:
    """All that a worker needs; it goes to other processes and machines as it is."""

    where: Where
    chooser: Chooser
    problem: Problem
    basis: Basis
    timeout_s: float
    trials: int
    """In all, whoever does them."""


Tell = Callable[[Ledger], None]
Leave = Callable[[], bool]
"""Whether a worker is to stop after its slot."""


def work(job: Job, tell: Tell | None = None, leave: Leave | None = None) -> None:
    """Works until no slot waits and none is under way elsewhere."""
    quiet()
    ledger = Ledger(joined(job.where), job.where.study, job.chooser)
    heard_s = 0.0
    with Apart(job.problem, job.basis.marks, job.timeout_s) as apart, Heart(ledger, job.where.heartbeat_s) as heart:
        while leave is None or not leave():
            if time.monotonic() - heard_s > job.where.heartbeat_s:
                ledger.retake()
                heard_s = time.monotonic()
            trial = ledger.take(job.trials)
            if trial is not None:
                with heart.beating(trial.number):
                    _done(trial, job, apart, ledger)
            elif ledger.under_way(job.trials):
                time.sleep(POLL_S)
            else:
                return
            if tell is not None:
                tell(ledger)


def _done(trial: Trial, job: Job, apart: Apart, ledger: Ledger) -> None:
    """Measures one slot and hands it back, whatever becomes of it."""
    study = trial.study
    with suppress(UpdateFinishedTrialError):  # too late: somebody else has it
        try:
            point = job.problem.space.chosen(trial)
            ledger.beat(trial.number)  # its point is on record: should we die, it is done again there
            tried = _tried(trial, point, job, apart)
        except TrialFailed as error:
            trial.set_user_attr(WHY, str(error))
            study.tell(trial, state=TrialState.FAIL)
            return
        except KeyboardInterrupt:
            ledger.lost(trial.number)
            raise
        broken = {name: value for name, value in tried.excess.items() if value > 0.0}
        for name, value in (broken or {"kept": 0.0}).items():
            trial.set_constraint(name, value)
        trial.set_user_attr(NOTES, dict(tried.notes))
        if tried.values is None:
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, list(tried.values))


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a point. Without values it was given up."""

    values: tuple[float, ...] | None
    excess: Mapping[str, float]
    notes: Mapping[str, object] = field(default_factory=dict)


def _tried(trial: Trial, point: Point, job: Job, apart: Apart) -> Tried:
    problem, began = job.problem, time.monotonic()
    known: dict[int, Measured] = {}
    excess: dict[str, float] = {}
    single = len(problem.objectives) == 1
    for number, level in enumerate(problem.levels):
        known |= apart.measured(point, [i for i in level if i not in known])
        last = number == len(problem.levels) - 1
        excess |= _broken(problem, level, known, job.basis, last)
        there, here, weights = _sides(problem, level, known, job.basis)
        values = values_of(problem.objectives, weights, there, here)
        broken = any(value > 0.0 for value in excess.values())
        notes = {
            "level": number,
            "ratios": [round(x, 6) for x in ratios(there, here)],
            "wall_s": round(time.monotonic() - began, 3),
            "stopped": next((m.stopped for m in there if m.stopped), None),
        }
        if single and not broken:
            trial.report(values[0], resource(number))
        if last:
            break
        if broken if not single else broken or trial.should_prune():
            return Tried(None if single else tuple(values), excess, notes)
    return Tried(None if broken and single else tuple(values), excess, notes)


def _broken(
    problem: Problem, level: Sequence[int], known: Mapping[int, Measured], basis: Basis, last: bool
) -> dict[str, float]:
    there, here, _ = _sides(problem, level, known, basis)
    found = excess_of(there, here)
    if last or problem.cases[level[0]].simulated:
        return found
    most = problem.cases[level[0]].scenario.bounds.staleness_max or 0.0
    return {name: value - most * BY_MODEL.get(name, 0.0) for name, value in found.items()}


def _sides(
    problem: Problem, level: Sequence[int], known: Mapping[int, Measured], basis: Basis
) -> tuple[list[Measured], list[Measured], list[float]]:
    return [known[i] for i in level], [basis.here[i] for i in level], [problem.cases[i].weight for i in level]


class Heart:
    """Beats for the trial that is under way, from a thread of its own: also while a level takes long."""

    def __init__(self, ledger: Ledger, every_s: float) -> None:
        self._ledger, self._every_s = ledger, every_s
        self._number: int | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(timeout=self._every_s)

    @contextmanager
    def beating(self, number: int) -> Iterator[None]:
        self._number = number
        try:
            yield
        finally:
            self._number = None

    def _beat(self) -> None:
        while not self._over.wait(self._every_s):
            number = self._number
            if number is not None:
                with suppress(Exception):  # a missed beat is made up for by the next
                    self._ledger.beat(number)


# ---- several on this machine ----


RESPAWNS = 3
"""A worker that dies is replaced so often, each time it was one of many."""


def crew(count: int) -> Callable[[Job, Tell | None], None]:
    """`count` processes that work together, watched from here."""

    def together(job: Job, tell: Tell | None) -> None:
        quiet()
        ledger = Ledger(joined(job.where), job.where.study, job.chooser)
        members = [_started(job) for _ in range(count)]
        spare = RESPAWNS * count
        try:
            while any(member.is_alive() for member in members):
                members[0].join(POLL_S)
                fallen = [i for i, member in enumerate(members) if member.exitcode not in (None, 0)]
                for i in fallen[:spare]:
                    members[i], spare = _started(job), spare - 1
                if tell is not None:
                    tell(ledger)
        finally:
            for member in members:
                member.terminate()
        if ledger.under_way(job.trials):
            raise WorkersLostError("its workers died one after another; the same command goes on with the study")

    return together


class WorkersLostError(TunerError):
    """Nobody is left to work."""


def _started(job: Job) -> BaseProcess:
    member = multiprocessing.get_context("spawn").Process(target=_member, args=(job, os.getpid()))
    member.start()
    return member


def _member(job: Job, parent: int) -> None:
    """One of several: leaves when whoever started it is gone."""
    try:
        work(job, leave=lambda: os.getppid() != parent)
    except KeyboardInterrupt:
        return
    except Exception as error:
        sys.stderr.write(f"a worker of study {job.where.study!r} ended: {type(error).__name__}: {str(error)[:200]}\n")
        sys.exit(1)
