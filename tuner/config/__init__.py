"""The job file: what a user states about a job that its logs do not say. Each field's documentation stands under it.

A key that is absent is unknown, never a default. Environment variables override the file:
`EQUIPOISE_TOPOLOGY__GPUS_TOTAL=64` is `[topology] gpus_total = 64`.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from simulators.plant import Bounds, Mode, Setpoints, Topology
from tuner.config.daemon_sections import (
    ActuatorSection,
    GateSection,
    GuardrailsSection,
    JournalSection,
    ObjectiveSection,
    PolicySection,
    ServerSection,
)
from tuner.config.sections import (
    REPEATED,
    SECTIONS,
    BoundsSection,
    CostSection,
    JobSection,
    SetpointsSection,
    SourceSection,
    TopologySection,
)
from tuner.errors import ConfigError
from tuner.parsing.configuration import DEEPEST_KEY, has_deep_key

PREFIX = "EQUIPOISE_"
NOT_SETTINGS = frozenset({"EQUIPOISE_DEBUG"})
"""Variables with our prefix that are not part of a job file."""

LARGEST_BYTES = 1 << 20
"""A job file holds some hundred lines."""


class JobFile(BaseSettings):
    """A whole job file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    job: JobSection = JobSection()
    topology: TopologySection = TopologySection()
    setpoints: SetpointsSection = SetpointsSection()
    source: tuple[SourceSection, ...] = ()
    actuator: tuple[ActuatorSection, ...] = ()
    bounds: BoundsSection = BoundsSection()
    objective: ObjectiveSection = ObjectiveSection()
    policy: PolicySection = PolicySection()
    guardrails: GuardrailsSection = GuardrailsSection()
    gate: GateSection = GateSection()
    journal: JournalSection = JournalSection()
    server: ServerSection = ServerSection()
    cost: CostSection = CostSection()

    @model_validator(mode="after")
    def _counts_fit(self) -> Self:
        total, knobs = self.topology.gpus_total, self.setpoints
        sides = {"gpus_trainer": knobs.gpus_trainer, "gpus_generator": knobs.gpus_generator}
        if self.topology.mode is Mode.OVERLAPPED and None not in sides.values():
            sides["gpus_trainer + gpus_generator"] = sum(n or 0 for n in sides.values())
        for name, count in sides.items():
            if total is not None and count is not None and count > total:
                raise ValueError(f"[setpoints] {name}={count} must be <= [topology] gpus_total={total}")
        floor = self.bounds.gpus_trainer_min
        if total is not None and floor is not None and floor > total:
            raise ValueError(f"[bounds] gpus_trainer_min={floor} must be <= [topology] gpus_total={total}")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file; nothing else is looked at."""
        return (env_settings, init_settings)

    def to_topology(self) -> Topology:
        """What the file states of the topology; the rest is unknown."""
        framework = self.topology.framework or self.job.framework
        return Topology(**(stated(self.topology) | {"framework": framework}))

    def to_setpoints(self) -> Setpoints:
        return Setpoints(**stated(self.setpoints))

    def to_bounds(self) -> Bounds:
        """Those of knobs; a provider's rate of starts bounds none, and is held against the job by `doctor`."""
        return Bounds(**{n: v for n, v in stated(self.bounds).items() if n != "sandbox_starts_per_s_max"})


def stated(section: BaseModel) -> dict[str, Any]:
    """The keys that a section states, with their values."""
    return {name: value for name, value in section if value is not None}


def load(path: Path | None) -> JobFile:
    """The job file at `path` (None: the environment alone). Raises ConfigError naming place, key, value and remedy."""
    text = "" if path is None else _read(path)
    if has_deep_key(text):
        raise ConfigError(f"{path}: not a job file: a key of over {DEEPEST_KEY} parts")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path}: not valid TOML: {error}. Strings need quotes, sections stand in [brackets]."
        ) from None
    except RecursionError:
        raise ConfigError(f"{path}: not a job file: brackets in brackets without end") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {error}; write a smaller number") from None
    _refuse_unknown_variables(os.environ)
    try:
        return JobFile(**data)
    except SettingsError as error:
        raise ConfigError(
            f"environment: {error}; write EQUIPOISE_SECTION__KEY=value, e.g. {PREFIX}JOB__NAME=x"
        ) from None
    except ValidationError as error:
        raise ConfigError(_explain(error.errors()[0], path, text)) from None


