"""What every control law must keep, ours or a user's: `assert_conforms(MyPolicy())` in a test of your own.

from tuner.kits.policies import assert_conforms

def test_my_policy_conforms() -> None:
    assert_conforms(MyPolicy())
"""

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from math import inf, isfinite, log

from policies.beliefs import Belief, Beliefs
from policies.control import Capability, Hold, Policy, Proposal, View
from policies.sanity import unsettable
from policies.settings import ACTED, SPLIT, gpus, knobs_of, merged, values
from simulators.legality import refused_pools
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.snapshot import Row, Snapshot
from simulators.window import assemble

MEMORY_BYTES = 4096
"""A policy's memory is written at every tick."""
TICKS = 30

TOPOLOGY = Topology(mode=Mode.OVERLAPPED, gpus_total=256, gpus_per_engine=8, trainer_gpu_step=8, trainer_gpus_min=16)
IN_FORCE = Setpoints(gpus_trainer=64, gpus_generator=192, batch_rollouts=512, max_in_flight=1536)
CAPABILITIES = tuple(Capability(knob, actuation_s=60.0, cost_s=60.0) for knob in ACTED)


def assert_conforms(policy: Policy) -> None:
    """Raises AssertionError with the rule that is broken and the view that shows it."""
    _frozen_with_bounds(policy)
    for name, view in views():
        answer = _answered(policy, name, view)
        assert answer.reason.strip(), f"{name}: every answer has a reason"
        _small_memory(name, answer)
        if isinstance(answer, Proposal):
            _possible(name, view, answer)
        assert policy.decide(view) == answer, f"{name}: the same view must give the same answer"
        if name.startswith("blind"):
            assert isinstance(answer, Hold), f"{name}: without evidence a law holds"
    _remembers_only_by_memory(policy)
    _same_in_another_process(policy)


def _answered(policy: Policy, name: str, view: View) -> Proposal | Hold:
    try:
        answer = policy.decide(view)
    except Exception as error:
        raise AssertionError(
            f"{name}: decide raised {type(error).__name__}: {error}; a Hold says why instead"
        ) from error
    assert isinstance(answer, Proposal | Hold), f"{name}: decide must return a Proposal or a Hold, not {answer!r}"
    return answer


def views() -> Iterator[tuple[str, View]]:
    """Situations that a law must survive: both sides slow, balanced, blind, unknown, serial, extreme, late."""
    for name, wait, gated in (("starving", 0.4, 0.0), ("gated", 0.0, 0.4), ("balanced", 0.03, 0.03)):
        yield name, view_of(wait, gated)
    usual = view_of(0.3, 0.0)
    nothing = replace(usual, snapshot=Snapshot({}), beliefs=Beliefs())
    yield "blind", nothing
    yield "blind with unknown settings", replace(nothing, in_force=Setpoints())
    yield "unknown settings", replace(usual, in_force=Setpoints())
    yield "serial", replace(usual, topology=replace(TOPOLOGY, mode=Mode.SERIAL))
    yield "no lattice", replace(usual, topology=Topology(mode=Mode.UNKNOWN))
    yield "no room", replace(usual, bounds=Bounds(gpus_trainer_min=64, gpus_trainer_max=64))
    yield "a strange memory", replace(usual, memory={"ratio": -3.0, "trainer": 1e9, "home": 8.0})
    yield "at the end", replace(usual, horizon_s=0.0)
    yield "for ever", replace(usual, horizon_s=inf, now_s=1e12)
    yield "one GPU each", replace(usual, in_force=replace(IN_FORCE, gpus_trainer=1, gpus_generator=1))


def view_of(wait_frac: float, gated_frac: float, step_s: float = 128.0) -> View:
    """A job whose trainer waits and whose generator is gated for these shares of every step."""
    rows = [
        Row(
            {
                "step_s": step_s,
                "trainer_wait_s": wait_frac * step_s,
                "trainer_busy_s": (1.0 - wait_frac) * step_s,
                "generator_wait_s": gated_frac * step_s,
                "batch_rollouts": 512.0,
                "queue_depth": 512.0 * gated_frac,
            },
            step=i,
            time_s=step_s * i,
        )
        for i in range(1, 21)
    ]
    rate, now_s = 512.0 / step_s, 21 * step_s
    sides = {"trainer": rate / (1.0 - wait_frac), "generator": rate / (1.0 - gated_frac)}
    beliefs = Beliefs({side: Belief(log(per_s), 1e-4, now_s) for side, per_s in sides.items()})
    return View(
        now_s, assemble(rows), IN_FORCE, TOPOLOGY, beliefs=beliefs, capabilities=CAPABILITIES, horizon_s=21600.0
    )


