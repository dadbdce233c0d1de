"""What to change about which rollouts enter and leave the queue: curriculum, oversampling, tail, staleness, tools."""

from collections.abc import Iterator

from policies.base import Direction, Interval, Recommendation, Verdict
from policies.diagnosis.generator import refills
from policies.diagnosis.waiting import BUSY_GENERATOR_IDLE
from policies.recommendations.case import Case, Ranked, at_most, freed

USABLE_GOAL = 0.9
"""A good curriculum leaves this share of groups with advantage (AReaL's filter keeps solve rates .05-.95)."""
WORTH_FILTERING = 0.2
"""Below this share of useless groups the curriculum is not the lever."""
WASTE_WORTH_IT = 0.1
"""Less waste than this is the price of any oversampling."""
LONG_TAIL = 2.0
"""A slowest rollout of this many means holds the batch up."""
LONG_LENGTHS = 2.5
"""Responses whose longest is this many means have a tail worth cutting."""
FRESH_BOUND = 1.0
"""A staleness bound under this keeps the generator from running ahead a single batch."""


def flow(case: Case) -> Iterator[Ranked]:
    """Levers that no GPU buys."""
    yield from curriculum(case)
    if case.generator_side or case.serial:
        yield from _waste(case)
        yield from _refill(case)
        yield from _tail(case)
        yield from _staleness(case)
    yield from _environment(case)
    yield from _growth(case)


def curriculum(case: Case) -> Iterator[Ranked]:
    """Harder or easier tasks, or a filter: useful groups per generated group rise from u towards 0.9."""
    usable, low = useful_frac(case), case.get("usable_group_frac_max")
    known = usable if usable is not None else low
    if known is None or 1.0 - known < WORTH_FILTERING:
        return
    gain = at_most(USABLE_GOAL / max(known, 0.01) - 1.0)
    solved, reward = case.get("solved_all_frac"), case.get("reward_mean")
    easy = (solved is not None and solved > 0.5 * (1.0 - known)) or (reward is not None and 0.8 < reward <= 1.0)
    way = "harder tasks" if easy else "tasks sometimes solved"
    most = "At most " if usable is None else ""
    reason = (
        f"{most}{known:.0%} of the groups carry advantage ({1.0 - known:.0%} do not), so a useful batch costs "
        f"{1.0 / max(known, 0.01):.1f}x its generation, which no GPU buys back. Feed {way}, or drop solved prompts "
        "before they are generated."
    )
    risks = ("the data distribution changes",)
    yield Ranked(
        gain.mean,
        Recommendation("curriculum_filter", Direction.ON, None, way, "", gain, reason, risks, data_changing=True),
    )
    if usable is None and low is not None:
        size = case.setpoints.group_size or case.get("group_size_seen")
        yield Ranked(
            0.2 * gain.mean,
            Recommendation(
                "group_size",
                Direction.UP,
                size,
                2.0 * size if size else None,
                "rollouts",
                at_most(1.0),
                "With rare successes a larger group is likelier to hold one: the usable share grows with its size.",
                ("each prompt costs more",),
                data_changing=True,
            ),
        )


def useful_frac(case: Case) -> float | None:
    """Share of generated groups that end in a gradient: trained ones with advantage, less what the filter dropped."""
    usable, filtered, waste = case.get("usable_group_frac"), case.get("filtered_frac"), case.get("waste_frac")
    if filtered is None and usable is None and case.setpoints.filter_zero_adv and waste is not None:
        return 1.0 - waste
    if filtered is None:
        return usable
    return (1.0 - filtered) * (usable if usable is not None else 1.0)


