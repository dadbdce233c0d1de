"""What to change between the two sides: overlap, the split of the GPUs, the trainer's own efficiency."""

from collections.abc import Iterator

from policies.base import Direction, Interval, Recommendation, SplitCurve, SplitPoint, Verdict
from policies.prospects import gain_of
from policies.recommendations.case import GAIN_MIN, UNTOLD, Case, Ranked, at_most, below, freed, ranked
from simulators.plant import Mode, TrainerResize

POOR_MFU = 0.3
"""Dense training reaches this on any current GPU when sequences are packed; far below it the kernels are starved."""
WORTH_PACKING = 0.2
"""Share of a serial step from which unpacked training is worth a word beside a slower generation."""
RECOMPUTED = 0.28
"""Most of the trainer's time that recomputing activations can take: 0.39 / 1.39."""
DIRECTION = 1.5
"""A known direction of unknown size stands above gains of a percent or two that are sure."""


def sides(case: Case, curve: SplitCurve | None) -> Iterator[Ranked]:
    yield from _overlap(case)
    yield from _packing(case)
    yield from _recompute(case)
    if case.topology.mode is Mode.OVERLAPPED:
        yield from _split(case, curve)


def _overlap(case: Case) -> Iterator[Ranked]:
    """Serial: T_step = G + T + rest. Overlapped at lag one it is max(G, T) + rest, on GPUs that must now be shared."""
    gen, train = case.frac("rollout_s"), case.frac("trainer_busy_s")
    if not case.serial:
        return
    if gen == 0.0 and train == 0.0:
        yield from _overlap_unseen(case)
    elif min(gen, train) >= 0.05:
        yield _overlap_seen(case, gen, train)


def _overlap_seen(case: Case, gen: float, train: float) -> Ranked:
    bound = min(freed(min(gen, train)), min(gen, train) / max(gen, train))
    answer = case.prospects.answer(overlap=True)
    modelled = gain_of(answer)
    gain = below(bound, modelled) if modelled is not None else Interval(0.0, 0.4 * bound, 0.8 * bound)
    reason = (
        f"Generation ({gen:.0%}) and training ({train:.0%}) take turns; overlapped, these two are at most "
        f"{(gen + train) / max(gen, train):.2f}x as fast. On the same GPUs, then split, the gain is what does not "
        "scale with GPUs: tail, offload, small batches."
    )
    return ranked(_overlapped(gain, reason), answer, bound)


def _overlap_unseen(case: Case) -> Iterator[Ranked]:
    answer = case.prospects.answer(overlap=True)
    gain = gain_of(answer)
    if gain is None or gain.mean < GAIN_MIN:
        return
    reason = (
        "Generation and training take turns. How long each takes is not logged; if generation is 30 to 90 % of the "
        "two, as in published jobs, one step off on a split that suits them gains this much. Log both phases to know."
    )
    yield ranked(_overlapped(gain, reason), answer)


def _overlapped(gain: Interval, reason: str) -> Recommendation:
    risks = ("samples are one version old", "the split must then be right")
    return Recommendation("overlap", Direction.ON, "off", "one step off", "", gain, reason, risks, data_changing=True)


def _packing(case: Case) -> Iterator[Ranked]:
    known_off = case.setpoints.packing is False
    share, mfu = case.frac("trainer_busy_s") or 0.5, case.get("mfu")
    beside = case.serial and known_off and share >= WORTH_PACKING
    if case.setpoints.packing or (case.verdict is not Verdict.TRAINER_BOUND and not beside):
        return
    if mfu is not None and mfu >= POOR_MFU:
        return
    if mfu and known_off:
        gain: Interval | None = at_most(freed(share * (1.0 - mfu / POOR_MFU)))
        why = f"The trainer reaches an MFU of {mfu:.1%}; packed batches reach {POOR_MFU:.0%} and more."
        expected = gain.mean if gain else 0.0
    else:
        gain, expected = None, UNTOLD * share
        told = f"Its MFU is {mfu:.1%}. " if mfu else ""
        why = (
            f"{told}Padding and tiny micro-batches are the usual loss; whether sequences are packed today, and tokens "
            "per micro-batch, would tell how much."
        )
    reason = (
        f"Training takes {share:.0%} of the step. {why} Pack sequences to a token budget, and drop gradient "
        "checkpointing where memory allows."
    )
    yield Ranked(
        expected,
        Recommendation(
            "packing",
            Direction.ON,
            "off" if case.setpoints.packing is False else None,
            "token budget",
            "",
            gain,
            reason,
            ("peak memory rises",),
        ),
    )


