"""How good a policy was: its runs against the yardstick's and its rivals', and that against floors and goals."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from statistics import fmean, median, stdev

from policies.beliefs import CENTRAL_80
from simulators.scenario import Scenario
from simulators.signals import TINY
from tuner.evaluation.breaking import beyond
from tuner.evaluation.tasks import NOTHING, ORACLE, Judged, Run

T80 = {2: 3.078, 3: 1.886, 4: 1.638, 5: 1.533, 6: 1.476, 7: 1.440, 8: 1.415, 9: 1.397, 10: 1.383}
"""Student's t for an 80 % central interval, by the number of seeds; of more a normal one's."""
WORTH_FRAC = 0.05
"""Where the yardstick gains as much over doing nothing, there is something to capture."""
NOTHING_FRAC = 0.01
"""Where it gains less, all control is cost."""
SETTLES = 3.0
"""A reversal within so many settling times is one too many."""
LOOSE_FRAC = 0.03
"""A gap between yardstick and envelope that makes the yardstick loose."""


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on one scenario, over its seeds."""

    scenario: str
    policy: str
    outside_class: bool
    seconds: float
    """Mean time to the goal."""
    ratio: float
    """T_oracle / T_policy."""
    ratio_low: float | None
    """80 % interval over seeds; unknown of a single one."""
    ratio_high: float | None
    gain_frac: float
    """Over doing nothing, of time: T_nothing / T_policy - 1."""
    oracle_gain_frac: float
    captured: float | None
    """Of the gap from doing nothing to the yardstick, where that gains 5 %."""
    against_static: float
    """T of the best static setting in hindsight / T_policy."""
    gpu_moves: float
    moves: float
    violations: int
    """Steps further beyond a hard bound than any of doing nothing."""
    reversals: int
    reverted: int
    """Moves that probation took back."""
    unfinished: str | None
    bound_gap_frac: float
    """How far the envelope is below the yardstick."""
    coverage: float | None
    forecasts: int
    width: float | None
    """Median width of the interval of a predicted gain over its mean."""
    gains_held: float | None
    """Share of moves whose true gain was inside the predicted interval."""
    judged: int
    """Moves whose true gain is known."""
    drifts: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """One demand with its floor, its goal and what was reached."""

    name: str
    value: float | None
    floor: float
    goal: float
    at_least: bool = True
    percent: bool = True
    where: str = ""
    """The scenario that decided it."""
    sure: bool = True
    """False where too few were seen to say whether it holds."""

    @property
    def holds(self) -> bool | None:
        return None if self.value is None or not self.sure else _reaches(self.value, self.floor, self.at_least)

    @property
    def reaches_goal(self) -> bool | None:
        return None if self.value is None else _reaches(self.value, self.goal, self.at_least)

    @property
    def distance(self) -> float | None:
        """To the goal; 0 where it is reached."""
        if self.value is None:
            return None
        return max(0.0, self.goal - self.value if self.at_least else self.value - self.goal)


def _reaches(value: float, limit: float, at_least: bool) -> bool:
    return value >= limit - 1e-9 if at_least else value <= limit + 1e-9


def rows_of(scenarios: Mapping[str, Scenario], runs: Iterable[Run]) -> list[Row]:
    """A row for each scenario and policy whose yardstick was run."""
    by_task = {(run.name, run.policy, run.seed): run for run in runs}
    pairs = dict.fromkeys((name, policy) for name, policy, _ in by_task if policy != ORACLE)
    found = []
    for name, policy in pairs:
        trios = [
            (run, by_task[name, ORACLE, seed], by_task[name, NOTHING, seed])
            for (other, law, seed), run in by_task.items()
            if (other, law) == (name, policy) and {(name, ORACLE, seed), (name, NOTHING, seed)} <= by_task.keys()
        ]
        if trios:
            found.append(_row(scenarios[name], trios))
    return sorted(found, key=lambda row: (row.outside_class, row.scenario))


