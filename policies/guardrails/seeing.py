"""Guardrails that ask whether we see anything, and whether now is a time to act."""

from dataclasses import replace
from statistics import median

from policies.control import HoldCode
from policies.guardrails.case import OK, Case, Ruling
from policies.health import void
from policies.readings import ROWS_MIN, WORK_STEPS, kept_rows, step_lengths_s
from policies.settings import direction, engines_of, knobs_of
from simulators.signals import TINY
from simulators.snapshot import Snapshot

EVIDENCE = ("step_s", "gen_samples_per_s", "train_samples_per_s", "trainer_wait_s")
AT_WORK = ("tpot_s", "gen_tokens_per_s", "decode_tokens_per_s")
"""Before the first step has ended, engines that generate are the evidence."""
STALE_STEPS = 3.0
"""A step speaks at its end, so all is well while the newest word is one step old, and two where the next one holds an
evaluation or a checkpoint as long as itself; after three nobody is heard."""
CLAIMED_MOST = 1.25
"""A trainer's work and waiting over the time of its steps: both together are all of it, and means of a few steps are
better than this."""


def fresh(case: Case) -> Ruling:
    """Evidence is there, recent, agrees with itself, and speaks for the engines there are."""
    snapshot, limits = case.view.snapshot, case.limits
    names = EVIDENCE if snapshot.rows else (*EVIDENCE, *AT_WORK)
    known = [snapshot.signals[name] for name in names if name in snapshot.signals]
    if not known:
        return Ruling(f"none of {', '.join(names)} is known", HoldCode.STALE)
    stamps = [row.time_s for row in snapshot.rows if row.time_s is not None]
    ages = [s.age_s for s in known if s.age_s is not None] or [case.view.now_s - max(stamps, default=case.view.now_s)]
    age, limit = min(ages), stale_after_s(snapshot, limits.stale_s)
    if age > limit:
        return Ruling(f"the newest evidence is {age:.0f} s old, older than {limit:.0f} s", HoldCode.STALE)
    claimed = _claimed(snapshot)
    if claimed > CLAIMED_MOST:
        why = f"the trainer is said to work and to wait for {claimed:.3g} times as long as its steps take"
        return Ruling(why, HoldCode.CONTRADICTORY)
    reporting, there = snapshot.get("engines"), _engines(case)
    if reporting is None or not there:
        return OK
    if reporting < limits.coverage_min * there:
        return Ruling(f"{reporting:.0f} of {there} engines report", HoldCode.STALE)
    if reporting * limits.coverage_min > there:
        return Ruling(f"{reporting:.0f} engines report, but there are {there}: some of them are gone", HoldCode.STALE)
    return OK


def stale_after_s(snapshot: Snapshot, stale_s: float) -> float:
    """From what age on a word that comes once a step is none: as stated, and never before STALE_STEPS usual steps.

    The middle step, since one that hung for an hour does not make three hours of silence well.
    # 600 s stated, steps of 128 s: 600 s | of 900 s: 2,700 s
    """
    steps_s = step_lengths_s(snapshot)
    return max(stale_s, STALE_STEPS * median(steps_s)) if steps_s else stale_s


def _claimed(snapshot: Snapshot) -> float:
    """Seconds of the trainer's work and waiting over those of its steps, the newest ones together; 0 where unknown.

    # steps of 100 s with 90 s of work and 90 s of waiting: 1.8 | 90 and 10: 1
    """
    rows = [row.values for row in kept_rows(snapshot)[-WORK_STEPS:] if row.values.get("step_s", 0.0) > TINY]
    if len(rows) < ROWS_MIN:
        return 0.0
    parts = sum(row.get("trainer_busy_s", 0.0) + row.get("trainer_wait_s", 0.0) for row in rows)
    return parts / sum(row["step_s"] for row in rows)


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
