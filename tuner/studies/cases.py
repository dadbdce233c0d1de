"""Cases: what a trial is measured on. A story with a seed, or one possible job behind a recording with a seed.

Each case belongs to one cohort: the search sees some, the choice among its best sees others, the comparison that is
reported sees a third kind. No seed is in two of them, and no scenario or draw that is held out is ever searched on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from policies.drift import change_over_window
from simulators.calibration import Draw
from simulators.drift import Drift, Shape, number_at
from simulators.plant import Bounds, Setpoints
from simulators.scenario import Horizon, Move, Scenario, job_at
from simulators.snapshot import Snapshot

SEARCHING, CHOOSING, SCORING = range(3)
"""The cohorts, and the blocks of seeds that belong to them."""
BLOCK = 1_000_000
"""Seeds of one cohort; a study's own seed takes `PER_STUDY` of them."""
PER_STUDY = 1_000
HELD_OUT_FRAC = 1.0 / 3.0
"""Of several scenarios or draws, this share is kept from the search."""
FEWEST_TO_SPLIT = 3
"""Scenarios from which on some are held out."""
TYPICAL_STEPS = 150
"""Of a story whose horizon is in seconds."""
GOING_ON_STEPS = 80
"""For which a policy leads a job that goes on as its recording did."""
POLICY_DRAWS = 9
"""Possible jobs that a policy is tried on: each run is a whole story, not a steady state."""
TREND_MAX = 4.0
"""No trend is believed beyond so many times its start, up or down."""
TRENDS = {
    "resp_len_mean": "workload.response.mean_tokens",
    "prompt_len_mean": "workload.prompt.mean_tokens",
    "turns_mean": "workload.turns.mean",
}
"""Signals whose trend in a recording goes on in its stories, and the number of the job behind each."""
USUAL_MOVES = (
    Move("gpus_trainer", actuation_s=120.0),
    Move("gpus_generator", actuation_s=120.0),
    Move("max_in_flight"),
)
"""No recording tells what a move takes: as in the shipped scenarios, two minutes for GPUs and none for a limit."""
DRAW_STEPS, WARM_UP_STEPS = 40, 10
"""Trainer steps that a steady job is simulated for, and before it is looked at: standard errors of 1 to 2 %."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    scenario: Scenario
    seed: int
    draw: Draw | None = None
    """The possible job behind a recording: admission and publications follow its settings."""
    weight: float = 1.0
    simulated: bool = True
    """False: the analytic model is asked instead, in milliseconds."""

    @property
    def key(self) -> str:
        return f"{self.name}/{self.seed}/{'simulated' if self.simulated else 'model'}"

    def under(self, settings: Setpoints) -> Scenario:
        """The same story under other settings. ValueError where they make no job."""
        if self.draw is None:
            return replace(self.scenario, setpoints=settings)
        job = self.draw.under(self.draw.topology, settings)
        return replace(self.scenario, setpoints=settings, stations=job.stations)


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Cases by what they are for: disjoint in seeds, and in scenarios or draws as far as there are any."""

    searching: tuple[Case, ...]
    choosing: tuple[Case, ...]
    scoring: tuple[Case, ...]
    unseen: bool
    """The scoring cohort holds scenarios or draws that the search has not seen, not seeds only."""
    draws: bool = False
    """Cases are possible jobs behind one recording: a spread over them is doubt about the job, not noise."""


def seed_of(cohort: int, study_seed: int, index: int) -> int:
    """Seeds of different cohorts and studies never meet.

    >>> seed_of(SEARCHING, 0, 2), seed_of(SCORING, 1, 2)
    (2, 2001002)
    """
    if not 0 <= study_seed < BLOCK // PER_STUDY or not 0 <= index < PER_STUDY:
        raise ValueError(f"seed={study_seed} must be at least 0 and under {BLOCK // PER_STUDY}")
    return cohort * BLOCK + study_seed * PER_STUDY + index


