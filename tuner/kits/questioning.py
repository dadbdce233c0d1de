"""Asks a law in a process of its own: every situation, then a long run; what it answers, or the rule that it breaks.

Two such processes in two worlds hear the same questions: here in their order, one job at a time; elsewhere (another
directory, home, time zone, day and seed of hashes) backwards, and two jobs in turns. A law that is a function of its
view answers both alike; one that keeps something to itself, or knows where it is, does not.
"""

import gc
import json
import os
import pickle
import sys
import sysconfig
import time
import traceback
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import pairwise
from math import inf, isfinite

from policies.control import Hold, Policy, Proposal, View
from policies.guardrails.allowed import legal, within_budget
from policies.guardrails.case import Case
from policies.sanity import unsettable
from policies.settings import ACTED, SPLIT, gpus, knobs_of, merged, values
from tuner.kits.situations import BLIND, modelled, view_of, views
from tuner.kits.watch import Broken, Watch, within_cpu

MEMORY_BYTES = 4096
"""A policy's memory is written at every tick."""
TICKS = 200
"""Of a long run."""
TICK_S = 30.0
PARTS, PART_TICKS = 4, 100
"""Of the run that tells what is kept."""
GROWTH_BYTES = 2048
"""What each part may add: two thirds of what a list does that gets one number a tick. Arrays of numpy that are made and
dropped add 1,400 for some hundred ticks, until its cache of them is full."""
LIBRARIES = ("stdlib", "purelib", "platlib")
MEMORY_GROWTH_BYTES = 64
"""The same of the memory as it is written, where numbers get longer and shorter."""
FIRST = 20.0
"""A first answer may take so many times as long as the next: it imports, and compiles."""


class World(StrEnum):
    HERE = "here"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Asking:
    """What a process is asked to do."""

    policy: Policy
    decide_s: float
    """Seconds of a processor that one decision may take."""


def main(world: str) -> None:
    """Reads an `Asking` from standard input, and writes the answers, or the rule that is broken, as JSON."""
    report, sys.stdout = sys.stdout, sys.stderr
    if world == World.ELSEWHERE:
        for name in ("time", "time_ns", "monotonic", "perf_counter"):  # before the law's module is loaded
            setattr(time, name, lambda: 0)
    asking = pickle.load(sys.stdin.buffer)
    try:
        told: Mapping[str, object] = {"answers": dict(Questioner(asking, Watch()).answers(World(world)))}
    except Broken as broken:
        told = {"broken": str(broken)}
    json.dump(told, report)