def _waste(case: Case) -> Iterator[Ranked]:
    """Rollouts that are started and never trained, beyond what the advantage filter explains."""
    waste = case.get("waste_frac")
    if waste is None or waste >= 1.0:
        return
    useful = useful_frac(case)
    filtered = min(0.99, 1.0 - useful) if useful is not None else 0.0
    beyond = 1.0 - (1.0 - waste) / (1.0 - filtered)
    if beyond < WASTE_WORTH_IT:
        return
    room = freed(case.generator_frac)
    gain = at_most(min(freed(beyond), room))
    now = case.setpoints.oversampling_ratio or (1.0 / (1.0 - waste) if waste < 1.0 else None)
    reason = (
        f"{beyond:.0%} of the dispatched rollouts are thrown away for other reasons than equal rewards. Kept instead, "
        f"they would raise the effective rate up to the trainer's own ({room:+.0%})."
    )
    yield Ranked(
        gain.mean,
        Recommendation(
            "oversampling_ratio",
            Direction.DOWN,
            round(now, 2) if now else None,
            round(1.0 + (now - 1.0) / 2.0, 2) if now else None,
            "dispatched/needed",
            gain,
            reason,
            ("the slowest rollouts hold batches up longer",),
            data_changing=True,
        ),
    )
    if not case.setpoints.partial_rollout:
        half = Interval(0.8 * gain.low, 0.8 * gain.mean, 0.8 * gain.high)
        yield Ranked(
            half.mean,
            Recommendation(
                "partial_rollout",
                Direction.ON,
                None,
                "on",
                "",
                half,
                "Aborted rollouts that resume later keep their tokens instead of starting again.",
                ("a resumed rollout spans versions; its tools must survive",),
                data_changing=True,
            ),
        )
    yield Ranked(
        0.7 * gain.mean,
        Recommendation(
            "pruning",
            Direction.ON,
            None,
            "stop hopeless rollouts early",
            "",
            None,
            "The tail of a group decides when it enters the queue, and most of what is thrown away is tail. Stopping "
            "it early saves its tokens; how many needs the length distribution (p50, p99) to tell.",
            ("long answers are pruned first: watch kept over attempted length",),
            data_changing=True,
        ),
    )


def _refill(case: Case) -> Iterator[Ranked]:
    """Groups filtered in the middle of a batch are generated again, one wave after the other."""
    groups = case.get("filtered_groups")
    if not groups:
        return
    now = case.setpoints.oversampling_ratio
    reason = (
        f"{groups:.3g} groups a step are dropped for equal rewards and refilled in another wave while the engines are "
        "nearly empty. Dispatching more at once fills the batch in one wave."
    )
    yield Ranked(
        0.3,
        Recommendation(
            "oversampling_ratio",
            Direction.UP,
            now,
            round(now * 1.5, 2) if now else 1.5,
            "dispatched/needed",
            None,
            reason,
            ("surplus groups are thrown away or grow older",),
            data_changing=True,
        ),
    )


def _tail(case: Case) -> Iterator[Ranked]:
    slowest, lengths = case.get("slowest_over_mean"), case.get("response_max_over_mean")
    ratio, seen = (slowest, True) if slowest is not None else (lengths, False)
    threshold = LONG_TAIL if seen else LONG_LENGTHS
    if ratio is None or ratio < threshold or refills(case.setpoints, case.snapshot):
        return
    share = case.frac("rollout_s") if case.serial else case.generator_frac
    bound = freed(share * (1.0 - 1.0 / ratio) * (1.0 if seen else 0.5))
    gain = at_most(bound)
    what = "slowest rollout takes" if seen else "longest response is"
    reason = f"The {what} {ratio:.1f}x the mean: the engines run nearly empty while the batch waits for it."
    carried = not case.setpoints.partial_rollout
    if carried:
        yield Ranked(
            gain.mean,
            Recommendation(
                "partial_rollout",
                Direction.ON,
                None,
                "on",
                "",
                gain,
                f"{reason} Carry it into the next batch.",
                ("a resumed rollout spans versions",),
                data_changing=True,
            ),
        )
    yield Ranked(
        0.8 * gain.mean,
        Recommendation(
            "pruning",
            Direction.ON,
            None,
            "drop the slowest of each batch",
            "",
            at_most(0.8 * bound),
            f"{'' if carried else f'{reason} '}Start a few rollouts more than a batch needs and drop the last.",
            ("biased to short answers: watch kept over attempted length",),
            data_changing=True,
        ),
    )


