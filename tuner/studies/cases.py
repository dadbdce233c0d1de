"""Cases: what a trial is measured on. A story with a seed, or one possible job behind a recording with a seed.

Each case belongs to one cohort: the search sees some, the choice among its best sees others, the comparison that is
reported sees a third kind. No seed is in two of them, and no scenario or draw that is held out is ever searched on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulators.calibration import Draw
from simulators.plant import Bounds, Setpoints
from simulators.scenario import Horizon, Scenario

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
    ordered = sorted(stories, key=lambda story: _calls(story[1]))
    light = {name for name, _ in ordered[:most]}
    return [s for s in stories if s[0] in light], [s for s in stories if s[0] not in light]


def _calls(scenario: Scenario) -> float:
    """About how many model calls a story takes."""
    knobs, steps = scenario.setpoints, scenario.horizon.steps or TYPICAL_STEPS
    return float(steps * (knobs.batch_rollouts or 1) * scenario.workload.turns.mean)


def of_draws(name: str, draws: Sequence[Draw], bounds: Bounds, study_seed: int = 0) -> Cohorts:
    """Cohorts of the possible jobs behind a recording: two of three are searched, the others score."""
    every = round(1.0 / HELD_OUT_FRAC)
    seen = [draw for i, draw in enumerate(draws) if i % every != every - 1]
    apart = [draw for i, draw in enumerate(draws) if i % every == every - 1]

    def cases(cohort: int, from_: Sequence[Draw]) -> tuple[Case, ...]:
        total = sum(draw.weight for draw in from_)
        return tuple(
            Case(f"{name}-{i}", steady(name, draw, bounds), seed_of(cohort, study_seed, i), draw, draw.weight / total)
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
