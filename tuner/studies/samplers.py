"""Which sampler and which pruner a study gets, and why. The only place that knows Optuna's by name.

| the space | budget | sampler | because |
|---|---|---|---|
| a lattice of no more points than trials | any | `all` | every point waits from the beginning, to be asked once |
| anything, one objective | any | `tpe` | takes lattices, choices, conditions, constraints, pruned trials as they are |
| anything, several objectives | < 500 | `tpe` | NSGA-II needs some ten generations of 50 to beat chance |
| anything, several objectives | >= 500 | `nsga` | keeps a spread front, at no cost that grows with the trials |

`cmaes` (intervals only, 8 dimensions or more, 500 trials or more) and `gp` (under 100 costly trials) are there for
those who ask: neither knows what a pruned trial was worth, and each needs a library of its own.

Levels of care: the model's word where there is one, then few cases, then all. A point that the model puts far behind
what it says of others is not simulated: by its error, not by rank, since it is wrong by some percent and free. Between
levels of simulation the pruner is successive halving: asynchronous, so that no worker waits, and by rank, so that a
level need only order points as the next one does.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, NSGAIISampler, RandomSampler
from optuna.samplers import TPESampler as Tpe
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from simulators.signals import TINY
from simulators.streams import seed_key
from tuner.errors import ConfigError
from tuner.studies.space import Dimension, Point, Space

FACTOR, POLICY_FACTOR = 3, 4
"""One of so many simulated points of a level goes on to the next: settings that stand still, and policies, whose last
level costs ten times the one before."""
MODEL_ERROR_FRAC = 0.15
"""What the model says of a gain is off by up to so much: published jobs and shipped scenarios (docs/validation.md)."""
FRONT_TRIALS = 500
"""From here on a front of several objectives is left to NSGA-II."""
STARTUP = 10
"""Points before the sampler learns from them; the settings in force and the model's favourites come first anyway."""
LARGEST = 20_000
"""Points of a lattice that are looked through for one that nobody has tried."""
NEEDS = {"cmaes": "cmaes", "gp": "torch"}
"""Libraries of samplers that are not part of `tune`."""


def usual(space: Space, objectives: int, trials: int) -> str:
    """The default by the table above."""
    if space.size is not None and space.size <= trials and not space.conditional:
        return "all"
    return "nsga" if objectives > 1 and trials >= FRONT_TRIALS else "tpe"


def checked(name: str, space: Space, objectives: int) -> str:
    """The sampler's name, or a ConfigError saying why this study cannot have it."""
    if name not in SAMPLERS:
        raise ConfigError(f"--sampler {name}: unknown; known: auto, {', '.join(SAMPLERS)}")
    library = NEEDS.get(name)
    if library is not None and find_spec(library) is None:
        raise ConfigError(f"--sampler {name}: needs the library {library}: pip install {library}")
    if name in ("cmaes", "gp") and objectives > 1:
        raise ConfigError(f"--sampler {name}: knows one objective; take tpe or nsga")
    if name == "cmaes" and any(d.choices for d in space.dimensions):
        raise ConfigError("--sampler cmaes: takes numbers only, and this space has choices; take tpe")
    if name == "all" and space.size is None:
        raise ConfigError("--sampler all: this space has a continuum; take tpe")
    return name


def sampler_of(name: str, space: Space, seed: int, number: int) -> BaseSampler:
    """A sampler for one trial. Its random numbers belong to the trial's number: a study that was killed and goes on
    asks what it would have asked."""
    return SAMPLERS[name](space, seed_key(1_000_003 * seed + number) % (1 << 32))


def _tpe(space: Space, seed: int) -> BaseSampler:
    return Tpe(seed=seed, n_startup_trials=STARTUP, multivariate=True, group=space.conditional, constant_liar=True)


def fresh_of(inner: BaseSampler, space: Space, worth: Sequence[Point]) -> BaseSampler:
    """The sampler without repetitions, where the space is a lattice."""
    return inner if space.conditional or space.size is None or space.size > LARGEST else Fresh(inner, space, worth)