def in_environment(environ: Mapping[str, str]) -> bool:
    """True when a variable sets a key of the job file, so that it must be loaded even without a file."""
    sections = tuple(f"{PREFIX}{name}".upper() for name in JobFile.model_fields)
    return any(
        name.upper() in sections or name.upper().startswith(tuple(f"{s}__" for s in sections)) for name in environ
    )


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise ConfigError(
                f"{path}: over {LARGEST_BYTES >> 20} MiB; no job file. `equipoise init SOURCE` writes one."
            )
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text; a job file is TOML. `equipoise init SOURCE` writes one.") from None
    except OSError as error:
        remedy = "`equipoise init SOURCE > job.toml` writes one"
        raise ConfigError(f"{path}: cannot read the job file ({error.strerror}); {remedy}.") from None


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    for name in environ:
        section, nested, _ = name.upper().removeprefix(PREFIX).partition("__")
        if not name.upper().startswith(PREFIX) or name in NOT_SETTINGS or not nested:
            continue
        if section.lower() not in JobFile.model_fields:
            raise ConfigError(f"environment: {name} names no section; {_meant(section.lower(), JobFile.model_fields)}")


def _meant(word: str, known: Iterable[str]) -> str:
    """`did you mean ...?`, or all there are."""
    names = list(known)
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"


def _explain(error: ErrorDetails, path: Path | None, text: str) -> str:
    loc = [part for part in error["loc"] if isinstance(part, str)]
    if not loc:
        return f"{path or 'environment'}: {error['msg'].removeprefix('Value error, ')}"
    index = next((part for part in error["loc"] if isinstance(part, int)), 0)
    place, key = _place(loc, index, path, text), ".".join(loc[:2])
    match error["type"]:
        case "extra_forbidden" if len(loc) == 1:
            return f"{place}: unknown section [{key}]; {_meant(loc[0], JobFile.model_fields)}"
        case "extra_forbidden":
            return f"{place}: unknown key {key}; {_meant(loc[-1], SECTIONS[loc[0]].model_fields)}"
        case "missing":
            return f"{place}: {key} is missing; {SECTIONS[loc[0]].model_fields[loc[-1]].description}"
    reason = error["msg"].removeprefix("Value error, ")
    if error["type"] in ("model_type", "tuple_type"):
        brackets = f"[[{loc[0]}]]" if loc[0] in REPEATED else f"[{loc[0]}]"
        return f"{place}: {loc[0]}={error['input']!r} must be a section: write {brackets} and its keys below it"
    if len(loc) < 2:
        return f"{place}: [{key}]: {reason[0].lower()}{reason[1:]}"
    field = SECTIONS[loc[0]].model_fields.get(loc[1])
    about = "" if field is None else f" {key} is: {' '.join((field.description or '').split())}"
    return f"{place}: {key}={error['input']!r}: {reason[0].lower()}{reason[1:]}.{about}"


def _place(loc: list[str], index: int, path: Path | None, text: str) -> str:
    """Where a key was set: its variable, else file and line."""
    variable = PREFIX + "__".join(loc[:2]).upper()
    found = next((name for name in os.environ if name.upper() == variable), None)
    if found is not None or path is None:
        return f"environment variable {found or variable}"
    line = _line_of(loc, index, text)
    return f"{path}:{line}" if line else str(path)


def _line_of(loc: list[str], index: int, text: str) -> int | None:
    """The line of `key` in the `index`-th `[section]` (or of the section itself), by a plain scan."""
    section, seen, header = None, -1, None
    for number, line in enumerate(text.splitlines(), start=1):
        title = re.match(r"\s*\[{1,2}\s*([\w.-]+)\s*\]{1,2}", line)
        if title:
            section = title[1]
            seen += section == loc[0]
            header = number if section == loc[0] and seen == index else header
        elif (
            len(loc) > 1 and section == loc[0] and seen == index and re.match(rf'\s*"?{re.escape(loc[1])}"?\s*=', line)
        ):
            return number
    return header