class Questioner:
    """Asks one law; every answer is held against the rules."""

    def __init__(self, asking: Asking, watch: Watch) -> None:
        self._policy, self._decide_s, self._watch = asking.policy, asking.decide_s, watch

    def answers(self, world: World) -> Iterator[tuple[str, str]]:
        """By the name of the question. Raises Broken with the first rule that is broken."""
        jobs = {"long run": modelled(view_of(0.3, 0.0)), "other long run": view_of(0.0, 0.3)}
        situations = list(views())
        if world is World.HERE:
            for name, view in situations:
                yield name, repr(self._asked(self._policy, name, view))
            for name, view in jobs.items():
                yield from self._run({name: view})
            self._at_its_bounds(situations)
            self._keeps_nothing()
            return
        for name, view in reversed(situations):
            yield name, repr(self._asked(self._policy, name, view))
        yield from self._run(jobs)

    def _asked(self, policy: Policy, name: str, view: View) -> Proposal | Hold:
        """Its answer: once watched, then once more against the clock."""
        answer = self._decided(policy, name, view, watch=True)
        demand(isinstance(answer, Proposal | Hold), f"{name}: decide must return a Proposal or a Hold, not {answer!r}")
        demand(bool(answer.reason.strip()), f"{name}: every answer has a reason")
        _small_memory(name, answer)
        if isinstance(answer, Proposal):
            _possible(name, view, answer)
        if name.startswith(BLIND):
            demand(isinstance(answer, Hold), f"{name}: without evidence a law holds")
        again = self._decided(policy, name, view)
        demand(again == answer, f"{name}: the same view must give the same answer, not {answer} and then {again}")
        return answer

    def _decided(self, policy: Policy, name: str, view: View, *, watch: bool = False) -> Proposal | Hold:
        try:
            with within_cpu(self._decide_s * (FIRST if watch else 1.0)):
                return self._watch.call(lambda: policy.decide(view)) if watch else policy.decide(view)
        except Broken as broken:
            raise Broken(f"{name}: {broken}") from broken
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__}: {error} at {at.filename}:{at.lineno}"
            raise Broken(f"{name}: decide raised {words}; a Hold says why instead") from error

    def _run(self, jobs: Mapping[str, View]) -> Iterator[tuple[str, str]]:
        """Jobs over many ticks in turns, each one's memory handed on."""
        for tick in range(TICKS):
            for name in jobs:
                view = replace(jobs[name], now_s=jobs[name].now_s + TICK_S)
                answer = self._decided(self._policy, name, view)
                _small_memory(name, answer)
                jobs = {**jobs, name: replace(view, memory=answer.memory)}
                yield f"{name}, tick {tick}", repr(answer)

    def _at_its_bounds(self, situations: Iterable[tuple[str, View]]) -> None:
        """A study may try any end of a parameter; a pair that excludes each other is refused with a ValueError."""
        for f in fields(self._policy):  # type: ignore[arg-type]
            for end in (f.metadata["low"], f.metadata["high"]) if "low" in f.metadata else ():
                try:
                    there = replace(self._policy, **{f.name: end})  # type: ignore[type-var]
                except ValueError:
                    continue
                for name, view in situations:
                    self._asked(there, f"{f.name}={end}, {name}", view)

    def _keeps_nothing(self) -> None:
        """Of a job that stands still no part of a long run adds to what is kept; early ones may fill caches."""
        kept, written = [], []
        tracemalloc.start()
        view = replace(modelled(view_of(0.3, 0.0)), now_s=1e6)
        for _ in range(PARTS):
            longest = 0
            for _ in range(PART_TICKS):
                view = replace(view, now_s=view.now_s + TICK_S)
                answer = self._decided(self._policy, "long run", view)
                view = replace(view, memory=answer.memory)
                longest = max(longest, len(json.dumps(dict(answer.memory))))
            del answer
            gc.collect()
            kept.append(_kept_bytes(type(self._policy)))
            written.append(longest)
        tracemalloc.stop()
        more, longer = (min(then - now for now, then in pairwise(sizes)) for sizes in (kept, written))
        every = f"after every {PART_TICKS} ticks of a job that stands still"
        demand(
            more <= GROWTH_BYTES,
            f"a policy remembers by `memory` only: {more} bytes more are kept {every}; a cache has a size",
        )
        demand(
            longer <= MEMORY_GROWTH_BYTES,
            f"the memory is {longer} bytes longer {every}: keep a sum, a mean or a count",
        )


def _kept_bytes(law: type) -> int:
    """What was allocated and is still there, but for what libraries keep for themselves (numpy its small arrays)."""
    own = os.path.dirname(sys.modules[law.__module__].__file__ or "")
    libraries = tuple(path for path in map(sysconfig.get_path, LIBRARIES) if not own.startswith(path))
    traces = tracemalloc.take_snapshot().traces
    return sum(trace.size for trace in traces if not trace.traceback[0].filename.startswith((*libraries, "<frozen")))


def demand(kept: bool, rule: str) -> None:
    if not kept:
        raise Broken(rule)


def _small_memory(name: str, answer: Proposal | Hold) -> None:
    odd = {k: v for k, v in answer.memory.items() if not isinstance(v, float | int | str) or v != v or v in (inf, -inf)}
    demand(not odd, f"{name}: a memory holds finite numbers and words, not {odd}")
    text = json.dumps(dict(answer.memory))
    demand(len(text) <= MEMORY_BYTES, f"{name}: {len(text)} bytes of memory, at most {MEMORY_BYTES}")


def _possible(name: str, view: View, answer: Proposal) -> None:
    changes, then = answer.changes, merged(view.in_force, answer.changes)
    demand(bool(values(changes)), f"{name}: a proposal changes something; else it is a Hold")
    knobs = knobs_of(changes)
    demand(set(knobs) <= set(ACTED), f"{name}: {knobs} are not all knobs of a controller")
    wrong = unsettable(changes)
    demand(not wrong, f"{name}: {wrong} cannot be set: counts are whole, ratios at least 1")
    if SPLIT in knobs:
        demand(gpus(then) == gpus(view.in_force), f"{name}: a split moves GPUs, it never adds any")
    case = Case(view, changes, answer.gain_frac)
    for ruling in (legal(case), within_budget(case)):
        demand(ruling.code is None, f"{name}: {ruling.reason}; legal splits: simulators.legality.legal_sizes(...)")
    gain = answer.gain_frac
    if gain is not None:
        ends = (gain.low, gain.mean, gain.high)
        demand(all(map(isfinite, ends)), f"{name}: {gain} is not finite")
        demand(gain.low <= gain.mean <= gain.high, f"{name}: {gain} is no interval")