class Fresh(BaseSampler):
    """Of a lattice no point twice, and none that the model rules out: else the nearest that is worth a trial.

    A trial is a function of its point, so that a repetition tells nothing; TPE makes many where it closes in. What
    the model says of a whole lattice takes no trials to find out.
    """

    def __init__(self, inner: BaseSampler, space: Space, worth: Sequence[Point]) -> None:
        self._inner, self._space, self._worth = inner, space, worth

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {d.name: _distribution(d) for d in self._space.dimensions}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        found: dict[str, Any] = self._inner.sample_relative(study, trial, search_space)
        names = [d.name for d in self._space.dimensions]
        for name in names:  # before it has seen enough, a sampler draws coordinate by coordinate
            if name not in found:
                found[name] = self._inner.sample_independent(study, trial, name, search_space[name])
        tried = {tuple(map(t.params.get, names)) for t in study.get_trials(deepcopy=False) if t.number != trial.number}
        as_it_is = tuple(map(found.get, names)) not in tried and (not self._worth or found in self._worth)
        if as_it_is:
            return found
        for points in (self._worth, self._space.points()):
            fresh = [point for point in points if tuple(map(point.get, names)) not in tried]
            if fresh:
                return dict(self._nearest(fresh, found))
        return found

    def _nearest(self, points: Sequence[Point], wish: Point) -> Point:
        return min(points, key=lambda point: self._steps(point, wish))

    def _steps(self, one: Point, other: Point) -> float:
        """How far apart two points are, each coordinate by its range; of values without an order, all are as far."""
        return sum(
            float(one[d.name] != other[d.name])
            if d.choices
            else abs(float(one[d.name]) - float(other[d.name])) / max(d.high - d.low, TINY)
            for d in self._space.dimensions
        )

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self._inner.after_trial(study, trial, state, values)


def _distribution(d: Dimension) -> BaseDistribution:
    """As Optuna has a coordinate of a lattice."""
    if d.choices:
        return CategoricalDistribution(d.choices)
    if d.whole:
        return IntDistribution(int(d.low), int(d.high), d.log, int(d.step or 1))
    return FloatDistribution(d.low, d.high, d.log, d.step)


SAMPLERS: Mapping[str, Callable[[Space, int], BaseSampler]] = {
    "tpe": _tpe,
    "all": lambda space, seed: RandomSampler(seed=seed),  # it is not asked: all points wait (tuner/studies/finding.py)
    "nsga": lambda space, seed: NSGAIISampler(seed=seed),
    "random": lambda space, seed: RandomSampler(seed=seed),
    "cmaes": lambda space, seed: CmaEsSampler(seed=seed),
    "gp": lambda space, seed: GPSampler(seed=seed),
}


class Careful(BasePruner):
    """Gives up what the model puts far behind, then by rank; of equals the earlier one goes on.

    Optuna's own successive halving lets all equals go on, and many points of a policy behave alike on a short story.
    """

    def __init__(self, by_model: bool) -> None:
        self._by_model = by_model

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        step = trial.last_step or 0
        sign = 1.0 if study.direction is StudyDirection.MAXIMIZE else -1.0
        kept = [t for t in study.get_trials(deepcopy=False) if not any(v > 0.0 for v in t.constraints.values())]
        others = [
            sign * t.intermediate_values[step]
            for t in kept
            if t.number != trial.number and step in t.intermediate_values
        ]
        own = sign * trial.intermediate_values[step]
        if self._by_model and step == resource(0):
            best = max(others, default=own)
            return bool(own < best - MODEL_ERROR_FRAC * abs(1.0 + best if sign > 0.0 else best))
        factor = FACTOR if self._by_model else POLICY_FACTOR
        return sum(other >= own for other in others) >= max(1, (len(others) + 1) // factor)


def pruner_of(levels: int, by_model: bool) -> BasePruner:
    return NopPruner() if levels < 2 else Careful(by_model)


def resource(level: int) -> int:
    """What a level is called in the pruner's own count."""
    return int(FACTOR**level)


def quiet() -> None:
    """Optuna's own lines and its notes on experimental parts are not for our users."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
