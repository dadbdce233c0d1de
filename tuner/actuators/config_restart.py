"""Turns knobs through the job's configuration: written over, then the user's checkpoint-restart command is run.

    idle -> written (state, backup, file) -> restarting -> in force
                                          -> failed: the file is as before, and what is in force is unknown

The override file ends the user's command line (`... $(cat FILE)`, `rl @ job.toml @ FILE`), where the last wins.
Without one, a TOML or YAML file is edited in place. A launch script is never rewritten.
Killed anywhere, a new daemon finds in FILE.equipoise.json what was begun, and in FILE.equipoise.status how it ended.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.control import Capability
from policies.settings import met, values
from simulators.plant import Change, Inventory, Order, Outcome, Setpoints, Status
from tuner.actuators import files, wire
from tuner.actuators.base import Actuator
from tuner.actuators.dialect import facts, translated
from tuner.actuators.editing import STYLES, SUFFIXES, edited, settings_of
from tuner.actuators.guarded import Guarded, Outcomes, Trouble, alike
from tuner.actuators.restart import Restarter
from tuner.actuators.site import Site, capabilities
from tuner.errors import ActuationError, ConfigError
from tuner.frameworks.base import Framework
from tuner.names import FilePath, Knob

USUAL_RESTART_S = 600.0
"""A prior, until [topology] restart_s says or a restart shows."""


class Options(BaseModel):
    """`[[actuator]] kind = "config_restart"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    restart: Annotated[tuple[str, ...], Field(min_length=1)]
    """The command that takes the job down after a checkpoint and starts it again; no shell is between."""
    knobs: Annotated[tuple[Knob, ...], Field(min_length=1)]
    """The knobs that it turns."""
    override: FilePath | None = None
    """A file of ours that the launch command reads last."""
    edit: FilePath | None = None
    """A TOML or YAML file of the job, to be edited in place where there is no override file."""
    style: str | None = None
    """hydra, arguments, toml or yaml; by the file's name and the framework where absent."""
    resolved: FilePath | None = None
    """Where the job writes the configuration that it runs with: in force is what stands there. Without it, a restart
    command that ended with code 0 is believed."""
    restart_timeout_s: Annotated[float, Field(gt=0)] = 3600.0
    """After this the restart has failed."""

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        if (self.override is None) == (self.edit is None):
            raise ValueError("name either override (a file of ours, read last) or edit (a file of the job)")
        if self.edit is not None and self.edit.suffix not in SUFFIXES:
            raise ValueError(f"edit={str(self.edit)!r} is neither TOML nor YAML; a launch script is never rewritten")
        if self.style is not None and self.style not in STYLES:
            raise ValueError(f"style={self.style!r} must be one of {', '.join(STYLES)}")
        return self


@dataclass(frozen=True, slots=True)
class Stage:
    """What was begun, as the state file has it."""

    name: str = "idle"
    """idle, written, restarting, failed."""
    decision_id: str = ""
    fencing_token: int = 0
    wanted: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    begun_s: float = 0.0
    reason: str = ""


def make(options: Options, site: Site) -> Actuator:
    framework = site.framework
    if framework is None or not framework.config_style:
        name = "no framework" if framework is None else framework.name
        raise ConfigError(
            f"[[actuator]] kind='config_restart': settings of {name} cannot be written; set [job] framework"
        )
    hand = _Restarting(options, site, framework)
    return Guarded(hand, site, hand.troubles)


class _Restarting:
    """A hand that writes, and has the job restarted."""

    def __init__(self, options: Options, site: Site, framework: Framework) -> None:
        self._options, self._site, self._framework = options, site, framework
        self._target = (options.override or options.edit or Path()).absolute()
        named = SUFFIXES.get(self._target.suffix)
        self._style = options.style or named or framework.config_style
        self._restarter = Restarter(options.restart, self._beside("status"), self._beside("log"))

    @property
    def name(self) -> str:
        return "config_restart"

    def capabilities(self) -> tuple[Capability, ...]:
        takes_s = self._site.topology.restart_s or USUAL_RESTART_S
        usual = Capability("", Change.RESTART, takes_s, takes_s, gives_up_s=self._options.restart_timeout_s)
        return capabilities(self._options.knobs, self._site, usual)

    def troubles(self) -> Iterator[Trouble]:
        files.demand_room(self._target)
        self._stage()
        settings_of(self._style, self._text())
        if shutil.which(self._options.restart[0]) is None:
            yield Trouble(f"restart: {self._options.restart[0]} is no program here; name it with its folder")

    def current(self) -> Setpoints:
        try:
            return self._in_force(self._stage())
        except ActuationError:
            return Setpoints()

    def inventory(self) -> Inventory:
        return Inventory()

    def seen_token(self) -> int:
        try:
            return self._stage().fencing_token
        except ActuationError:
            return 0

    def pending(self, now_s: float) -> Setpoints:
        """A restart under way; each look takes it a stage on."""
        try:
            stage = self._looked_at(self._stage(), now_s)
        except ActuationError:
            return Setpoints()
        return wire.setpoints(stage.wanted) if stage.name == "restarting" else Setpoints()

    def turn(self, order: Order, now_s: float) -> Outcomes:
        try:
            return self._turned(order, now_s)
        except ActuationError as error:
            return alike(order, Status.REFUSED, str(error))

    def _turned(self, order: Order, now_s: float) -> Outcomes:
        stage = self._stage()
        if stage.name == "failed" and stage.decision_id == order.decision_id:
            return alike(order, Status.REFUSED, stage.reason)
        text = self._text()
        said = translated(self._site, self._configured(text), order.setpoints)
        if said.refused:
            rest = f"nothing was written: {next(iter(said.refused))} is refused"
            return {name: Outcome(Status.REFUSED, said.refused.get(name, rest)) for name in values(order.setpoints)}
        after = edited(self._style, text, said.settings)
        before = stage.before if stage.name == "written" else values(self.current())
        wanted = values(order.setpoints)
        if stage.name != "written":
            files.write(self._backup, text.encode())
        begun = self._save(Stage("written", order.decision_id, order.fencing_token, wanted, before, now_s))
        if after != text:
            files.write(self._target, after.encode())
        self._restarter.forget()
        self._save(replace(begun, name="restarting"))
        self._restarter.start({"EQUIPOISE_DECISION_ID": order.decision_id, "EQUIPOISE_SETPOINTS": json.dumps(wanted)})
        takes_s = self._site.topology.restart_s or USUAL_RESTART_S
        return alike(order, Status.PENDING, f"{said}; the job is being restarted", now_s + takes_s)

    def _looked_at(self, stage: Stage, now_s: float) -> Stage:
        """The stage as the restart command has left it by now."""
        if stage.name != "restarting":
            return stage
        progress = self._restarter.progress()
        late = now_s - stage.begun_s > self._options.restart_timeout_s
        if progress.running and not late:
            return stage
        shown = self._options.resolved is not None
        # A requeue under Slurm takes its own command down where that runs inside the job: the job's own word tells.
        if progress.code == 0 or (progress.died and shown):
            if not shown or met(self._resolved(), wire.setpoints(stage.wanted)):
                return self._save(replace(stage, name="idle"))
            if not late:
                return stage
        return self._failed(stage, _why_failed(self._options, progress.running, progress.code, self._beside("log")))

    def _failed(self, stage: Stage, why: str) -> Stage:
        """The file as it was, so that nobody's later restart takes up what has failed."""
        self._restarter.kill()
        backup = files.read(self._backup)
        if backup is not None:
            files.write(self._target, backup)
        return self._save(replace(stage, name="failed", reason=why))

    def _in_force(self, stage: Stage) -> Setpoints:
        if self._options.resolved is not None:
            return self._resolved()
        if stage.name in ("written", "restarting"):
            return wire.setpoints(stage.before)
        return Setpoints() if stage.name == "failed" else facts(self._framework, self._configured(self._text()))

    def _resolved(self) -> Setpoints:
        """What the job says it runs with; unknown while it has not said it."""
        path = self._options.resolved
        data = None if path is None else files.read(path, bytes_max=4 << 20)
        if path is None or data is None:
            return Setpoints()
        style = SUFFIXES.get(path.suffix) or ("json" if path.suffix == ".json" else "block")
        return facts(self._framework, settings_of(style, data.decode(errors="replace")))

    def _configured(self, text: str) -> Mapping[str, object]:
        """The job's configuration with the target's settings over it."""
        return {**self._site.config, **settings_of(self._style, text)}

    def _text(self) -> str:
        data = files.read(self._target)
        if data is None and self._options.edit is not None:
            raise ActuationError(f"{self._target} is not there")
        try:
            return (data or b"").decode()
        except UnicodeDecodeError:
            raise ActuationError(f"{self._target} is no text") from None

    def _beside(self, what: str) -> Path:
        return self._target.with_name(f"{self._target.name}.equipoise.{what}")

    @property
    def _backup(self) -> Path:
        return self._beside("before")

    def _stage(self) -> Stage:
        data = files.read(self._beside("json"))
        if data is None:
            return Stage()
        read, fault = wire.document(data)
        if fault or set(read) != set(asdict(Stage())):
            raise ActuationError(
                f"{self._beside('json')} is damaged: look whether a restart is under way, then remove it"
            )
        return Stage(**read)

    def _save(self, stage: Stage) -> Stage:
        files.write(self._beside("json"), json.dumps(asdict(stage), indent=1).encode() + b"\n")
        return stage

    def close(self) -> None:
        """A restart under way goes on."""


def _why_failed(options: Options, running: bool, code: int | None, log: Path) -> str:
    if running:
        return f"the restart command has not ended in {options.restart_timeout_s:.0f} s and was killed; see {log}"
    if code is None:
        return f"the restart command died; see {log}"
    if code:
        return f"the restart command ended with code {code}; see {log}"
    return (
        f"the job was restarted, and {options.resolved} does not show the order after {options.restart_timeout_s:.0f} s"
    )
