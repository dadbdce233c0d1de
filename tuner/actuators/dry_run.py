"""Changes nothing: prints what would be set, as a diff of the framework's own keys; its receipt says the same words.

Alone it is an actuator of its own; around another one it shows what that one would be told.
"""

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, Field

from policies.control import Capability
from policies.settings import values
from simulators.plant import Change, Inventory, Order, Setpoints, Status
from tuner.actuators.base import Actuator
from tuner.actuators.dialect import translated
from tuner.actuators.guarded import Guarded, Outcomes, alike
from tuner.actuators.site import Site, capabilities
from tuner.names import Knob

Say = Callable[[str], None]
"""Where the diff goes."""


def on_stdout(text: str) -> None:
    print(text, flush=True)


class Options(BaseModel):
    """`[[actuator]] kind = "dry_run"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    knobs: tuple[Knob, ...] = Field(default=("gpus_trainer", "max_in_flight", "oversampling_ratio"))
    """Knobs to show changes of."""


def make(options: Options, site: Site, say: Say = on_stdout) -> Actuator:
    return Guarded(_Nothing(options.knobs, site, say), site)


def shown(actuator: Actuator, site: Site, say: Say = on_stdout) -> Actuator:
    """The same knobs and the same refusals, but nothing is turned."""
    return Guarded(_Nothing(tuple(c.knob for c in actuator.capabilities()), site, say, actuator), site)


class _Nothing:
    """A hand that does not move."""

    def __init__(self, knobs: tuple[str, ...], site: Site, say: Say, inner: Actuator | None = None) -> None:
        self._knobs, self._site, self._say, self._inner = knobs, site, say, inner
        self._said: tuple[str, Setpoints] | None = None

    @property
    def name(self) -> str:
        return "dry_run" if self._inner is None else f"dry_run of {self._inner.name}"

    def capabilities(self) -> tuple[Capability, ...]:
        if self._inner is not None:
            return self._inner.capabilities()
        return capabilities(
            self._knobs, self._site, Capability("", Change.RESTART, self._site.topology.restart_s or 0.0)
        )

    def current(self) -> Setpoints:
        return Setpoints() if self._inner is None else self._inner.current()

    def inventory(self) -> Inventory:
        return Inventory() if self._inner is None else self._inner.inventory()

    def seen_token(self) -> int:
        return 0

    def pending(self, now_s: float) -> Setpoints:
        return Setpoints()

    def turn(self, order: Order, now_s: float) -> Outcomes:
        lines = self._diff(order.setpoints)
        if self._said != (order.decision_id, order.setpoints):
            self._said = (order.decision_id, order.setpoints)
            self._say(f"dry run, {order.decision_id}: nothing is changed; this would be set:\n" + "\n".join(lines))
        return alike(order, Status.REFUSED, f"dry run, nothing was changed; would set {'; '.join(lines)}")

    def _diff(self, wish: Setpoints) -> list[str]:
        """The framework's own keys; our names where it is unknown or has no key."""
        said = translated(self._site, self._site.config, wish)
        before = values(self._site.in_force) | values(self.current())
        own = [str(setting) for setting in said.settings]
        ours = [
            f"{name}: {before.get(name, 'unknown')} -> {value} ({said.refused[name]})"
            for name, value in values(wish).items()
            if name in said.refused
        ]
        return own + ours or ["no setting"]

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
