"""The job that an actuator is made for, as its file and its sources state it at that time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from policies.control import Capability
from policies.settings import ACTED
from simulators.plant import Bounds, Setpoints, Topology
from tuner.frameworks.base import Framework

Config = Mapping[str, object]
"""A framework's configuration, flat: `actor_rollout_ref.rollout.n` -> 8."""


GENERATOR = ("gpus_generator", "engines")
"""The knobs of an actuator of engines alone: the generator's half of the split, counted either way."""


@dataclass(frozen=True, slots=True)
class Site:
    """Facts that no actuator finds out by itself."""

    topology: Topology = field(default_factory=Topology)
    in_force: Setpoints = field(default_factory=Setpoints)
    """The knobs as stated, where an actuator cannot tell."""
    bounds: Bounds = field(default_factory=Bounds)
    framework: Framework | None = None
    config: Config = field(default_factory=dict)


def owned(knobs: Iterable[str]) -> frozenset[str]:
    """The setpoints that these knobs are."""
    return frozenset(part for knob in knobs for part in ACTED.get(knob, (knob,)))


DATA_CHANGING = frozenset(
    {"oversampling_ratio", "max_in_flight", "staleness_bound", "pruning", "group_size", "overlap"}
)
"""Knobs that change which rollouts are trained, whoever turns them."""


def capabilities(knobs: Iterable[str], site: Site, usual: Capability) -> tuple[Capability, ...]:
    """One for each knob, like the usual one; a knob changes the data where the framework or the table above says so."""
    keys = site.framework.knobs if site.framework is not None else ()
    changing = DATA_CHANGING | {key.knob for key in keys if key.data_changing}
    return tuple(replace(usual, knob=knob, data_changing=knob in changing) for knob in knobs)
