"""Guardrails that ask whether the setting after the move is allowed."""

from dataclasses import replace
from math import isfinite

from policies.beliefs import CENTRAL_80
from policies.control import HoldCode, View, split_to
from policies.guardrails.case import OK, Case, Ruling
from policies.objective import Constraint, Violation, worsened
from policies.settings import ACTED, SPLIT, gpus, is_self_tuned, merged, values
from policies.stages import first_step, way
from policies.unmodelled import growth, measured, unmodelled, with_quota
from simulators.legality import generator_gpus, legal_sizes, refusal, refused_pools
from simulators.plant import Change, Setpoints
from simulators.signals import TINY

COUNTS = ("gpus_trainer", "gpus_generator", "max_in_flight")
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
    owned = [k for k in case.knobs if is_self_tuned(k, view.topology)]
    if owned:
        return Ruling(f"the framework tunes {owned[0]} itself", HoldCode.ILLEGAL)
    unable = [k for k in case.knobs if k not in ACTED or view.capability(k) is None]
    if unable:
        return Ruling(f"no actuator turns {unable[0]} here", HoldCode.ILLEGAL)
    return _legal_split(case) if SPLIT in case.knobs else _legal_pools(case)


def _legal_pools(case: Case) -> Ruling:
    now, then = case.view.in_force, case.then
    why = refused_pools(case.view.topology, now, then)
    if why is None and generator_gpus(then) != generator_gpus(now):
        why = f"{generator_gpus(then)} GPUs of the generator after the move, {generator_gpus(now)} before"
    return OK if why is None else Ruling(why, HoldCode.ILLEGAL)


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
    pools = refused_pools(view.topology, view.in_force, then)
    return OK if pools is None else Ruling(pools, HoldCode.ILLEGAL)


def _sizes(view: View) -> tuple[int, ...]:
    return legal_sizes(view.topology, view.in_force, view.bounds)


def bounded(case: Case) -> Ruling:
    """Staleness, bias and quotas after the move, as the model predicts them; as they are measured where none does. What
    is broken already may be mended, and not be broken further; what nobody can tell is not made more likely."""
    view = case.view
    try:
        before, after = _broken(view, view.in_force), _broken(view, case.then)
    except ValueError as error:
        return Ruling(f"the model refuses the new setting: {error}", HoldCode.BOUND)
    worse = worsened(before, after)
    return Ruling(worse[0].reason, HoldCode.BOUND) if worse else OK


def _broken(view: View, settings: Setpoints) -> tuple[Violation, ...]:
    prediction, times = view.predicted(settings), growth(view.in_force, settings)
    seen = measured(view.snapshot, view.in_force, times)
    if prediction is None:
        return unmodelled(view.objective, view.bounds, with_quota(settings, view.snapshot), seen, times)
    return view.broken(
        settings, prediction if prediction.staleness is not None else replace(prediction, staleness=seen)
    )


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
    for broken in worsened(case.view.broken(now), case.view.broken(then)):
        if broken.constraint in hard:
            return Ruling(broken.reason, HoldCode.BUDGET)
    total, held = gpus(then), gpus(now)
    if total is not None and held is not None and total > max(held, case.view.topology.gpus_total or held):
        return Ruling(f"{total} GPUs exceed the {held} in force", HoldCode.BUDGET)
    pools = refused_pools(case.view.topology, now, then)
    if pools is not None:
        return Ruling(pools, HoldCode.BUDGET)
    empty = [n for n in COUNTS if values(case.changes).get(n, 1) < 1]
    return Ruling(f"{empty[0]} would be under 1", HoldCode.BUDGET) if empty else OK
