"""What a worker reads of the others' trials: those that began or ended since it last looked, and levels since reached.

From Optuna's own tables; past its object mapper, which takes three times as long for the same rows. Numbers of trials
are given one at a time (`writing.begin`, and Optuna's own), so that none appears later with a smaller one.
"""

import copy
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Connection, Engine, Row, Table, select

from tuner.studies.writing import LEVELS, PARAMS, SYSTEM, TRIALS, USER, VALUES

AT_ONCE = 500
"""Trials that one query asks for: databases limit the parameters of a query."""
HEADS = (TRIALS.c.trial_id, TRIALS.c.number, TRIALS.c.state, TRIALS.c.datetime_start, TRIALS.c.datetime_complete)


@dataclass(frozen=True, slots=True)
class News:
    """What is not any more as it was known."""

    trials: tuple[FrozenTrial, ...]
    last: int
    """The newest trial: all that began before it have been seen."""


def news(engine: Engine, study: int, known: Mapping[int, FrozenTrial], last: int, ours: FrozenTrial | None) -> News:
    """Of the trials known by their numbers, and of those after `last`. Nobody but us changes ours."""
    open_ = {t._trial_id: t for t in known.values() if not t.state.is_finished() and t is not ours}
    with engine.connect() as on:
        heads = [head for head in _heads(on, study, last, list(open_)) if ours is None or head.number != ours.number]
        moved = [head for head in heads if _differs(head, known.get(head.number))]
        still = open_.keys() - {head.trial_id for head in moved}
        running = [open_[i] for i in sorted(still) if open_[i].state is TrialState.RUNNING]
        found = (*_whole(on, moved), *_further(on, running)) if moved else ()
    return News(found, max([last, *(head.trial_id for head in heads)]))


def one(engine: Engine, ident: int) -> FrozenTrial:
    """A trial as it stands."""
    with engine.connect() as on:
        (found,) = _whole(on, list(on.execute(select(*HEADS).where(TRIALS.c.trial_id == ident))))
    return found


def _heads(on: Connection, study: int, last: int, open_: Sequence[int]) -> list[Any]:
    asked = select(*HEADS).where(TRIALS.c.study_id == study)
    found = list(on.execute(asked.where(TRIALS.c.trial_id > last)))
    for at in range(0, len(open_), AT_ONCE):
        found += on.execute(asked.where(TRIALS.c.trial_id.in_(open_[at : at + AT_ONCE]), TRIALS.c.trial_id <= last))
    return found


def _differs(head: Row[Any], known: FrozenTrial | None) -> bool:
    """A trial that runs is looked at until its point is there."""
    return known is None or head.state is not known.state or (known.state is TrialState.RUNNING and not known.params)


def _whole(on: Connection, heads: Sequence[Row[Any]]) -> list[FrozenTrial]:
    idents = [head.trial_id for head in heads]
    params, values, user, system, levels = (_rows(on, t, idents) for t in (PARAMS, VALUES, USER, SYSTEM, LEVELS))
    found = []
    for head in heads:
        i = head.trial_id
        distributions = {row.param_name: _distribution(row.distribution_json) for row in params[i]}
        outcome = {row.objective: _value(row.value, row.value_type) for row in values[i]}
        trial = FrozenTrial(
            number=head.number,
            trial_id=i,
            state=head.state,
            value=None,
            values=[outcome[k] for k in sorted(outcome)] or None,
            datetime_start=head.datetime_start and local(head.datetime_start),
            datetime_complete=head.datetime_complete and local(head.datetime_complete),
            params={r.param_name: distributions[r.param_name].to_external_repr(r.param_value) for r in params[i]},
            distributions=distributions,
            user_attrs={row.key: json.loads(row.value_json) for row in user[i]},
            system_attrs={row.key: json.loads(row.value_json) for row in system[i]},
            intermediate_values=_reached(levels[i]),
        )
        found.append(trial)
    return found


def _further(on: Connection, running: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Those that have reached another level since."""
    levels, found = _rows(on, LEVELS, [trial._trial_id for trial in running]), []
    for trial in running:
        if len(levels[trial._trial_id]) > len(trial.intermediate_values):
            then = copy.copy(trial)
            then.intermediate_values = _reached(levels[trial._trial_id])
            found.append(then)
    return found


def _rows(on: Connection, table: Table, idents: Sequence[int]) -> defaultdict[int, list[Row[Any]]]:
    """By trial, in the order in which they were written."""
    found = defaultdict[int, list[Row[Any]]](list)
    (key,) = table.primary_key.columns
    for at in range(0, len(idents), AT_ONCE):
        asked = select(table).where(table.c.trial_id.in_(idents[at : at + AT_ONCE])).order_by(key)
        for row in on.execute(asked):
            found[row.trial_id].append(row)
    return found


def _reached(levels: Iterable[Row[Any]]) -> dict[int, float]:
    of = models.TrialIntermediateValueModel.stored_repr_to_intermediate_value
    return {row.step: of(row.intermediate_value, row.intermediate_value_type) for row in levels}


def _value(value: float | None, kind: Any) -> float:
    return float(models.TrialValueModel.stored_repr_to_value(value, kind))


@cache
def _distribution(said: str) -> BaseDistribution:
    return json_to_distribution(said)


def local(utc: datetime) -> datetime:
    """As Optuna's trials have it: local, and without a zone."""
    return utc.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
