"""Whatever a job's metrics say: a finite order within bounds, or a hold with a reason; and always the same one."""

import gc
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.base import Direction, Interval
from policies.commands import Command, CommandKind, ControlMode
from policies.control import Action, Capability, Decision, Hold, Policy, Proposal, View
from policies.controller import tick
from policies.guardrails.case import Limits
from policies.laws.lending import Lending
from policies.laws.rate_balance import RateBalance
from policies.laws.threshold import Threshold
from policies.moves import Move
from policies.rules import Foreign, Rules
from policies.settings import gpus, values
from policies.state import State
from simulators.clock import VirtualClock
from simulators.legality import generator_gpus
from simulators.plant import Bounds, Inventory, Observation, Setpoints, Topology
from simulators.snapshot import Row, Signal, Snapshot
from tests.plants import START, TOPOLOGY, FluidPlant
from tests.stories.driving import Kept
from tests.unit.control.conftest import CAPABILITIES
from tuner.journal import encoded_decision, encoded_state
from tuner.loop import NoInbox, NoLedger, Parts, run

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    *("step_s", "trainer_wait_s", "trainer_busy_s", "generator_wait_s", "batch_rollouts", "gen_samples_per_s"),
    *("train_samples_per_s", "queue_depth", "inflight_rollouts", "rollout_p99_s", "entropy", "grad_norm", "kl"),
    *("reward_mean", "zero_adv_frac", "engines", "resp_len_mean", "trainer_idle_frac", "a_signal_of_nobody"),
)
VALUES: Any = st.one_of(
    st.sampled_from([nan, inf, -inf, 0.0, -0.0, -1.0, 1e308, -1e308, 1e-320, "12", "", None, True, 10**400]),
    st.floats(0.0, 1000.0),
    st.integers(-5, 5000),
)


@dataclass(frozen=True)
class Wishes:
    """A law that asks for whatever was drawn, for a large gain."""

    wish: Setpoints

    def decide(self, view: View) -> Proposal | Hold:
        return Proposal(self.wish, "as drawn", Interval(0.5, 0.6, 0.7)) if values(self.wish) else Hold("as drawn")


SIZES = st.integers(0, 40).map(lambda engines: 8 * engines)
ANYTHING = st.fixed_dictionaries(
    {},
    optional={
        "gpus_trainer": SIZES,
        "gpus_generator": SIZES,
        "gpus_prefill": SIZES,
        "gpus_decode": SIZES,
        "max_in_flight": st.integers(0, 4000),
        "oversampling_ratio": st.floats(1.0, 3.0),
    },
)
DIVISIONS = st.integers(0, 48).map(lambda part: {"gpus_prefill": 4 * part, "gpus_decode": 192 - 4 * part})
WISHES = st.one_of(ANYTHING, DIVISIONS).map(lambda drawn: Wishes(Setpoints(**drawn)))
POLICIES = st.one_of(st.sampled_from([RateBalance(), Threshold(persist_ticks=1), Lending()]), WISHES)
DIVIDED = replace(START, gpus_prefill=64, gpus_decode=128)
"""The same job with pools for prefill and decode."""
ABLE = (*CAPABILITIES, Capability("prefill_decode_split", cost_s=5.0))
SYNCING: Any = st.sampled_from([False, False, True, None, "no", nan])
TIMES: Any = st.one_of(st.none(), st.sampled_from([nan, inf, -1.0]), st.floats(0.0, 1e6))


@st.composite
def hostile(draw: Any, starts: tuple[Setpoints, ...] = (START, DIVIDED)) -> Observation:
    """Rows with holes, gaps and resets, signals of any kind, settings half known."""
    rows = tuple(
        Row(
            draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)),
            draw(st.one_of(st.none(), st.integers(0, 50))),
            draw(TIMES),
        )
        for _ in range(draw(st.integers(0, 6)))
    )
    told = draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8))
    signals = {n: Signal(v, "1", age_s=draw(st.sampled_from([None, 0.0, 1e9, nan]))) for n, v in told.items()}
    names = ("gpus_trainer", "gpus_generator", "gpus_prefill", "gpus_decode", "max_in_flight", "batch_rollouts")
    odd = draw(st.one_of(st.just({}), st.fixed_dictionaries({}, optional=dict.fromkeys(names, VALUES))))
    in_force = replace(draw(st.sampled_from(starts)), **odd)
    counts = dict.fromkeys(("gpus_trainer", "gpus_generator", "engines_current", "steps_done"), VALUES)
    told = draw(st.fixed_dictionaries({}, optional=counts))
    there = Inventory(**{"engines_current": draw(st.sampled_from([None, 0, 24])), "syncing": draw(SYNCING), **told})
    return Observation(draw(st.floats(0.0, 1e6)), Snapshot(signals, rows), in_force, there)


