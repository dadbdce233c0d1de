"""Charter: what a controller goes by, as data. Beside the ticks in a journal it makes a replay complete."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from math import inf
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from policies.calibrated import CalibratedModeller
from policies.commands import ControlMode
from policies.control import Capability, Modeller, Policy
from policies.gate import GateLimits
from policies.guardrails.case import Limits
from policies.laws.lending import Lending
from policies.laws.predictive import Predictive
from policies.laws.rate_balance import RateBalance
from policies.laws.static import Static
from policies.laws.threshold import Threshold
from policies.modelling import NominalModeller
from policies.objective import Objective
from policies.rules import APPROVAL_S, DRIFT_S, FREEZE_S, Foreign, Rules
from simulators.event_state import Job
from simulators.plant import Bounds, Topology
from tuner.errors import ConfigError
from tuner.worker import Engine, Here, Simulated

POLICIES: Mapping[str, Policy] = {
    "static": Static(),
    "threshold": Threshold(),
    "rate_balance": RateBalance(),
    "lending": Lending(),
    "predictive": Predictive(),
}
"""Every control law by its name, with its defaults."""
MODELLED = ("predictive",)
"""Laws that look ahead, and whose moves the gate confirms, as it does for laws that are not ours; the others' word is
enough."""


@dataclass(frozen=True, slots=True)
class Charter:
    policy: str
    topology: Topology
    bounds: Bounds = field(default_factory=Bounds)
    objective: Objective = field(default_factory=Objective)
    capabilities: tuple[Capability, ...] = ()
    limits: Limits = field(default_factory=Limits)
    stated: Job | None = None
    """The job as its file states it: what models are made from. None: from what its own history allows."""
    ends_s: float | None = None
    earn_auto: bool = True
    seed: int = 0
    parameters: tuple[tuple[str, float], ...] = ()
    """Of the policy, where they are not its defaults."""
    gate: GateLimits = field(default_factory=GateLimits)
    horizon_s: float = DRIFT_S
    foreign: Foreign = Foreign.ADOPT
    approval_s: float = APPROVAL_S
    freeze_s: float = FREEZE_S
    simulated: bool = False
    """True when the gate hears the event engine too."""
    mode: ControlMode | None = None
    """The mode that was asked for at the start; the one in force is part of the state."""


_CHARTER = TypeAdapter(Charter)


def policy_named(name: str, parameters: Iterable[tuple[str, float]] = ()) -> Policy:
    """A law by its name, or anybody's by its dotted path, `package.module:Class`; with these parameters."""
    policy = _imported(name) if ":" in name else POLICIES.get(name)
    if policy is None:
        raise ConfigError(
            f"there is no policy {name!r}; known: {', '.join(POLICIES)}, or your own as package.module:Class"
        )
    law: Any = policy
    try:
        found: Policy = replace(law, **{key: _parameter(law, key, value) for key, value in parameters})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"policy {name}: {error}") from None
    return found


def _parameter(law: Any, key: str, value: float) -> float | int:
    """The value as the law wants it: a number of GPUs is whole. A job file has one type of number for all."""
    known = [f.name for f in fields(law) if f.init]
    if key not in known:
        raise ValueError(f"has no parameter {key!r}; it has {', '.join(known) or 'none'}")
    try:
        hint = get_type_hints(type(law)).get(key)
    except NameError:  # a stranger's law, with a type that only its type checker imports
        return value
    kinds = get_args(hint) or (hint,)
    if int not in kinds or float in kinds:
        return value
    if not float(value).is_integer():
        raise ValueError(f"{key}={value:g} must be a whole number")
    return int(value)


def _imported(path: str) -> Policy:
    """An instance, with its defaults, of a class that is not ours."""
    module, _, name = path.partition(":")
    try:
        made: Any = vars(import_module(module))[name]()
    except ImportError as error:
        raise ConfigError(f"policy {path}: {error}; it must be on PYTHONPATH") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"policy {path}: {module} makes no {name} without arguments ({error})") from None
    if not (is_dataclass(type(made)) and callable(getattr(made, "decide", None))):
        raise ConfigError(f"policy {path}: must be a frozen dataclass with decide(view); docs/tuning.md shows one")
    found: Policy = made
    return found


def rules_of(charter: Charter, engine: Engine | None = None) -> Rules:
    """Guardrails for all; model and gate for the laws that look ahead. `engine`: where it simulates; None: here."""
    modelled = charter.policy in MODELLED or (":" in charter.policy and charter.stated is not None)
    return Rules(
        policy_named(charter.policy, charter.parameters),
        charter.topology,
        charter.bounds,
        charter.objective,
        charter.capabilities,
        charter.limits,
        gate=charter.gate if modelled else None,
        modeller=_modeller(charter, engine) if modelled else None,
        ends_s=inf if charter.ends_s is None else charter.ends_s,
        earn_auto=charter.earn_auto,
        seed=charter.seed,
        horizon_s=charter.horizon_s,
        foreign=charter.foreign,
        approval_s=charter.approval_s,
        freeze_s=charter.freeze_s,
    )


def _modeller(charter: Charter, engine: Engine | None) -> Modeller:
    """Of a job without a file: what its own history allows."""
    stated = charter.stated
    found: Modeller = CalibratedModeller(charter.topology) if stated is None else NominalModeller(stated)
    return Simulated(found, engine or Here()) if charter.simulated else found


def encoded(charter: Charter) -> str:
    return _CHARTER.dump_json(charter).decode()


def decoded(text: str) -> Charter:
    try:
        return _CHARTER.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"the journal's charter cannot be read: {where}: {first['msg']}; use its own product"
        ) from None
