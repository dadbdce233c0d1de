"""Bounds where no model speaks, and the budget behind everything: what is broken already may be mended, never more."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from policies.control import HoldCode
from policies.controller import question_of
from policies.guardrails.chain import CHAIN, guarded
from policies.objective import Objective, StalenessBound
from policies.settings import with_trainer
from policies.unmodelled import with_quota
from simulators.model import Prediction
from simulators.plant import Bounds, Setpoints, Topology
from simulators.snapshot import Row, Snapshot, snapshot_of
from simulators.workload import Workload
from tests.plants import START, TOPOLOGY
from tests.unit.control.test_gate import WORKLOAD, TwoRates
from tests.unit.control.test_guardrails import (
    AT_MOST_1,
    FEWER,
    MORE,
    TO_GENERATOR,
    case,
    divided,
    with_signals,
)


def bound(**changes: Any) -> HoldCode | None:
    return CHAIN["bounded"](case(**changes)).code


def test_what_is_measured_is_held_against_its_bound_grown_with_what_a_change_lets_in_flight() -> None:
    """The worked table of policies/unmodelled.py: 3.0 versions, at most 4."""
    seen = {"snapshot": with_signals(staleness_mean=3.0), "bounds": Bounds(staleness_max=4.0)}
    assert bound(changes=Setpoints(max_in_flight=1920), **seen) is None
    assert bound(changes=Setpoints(max_in_flight=2304), **seen) is HoldCode.BOUND
    assert bound(**seen) is None, "a split takes 4 % more in flight with it"
    near = {"snapshot": with_signals(staleness_mean=3.9), "bounds": Bounds(staleness_max=4.0)}
    assert bound(**near) is HoldCode.BOUND
    assert bound(changes=replace(TO_GENERATOR, max_in_flight=None), **near) is HoldCode.BOUND, "engines take them too"
    assert bound(changes=with_trainer(START, TOPOLOGY, 72), **near) is None


@pytest.mark.parametrize("snapshot", [with_signals(staleness_mean=6.0), None], ids=["measured", "untold"])
def test_less_in_flight_may_always_be(snapshot: Snapshot | None) -> None:
    seen = {} if snapshot is None else {"snapshot": snapshot}
    assert bound(bounds=AT_MOST_1, changes=FEWER, **seen) is None
    assert bound(bounds=AT_MOST_1, changes=MORE, **seen) is HoldCode.BOUND


def test_a_bound_that_the_framework_keeps_is_kept_until_it_is_seen_not_to_be() -> None:
    kept = {"in_force": replace(START, staleness_bound=1.0), "bounds": AT_MOST_1, "changes": MORE}
    assert bound(**kept) is None
    assert bound(snapshot=with_signals(staleness_mean=0.98), **kept) is None
    assert bound(snapshot=with_signals(staleness_mean=6.0), **kept) is HoldCode.BOUND


def test_a_bound_on_the_worst_is_held_against_the_worst() -> None:
    worst = {"objective": Objective(staleness=StalenessBound.MAXIMUM), "bounds": Bounds(staleness_max=4.0)}
    seen = with_signals(staleness_mean=1.0, staleness_max=3.9)
    assert bound(snapshot=seen, **worst) is HoldCode.BOUND
    assert bound(snapshot=seen, bounds=Bounds(staleness_max=4.0)) is None
    assert bound(snapshot=with_signals(staleness_mean=1.0), **worst) is HoldCode.BOUND, "nobody can tell the worst"


def test_a_knob_of_which_nothing_was_known_may_let_anything_in() -> None:
    unknown = {"in_force": replace(START, max_in_flight=None), "bounds": Bounds(staleness_max=4.0)}
    assert bound(changes=MORE, snapshot=with_signals(staleness_mean=1.0), **unknown) is HoldCode.BOUND


def test_what_a_model_tells_of_a_bound_is_believed_and_what_it_leaves_out_is_measured() -> None:
    told = {"model": TwoRates(4.0, 5.6), "workload": WORKLOAD, "snapshot": with_signals(staleness_mean=9.0)}
    assert bound(bounds=Bounds(staleness_max=3.2), **told) is None
    assert bound(bounds=Bounds(staleness_max=3.05), **told) is HoldCode.BOUND
    assert bound(bounds=Bounds(staleness_max=1.0), **told) is HoldCode.BOUND, "3.0 now, 3.125 then"
    silent = {**told, "model": Silent(4.0, 5.6)}
    assert bound(bounds=Bounds(staleness_max=9.1), **silent) is HoldCode.BOUND
    assert bound(bounds=Bounds(staleness_max=9.1), changes=FEWER, **silent) is None


@dataclass(frozen=True)
class Silent(TwoRates):
    """A model that says nothing of staleness."""

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        return replace(super().predict(topology, workload, setpoints), staleness=None)


def test_pools_that_are_all_of_the_generator_may_be_turned() -> None:
    assert guarded(divided(Setpoints(gpus_prefill=72, gpus_decode=120)))[1].code is None
    assert guarded(divided(with_trainer(divided(Setpoints()).view.in_force, TOPOLOGY, 56)))[1].code is None


@pytest.mark.parametrize("knob", [Setpoints(gpus_prefill=128), Setpoints(gpus_prefill=0, gpus_decode=192)])
def test_the_budget_counts_the_pools_too(knob: Setpoints) -> None:
    assert CHAIN["within-budget"](divided(knob)).code is HoldCode.BUDGET


def budget(**changes: Any) -> HoldCode | None:
    return CHAIN["within-budget"](case(**changes)).code


def test_no_gpu_is_added_whatever_the_rest_said() -> None:
    free = replace(TOPOLOGY, gpus_total=None)
    assert budget(topology=free) is None
    assert budget(topology=free, changes=Setpoints(gpus_trainer=65)) is HoldCode.BUDGET
    assert budget(changes=Setpoints(gpus_generator=193)) is HoldCode.BUDGET
    assert budget(changes=Setpoints(gpus_generator=191)) is None
    returned = {"in_force": replace(START, gpus_generator=184), "changes": Setpoints(gpus_generator=192)}
    assert budget(**returned) is None, "GPUs of the job come back"
    assert budget(**returned, bounds=Bounds(gpus_total_max=250)) is HoldCode.BUDGET


@pytest.mark.parametrize(
    ("changes", "bounds", "code"),
    [
        (TO_GENERATOR, Bounds(gpus_total_max=250), None),
        (TO_GENERATOR, Bounds(gpus_trainer_min=60), HoldCode.BUDGET),
        (TO_GENERATOR, Bounds(gpus_trainer_min=72), HoldCode.BUDGET),
        (with_trainer(START, TOPOLOGY, 68), Bounds(gpus_trainer_min=72), None),
        (MORE, Bounds(max_in_flight_max=1200), HoldCode.BUDGET),
        (FEWER, Bounds(max_in_flight_max=1200), None),
        (Setpoints(max_in_flight=0), Bounds(), HoldCode.BUDGET),
        (Setpoints(gpus_trainer=0, gpus_generator=256), Bounds(), HoldCode.BUDGET),
    ],
)
def test_floors_and_budget_are_not_broken_further_and_may_be_mended(
    changes: Setpoints, bounds: Bounds, code: HoldCode | None
) -> None:
    assert budget(changes=changes, bounds=bounds) is code


def test_the_quota_that_was_measured_last_is_in_force() -> None:
    rows = tuple(Row({"sandbox_quota": quota}, step) for step, quota in enumerate((2400.0, 2400.0, 420.0)))
    fallen = replace(snapshot_of(sandbox_quota=1740.0), rows=rows)
    assert with_quota(START, fallen).sandbox_quota == 420
    assert with_quota(replace(START, sandbox_quota=500), fallen).sandbox_quota == 500
    assert with_quota(START, snapshot_of(step_s=80.0)) == START


def test_the_gate_is_asked_with_the_quota_that_was_measured() -> None:
    asked = case(snapshot=with_signals(sandbox_quota=1550.0))
    assert question_of(asked.view, TO_GENERATOR).now.sandbox_quota == 1550
