"""Setpoints and outcomes as JSON, from and for programs and files of others: what is not understood is not taken."""

import json
from collections.abc import Mapping
from typing import Any

from policies.settings import NAMES
from simulators.plant import Inventory, Outcome, Setpoints, Status
from tuner.lookup import number_of

WHOLE = frozenset(name for name in NAMES if Setpoints.__annotations__[name] == int | None)
TRUTHS = frozenset(name for name in NAMES if Setpoints.__annotations__[name] == bool | None)
REASON_CHARS_MAX = 500


def document(data: bytes) -> tuple[Mapping[str, Any], str]:
    """(a JSON object, "") or ({}, why it is none)."""
    try:
        read = json.loads(data)
    except (ValueError, RecursionError) as error:
        return {}, f"not JSON: {str(error)[:100]}"
    return (read, "") if isinstance(read, dict) else ({}, f"no JSON object but {type(read).__name__}")


def setpoints(table: object) -> Setpoints:
    """The setpoints that a table states as they should be; all else is unknown."""
    if not isinstance(table, Mapping):
        return Setpoints()
    return Setpoints(**{name: value for name in NAMES if (value := _value(name, table.get(name))) is not None})


def _value(name: str, value: object) -> Any:
    if name in TRUTHS:
        return value if isinstance(value, bool) else None
    number = number_of(value)
    if number is None or number < 0.0 or (name in WHOLE and not number.is_integer()):
        return None
    return int(number) if name in WHOLE else number


def inventory(table: object) -> Inventory:
    """The inventory that a table states."""
    if not isinstance(table, Mapping):
        return Inventory()
    counts = {
        name: int(number)
        for name in ("gpus_trainer", "gpus_generator", "engines_current", "steps_done")
        if (number := number_of(table.get(name))) is not None and number >= 0 and number.is_integer()
    }
    return Inventory(**counts, syncing=table.get("syncing") is True)


def outcome(table: object, name: str) -> Outcome:
    """What somebody says became of a setpoint; a refusal where it says nothing that can be read."""
    if not isinstance(table, Mapping):
        return Outcome(Status.REFUSED, f"the answer says nothing of {name}")
    status, reason = table.get("status"), table.get("reason")
    if status not in tuple(Status):
        return Outcome(Status.REFUSED, f"the answer has status={str(status)[:40]!r} for {name}")
    words = reason if isinstance(reason, str) and reason.strip() else f"{status}, without a reason"
    return Outcome(Status(status), words[:REASON_CHARS_MAX], number_of(table.get("effective_at_s")))
