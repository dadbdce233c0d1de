"""Every kind of actuator, by the name that a job file gives it; each is imported when one is made."""

from collections.abc import Mapping
from importlib import import_module

from pydantic import ValidationError

from tuner.actuators.base import Actuator
from tuner.actuators.site import Site
from tuner.errors import ConfigError
from tuner.parsing.secret_keys import is_secret

KINDS: Mapping[str, str] = {
    "dry_run": "",
    "command": "",
    "control_file": "",
    "config_restart": "",
    "router": "",
    "ray": "",
    "kubernetes": "kubernetes",
}
"""Each kind, and the extra that it needs beside the base install."""


def make(kind: str, options: Mapping[str, object], site: Site) -> Actuator:
    """The actuator of a job file's `[[actuator]]` section, without its `kind`; ConfigError for what it cannot be.

    A kind with a dot is a module of the user's own, with the same two names: `Options` and `make(options, site)`.
    """
    if kind not in KINDS and "." not in kind:
        raise ConfigError(
            f"[[actuator]] kind={kind!r}: no such actuator; there are {', '.join(KINDS)}, and modules of your own (a.b)"
        )
    room = _room(kind) if kind in KINDS else _own(kind)
    try:
        chosen = room.Options.model_validate(dict(options))
    except ValidationError as wrong:
        raise ConfigError(f"[[actuator]] kind={kind!r}: {_first(wrong)}") from None
    made: Actuator = room.make(chosen, site)
    return made


def _room(kind: str):  # type: ignore[no-untyped-def]
    """The module of a kind; a missing library is one sentence with the remedy."""
    try:
        return import_module(f"tuner.actuators.{kind}")
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("tuner"):
            raise
        extra = f"equipoise[{KINDS[kind]}]" if KINDS[kind] else "equipoise"
        raise ConfigError(
            f"[[actuator]] kind={kind!r} needs the library {missing.name}: pip install '{extra}'"
        ) from None


def _own(path: str):  # type: ignore[no-untyped-def]
    """A user's module; it must be importable, and hold the two names."""
    try:
        room = import_module(path)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"[[actuator]] kind={path!r} cannot be imported: {error}") from None
    missing = [name for name in ("Options", "make") if name not in vars(room)]
    if missing:
        raise ConfigError(f"[[actuator]] kind={path!r} has no {' and no '.join(missing)}")
    return room


def _first(wrong: ValidationError) -> str:
    """Key, value and fault of the first error; never a secret, be it in the wrong place."""
    error = wrong.errors(include_url=False)[0]
    key = ".".join(map(str, error["loc"]))
    if not key:
        return error["msg"].removeprefix("Value error, ")
    told = "" if error["type"] == "missing" or _hidden(key, error["input"]) else f"={error['input']!r}"[:200]
    return f"{key}{told}: {error['msg'].removeprefix('Value error, ')}"


def _hidden(key: str, value: object) -> bool:
    inner = value.items() if isinstance(value, Mapping) else ()
    return is_secret(key, value) or any(_hidden(str(name), part) for name, part in inner)
