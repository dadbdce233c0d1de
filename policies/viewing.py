"""From what is remembered and what is seen to a View: what the policy may know. Pure."""

from dataclasses import replace

from policies.commands import ControlMode
from policies.control import REVIEW_S, View
from policies.looks import stood_s
from policies.rules import Rules
from policies.settings import is_self_tuned, missing_of
from policies.state import State
from simulators.plant import Observation


def view_of(rules: Rules, state: State, seen: Observation) -> View:
    """What the policy may know. While it rests until its next review, no model is made for it."""
    view, due_s = bare_view(rules, state, seen), state.memory.get(REVIEW_S, 0.0)
    rests = isinstance(due_s, float) and seen.time_s < due_s
    if rules.modeller is None or rests:
        return view
    central = rules.modeller.central(seen)
    if central is None:
        return replace(view, no_model=rules.modeller.why_not(seen))
    return replace(
        view, model=central.model, workload=central.workload, doubt=central.doubt, simulator=central.simulator
    )


def bare_view(rules: Rules, state: State, seen: Observation) -> View:
    """The same without a model."""
    return View(
        now_s=seen.time_s,
        snapshot=seen.snapshot,
        in_force=seen.in_force,
        topology=rules.topology,
        inventory=seen.inventory,
        bounds=rules.bounds,
        objective=rules.objective,
        beliefs=state.beliefs,
        missing=missing_of(seen.in_force, seen.inventory),
        pending=None if state.move is None else state.move.goal,
        capabilities=tuple(c for c in rules.capabilities if not is_self_tuned(c.knob, rules.topology)),
        locked=_locked_knobs(rules, state),
        refused=None if state.wanted is None else state.wanted.refused,
        horizon_s=max(0.0, min(max(rules.horizon_s, stood_s(seen.time_s, state.memory)), rules.ends_s - seen.time_s)),
        memory=state.memory,
    )


def _locked_knobs(rules: Rules, state: State) -> frozenset[str]:
    """Knobs that `auto` may only advise."""
    if state.mode is not ControlMode.AUTO:
        return frozenset()
    changing = {capability.knob for capability in rules.capabilities if capability.data_changing}
    return frozenset(changing - set(rules.limits.auto_data_changing))
