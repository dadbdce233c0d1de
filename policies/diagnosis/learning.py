"""Learning health: what makes every word about speed void."""

from dataclasses import dataclass
from statistics import mean, stdev

from policies.base import Cause, Finding, Severity, Verdict
from policies.wording import figure
from simulators.snapshot import Snapshot

COLLAPSED_ENTROPY_FRAC = 0.1
"""Entropy under this share of the window's start: the model repeats itself."""
COLLAPSED_ENTROPY_NATS = 0.01
"""Entropy under this: near zero, whatever it was before."""
USABLE_GROUPS_MIN = 1.0 / 3.0
"""Under this share of trained groups with advantage there is no signal to speed up."""
LOW_SIGNAL = 0.5
"""Under this share of usable groups the data is the cheapest lever."""
TRUNCATION = 0.1
"""More rollouts cut at the cap than this is worth a word."""
RUNAWAY_TRUNCATION = 0.9
"""More rollouts cut than this, and nothing the model says ends."""
REWARD_FALL_FRAC = 0.5
"""Reward under this share of the window's best stretch, and by more than its noise: it fell out."""


@dataclass(frozen=True, slots=True)
class Health:
    void: Cause | None
    findings: tuple[Finding, ...]


def learning_health(snapshot: Snapshot) -> Health:
    """What voids the verdict on speed, if anything, and what else the learning signals say."""
    collapse = _collapse(snapshot)
    findings = [f for f in (_truncation(snapshot), _zero_advantage(snapshot), _low_signal(snapshot)) if f]
    if collapse:
        return Health(Cause(Verdict.POLICY_COLLAPSE, 1.0, 0.0, collapse), tuple(findings))
    if unfinished := _unfinished(snapshot):
        return Health(Cause(Verdict.NO_SIGNAL, 1.0, 0.0, unfinished), tuple(findings))
    usable, reason = _usable(snapshot)
    if usable is not None and usable < USABLE_GROUPS_MIN:
        return Health(Cause(Verdict.NO_SIGNAL, 1.0 - usable, 0.0, reason), tuple(findings))
    return Health(None, tuple(findings))


def _collapse(snapshot: Snapshot) -> str | None:
    entropy = snapshot.series("entropy")
    if not entropy and (value := snapshot.get("entropy")) is not None:
        entropy = [value]
    if entropy and 0.0 <= entropy[-1] < COLLAPSED_ENTROPY_NATS:
        return f"entropy is {figure(entropy[-1])} nats, so the model is all but deterministic"
    if len(entropy) >= 2 and 0.0 <= entropy[-1] < COLLAPSED_ENTROPY_FRAC * entropy[0]:
        return f"entropy fell from {figure(entropy[0])} to {figure(entropy[-1])} nats"
    norms = snapshot.series("grad_norm")
    if len(norms) >= 2 and norms[-1] == 0.0 and norms[-2] == 0.0:
        return "the gradient norm is exactly 0 twice running, so nothing is learnt"
    cut = snapshot.series("truncated_frac")
    if len(cut) >= 2 and cut[-1] >= RUNAWAY_TRUNCATION and cut[0] < LOW_SIGNAL:
        return f"rollouts cut at the length cap rose from {cut[0]:.0%} to {cut[-1]:.0%}"
    return _reward_fall(snapshot.series("reward_mean"))


def _unfinished(snapshot: Snapshot) -> str | None:
    """No answer ends, so all earn the same and nothing is learnt."""
    norms, cut = snapshot.series("grad_norm"), snapshot.series("truncated_frac")
    if not norms or not cut or norms[-1] != 0.0 or cut[-1] < RUNAWAY_TRUNCATION:
        return None
    return f"{cut[-1]:.0%} of the rollouts are cut at the length cap and the gradient norm is exactly 0"


def _reward_fall(rewards: list[float]) -> str | None:
    """The last third against the best third, beyond three standard errors."""
    third = len(rewards) // 3
    if third < 3:
        return None
    stretches = [rewards[i : i + third] for i in range(0, len(rewards) - third + 1, third)]
    best, last = max(stretches, key=mean), rewards[-third:]
    noise = 3.0 * (stdev(best) + stdev(last)) / third**0.5
    fall = mean(best) - mean(last)
    if mean(best) > 0.0 and mean(last) < REWARD_FALL_FRAC * mean(best) and fall > noise:
        return f"the reward fell from {figure(mean(best))} to {figure(mean(last))}"
    return None


def _usable(snapshot: Snapshot) -> tuple[float | None, str]:
    """Share of trained groups with advantage: counted, else bounded from a rare binary reward."""
    counted = snapshot.get("usable_group_frac")
    if counted is not None:
        share = f"only {counted:.0%} of the trained groups carry" if counted >= 0.005 else "no trained group carries"
        return counted, f"{share} advantage"
    bound = snapshot.get("usable_group_frac_max")
    if bound is not None and (reward := snapshot.get("reward_mean")) is not None:
        size = snapshot.get("group_size_seen") or 0.0
        return bound, (
            f"with a binary reward of {figure(reward)} and groups of {size:.0f} at most {bound:.1%} of the groups "
            "can carry advantage"
        )
    return None, ""


def _truncation(snapshot: Snapshot) -> Finding | None:
    cut = snapshot.get("truncated_frac_last")
    if cut is None:
        cut = snapshot.get("truncated_frac")
    if cut is None or cut < TRUNCATION:
        return None
    severity = Severity.CRITICAL if cut >= LOW_SIGNAL else Severity.WARNING
    longest = max(snapshot.series("resp_len_max"), default=snapshot.get("resp_len_max"))
    at = f"the length cap, {longest:.0f} tokens" if longest is not None else "the length cap"
    detail = f"{cut:.1%} of the rollouts end at {at}: their reward is that of half an answer."
    return Finding("truncation", severity, "Rollouts are cut at the length cap", detail, {"truncated_frac": cut})


def _zero_advantage(snapshot: Snapshot) -> Finding | None:
    zero = snapshot.get("zero_adv_frac")
    if zero is None or zero < LOW_SIGNAL:
        return None
    usable = max(1.0 - zero, 1e-3)
    detail = (
        f"{zero:.1%} of the trained groups have equal rewards throughout: no advantage, no gradient. "
        f"A batch full of useful groups takes {1.0 / usable:.1f}x the generation."
    )
    evidence = {"zero_adv_frac": zero, "generation_per_useful_group": 1.0 / usable}
    return Finding("zero-advantage", Severity.CRITICAL, "Most groups carry no advantage", detail, evidence)


def _low_signal(snapshot: Snapshot) -> Finding | None:
    usable, reason = _usable(snapshot)
    if usable is None or usable >= LOW_SIGNAL or (snapshot.get("zero_adv_frac") or 0.0) >= LOW_SIGNAL:
        return None  # the zero-advantage finding says the same with its price
    detail = f"{reason[:1].upper()}{reason[1:]}."
    return Finding("low-signal", Severity.WARNING, "Little signal in the data", detail, {"usable_frac": usable})
