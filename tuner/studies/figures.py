"""Figures beside an outcome: runs that were simulated, and which coordinates decide."""

import warnings
from collections.abc import Sequence

from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from tuner.studies.storage import Ledger
from tuner.studies.workers import Job

IMPORTANT_FROM = 20
"""Fewer finished trials say nothing of importance."""


def simulations(job: Job, levels: Sequence[int]) -> int:
    """Simulated cases over all trials; what a level has asked the next does not ask again."""
    total, asked = 0, set[int]()
    for reached, level in zip(levels, job.problem.levels, strict=True):
        fresh = [i for i in level if i not in asked and job.problem.cases[i].simulated]
        total += reached * len(fresh)
        asked |= set(level)
    return total


def importances(ledger: Ledger, finished: Sequence[FrozenTrial], objectives: int) -> dict[str, float]:
    """How much of the objective's variance each coordinate explains (PED-ANOVA), of the first objective."""
    whole = [t for t in finished if t.state is TrialState.COMPLETE]
    if len(whole) < IMPORTANT_FROM:
        return {}
    study = ledger.study()
    target = None if objectives == 1 else (lambda t: t.values[0])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(), target=target)
    except (ValueError, RuntimeError):
        return {}
    return {name: float(value) for name, value in found.items()}
