"""What to change about which tasks are generated: a filter, harder or easier ones, larger groups."""

from collections.abc import Iterator

from policies.base import Direction, Recommendation
from policies.prospects import gain_of
from policies.recommendations.case import Case, Ranked, at_most

USABLE_GOAL = 0.9
"""A good curriculum leaves this share of groups with advantage (AReaL's filter keeps solve rates .05-.95)."""
NONE_USABLE = 0.01
"""Of fewer useful groups than this nobody can say what other tasks would bring."""
WORTH_FILTERING = 0.2
"""Below this share of useless groups the curriculum is not the lever."""


def curriculum(case: Case) -> Iterator[Ranked]:
    """Harder or easier tasks, or a filter: useful groups per generated group rise from u towards 0.9.

    By the calibrated model where it knows today's share: a trainer that is full gains nothing from a filter's fuller
    groups. Else the share alone, 0.9 / u.
    """
    usable, low = useful_frac(case), case.get("usable_group_frac_max")
    known = usable if usable is not None else low
    if known is None or 1.0 - known < WORTH_FILTERING:
        return
    answer = case.prospects.answer_of_curriculum(USABLE_GOAL) if usable is not None else None
    gain = gain_of(answer) or at_most(USABLE_GOAL / max(known, NONE_USABLE) - 1.0)
    solved, reward = case.get("solved_all_frac"), case.get("reward_mean")
    easy = (solved is not None and solved > 0.5 * (1.0 - known)) or (reward is not None and 0.8 < reward <= 1.0)
    way = "harder tasks" if easy else "tasks sometimes solved"
    most = "At most " if usable is None else ""
    cost = f"{most}{known:.0%} of the groups carry advantage ({1.0 - known:.0%} do not), so a useful batch costs "
    reason = (
        f"{cost}{1.0 / max(known, NONE_USABLE):.1f}x its generation, which no GPU buys back. "
        f"Feed {way}, or drop solved prompts before they are generated."
    )
    if known < NONE_USABLE:
        reason = f"No group carries advantage: no step teaches. Feed {way}; their solve rates will show the gain."
    told = gain if known >= NONE_USABLE else None
    risks = ("the data distribution changes",)
    yield Ranked(
        gain.mean,
        Recommendation("curriculum_filter", Direction.ON, None, way, "", told, reason, risks, data_changing=True),
        answer,
    )
    if usable is None:
        yield Ranked(0.2 * gain.mean, _larger_groups(case, "failures" if easy else "successes"))


def _larger_groups(case: Case, rare: str) -> Recommendation:
    size = case.setpoints.group_size or case.get("group_size_seen")
    reason = f"With rare {rare} a larger group is likelier to hold one: the usable share grows with its size."
    return Recommendation(
        "group_size",
        Direction.UP,
        size,
        2.0 * size if size else None,
        "rollouts",
        at_most(1.0),
        reason,
        ("each prompt costs more",),
        data_changing=True,
    )


def useful_frac(case: Case) -> float | None:
    """Share of generated groups that end in a gradient: trained ones with advantage, less what the filter dropped."""
    usable, filtered, waste = case.get("usable_group_frac"), case.get("filtered_frac"), case.get("waste_frac")
    if filtered is None and usable is None and case.setpoints.filter_zero_adv and waste is not None:
        return 1.0 - waste
    if filtered is None:
        return usable
    return (1.0 - filtered) * (usable if usable is not None else 1.0)
