"""An order in the framework's own words, proved by reading it back: the adapter's facts must show what was ordered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from policies.settings import values
from simulators.plant import Change, Mode, Setpoints
from tuner.actuators.site import Config, Site
from tuner.frameworks.base import Framework, KnobKey, Observed
from tuner.lookup import number_of

PER_ENGINE = "max_in_flight_per_engine"


@dataclass(frozen=True, slots=True)
class Written:
    """One setting as it is to be written."""

    key: str
    """As the framework spells it, dashes and all."""
    before: object
    after: Any

    def __str__(self) -> str:
        before = "unset" if self.before is None else self.before
        return f"{self.key}: {before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class Translation:
    """The settings that put a wish into force, and what cannot be said."""

    settings: tuple[Written, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "; ".join(map(str, self.settings)) or "no setting changes"


def flat(key: str) -> str:
    """A key as configurations are read: without leading dashes, dashes as underscores."""
    return key.lstrip("-").replace("-", "_") if key.startswith("-") else key


def facts(framework: Framework, config: Config) -> Setpoints:
    """The knobs that a configuration puts into force."""
    return framework.facts(Observed(config=config))[1]


def translated(site: Site, config: Config, wish: Setpoints) -> Translation:
    """A wish as settings of the framework.

    # verl, trainer.n_gpus_per_node=8: gpus_trainer 64 -> 48 is `trainer.nnodes: 8 -> 6`
    # 52 GPUs are 6.5 nodes: refused | no key for a wished setpoint, and it does not follow from the others: refused
    """
    framework = site.framework
    if framework is None:
        return Translation(refused=dict.fromkeys(values(wish), "no framework is known: set [job] framework"))
    settings: list[Written] = []
    refused: dict[str, str] = {}
    for name, value in _spelled_out(site, config, wish).items():
        key = _key(framework, config, name)
        own = None if key is None else _own(key, config, name, value)
        if isinstance(own, Refused):
            refused[name] = own.why
        elif key is not None and config.get(flat(_in_place(key.key, config))) != own:
            spelled = _in_place(key.key, config)
            settings.append(Written(spelled, config.get(flat(spelled)), own))
    return Translation(tuple(settings), refused or _misread(framework, config, wish, settings))


@dataclass(frozen=True, slots=True)
class Refused:
    why: str


def _spelled_out(site: Site, config: Config, wish: Setpoints) -> dict[str, Any]:
    """The wish with a total in flight turned into one per engine, where only that has a key."""
    wished = values(wish)
    total, framework = wished.get("max_in_flight"), site.framework
    if total is None or framework is None or _key(framework, config, "max_in_flight") is not None:
        return wished
    engines = wished.get("engines") or facts(framework, config).engines or site.in_force.engines
    if PER_ENGINE in wished or not engines or total % engines:
        return wished
    return wished | {PER_ENGINE: total // engines}


def _key(framework: Framework, config: Config, setpoint: str) -> KnobKey | None:
    """The key that holds a setpoint: the last that applies, as more special ones stand after the usual."""
    mode = framework.mode(Observed(config=config)) if config else Mode.UNKNOWN
    held = [k for k in framework.knobs if (k.setpoint or k.knob) == setpoint and k.change is not Change.EXTERNAL]
    return next((k for k in reversed(held) if k.holds(mode, config)), None)


def _in_place(key: str, config: Config) -> str:
    """A component's own file leaves out the component: `orchestrator.group_size` is `group_size` there."""
    _, dot, rest = key.partition(".")
    return rest if dot and key not in config and rest in config else key


def _own(key: KnobKey, config: Config, name: str, value: Any) -> Any:
    """The framework's value of a setpoint; Refused where its unit cannot say it."""
    factor = 1.0
    for names, power in ((key.per, -1), (key.times, 1)):
        if not names:
            continue
        found = next((n for n in map(config.get, names) if number_of(n)), None)
        if found is None:
            return Refused(f"{key.key} counts in {names[0]}, which the configuration does not state")
        factor *= float(number_of(found) or 1.0) ** power
    if isinstance(value, bool):
        return value
    own = value * factor
    if factor == 1.0:
        return int(own) if float(own).is_integer() else own
    if abs(own - round(own)) > 1e-9 * max(1.0, own):
        low = int(own)
        return Refused(
            f"{name}={value} is {own:g} of {key.key}; {low / factor:g} and {(low + 1) / factor:g} are possible"
        )
    return round(own)


def _misread(framework: Framework, config: Config, wish: Setpoints, settings: list[Written]) -> Mapping[str, str]:
    """The wished setpoints that the framework would not have once these settings are made."""
    then = values(facts(framework, {**config, **{flat(w.key): w.after for w in settings}}))
    return {
        name: f"{framework.name} would then have {name}={then.get(name, 'unknown')}, not {value}"
        for name, value in values(wish).items()
        if then.get(name) != value
    }
