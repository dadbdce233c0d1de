"""Levels of care: which cases a trial is asked first, and which only where it is still in the race.

Settings that stand still are asked of the model, then of few cases, then of all. A policy is asked the beginnings of a
few stories, then a few whole ones, then all: of those in which it moves at all. Where its defaults do nothing, hardly
another point does anything, so that such a story tells all points alike, whatever it costs.
"""

from collections.abc import Sequence
from dataclasses import replace

from tuner.errors import ConfigError
from tuner.evaluation.tasks import Size, sized
from tuner.studies.cases import Case, calls
from tuner.studies.space import Space
from tuner.studies.trials import Problem
from tuner.studies.workers import Basis

FEW = 4
"""One of so many cases is simulated on the level before all are."""
SHORT = Size(steps_max=40, seconds_max=7200.0)
"""How far a policy's first level lets a story go."""
FEWEST = 2
"""Cases of a policy's early levels."""


def problem_of(space: Space, cases: Sequence[Case], objectives: Sequence[str]) -> Problem:
    """The cases of all levels of care, each level a part of the next where it can be."""
    if space.policy is None and "moves" in objectives:
        raise ConfigError("--objective moves: settings that stand still make none; tune a policy: --policy NAME")
    count, aims = len(cases), tuple(objectives)
    if len(aims) > 1:
        return Problem(space, tuple(cases), (tuple(range(count)),), aims)
    if space.policy is not None:
        brief = tuple(replace(case, scenario=sized(case.scenario, SHORT)) for case in cases)
        return _levelled(Problem(space, (*brief, *cases), (), aims), list(range(2 * count)))
    first = {case.name: case for case in reversed(cases)}  # a model knows no seeds
    told = tuple(replace(case, simulated=False) for case in cases if first[case.name] is case)
    few, at = max(1, count // FEW), len(told)
    levels = [tuple(range(at)), tuple(range(at, at + few)), tuple(range(at, at + count))]
    return Problem(space, (*told, *cases), tuple(dict.fromkeys(levels)), aims)


def telling(problem: Problem, basis: Basis) -> Problem:
    """A policy's problem, with the early levels given to cases in which its defaults move; the lightest first."""
    if problem.space.policy is None or len(problem.levels) < 2:
        return problem
    still = [here.moves == 0.0 for here in basis.here]
    return _levelled(problem, sorted(range(len(still)), key=lambda i: (still[i], *_weight(problem, i))))


def _weight(problem: Problem, i: int) -> tuple[bool, float]:
    return i >= len(problem.cases) // 2, calls(problem.cases[i].scenario)


def _levelled(problem: Problem, ordered: Sequence[int]) -> Problem:
    """Of the cases, the first half are beginnings and the second half whole; a short story has no beginning."""
    count = len(problem.cases) // 2
    whole = [i for i in ordered if i >= count]
    early = [i for i in ordered if i >= count or problem.cases[i] != problem.cases[i + count]]
    levels = (tuple(early[:FEWEST]), tuple(whole[: max(FEWEST, count // FEW)]), tuple(range(count, 2 * count)))
    return replace(problem, levels=tuple(dict.fromkeys(tuple(sorted(level)) for level in levels)))