def _staleness(case: Case) -> Iterator[Ranked]:
    bound = case.setpoints.staleness_bound
    dropped = case.get("dropped_stale")
    if case.serial or (bound is None and not dropped):
        return
    if bound is not None and bound >= FRESH_BOUND and case.verdict is not Verdict.STALENESS_WASTE:
        return
    gated = case.get("generator_idle_frac")
    if not dropped and gated is not None and gated <= BUSY_GENERATOR_IDLE:
        return  # the bound never stops it
    gain = at_most(freed(case.generator_frac))
    reason = (
        f"The generator may run only {bound:.3g} batches ahead, so it stops at every update and the trainer then waits."
        if bound is not None
        else "Rollouts are dropped as too old; a wider bound, or fewer in flight, keeps them."
    )
    yield Ranked(
        gain.mean,
        Recommendation(
            "staleness_bound",
            Direction.UP,
            bound,
            bound + 0.5 if bound is not None else None,
            "versions",
            gain,
            reason,
            ("older samples: keep an eye on clip fraction and KL",),
            data_changing=True,
        ),
    )


def _environment(case: Case) -> Iterator[Ranked]:
    match case.verdict:
        case Verdict.ENV_BOUND:
            share = case.get("env_share_frac") or 0.5
            reason = (
                f"At least {share:.0%} of a rollout passes outside the model. More in flight hides it as long as the "
                "tools keep up; then the tools' own latency is the lever."
            )
            yield Ranked(
                0.3,
                Recommendation(
                    "max_in_flight",
                    Direction.UP,
                    case.setpoints.max_in_flight,
                    None,
                    "rollouts",
                    at_most(freed(share * max(case.generator_frac, 0.1))),
                    reason,
                    ("samples get older",),
                    data_changing=True,
                ),
            )
        case Verdict.SANDBOX_BOUND:
            yield Ranked(
                0.5,
                Recommendation(
                    "sandbox_quota",
                    Direction.UP,
                    case.get("sandbox_quota") or case.setpoints.sandbox_quota,
                    None,
                    "sandboxes",
                    None,
                    "Rollouts wait for sandboxes: raise the provider's live and start-rate limits, and cap the number "
                    "starting at once below them.",
                ),
            )
            yield Ranked(
                0.3,
                Recommendation(
                    "client_concurrency",
                    Direction.DOWN,
                    None,
                    "starts below the quota",
                    "",
                    None,
                    "Starting fewer at once keeps start times flat; beyond the quota they rise to minutes.",
                ),
            )
        case Verdict.REWARD_BOUND:
            share = case.frac("reward_s")
            yield Ranked(
                0.4,
                Recommendation(
                    "reward_concurrency",
                    Direction.UP,
                    None,
                    "more verifiers at once",
                    "",
                    at_most(freed(share)),
                    f"Rewards take {share:.0%} of the wall time after generation: score while others still generate.",
                ),
            )
        case _:
            return


def _growth(case: Case) -> Iterator[Ranked]:
    """A buffer that nobody bounds: hold the generator back, since the trainer will not catch up."""
    if case.verdict is not Verdict.MEMORY_GROWTH:
        return
    reason = "The generator makes more than the trainer takes, and nothing holds it back. A bound of two batches does."
    now = case.setpoints.max_in_flight
    yield Ranked(
        0.3,
        Recommendation(
            "max_in_flight",
            Direction.DOWN,
            now,
            None,
            "rollouts",
            None,
            reason,
            ("none for speed: the surplus is never trained in time",),
            data_changing=True,
        ),
    )
    yield Ranked(
        0.2,
        Recommendation(
            "staleness_bound",
            Direction.DOWN,
            case.setpoints.staleness_bound,
            2.0,
            "versions",
            None,
            "A staleness bound stops dispatch as soon as the buffer is two versions ahead.",
            data_changing=True,
        ),
    )