def _recompute(case: Case) -> Iterator[Ranked]:
    """Activations kept instead of computed again: a trainer that packs already has this left.

    With every layer recomputed, the backward pass repeats the forward: 4 units of work instead of 3. Reported costs are
    a fifth to two fifths on top (Korthikanti et al. 2022: 39 %, selective 4 %), so the share saved is U[0, 0.28].
    """
    known = case.setpoints.activation_checkpointing
    if case.setpoints.packing is not True or known is False or case.verdict is not Verdict.TRAINER_BOUND:
        return
    answer = case.prospects.answer_of_trainer(RECOMPUTED)
    gain = gain_of(answer)
    if gain is None:
        return
    reason = (
        f"Training takes {case.frac('trainer_busy_s'):.0%} of the step. {'As' if known else 'If'} activations are "
        "recomputed in the backward pass today (gradient checkpointing), keeping them saves up to a quarter of it "
        "where memory allows."
    )
    now, risks = "on" if known else None, ("peak memory rises",)
    yield ranked(Recommendation("activation_checkpointing", Direction.OFF, now, "off", "", gain, reason, risks), answer)


def _split(case: Case, curve: SplitCurve | None) -> Iterator[Ranked]:
    if case.topology.trainer_resize is TrainerResize.IMPOSSIBLE:
        return
    if curve is None:
        yield from _direction_only(case)
        return
    now, then = curve.current_gpus_trainer, curve.proposed_gpus_trainer
    if then is None:
        return
    points = {p.gpus_trainer: p for p in curve.points}
    today, proposed = points[now], points[then]
    x = proposed.throughput
    gain = Interval(x.low - 1.0, x.mean - 1.0, x.high - 1.0)
    if gain.mean < GAIN_MIN or (not case.generator_side and then < now):
        return
    answer = case.prospects.answer(gpus_trainer=then, gpus_generator=proposed.gpus_generator)
    yield ranked(_resized(case, today, proposed, gain, _why_split(case, curve, today, proposed)), answer)


def _why_split(case: Case, curve: SplitCurve, today: SplitPoint, proposed: SplitPoint) -> str:
    now, then = today.gpus_trainer, proposed.gpus_trainer
    reason = (
        f"{then} trainer and {proposed.gpus_generator} generator GPUs instead of {now} and {today.gpus_generator}, if "
        "each side scales between the square root of its GPUs and linearly. An upper bound, since batches vary."
    )
    if case.get("generator_idle_frac") is None and then > now:
        return f"{reason} What the generator could do is not logged: one small step, then measure."
    further = max((p for p in curve.points if p.legal), key=lambda p: p.throughput.mean)
    if abs(further.gpus_trainer - now) <= abs(then - now):
        return reason
    return (
        f"{reason} A first step, then measure: {further.gpus_trainer} and {further.gpus_generator} might bring more, "
        "but would rest on how each side scales that far."
    )


def _resized(case: Case, today: SplitPoint, proposed: SplitPoint, gain: Interval, reason: str) -> Recommendation:
    """Named by the side that grows."""
    then, restart_s = proposed.gpus_trainer, case.topology.restart_s
    risks = ["a restart from checkpoint"]
    if then < today.gpus_trainer and case.topology.trainer_gpus_min is None:
        risks.append(f"the trainer must fit on {then} GPUs: its memory floor is not known")
    if proposed.note:
        risks.append(f"{proposed.note}: legal only where the framework does not demand it")
    if then > today.gpus_trainer:
        knob, current, wanted = "gpus_trainer", today.gpus_trainer, then
    else:
        knob, current, wanted = "gpus_generator", today.gpus_generator, proposed.gpus_generator
    return Recommendation(
        knob,
        Direction.UP,
        float(current),
        float(wanted),
        "GPUs",
        gain,
        reason,
        tuple(risks),
        cost_s=restart_s,
        cost_note="" if restart_s else "restart time not known",
    )


def _direction_only(case: Case) -> Iterator[Ranked]:
    """GPU counts unknown: the direction may still be clear, the gain is not."""
    idle = case.get("trainer_idle_frac")
    if case.verdict is Verdict.TRAINER_BOUND:
        knob, share = "gpus_trainer", case.frac("trainer_busy_s")
    elif case.verdict is Verdict.GENERATION_BOUND and idle:
        knob, share = "gpus_generator", idle
    else:
        return
    reason = (
        "This side holds the other up. The GPUs of each side are not in the data; with the resolved configuration or a "
        "job file the gain of each split is computed."
    )
    yield Ranked(DIRECTION * UNTOLD * share, Recommendation(knob, Direction.UP, None, None, "GPUs", None, reason))
