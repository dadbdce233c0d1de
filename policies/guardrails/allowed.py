"""Guardrails that ask whether the setting after the move is allowed."""

from math import isfinite

from policies.beliefs import CENTRAL_80
from policies.control import HoldCode, View, split_to
from policies.guardrails.case import OK, Case, Ruling
from policies.objective import Constraint, violations
from policies.settings import ACTED, SPLIT, gpus, merged, values
from policies.stages import first_step, way
from simulators.legality import legal_sizes, refusal
from simulators.plant import Change
from simulators.signals import TINY

SIZES_SHOWN = 8
"""Legal sizes that a refusal names."""


def legal(case: Case) -> Ruling:
    """Every knob can be turned here, and no rule of the job refuses the split: lattices, floors, batch, checkpoint."""
    view, named = case.view, values(case.changes)
    if not named:
        return Ruling("the proposal changes nothing", HoldCode.ILLEGAL)
    odd = [n for n, v in named.items() if not isfinite(v) or v < 0]
    if odd:
        return Ruling(f"{odd[0]}={named[odd[0]]} is no setting", HoldCode.ILLEGAL)
    unable = [k for k in case.knobs if k not in ACTED or view.capability(k) is None]
    if unable:
        return Ruling(f"no actuator turns {unable[0]} here", HoldCode.ILLEGAL)
    owned = [k for k in case.knobs if k in view.topology.self_tuned]
    if owned:
        return Ruling(f"the framework tunes {owned[0]} itself", HoldCode.ILLEGAL)
    return _legal_split(case) if SPLIT in case.knobs else OK


def _legal_split(case: Case) -> Ruling:
    view, then = case.view, case.then
    sizes = _sizes(view)
    if then.gpus_trainer not in sizes:
        why = refusal(view.topology, view.in_force, view.bounds, then.gpus_trainer or 0) or "no split is known here"
        shown = ", ".join(map(str, sizes[:SIZES_SHOWN])) or "none"
        return Ruling(f"{then.gpus_trainer} trainer GPUs are not legal: {why} (legal: {shown})", HoldCode.ILLEGAL)
    if gpus(then) != gpus(view.in_force):
        return Ruling(
            f"{gpus(then)} GPUs after the move, {gpus(view.in_force)} before: a split moves, never adds",
            HoldCode.ILLEGAL,
        )
    return OK


def _sizes(view: View) -> tuple[int, ...]:
    return legal_sizes(view.topology, view.in_force, view.bounds)


def bounded(case: Case) -> Ruling:
    """Staleness, bias and quotas as the model predicts them after the move; what is broken already may be left."""
    view = case.view
    try:
        was, will = view.predicted(view.in_force), view.predicted(case.then)
    except ValueError as error:
        return Ruling(f"the model refuses the new setting: {error}", HoldCode.BOUND)
    before = {v.constraint for v in violations(view.objective, view.bounds, view.in_force, was)}
    new = [v for v in violations(view.objective, view.bounds, case.then, will) if v.constraint not in before]
    return Ruling(new[0].reason, HoldCode.BOUND) if new else OK


def one_step(case: Case) -> Ruling:
    """A split goes a first step (policies/stages.py) until a move has proved itself: narrowed, not held.

    Where a change is a restart, a step costs as much as the whole way; before the job's first step has ended there is
    nothing that it could be compared with, and nothing to be lost on the way: it goes there at once.
    """
    now, then, total = case.view.in_force.gpus_trainer, case.then.gpus_trainer, gpus(case.view.in_force)
    if SPLIT not in case.knobs or now is None or then is None or total is None or case.view.begins:
        return OK
    how = case.view.capability(SPLIT)
    if now == then or case.kept_moves >= case.limits.trusted_moves or (how and how.change is Change.RESTART):
        return OK
    passed = way(_sizes(case.view), now, then)
    gain = case.gain_frac.mean if case.gain_frac is not None else 0.0
    near = first_step(passed, now, total, case.limits.deadband_frac / gain if gain > 0.0 else 0.0)
    if near == then:
        return OK
    wish = merged(case.changes, split_to(case.view, near))
    return Ruling(
        f"first one step: {now} to {near} trainer GPUs instead of {then}", None, wish, (near - now) / (then - now)
    )


def donor(case: Case) -> Ruling:
    """The state *after* the donor shrinks: the side that gives may not become the slower one by more than its error.

    load = served by the other side / (capacity x (n'/n)), at the exponent 1 that is worst for the donor

    Where a model speaks, its predictions have weighed the donor already, and better: of a side that is held back the
    measured rate is a lower bound, and an engine that shares its time is busy with one resident.
    # trainer 2.0/s on 64 GPUs, generator 1.4/s on 192; 48 : 208 -> 1.52 / 1.50 = 1.01: passes; 40 : 216 -> 1.26: held
    """
    rates, now, then = case.view.beliefs.rates, case.view.in_force, case.then
    if case.view.model is not None or SPLIT not in case.knobs or not {"generator", "trainer"} <= rates.keys():
        return OK
    sizes = (now.gpus_trainer, then.gpus_trainer, now.gpus_generator, then.gpus_generator)
    if not all(sizes):
        return OK
    t, t2, g, g2 = (float(size or 1) for size in sizes)
    gives, takes = ("trainer", "generator") if t2 < t else ("generator", "trainer")
    shrink, growth = (t2 / t, g2 / g) if t2 < t else (g2 / g, t2 / t)
    load = rates[takes].rate * growth / max(TINY, rates[gives].rate * shrink)
    limit = case.limits.donor_load_max + CENTRAL_80 * rates[gives].sigma
    if load <= limit:
        return OK
    return Ruling(f"the {gives} would carry {load:.0%} of its capacity after giving GPUs", HoldCode.DONOR)


def within_budget(case: Case) -> Ruling:
    """Floors and budget, last, whatever the rest said."""
    now, then = case.view.in_force, case.then
    hard = (Constraint.BUDGET, Constraint.TRAINER_SIZE, Constraint.IN_FLIGHT)
    for broken in violations(case.view.objective, case.view.bounds, then):
        if broken.constraint in hard:
            return Ruling(broken.reason, HoldCode.BUDGET)
    total, before = gpus(then), gpus(now)
    if total is not None and before is not None and total > max(before, case.view.topology.gpus_total or before):
        return Ruling(f"{total} GPUs exceed the {before} in force", HoldCode.BUDGET)
    empty = [n for n in ("gpus_trainer", "gpus_generator", "max_in_flight") if values(case.changes).get(n, 1) < 1]
    return Ruling(f"{empty[0]} would be under 1", HoldCode.BUDGET) if empty else OK
