"""A storage that keeps the trial under way in memory: as much goes to the database as others need to know.

| when | what is written, in one transaction |
|---|---|
| a trial begins | that it runs, and its first heartbeat |
| its point is chosen, and every few seconds | a heartbeat, and what was found since |
| it ends | everything else |

And as much is read: the others only where some began or ended since (`reading`). Behind it are Optuna's own storage and
tables.
A worker that dies loses what it found since its heart's last beat; the trial is done again, at the same point.
"""

import copy
from collections import defaultdict
from collections.abc import Container, Sequence
from datetime import UTC, datetime
from threading import RLock
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.storages._cached_storage import _CachedStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.studies import reading, writing
from tuner.studies.reading import local
from tuner.studies.writing import Page

IN_MEMORY = ("set_trial_param", "set_trial_user_attr", "set_trial_system_attr", "set_trial_intermediate_value")
"""What never waits for a database."""


class Drafts(_CachedStorage):
    """Of one worker, which does one trial at a time; its heart may beat in a thread of its own."""

    def __init__(self, backend: RDBStorage) -> None:
        super().__init__(backend)
        self._engine = backend.engine
        self._draft: FrozenTrial | None = None
        self._page = Page()
        self._pen = RLock()
        self._known = defaultdict[int, dict[int, FrozenTrial]](dict)
        """By study and number."""
        self._last: dict[int, int] = {}
        """By study: the newest trial that was seen, and none before it was not."""
        self._looked = False
        """Since the draft began or reached a level."""
        self._ids: dict[str, int] = {}

    # ---- the trial under way ----

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """A trial that runs and is ours; with a template, as Optuna makes it."""
        if template_trial is not None:
            return int(super().create_new_trial(study_id, template_trial))
        ident, number = writing.begin(self._engine, study_id)
        draft = create_trial(state=TrialState.RUNNING)
        draft.number, draft._trial_id = number, ident
        self._taken(study_id, draft)
        return ident

    def _taken(self, study_id: int, draft: FrozenTrial) -> None:
        draft.state, draft.datetime_start = TrialState.RUNNING, local(datetime.now(UTC))
        self._draft, self._page = draft, Page()
        self._know(study_id, [draft])

    def _know(self, study_id: int, trials: Sequence[FrozenTrial]) -> None:
        """What we did ourselves need not be read again."""
        for trial in trials:
            self._known[study_id][trial.number] = trial
            self._trial_id_to_study_id_and_number[trial._trial_id] = (study_id, trial.number)
            self._study_id_and_number_to_trial_id[(study_id, trial.number)] = trial._trial_id

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        if self._ours(trial_id) is not None and state.is_finished():
            self._end(trial_id, state, values)
            return True
        if state is not TrialState.RUNNING:
            return bool(super().set_trial_state_values(trial_id, state, values))
        if not writing.claim(self._engine, trial_id):
            return False
        study_id, _ = self._trial_id_to_study_id_and_number[trial_id]
        self._taken(study_id, reading.one(self._engine, trial_id))
        return True

    def _end(self, trial_id: int, state: TrialState, values: Sequence[float] | None) -> None:
        with self._pen:
            draft = self._draft
            assert draft is not None
            try:
                writing.end(self._engine, trial_id, self._page, state, values)
            except UpdateFinishedTrialError:
                self._draft, self._looked = None, False
                raise
            self._draft, self._page, self._looked = None, Page(), False
        draft.state, draft.values, draft.datetime_complete = state, values, local(datetime.now(UTC))

    def record_heartbeat(self, trial_id: int) -> None:
        """With all that was found since the last one."""
        with self._pen:
            ours = self._ours(trial_id) is not None
            writing.beat(self._engine, trial_id, self._page if ours else Page())
            if ours:
                self._page = Page()

    def _ours(self, trial_id: int) -> FrozenTrial | None:
        return self._draft if self._draft is not None and self._draft._trial_id == trial_id else None

    def _open(self, trial_id: int) -> FrozenTrial:
        draft = self._ours(trial_id)
        if draft is None:
            raise UpdateFinishedTrialError(f"trial {trial_id} is not under way here")
        return draft

    def set_trial_param(
        self, trial_id: int, param_name: str, param_value_internal: float, distribution: BaseDistribution
    ) -> None:
        with self._pen:
            draft = self._open(trial_id)
            draft.params[param_name] = distribution.to_external_repr(param_value_internal)
            draft.distributions[param_name] = distribution
            self._page.params[param_name] = (param_value_internal, distribution)

    def set_trial_intermediate_value(self, trial_id: int, step: int, intermediate_value: float) -> None:
        with self._pen:
            self._open(trial_id).intermediate_values[step] = intermediate_value
            self._page.levels[step] = intermediate_value
            self._looked = False

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        with self._pen:
            self._open(trial_id).user_attrs[key] = value
            self._page.user[key] = value

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        with self._pen:
            self._open(trial_id).system_attrs[key] = value
            self._page.system[key] = value

    # ---- what is known of the others ----

    def get_trial(self, trial_id: int) -> FrozenTrial:
        ours = self._ours(trial_id)
        if ours is not None:
            return ours
        study_id, number = self._trial_id_to_study_id_and_number.get(trial_id, (-1, -1))
        known = self._known.get(study_id, {}).get(number)
        return known if known is not None and known.state.is_finished() else self._backend.get_trial(trial_id)

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        known = self._known[study_id]
        if not self._looked:  # a sampler asks many times; what others do between two levels is early enough at the next
            news = reading.news(self._engine, study_id, known, self._last.get(study_id, -1), self._draft)
            self._know(study_id, news.trials)
            self._last[study_id], self._looked = news.last, True
        found = [known[number] for number in sorted(known)]
        chosen = found if states is None else [trial for trial in found if trial.state in states]
        return copy.deepcopy(chosen) if deepcopy else chosen

    def look(self) -> None:
        """Whoever asks next is told what is so now."""
        self._looked = False

    def get_study_id_from_name(self, study_name: str) -> int:
        """Names are never changed."""
        if study_name not in self._ids:
            self._ids[study_name] = super().get_study_id_from_name(study_name)
        return self._ids[study_name]
