"""What to change about tools, sandboxes, verifiers, and a buffer that nobody bounds."""

from collections.abc import Iterator

from policies.base import Direction, Recommendation, Verdict
from policies.recommendations.case import Case, Ranked, at_most, freed


def environment(case: Case) -> Iterator[Ranked]:
    """One rule per verdict that names something outside the engines."""
    match case.verdict:
        case Verdict.ENV_BOUND:
            yield _hide_tools(case)
        case Verdict.SANDBOX_BOUND:
            yield from _sandboxes(case)
        case Verdict.REWARD_BOUND:
            yield _verifiers(case)
        case Verdict.MEMORY_GROWTH:
            yield from _bound_the_buffer(case)
        case _:
            return


def _hide_tools(case: Case) -> Ranked:
    share = case.get("env_share_frac") or 0.5
    reason = (
        f"At least {share:.0%} of a rollout passes outside the model. More in flight hides it as long as the tools "
        "keep up; then the tools' own latency is the lever."
    )
    now, gain = case.setpoints.max_in_flight, at_most(freed(share * max(case.generator_frac, 0.1)))
    risks = ("samples get older",)
    advised = Recommendation(
        "max_in_flight", Direction.UP, now, None, "rollouts", gain, reason, risks, data_changing=True
    )
    return Ranked(0.3, advised)


def _sandboxes(case: Case) -> Iterator[Ranked]:
    quota = case.get("sandbox_quota") or case.setpoints.sandbox_quota
    reason = (
        "Rollouts wait for sandboxes: raise the provider's live and start-rate limits, and cap the number starting at "
        "once below them."
    )
    yield Ranked(0.5, Recommendation("sandbox_quota", Direction.UP, quota, None, "sandboxes", None, reason))
    reason = "Starting fewer at once keeps start times flat; beyond the quota they rise to minutes."
    below = "starts below the quota"
    yield Ranked(0.3, Recommendation("client_concurrency", Direction.DOWN, None, below, "", None, reason))


def _verifiers(case: Case) -> Ranked:
    share = case.frac("reward_s")
    reason = f"Rewards take {share:.0%} of the wall time after generation: score while others still generate."
    if case.judged:
        inside = case.get("reward_share_frac") or 0.0
        share = inside * max(case.generator_frac, 0.1)
        reason = (
            f"{inside:.0%} of a rollout passes with its judge or verifier: let more score at once, or a faster one."
        )
    more, gain = "more verifiers at once", at_most(freed(share))
    return Ranked(0.4, Recommendation("reward_concurrency", Direction.UP, None, more, "", gain, reason))


def _bound_the_buffer(case: Case) -> Iterator[Ranked]:
    """Hold the generator back, since the trainer will not catch up."""
    reason = "The generator makes more than the trainer takes, and nothing holds it back. A bound of two batches does."
    now, risks = case.setpoints.max_in_flight, ("none for speed: the surplus is never trained in time",)
    fewer = Recommendation(
        "max_in_flight", Direction.DOWN, now, None, "rollouts", None, reason, risks, data_changing=True
    )
    yield Ranked(0.3, fewer)
    reason = "A staleness bound stops dispatch as soon as the buffer is two versions ahead."
    bound = case.setpoints.staleness_bound
    fresher = Recommendation(
        "staleness_bound", Direction.DOWN, bound, 2.0, "versions", None, reason, data_changing=True
    )
    yield Ranked(0.2, fresher)
