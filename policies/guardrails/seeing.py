"""Guardrails that ask whether we see anything, and whether now is a time to act."""

from dataclasses import replace

from policies.control import HoldCode
from policies.guardrails.case import OK, Case, Ruling
from policies.health import void
from policies.settings import direction, engines_of, knobs_of

EVIDENCE = ("step_s", "gen_samples_per_s", "train_samples_per_s", "trainer_wait_s")
AT_WORK = ("tpot_s", "gen_tokens_per_s", "decode_tokens_per_s")
"""Before the first step has ended, engines that generate are the evidence."""


def fresh(case: Case) -> Ruling:
    """Evidence is there, recent, and speaks for the engines there are."""
    snapshot, limits = case.view.snapshot, case.limits
    names = EVIDENCE if snapshot.rows else (*EVIDENCE, *AT_WORK)
    known = [snapshot.signals[name] for name in names if name in snapshot.signals]
    if not known:
        return Ruling(f"none of {', '.join(names)} is known", HoldCode.STALE)
    stamps = [row.time_s for row in snapshot.rows if row.time_s is not None]
    ages = [s.age_s for s in known if s.age_s is not None] or [case.view.now_s - max(stamps, default=case.view.now_s)]
    age = min(ages)
    if age > limits.stale_s:
        return Ruling(f"the newest evidence is {age:.0f} s old, older than {limits.stale_s:.0f} s", HoldCode.STALE)
    reporting, there = snapshot.get("engines"), _engines(case)
    if reporting is None or not there:
        return OK
    if reporting < limits.coverage_min * there:
        return Ruling(f"{reporting:.0f} of {there} engines report", HoldCode.STALE)
    if reporting * limits.coverage_min > there:
        return Ruling(f"{reporting:.0f} engines report, but there are {there}: some of them are gone", HoldCode.STALE)
    return OK


def _engines(case: Case) -> int | None:
    """Engines that decode, by what is there, else by the setting in force."""
    now, there = case.view.in_force, case.view.inventory.gpus_generator
    return engines_of(now if there is None else replace(now, gpus_generator=there), case.view.topology)


def clear(case: Case) -> Ruling:
    """No weight sync, evaluation, checkpoint or start-up in the picture."""
    return Ruling(case.blanked, HoldCode.BLANKED) if case.blanked else OK


def settled(case: Case) -> Ruling:
    """No move under way: what is ordered and not in force is counted, never ordered twice."""
    pending = case.view.pending
    return OK if pending is None else Ruling(f"{', '.join(knobs_of(pending))} still moves", HoldCode.MOVING)


def healthy(case: Case) -> Ruling:
    """The model learns; after a shift of its learning, nothing that changes the data moves."""
    doubt = void(case.view.snapshot)
    if doubt is not None:
        return Ruling(f"speed is void: {doubt}", HoldCode.UNHEALTHY)
    touching = [k for k in case.knobs if (c := case.view.capability(k)) is not None and c.data_changing]
    if case.alarm and touching:
        return Ruling(f"{touching[0]} changes the data, and {case.alarm}", HoldCode.UNHEALTHY)
    return OK


def free(case: Case) -> Ruling:
    """No pause of a person, no freeze of ours on any knob of the proposal."""
    for knob in case.knobs:
        towards = direction(case.view.in_force, case.changes, knob)
        for pause in case.pauses:
            if pause.stops(knob, towards):
                way = f" {pause.direction}" if pause.direction else ""
                return Ruling(f"{pause.knob or 'every knob'}{way} is paused", HoldCode.PAUSED)
        for freeze in case.freezes:
            if freeze.knob == knob and case.view.now_s < freeze.until_s:
                return Ruling(
                    f"{knob} is frozen for {freeze.until_s - case.view.now_s:.0f} s: {freeze.reason}", HoldCode.FROZEN
                )
    return OK
