"""A study in its storage: begun or joined, its trials handed out and taken back. Optuna's storage is the queue.

A worker takes a trial by turning it from waiting to running, which one worker alone can do; its heartbeat keeps it. One
whose heartbeat stops is failed, and waits once more under a new number: no trial is lost, and none is done twice.
Where none waits and fewer were begun than were asked for, a worker makes one; of several that do so at the same moment
all go on, so that a study of W workers may end with up to W - 1 trials more than were asked for.
"""

import json
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.storages import (
    BaseStorage,
    RetryHeartbeatStaleTrialCallback,
    fail_stale_trials,
)
from optuna.trial import FrozenTrial, TrialState

from tuner.errors import ConfigError
from tuner.studies.drafts import Drafts
from tuner.studies.objectives import Better
from tuner.studies.opening import GRACE_S
from tuner.studies.samplers import fresh_of, pruner_of, sampler_of
from tuner.studies.space import Point, Space

DEFINITION, BASIS, READY = "equipoise:definition", "equipoise:basis", "equipoise:ready"
WHY = "equipoise:why"
"""Why a trial came to nothing; one without it was lost with its worker."""
DONE = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass(frozen=True, slots=True)
class Chooser:
    """How the next point is chosen."""

    sampler: str
    space: Space
    seed: int
    levels: int
    by_model: bool = False
    """The first level is the model's word."""
    worth: tuple[Point, ...] = ()
    """Where that is known of every point: those that are worth a trial, the likeliest first."""


def begun(storage: BaseStorage, name: str, definition: Mapping[str, Any], directions: Sequence[Better]) -> bool:
    """Creates the study, or joins it where it is the same: True where it was created now.

    One of another version, space or data is refused: its values could not be compared with ours.
    """
    try:
        study = optuna.create_study(storage=storage, study_name=name, directions=list(directions))
    except DuplicatedStudyError:
        _demand_same(storage, name, definition)
        return False
    study.set_user_attr(DEFINITION, dict(definition))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.set_metric_names(list(definition.get("objectives", ["value"] * len(directions))))  # for dashboards
    return True


def _demand_same(storage: BaseStorage, name: str, definition: Mapping[str, Any]) -> None:
    attrs = _attrs(storage, name)
    deadline = time.monotonic() + GRACE_S
    while DEFINITION not in attrs and time.monotonic() < deadline:
        time.sleep(0.5)  # another machine is creating it right now
        attrs = _attrs(storage, name)
    there = attrs.get(DEFINITION)
    if there is None:
        raise ConfigError(f"study {name!r} in this storage is not ours; give ours a name: --study NAME")
    ours = json.loads(json.dumps(definition))
    for key, value in ours.items():
        if there.get(key) != value:
            raise ConfigError(
                f"study {name!r} is another one: {key} is {_short(there.get(key))} there and {_short(value)} here; "
                "give this one a name of its own: --study NAME"
            )


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _attrs(storage: BaseStorage, name: str) -> dict[str, Any]:
    found: dict[str, Any] = storage.get_study_user_attrs(storage.get_study_id_from_name(name))
    return found


class Ledger:
    """One worker's view of a study: takes slots, hands them back, sees how it stands."""

    def __init__(self, storage: Drafts, name: str, chooser: Chooser) -> None:
        self.storage, self.name, self._chooser = storage, name, chooser
        self.study_id = storage.get_study_id_from_name(name)

    def study(self, number: int = 0) -> optuna.Study:
        """A fresh view, whose sampler is that of the trial of this number."""
        c = self._chooser
        return optuna.load_study(
            study_name=self.name,
            storage=self.storage,
            sampler=_sampler(c, number),
            pruner=pruner_of(c.levels, c.by_model),
        )

    def attr(self, key: str) -> Any:
        return self.storage.get_study_user_attrs(self.study_id).get(key)

    def put(self, key: str, value: Any) -> None:
        self.storage.set_study_user_attr(self.study_id, key, value)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        self.storage.look()
        return self.storage.get_all_trials(self.study_id, deepcopy=False, states=states or None)

    def begin(self, first: Sequence[Point]) -> None:
        """These points wait to be tried before any that a sampler chooses."""
        for point in first:
            self.study().enqueue_trial(dict(point))

    def take(self, trials: int) -> optuna.trial.Trial | None:
        """The next trial of `trials` in all, running and ours from now on; None: none waits, and enough were begun."""
        there = self.trials()
        for waiting in (t for t in there if t.state is TrialState.WAITING):
            if self._claimed(waiting.number):
                return optuna.trial.Trial(self.study(waiting.number), self._ident(waiting.number))
        if len(_begun(there)) >= trials:
            return None
        ident = self.storage.create_new_trial(self.study_id)
        return optuna.trial.Trial(self.study(self.storage.get_trial_number_from_id(ident)), ident)

    def points(self) -> list[Point]:
        """What was tried, or waits to be."""
        return [{**t.system_attrs.get("fixed_params", {}), **t.params} for t in self.trials()]

    def left(self, trials: int) -> int:
        """Of so many trials, those that nobody has begun and that do not wait."""
        return _left(self.trials(), trials)

    def under_way(self, trials: int) -> int:
        """Trials that wait, run, or are still to be begun."""
        there = self.trials()
        open_ = sum(t.state in (TrialState.WAITING, TrialState.RUNNING) for t in there)
        return open_ + _left(there, trials)

    def _claimed(self, number: int) -> bool:
        try:
            return self.storage.set_trial_state_values(self._ident(number), TrialState.RUNNING)
        except UpdateFinishedTrialError:
            return False

    def retake(self) -> None:
        """Slots whose heart has stopped wait anew, once."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fail_stale_trials(self.study())

    def lost(self, number: int) -> None:
        """Fails a running slot, which then waits anew, once."""
        try:
            failed = self.storage.set_trial_state_values(self._ident(number), TrialState.FAIL)
        except UpdateFinishedTrialError:
            return
        if failed:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                again = RetryHeartbeatStaleTrialCallback(max_retry=1)
            again(self.study(), self.storage.get_trial(self._ident(number)))

    def beat(self, number: int) -> None:
        """This slot's worker is alive."""
        self.storage.record_heartbeat(self._ident(number))

    def _ident(self, number: int) -> int:
        return self.storage.get_trial_id_from_study_id_trial_number(self.study_id, number)

    def counts(self) -> Counter[TrialState]:
        return Counter(trial.state for trial in self.trials())


def _begun(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Those that count: what was lost with its worker waits under another number."""
    return [t for t in trials if t.state is not TrialState.FAIL or WHY in t.user_attrs]


def _left(there: Sequence[FrozenTrial], trials: int) -> int:
    return max(0, trials - len(_begun(there)))


def _sampler(chooser: Chooser, number: int) -> BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sampler_of(chooser.sampler, chooser.space, chooser.seed, number)
        return fresh_of(found, chooser.space, chooser.worth) if chooser.sampler == "tpe" else found