def of_stories(
    stories: Sequence[tuple[str, Scenario]],
    seeds: int,
    study_seed: int = 0,
    held_out: Sequence[tuple[str, Scenario]] = (),
) -> Cohorts:
    """Cohorts of scenarios. Without any named to be held out, every third of several is; a single one lends seeds."""
    apart, seen = list(held_out), list(stories)
    if not apart and len(seen) >= FEWEST_TO_SPLIT:
        every = round(1.0 / HELD_OUT_FRAC)
        apart = seen[every - 1 :: every]
        seen = [story for i, story in enumerate(seen) if i % every != every - 1]
    scored = apart or seen

    def cases(cohort: int, from_: Sequence[tuple[str, Scenario]], count: int) -> tuple[Case, ...]:
        return tuple(Case(name, story, seed_of(cohort, study_seed, i)) for i in range(count) for name, story in from_)

    scoring = cases(SCORING, scored, seeds if apart else 2 * seeds)
    return Cohorts(cases(SEARCHING, seen, seeds), cases(CHOOSING, seen, seeds), scoring, bool(apart))


def lightest(stories: Sequence[tuple[str, Scenario]], most: int) -> tuple[list[tuple[str, Scenario]], ...]:
    """(the `most` stories that take least work to simulate, the others). By their files alone, so that all agree."""
    ordered = sorted(stories, key=lambda story: calls(story[1]))
    light = {name for name, _ in ordered[:most]}
    return [s for s in stories if s[0] in light], [s for s in stories if s[0] not in light]


def calls(scenario: Scenario) -> float:
    """About how many model calls a story takes: what its simulation costs."""
    knobs, steps = scenario.setpoints, scenario.horizon.steps or TYPICAL_STEPS
    return float(steps * (knobs.batch_rollouts or 1) * scenario.workload.turns.mean)


def of_draws(
    name: str, draws: Sequence[Draw], bounds: Bounds, study_seed: int = 0, trend: Mapping[str, float] | None = None
) -> Cohorts:
    """Cohorts of the possible jobs behind a recording: two of three are searched, the others score.

    With a trend (`trend_of`; it may be empty) each is a story for a policy, else a steady job for settings.
    """
    every = round(1.0 / HELD_OUT_FRAC)
    seen = [draw for i, draw in enumerate(draws) if i % every != every - 1]
    apart = [draw for i, draw in enumerate(draws) if i % every == every - 1]

    def cases(cohort: int, from_: Sequence[Draw]) -> tuple[Case, ...]:
        total = sum(draw.weight for draw in from_)
        return tuple(
            Case(
                f"{name}-{i}",
                steady(name, draw, bounds) if trend is None else going_on(name, draw, bounds, trend),
                seed_of(cohort, study_seed, i),
                draw if trend is None else None,
                draw.weight / total,
            )
            for i, draw in enumerate(from_)
        )

    return Cohorts(cases(SEARCHING, seen), cases(CHOOSING, seen), cases(SCORING, apart), unseen=True, draws=True)


def steady(name: str, draw: Draw, bounds: Bounds) -> Scenario:
    """A possible job that does not drift."""
    return Scenario(
        f"A job that the recording {name} may come from",
        draw.topology,
        draw.setpoints,
        draw.workload,
        draw.stations,
        Horizon(DRAW_STEPS),
        bounds,
    )


def trend_of(snapshot: Snapshot) -> dict[str, float]:
    """How many times its start each number of a job will be after GOING_ON_STEPS, if it goes on as in the recording.

    # 30 steps, first third 1,000 tokens, last third 1,200: 1.2 in 20 steps, 1.2^4 = 2.07 in 80
    """
    found = {}
    for signal, path in TRENDS.items():
        series = snapshot.series(signal)
        moved = change_over_window(series)
        if moved is not None and min(moved) > 0.0:
            apart = len(series) - len(series) // 3
            times = (moved[1] / moved[0]) ** (GOING_ON_STEPS / apart)
            found[path] = min(TREND_MAX, max(1.0 / TREND_MAX, times))
    return found


def going_on(name: str, draw: Draw, bounds: Bounds, trend: Mapping[str, float]) -> Scenario:
    """A possible job that drifts on as its recording did; where that stands still, so does the job."""
    scenario = replace(steady(name, draw, bounds), horizon=Horizon(GOING_ON_STEPS), move=USUAL_MOVES)
    job = job_at(scenario, 0, 0.0)
    starts = {path: number_at(job, path) for path in trend}
    drifts = tuple(
        Drift(path, Shape.EXPONENTIAL, to=start * trend[path], end=float(GOING_ON_STEPS))
        for path, start in starts.items()
        if start
    )
    return replace(scenario, drift=drifts)
