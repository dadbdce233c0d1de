"""What a worker writes of its trial, a transaction each: its beginning, what is new at a beat of its heart, its end.

Into Optuna's own tables, so that Optuna and its dashboard read them; past its object mapper, which takes twenty
transactions and ten times as long for the same rows. Each transaction begins with a write, so that SQLite, too, lets
two of them follow each other instead of refusing one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from optuna.distributions import BaseDistribution, distribution_to_json
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages._rdb import models
from optuna.trial import TrialState
from sqlalchemy import Connection, Engine, Table, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

INSERT: Mapping[str, Callable[[Table], sqlite.Insert | postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
"""Each with its own `ON CONFLICT`, which SQL itself does not have."""


def _table(model: Any) -> Table:
    found: Table = model.__table__
    return found


STUDIES, TRIALS, BEATS = (_table(m) for m in (models.StudyModel, models.TrialModel, models.TrialHeartbeatModel))
PARAMS, USER, SYSTEM, LEVELS, VALUES = (
    _table(m)
    for m in (
        models.TrialParamModel,
        models.TrialUserAttributeModel,
        models.TrialSystemAttributeModel,
        models.TrialIntermediateValueModel,
        models.TrialValueModel,
    )
)


@dataclass(slots=True)
class Page:
    """What of a trial is not written yet."""

    params: dict[str, tuple[float, BaseDistribution]] = field(default_factory=dict)
    """In Optuna's internal numbers."""
    user: dict[str, Any] = field(default_factory=dict)
    system: dict[str, Any] = field(default_factory=dict)
    levels: dict[int, float] = field(default_factory=dict)


def begin(engine: Engine, study: int) -> tuple[int, int]:
    """(id, number) of a new trial that runs, its heart beating: no moment at which it runs without one."""
    with engine.begin() as on:
        on.execute(update(STUDIES).where(STUDIES.c.study_id == study).values(study_id=study))  # numbers: one at a time
        row = {"study_id": study, "state": TrialState.RUNNING, "datetime_start": _utc()}
        ident = int(on.execute(TRIALS.insert().values(row).returning(TRIALS.c.trial_id)).scalar_one())
        of_study = select(func.count()).select_from(TRIALS).where(TRIALS.c.study_id == study, TRIALS.c.trial_id < ident)
        number = int(on.execute(of_study).scalar_one())
        on.execute(update(TRIALS).where(TRIALS.c.trial_id == ident).values(number=number))
        _beaten(on, ident)
    return ident, number


def claim(engine: Engine, ident: int) -> bool:
    """Turns a trial that waits into one that runs, which one worker alone can do."""
    with engine.begin() as on:
        waits = update(TRIALS).where(TRIALS.c.trial_id == ident, TRIALS.c.state == TrialState.WAITING)
        ours = on.execute(waits.values(state=TrialState.RUNNING, datetime_start=_utc())).rowcount == 1
        if ours:
            _beaten(on, ident)
    return ours


def beat(engine: Engine, ident: int, page: Page) -> None:
    """The trial's worker is alive, and this is what it has found since."""
    with engine.begin() as on:
        _beaten(on, ident)
        _noted(on, ident, page)


def end(engine: Engine, ident: int, page: Page, state: TrialState, values: Sequence[float] | None) -> None:
    """All that is left of a trial. UpdateFinishedTrialError where somebody else has ended it."""
    with engine.begin() as on:
        runs = update(TRIALS).where(TRIALS.c.trial_id == ident, TRIALS.c.state == TrialState.RUNNING)
        if on.execute(runs.values(state=state, datetime_complete=_utc())).rowcount != 1:
            raise UpdateFinishedTrialError(f"trial {ident} was ended by somebody else")
        _noted(on, ident, page)
        stored = [models.TrialValueModel.value_to_stored_repr(value) for value in values or ()]
        rows = [{"trial_id": ident, "objective": i, "value": v, "value_type": t} for i, (v, t) in enumerate(stored)]
        _put(on, VALUES, "objective", rows)


def _utc() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _beaten(on: Connection, ident: int) -> None:
    insert = INSERT[on.dialect.name](BEATS)
    beating = insert.on_conflict_do_update(index_elements=["trial_id"], set_={"heartbeat": func.now()})
    on.execute(beating.values(trial_id=ident, heartbeat=func.now()))


def _noted(on: Connection, ident: int, page: Page) -> None:
    _put(
        on,
        PARAMS,
        "param_name",
        [
            {"trial_id": ident, "param_name": n, "param_value": v, "distribution_json": distribution_to_json(d)}
            for n, (v, d) in page.params.items()
        ],
    )
    _put(on, USER, "key", _attributes(ident, page.user))
    _put(on, SYSTEM, "key", _attributes(ident, page.system))
    stored = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr
    levels = [(step, *stored(value)) for step, value in page.levels.items()]
    _put(
        on,
        LEVELS,
        "step",
        [
            {"trial_id": ident, "step": step, "intermediate_value": value, "intermediate_value_type": kind}
            for step, value, kind in levels
        ],
    )


def _attributes(ident: int, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"trial_id": ident, "key": key, "value_json": json.dumps(value)} for key, value in found.items()]


def _put(on: Connection, table: Table, key: str, rows: Sequence[dict[str, Any]]) -> None:
    """Rows of one trial; one that is there is written over."""
    if rows:
        on.execute(_written_over(on.dialect.name, table, key), rows)


@cache
def _written_over(dialect: str, table: Table, key: str) -> sqlite.Insert | postgresql.Insert:
    insert = INSERT[dialect](table)
    others = {c.name: insert.excluded[c.name] for c in table.c if not c.primary_key and c.name not in ("trial_id", key)}
    return insert.on_conflict_do_update(index_elements=["trial_id", key], set_=others)
