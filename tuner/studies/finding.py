"""Finding: a whole study, from its definition to its outcome. The Python interface of `equipoise tune`."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from random import Random
from typing import Any

from tuner.children import ending_with_parent
from tuner.errors import ConfigError
from tuner.studies.apart import TIMEOUT_S
from tuner.studies.cases import Case, Cohorts
from tuner.studies.favourites import earlier, liked
from tuner.studies.levels import problem_of, telling
from tuner.studies.objectives import OBJECTIVES, Measured
from tuner.studies.opening import GRACE_S, Where, joined, opened
from tuner.studies.samplers import checked, quiet, usual
from tuner.studies.space import Point, Space
from tuner.studies.storage import BASIS, READY, Chooser, Ledger, begun
from tuner.studies.trials import Mark, Problem, marked, measure
from tuner.studies.workers import Basis, Job, Tell, work
from tuner.version import VERSION

FORMAT = 2
"""Of what a study keeps; studies of another one are refused."""
ALONE_S = 5.0
"""What starting more processes costs."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched, on what, for what, how long."""

    cohorts: Cohorts
    space: Space
    objectives: tuple[str, ...] = ("useful",)
    trials: int = 100
    seed: int = 0
    sampler: str = "auto"
    timeout_s: float = TIMEOUT_S
    begin_from: str | None = None
    """Another study in the same storage, whose best points are tried first."""


Crew = Callable[[Job, Tell | None], None]
"""Who works: `work` itself, local processes, a Ray cluster."""


def prepared(search: Search, where: Where, workers: int = 1) -> Job:
    """The study begun or joined: ready for any number of workers, here or elsewhere."""
    quiet()
    problem = problem_of(search.space, search.cohorts.searching, search.objectives)
    sampler = search.sampler
    if sampler == "auto":
        sampler = usual(search.space, len(search.objectives), search.trials)
    checked(sampler, search.space, len(search.objectives))
    by_model = not problem.cases[0].simulated
    chooser = Chooser(sampler, search.space, search.seed, len(problem.levels), by_model)
    storage = opened(where)
    directions = [OBJECTIVES[name].better for name in search.objectives]
    before = [] if search.begin_from is None else earlier(storage, search.begin_from, search.space)
    created = begun(storage, where.study, definition_of(search, problem), directions)
    ledger = Ledger(storage, where.study, chooser)
    basis = _basis(ledger, problem, workers, created)
    problem = telling(problem, basis)
    told = liked(problem, basis, search.trials)
    points = [search.space.now(), *before, *told.first]
    points += _all(search) if sampler == "all" else []
    if created:
        ledger.begin(_distinct(points)[: search.trials])
        ledger.put(READY, True)
    _await(ledger, READY)
    trials = search.trials
    if sampler == "all":
        if not created:  # perhaps begun with fewer trials than the lattice has points
            known = ledger.points()
            ledger.begin([point for point in _distinct(points) if point not in known][: ledger.left(trials)])
        trials -= ledger.left(trials)
    chooser = replace(chooser, levels=len(problem.levels), worth=told.worth)
    return Job(where, chooser, problem, basis, search.timeout_s, trials)


def _all(search: Search) -> list[Point]:
    """The whole lattice, in an order that has nothing to do with it: a study may be stopped before its end."""
    found = list(search.space.points())
    Random(search.seed).shuffle(found)
    return found


def _distinct(points: Sequence[Point]) -> list[Point]:
    return list({tuple(sorted(point.items())): point for point in points}.values())


def _await(ledger: Ledger, key: str) -> Any:
    """What another machine is preparing right now; None where it died at it."""
    deadline = time.monotonic() + GRACE_S
    while (found := ledger.attr(key)) is None and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def definition_of(search: Search, problem: Problem) -> dict[str, Any]:
    """What makes a study the same study: shown word by word where another is refused."""
    cases = hashlib.sha256(repr(problem.cases).encode()).hexdigest()[:16]
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy": search.space.policy,
        "space": [{k: v for k, v in asdict(d).items() if v not in (None, (), False)} for d in search.space.dimensions],
        "objectives": list(search.objectives),
        "scenarios": sorted({case.name for case in problem.cases}),
        "data": cases,
        "seed": search.seed,
    }


# ---- what every trial is compared with ----


def _basis(ledger: Ledger, problem: Problem, workers: int, created: bool) -> Basis:
    kept = None if created else _await(ledger, BASIS)
    if kept is None:
        basis = basis_of(problem.space, problem.cases, workers)
        kept = {"marks": [asdict(m) for m in basis.marks], "here": [asdict(m) for m in basis.here]}
        ledger.put(BASIS, kept)
    return Basis(tuple(_mark(m) for m in kept["marks"]), tuple(Measured(**m) for m in kept["here"]))


def _mark(kept: Mapping[str, Any]) -> Mark:
    return Mark(kept["goal"], kept["ends_s"], tuple((int(s), float(t)) for s, t in kept["moments"]))


def basis_of(space: Space, cases: Sequence[Case], workers: int) -> Basis:
    """Every case as it is today: how much work it does, and how fast."""
    try:
        pairs = mapped(_here, [(space, case) for case in cases], workers)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return Basis(tuple(mark for mark, _ in pairs), tuple(here for _, here in pairs))


def _here(asked: tuple[Space, Case]) -> tuple[Mark, Measured]:
    space, case = asked
    mark = marked(case)
    return mark, measure(space, case, mark, {})


def measured(space: Space, cases: Sequence[Case], marks: Sequence[Mark], point: Point, workers: int) -> list[Measured]:
    """One point on cases of another cohort."""
    return mapped(_there, [(space, case, mark, point) for case, mark in zip(cases, marks, strict=True)], workers)


def _there(asked: tuple[Space, Case, Mark, Point]) -> Measured:
    return measure(*asked)


def mapped(of: Callable[[Any], Any], asked: Sequence[Any], workers: int) -> list[Any]:
    """In order; on several cores once it has taken longer than starting them does."""
    began, found = time.monotonic(), list[Any]()
    while len(found) < len(asked) and (workers < 2 or time.monotonic() - began < ALONE_S):
        found.append(of(asked[len(found)]))
    rest = asked[len(found) :]
    if rest:
        with ProcessPoolExecutor(min(workers, len(rest)), get_context("spawn"), ending_with_parent) as pool:
            found += pool.map(of, rest)
    return found


def run(job: Job, crew: Crew = work, tell: Tell | None = None) -> Ledger:
    """Lets the crew work until the study is done."""
    crew(job, tell)
    return Ledger(joined(job.where), job.where.study, job.chooser)
