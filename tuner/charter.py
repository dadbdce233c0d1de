"""Charter: what a controller goes by, as data. Beside the ticks in a journal it makes a replay complete."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from pydantic import TypeAdapter, ValidationError

from policies.control import Capability, ControlMode, Modeller, Policy
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
"""Laws that look ahead, and whose moves the gate confirms; the others' word is enough."""


@dataclass(frozen=True, slots=True)
class Charter:
    policy: str
    topology: Topology
    bounds: Bounds = field(default_factory=Bounds)
    objective: Objective = field(default_factory=Objective)
    capabilities: tuple[Capability, ...] = ()
    limits: Limits = field(default_factory=Limits)
    stated: Job | None = None
    """The job as its file states it: what models are made from."""
    ends_s: float | None = None
    earn_auto: bool = True
    seed: int = 0
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


def policy_named(name: str) -> Policy:
    if name not in POLICIES:
        raise ConfigError(f"there is no policy {name!r}; known: {', '.join(POLICIES)}")
    return POLICIES[name]


def rules_of(charter: Charter, engine: Engine | None = None) -> Rules:
    """Guardrails for all; model and gate for the laws that look ahead. `engine`: where it simulates; None: here."""
    modelled = charter.policy in MODELLED and charter.stated is not None
    return Rules(
        policy_named(charter.policy),
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


def _modeller(charter: Charter, engine: Engine | None) -> Modeller | None:
    if charter.stated is None:
        return None
    nominal = NominalModeller(charter.stated)
    return Simulated(nominal, engine or Here()) if charter.simulated else nominal


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