def _row(scenario: Scenario, trios: Sequence[tuple[Run, Run, Run]]) -> Row:
    first = trios[0][0]
    ratios = [oracle.seconds / run.seconds for run, oracle, _ in trios]
    ratio, spread = fmean(ratios), _spread(ratios)
    gain = fmean(none.seconds / run.seconds - 1.0 for run, _, none in trios)
    most = fmean(none.seconds / oracle.seconds - 1.0 for _, oracle, none in trios)
    gap = fmean(none.seconds - oracle.seconds for _, oracle, none in trios)
    won = fmean(none.seconds - run.seconds for run, _, none in trios)
    held = [ok for run, _, _ in trios for ok in run.held]
    gains = [gain for run, _, _ in trios for gain in run.gains]
    known = [gain for gain in gains if gain.held is not None]
    widths = [(gain.high - gain.low) / gain.mean for gain in gains if gain.mean > 0.0]
    turns = [sum(not t.reverted for t in run.turns) for run, _, _ in trios]
    return Row(
        first.name,
        first.policy,
        scenario.outside_class,
        fmean(run.seconds for run, _, _ in trios),
        ratio,
        None if spread is None else ratio - spread,
        None if spread is None else ratio + spread,
        gain,
        most,
        won / gap if most >= WORTH_FRAC else None,
        fmean((oracle.best_static_s or none.seconds) / run.seconds for run, oracle, none in trios),
        fmean(turns),
        fmean(run.moves for run, _, _ in trios),
        sum(sum(beyond(run.excess, none.excess).values()) for run, _, none in trios),
        sum(_reversals(run) for run, _, _ in trios),
        sum(t.reverted for run, _, _ in trios for t in run.turns),
        next((run.unfinished for run, _, _ in trios if run.unfinished), None),
        fmean(1.0 - (oracle.bound_s or oracle.seconds) / oracle.seconds for _, oracle, _ in trios),
        fmean(held) if held else None,
        len(held),
        median(widths) if widths else None,
        sum(gain.held is True for gain in known) / len(known) if known else None,
        len(known),
        bool(scenario.drift or scenario.event),
    )


def _spread(values: Sequence[float]) -> float | None:
    """Half the 80 % central interval of a mean over seeds (Student); None of a single one."""
    n = len(values)
    return None if n < 2 else T80.get(n, CENTRAL_80) * stdev(values) / n**0.5


def _reversals(run: Run) -> int:
    turns = [t for t in run.turns if not t.reverted]
    return sum(a.up != b.up and b.at_s - a.at_s < SETTLES * a.settle_s for a, b in pairwise(turns))


# ---- demands ----


def figures_of(rows: Sequence[Row], policy: str, gains: Sequence[Judged]) -> list[Figure]:
    """The demands on one policy over these rows and its judged moves; what nothing can be judged by is unknown."""
    own = [row for row in rows if row.policy == policy]
    worth = [row for row in own if row.captured is not None]
    idle = [row for row in own if row.oracle_gain_frac < NOTHING_FRAC]
    still = [row for row in own if not row.drifts]
    forecasts = sum(row.forecasts for row in own)
    held = sum((row.coverage or 0.0) * row.forecasts for row in own)
    mean_gain = fmean(gain.mean for gain in gains) if gains else 0.0
    width = median(gain.high - gain.low for gain in gains) / mean_gain if mean_gain > 0.0 else None
    rivals = {row.scenario: row for row in own}
    return [
        _figure("T_oracle / T_policy, median", own, lambda r: r.ratio, 0.96, 0.985),
        _worst("T_oracle / T_policy, worst", own, lambda r: r.ratio, 0.92, 0.95),
        _figure("captured share, median", worth, lambda r: r.captured or 0.0, 0.60, 0.80),
        _worst("captured share, worst", worth, lambda r: r.captured or 0.0, 0.30, 0.60),
        _most("cost of control where nothing is to gain", idle, lambda r: -r.gain_frac, 0.01, 0.003),
        _worst("against the best static setting", own, lambda r: r.against_static, 0.985, 1.0),
        *[_against(rows, rivals, rival) for rival in ("lending", "rate_balance", "threshold") if rival != policy],
        replace(_most("GPU moves in steady noise", still, lambda r: r.gpu_moves, 1.0, 0.0), percent=False),
        _total("steps beyond a hard bound", own, lambda r: float(r.violations)),
        _total("reversals within three settling times", own, lambda r: float(r.reversals)),
        Figure("80 % intervals of the rate: coverage, at least", held / forecasts if forecasts else None, 0.72, 0.77),
        Figure("the same, at most", held / forecasts if forecasts else None, 0.88, 0.83, at_least=False),
        *_of_gains(gains),
        Figure("width of a gain's interval, median / mean gain", width, 1.0, 0.6, False, False),
    ]