def _frozen_with_bounds(policy: Policy) -> None:
    assert is_dataclass(policy), "a policy is a dataclass: its fields are its parameters"
    assert not isinstance(policy, type)
    try:
        same = hash(policy) == hash(replace(policy))
    except TypeError:
        same = False
    assert same, "a policy is frozen and hashable: @dataclass(frozen=True), its fields numbers, words or tuples"
    for f in fields(policy):
        if "low" in f.metadata:
            low, high = f.metadata["low"], f.metadata["high"]
            assert low < high, f"{f.name}: the bounds of its metadata are (low, high)"
            for end in (low, high):
                _decides_at(policy, f.name, end)


def _decides_at(policy: Policy, name: str, end: float) -> None:
    """A study may try any end of a parameter; a pair that excludes each other is refused with a ValueError."""
    try:
        there = replace(policy, **{name: end})  # type: ignore[type-var]
    except ValueError:
        return
    for situation, view in views():
        answer = _answered(there, f"{name}={end}, {situation}", view)
        assert answer.reason, f"{name}={end}, {situation}: every answer has a reason"


def _small_memory(name: str, answer: Proposal | Hold) -> None:
    odd = {k: v for k, v in answer.memory.items() if not isinstance(v, float | int | str) or v != v or v in (inf, -inf)}
    assert not odd, f"{name}: a memory holds finite numbers and words, not {odd}"
    text = json.dumps(dict(answer.memory))
    assert len(text) <= MEMORY_BYTES, f"{name}: {len(text)} bytes of memory, at most {MEMORY_BYTES}"


def _possible(name: str, view: View, answer: Proposal) -> None:
    changes, then = answer.changes, merged(view.in_force, answer.changes)
    assert values(changes), f"{name}: a proposal changes something; else it is a Hold"
    assert set(knobs_of(changes)) <= set(ACTED), f"{name}: {knobs_of(changes)} are not all knobs of a controller"
    wrong = unsettable(changes)
    assert not wrong, f"{name}: {wrong} cannot be set: counts are whole, ratios at least 1"
    assert all(isfinite(v) and v > 0 for v in values(changes).values()), f"{name}: {changes} has impossible numbers"
    if SPLIT in knobs_of(changes):
        assert gpus(then) == gpus(view.in_force), f"{name}: a split moves GPUs, it never adds any"
    pools = refused_pools(view.topology, view.in_force, then)
    assert pools is None, f"{name}: {pools}"
    gain = answer.gain_frac
    if gain is not None:
        assert gain.low <= gain.mean <= gain.high, f"{name}: {gain} is no interval"
        assert all(map(isfinite, (gain.low, gain.mean, gain.high))), f"{name}: {gain} is not finite"


def _remembers_only_by_memory(policy: Policy) -> None:
    """Two runs over the same views, memory handed on, give the same answers: nothing is kept inside."""
    assert _run(policy) == _run(policy), "a policy remembers by `memory` only"


def _run(policy: Policy) -> list[Proposal | Hold]:
    answers: list[Proposal | Hold] = []
    view = view_of(0.3, 0.0)
    for i in range(TICKS):
        answers.append(policy.decide(replace(view, now_s=view.now_s + 30.0 * i)))
        view = replace(view, memory=answers[-1].memory)
    return answers


def _same_in_another_process(policy: Policy) -> None:
    """Nothing of this process is in an answer: no order of a set, no clock, no environment."""
    try:
        sent = pickle.dumps(policy)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(f"a policy is a class of a module, so that any process can have it: {error}") from error
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    code = f"from {__name__} import answer_elsewhere; answer_elsewhere()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=sent,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, f"another process cannot run it: {done.stderr.decode(errors='replace')[-500:]}"
    here, there = _answers(policy), done.stdout.decode().splitlines()
    for (name, _), mine, its in zip(views(), here, there, strict=True):
        assert mine == its, f"{name}: another process answers {its} instead of {mine}"


def answer_elsewhere() -> None:
    """The answers of the policy on standard input, one a line: a policy of one's own, sent by `assert_conforms`.

    It is another day here, so that a policy that looks at the clock is found out.
    """
    for name in ("time", "monotonic", "perf_counter"):
        setattr(time, name, lambda: 0.0)
    sys.stdout.write("\n".join(_answers(pickle.load(sys.stdin.buffer))))


def _answers(policy: Policy) -> list[str]:
    return [repr(repr(policy.decide(view))) for _, view in views()]