COMMANDS: Any = st.builds(
    Command,
    st.sampled_from(list(CommandKind)),
    st.sampled_from([None, "gpus_trainer", "no such knob"]),
    st.sampled_from([None, *Direction]),
    st.sampled_from([None, "d1", "d7"]),
    st.sampled_from([None, *ControlMode]),
)


def rules(policy: Policy | None = None, **changes: Any) -> Rules:
    base = Rules(policy or RateBalance(), TOPOLOGY, Bounds(gpus_total_max=256), capabilities=ABLE, gate=None)
    return replace(base, **{"earn_auto": False, **changes})


def warmed(policy: Policy) -> State:
    """The state of a controller that has worked for an hour."""
    parts = Parts(FluidPlant(), rules(policy), VirtualClock(), NoLedger(), NoInbox())
    return run(parts, State(mode=ControlMode.AUTO), 3600.0)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    POLICIES,
    st.lists(st.tuples(hostile(), st.lists(COMMANDS, max_size=2)), min_size=1, max_size=4),
    st.sampled_from(list(ControlMode)),
    st.sampled_from(list(Foreign)),
)
def test_any_signal_gives_a_possible_order_or_a_hold_with_a_reason(
    policy: Policy, story: list[tuple[Observation, list[Command]]], mode: ControlMode, foreign: Foreign
) -> None:
    state = State(mode=mode)
    for seen, commands in story:
        state, decision = tick(rules(policy, foreign=foreign), state, seen, commands, seen.time_s)
        assert decision.reason.strip()
        encoded_state(state)
        encoded_decision(decision)
        if decision.order is None:
            continue
        assert decision.action is Action.APPLY
        assert state.move is not None
        possible(TOPOLOGY, decision, state.move)


def possible(topology: Topology, decision: Decision, move: Move) -> None:
    """What is ordered can be set; no setting of its way has more GPUs than there are, nor pools that are none."""
    ordered = values(decision.order or Setpoints())
    assert ordered
    assert all(isfinite(v) and v > 0 for v in ordered.values())
    for at in move.path:
        assert (gpus(at) or 0) <= max(topology.gpus_total or 0, gpus(move.origin) or 0)
        if whole(move.origin):
            assert whole(at)


def whole(at: Setpoints) -> bool:
    """The pools are all of the generator, each of engines of 8."""
    prefill, decode = at.gpus_prefill or 0, at.gpus_decode or 0
    return prefill + decode == at.gpus_generator and min(prefill, decode) >= 8 and prefill % 8 == decode % 8 == 0


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(WISHES, st.sampled_from([START, DIVIDED]))
def test_whatever_a_law_asks_for_no_gpu_is_added_and_the_pools_are_all_of_the_generator(
    policy: Policy, start: Setpoints
) -> None:
    """A job that works, for half an hour, under a law that asks for what was drawn."""
    plant, kept = FluidPlant(start), Kept()
    limits = Limits(auto_data_changing=("oversampling_ratio",), confirm_shrink=2)
    parts = Parts(plant, rules(policy, limits=limits), VirtualClock(), kept, NoInbox(), 120.0)
    run(parts, State(mode=ControlMode.AUTO), 1800.0)
    assert max(plant.totals) <= 256
    assert (generator_gpus(plant.setpoints) or 0) <= 256 - 16
    for entry in kept.entries:
        if entry.decision.order is not None and entry.state.move is not None:
            possible(TOPOLOGY, entry.decision, entry.state.move)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(hostile())
