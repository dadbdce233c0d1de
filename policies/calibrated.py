"""CalibratedModeller: models of a job that no file describes, from the draws that its own history allows.

Where a job is stated (policies/modelling.py), its structure is known and its rates are followed. Else the calibration
(simulators/calibration) says which jobs could be behind the data; each is a model, and they are asked alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log

from policies.control import Draw
from policies.estimators import estimate
from policies.modelling import OTHERS
from policies.prospects import prospects_of
from policies.settings import merged
from policies.tails import widest
from simulators.analytic import AnalyticModel
from simulators.calibration import Draw as Possible
from simulators.model import Prediction
from simulators.plant import Observation, Setpoints, Topology
from simulators.signals import TINY
from simulators.streams import seed_key, uniform
from simulators.workload import Workload


@dataclass(frozen=True, slots=True)
class PossibleJob:
    """One possible job as a model of its settings."""

    possible: Possible

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        """What is not said of a setting, and of the topology, is as the draw has it."""
        under = self.possible.under(self.possible.topology, merged(self.possible.setpoints, setpoints))
        return AnalyticModel(under.stations).predict(under.topology, workload, under.setpoints)


@dataclass(frozen=True, slots=True)
class CalibratedModeller:
    topology: Topology

    def central(self, seen: Observation) -> Draw | None:
        """The middle one by its ratio of both rates; None while nothing can be calibrated, or no split is known."""
        known = sorted(((_log_ratio(p), p) for p in self._possible(seen)), key=lambda pair: pair[0])
        total = sum(p.weight for _, p in known)
        if not known or total <= TINY:
            return None
        mean = sum(p.weight * ratio for ratio, p in known) / total
        doubt = sum(p.weight * (ratio - mean) ** 2 for ratio, p in known) / total
        middle = _at([p for _, p in known], 0.5)
        return Draw(PossibleJob(middle), middle.workload, doubt=doubt)

    def why_not(self, seen: Observation) -> str:
        if not seen.in_force.gpus_trainer or not seen.in_force.gpus_generator:
            return "how many GPUs each side has is not known"
        return "its steps tell too little of where their time goes"

    def draws(self, seen: Observation, count: int, seed: int) -> Sequence[Draw]:
        """`count` of them by their weights, evenly, and some of another structure: the tail hidden."""
        known = self._possible(seen)
        if not known:
            return ()
        start: float = uniform(seed_key(seed), 0, 0, 0, 0)
        own = [_at(known, (i + start) / count) for i in range(count)]
        found = [Draw(PossibleJob(p), p.workload) for p in own]
        size = seen.in_force.group_size or 1
        others = found[:: max(1, count // OTHERS)][:OTHERS]
        return (*found, *(Draw(one.model, widest(one.workload, size, seen), "hidden-tail") for one in others))

    def _possible(self, seen: Observation) -> Sequence[Possible]:
        now = seen.in_force
        if not now.gpus_trainer or not now.gpus_generator:
            return ()
        found = prospects_of(self.topology, now, estimate(self.topology, now, seen.snapshot)).calibration
        return () if found is None else found.draws


def _log_ratio(possible: Possible) -> float:
    """ln of the generator's rate over the trainer's, from how much of its time either works."""
    trainer, generator = 1.0 - possible.now.trainer_idle_frac, possible.now.generator_busy_frac
    return log(max(TINY, trainer)) - log(max(TINY, generator))


def _at(known: Sequence[Possible], share: float) -> Possible:
    """The one at that share of all weights."""
    sums = list(accumulate(p.weight for p in known))
    return next((p for p, upto in zip(known, sums, strict=True) if upto >= share * sums[-1]), known[-1])
