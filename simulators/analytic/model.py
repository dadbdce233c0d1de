"""AnalyticModel: the steady state of a job from closed forms, in about a millisecond."""

from dataclasses import dataclass
from functools import lru_cache

from simulators.analytic.balance import balanced
from simulators.analytic.case import Case
from simulators.analytic.checking import check
from simulators.analytic.layout import layout_of
from simulators.analytic.rollout import rollout_of
from simulators.analytic.solving import usable_share
from simulators.analytic.stopped import stopped_reason
from simulators.analytic.telling import told
from simulators.model import Prediction
from simulators.plant import Setpoints, Topology
from simulators.stations import Stations
from simulators.workload import Workload


@dataclass(frozen=True, slots=True)
class AnalyticModel:
    """PlantModel by queueing theory; where it should not decide alone is named in `Prediction.weak`."""

    stations: Stations

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        return _predicted(self.stations, topology, workload, setpoints)


@lru_cache(maxsize=256)
def _predicted(stations: Stations, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
    """Remembered, since fit, law, guardrails and gate of one tick ask for the same again."""
    check(stations, workload)
    case = case_of(topology, stations, workload, setpoints)
    reason = stopped_reason(case)
    if reason is not None:
        return Prediction(0.0, 0.0, 0.0, float("inf"), 1.0, 0.0, stopped=reason)
    return told(balanced(case), workload)


def case_of(topology: Topology, stations: Stations, workload: Workload, setpoints: Setpoints) -> Case:
    layout = layout_of(topology, stations, setpoints)
    usable = usable_share(workload.solve, layout.group_size)
    return Case(
        layout=layout,
        stations=stations,
        rollout=rollout_of(workload, stations.pruning),
        setpoints=setpoints,
        usable_frac=usable,
        yield_frac=usable if setpoints.filter_zero_adv else 1.0,
        failure_frac=workload.failure_frac,
    )