def _of_gains(gains: Sequence[Judged]) -> list[Figure]:
    """How many predicted intervals held the true gain; what few moves can tell of that stands beside it. Of three
    moves or fewer no number is between both floors: they say nothing of 80 %.

    What is measured at the job contradicts hardly any: it has an error of its own. That stands beside it too.
    """
    true = [gain for gain in gains if gain.true is not None]
    held, n = sum(gain.held is True for gain in true), len(true)
    seen = [gain.not_contradicted for gain in gains if gain.not_contradicted is not None]
    share, enough = held / n if n else None, any(0.72 <= k / n <= 0.88 for k in range(n))
    low, high = wilson(held, n)
    told = f"{held} of {n}: {low:.0%}..{high:.0%}; by measurement {sum(seen)} of {len(seen)} not contradicted"
    over = median((gain.mean - (gain.true or 0.0)) / max(TINY, gain.high - gain.low) for gain in true) if n else 0.0
    return [
        Figure(
            "80 % intervals of a gain: coverage, at least",
            *(share, 0.72, 0.77),
            where=told if n else "",
            sure=enough,
        ),
        Figure(
            "the same, at most",
            *(share, 0.88, 0.83),
            at_least=False,
            where=f"bias {over:+.2f} widths" if n else "",
            sure=enough,
        ),
    ]


def wilson(held: int, n: int) -> tuple[float, float]:
    """80 % interval of a share of which `held` of `n` are known (Wilson 1927).

    # 13 of 17: 61 % .. 87 % | none of none: 0 .. 1
    """
    if n == 0:
        return 0.0, 1.0
    z2 = CENTRAL_80**2
    middle = (held + z2 / 2.0) / (n + z2)
    half = CENTRAL_80 * sqrt(held * (n - held) / n + z2 / 4.0) / (n + z2)
    return middle - half, middle + half


def _figure(name: str, rows: Sequence[Row], of: Callable[[Row], float], floor: float, goal: float) -> Figure:
    return Figure(name, median(of(row) for row in rows) if rows else None, floor, goal)


def _worst(name: str, rows: Sequence[Row], of: Callable[[Row], float], floor: float, goal: float) -> Figure:
    row = min(rows, key=of, default=None)
    return Figure(name, None if row is None else of(row), floor, goal, where="" if row is None else row.scenario)


def _most(name: str, rows: Sequence[Row], of: Callable[[Row], float], floor: float, goal: float) -> Figure:
    row = max(rows, key=of, default=None)
    where = "" if row is None else row.scenario
    return Figure(name, None if row is None else of(row), floor, goal, at_least=False, where=where)


def _total(name: str, rows: Sequence[Row], of: Callable[[Row], float]) -> Figure:
    worst = max(rows, key=of, default=None)
    where = worst.scenario if worst is not None and of(worst) > 0 else ""
    return Figure(name, sum(map(of, rows)) if rows else None, 0.0, 0.0, at_least=False, percent=False, where=where)


def _against(rows: Sequence[Row], own: Mapping[str, Row], rival: str) -> Figure:
    """The worst of T_rival / T_policy - 1 over scenarios that both ran."""
    gaps = {
        r.scenario: r.seconds / own[r.scenario].seconds - 1.0 for r in rows if r.policy == rival and r.scenario in own
    }
    where = min(gaps, key=lambda name: gaps[name], default="")
    return Figure(f"against {rival}, worst", gaps.get(where), -0.01, 0.0, where=where)