def test_one_hostile_look_in_the_middle_of_a_move_orders_nothing_new(seen: Observation) -> None:
    state = State(mode=ControlMode.AUTO)
    plant, clock_s = FluidPlant(), 0.0
    while state.move is None:
        clock_s += 30.0
        state, _ = tick(rules(), state, plant.observe(clock_s), (), clock_s)
    goal = state.move.goal
    after, decision = tick(rules(), state, seen, (), clock_s + 30.0)
    assert after.move is None or after.move.goal == goal
    assert decision.order is None or set(values(decision.order)) <= set(values(goal))


@pytest.mark.slow
def test_a_decision_is_the_same_in_another_process() -> None:
    code = (
        "from tests.laws.test_controller_is_total import story_in_words\nimport sys; sys.stdout.write(story_in_words())"
    )
    told = []
    for seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
        )
        told.append(done.stdout)
    assert told[0] == told[1] == story_in_words()
    assert "apply" in told[0]


def story_in_words() -> str:
    """Every decision of four hours, and the last state."""
    words, state, plant = [], State(mode=ControlMode.AUTO), FluidPlant()
    for i in range(1, 480):
        state, decision = tick(rules(), state, plant.observe(30.0 * i), (), 30.0 * i)
        words.append(encoded_decision(decision).decode())
    return "\n".join([*words, encoded_state(state).decode()])


@pytest.mark.slow
def test_a_thousand_ticks_touch_no_world() -> None:
    """No file, socket, process, clock or import, by Python's own audit of this process."""
    code = (
        "import sys\n"
        "from tests.laws.test_controller_is_total import thousand_ticks, recorded\n"
        "seen = recorded(1000)\n"
        "thousand_ticks(seen[:5])\n"
        "touched = []\n"
        "sys.addaudithook(lambda event, args: touched.append(event))\n"
        "thousand_ticks(seen)\n"
        "world = {e for e in touched if not e.startswith(('object.', 'code.', 'gc.', 'builtins.id'))}\n"
        "sys.stdout.write(repr(sorted(world)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout == "[]"


def recorded(ticks: int) -> list[Observation]:
    plant = FluidPlant()
    return [plant.observe(30.0 * i) for i in range(1, ticks + 1)]


def thousand_ticks(seen: list[Observation]) -> State:
    state = State()
    for look in seen:
        state, _ = tick(rules(), state, look, (), look.time_s)
    return state


@pytest.mark.slow
def test_the_state_stays_small_however_long_it_runs() -> None:
    """After two days it is no larger than after one, though moves, notes and forecasts went through it."""
    sizes, state = [], State(mode=ControlMode.AUTO)
    plant = FluidPlant(generator_factor=lambda t: 1.5 if (t // 7200) % 2 else 1.0, noise=0.05)
    for i in range(1, 1441):
        state, _ = tick(rules(freeze_s=600.0), state, plant.observe(120.0 * i), (), 120.0 * i)
        if i in (720, 1440):
            sizes.append(len(encoded_state(state)))
    assert sizes[1] < 1.2 * sizes[0]
    assert sizes[1] < 20_000


@pytest.mark.slow
def test_memory_is_flat() -> None:
    seen = recorded(100)
    thousand_ticks(seen)
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    state = State()
    for round_ in range(5):
        for look in seen:
            at_s = look.time_s + 3000.0 * round_
            state, _ = tick(rules(), state, replace(look, time_s=at_s), (), at_s)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 500_000


def test_a_clock_that_runs_back_is_a_clock_that_stands() -> None:
    plant, state = FluidPlant(), State()
    state, _ = tick(rules(), state, plant.observe(3600.0), (), 3600.0)
    after, decision = tick(rules(), state, plant.observe(3600.0), (), 100.0)
    assert after.at_s == 3600.0
    assert decision.at_s == 3600.0


def test_a_law_that_fails_is_a_hold() -> None:
    class Fails:
        def decide(self, view: Any) -> Any:
            raise KeyError("no such thing")

    plant = FluidPlant()
    _, decision = tick(rules(Fails()), State(), plant.observe(3600.0), (), 3600.0)
    assert decision.code == "fault"
    assert "KeyError" in decision.reason
