"""What the daemon alone reads of a job file: who turns knobs, how to decide, where to write and to listen."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, FiniteFloat, model_validator

from policies.commands import ControlMode
from policies.objective import StalenessBound
from policies.rules import Foreign
from tuner.config.values import Count, Seconds, Section, not_bool
from tuner.names import FileName, Knob

Frac = Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=0, le=1)]
Ratio = Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=1, le=1000)]
Times = Annotated[int, BeforeValidator(not_bool), Field(ge=0, le=10**6)]


class ActuatorSection(Section):
    """One way to turn knobs, with the keys of its kind: `knobs` for all, and what each needs. A knob has one owner; a
    job without any actuator is only watched and advised."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field(examples=["dry_run"])
    """dry_run, command, control_file, config_restart, router, ray or kubernetes."""

    def options(self) -> dict[str, Any]:
        """The keys that belong to its kind; that kind checks them."""
        return dict(self.__pydantic_extra__ or {})


class ObjectiveSection(Section):
    """What better means: useful rollouts per GPU-hour, under the bounds."""

    staleness_discount_frac: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=0, lt=1)] | None = Field(
        default=None, examples=[0.05]
    )
    """What one version of staleness takes from the worth of a rollout; 0 where absent: nothing inside its bound."""
    staleness: StalenessBound | None = Field(default=None, examples=["mean"])
    """Which staleness [bounds] staleness_max speaks of: mean (a cap on work in progress) or maximum (discarding)."""


class PolicySection(Section):
    """How the daemon decides, and how far it goes by itself."""

    name: str | None = Field(default=None, examples=["predictive"])
    """static, threshold, rate_balance, lending or predictive. Absent: predictive with a model, else rate_balance."""
    parameters: dict[str, FiniteFloat] | None = Field(default=None, examples=[{"gain_min_frac": 0.03}])
    """The law's parameters where they are not its defaults, by name: what `equipoise tune --policy` found."""
    model: str | None = Field(default=None, examples=["glm-5-tool-use"])
    """A scenario file (or a shipped one's name) that states how the job is built: engines, trainer, workload. The
    models that look ahead and the gate start from it and follow the job's metrics; `predictive` needs one."""
    mode: ControlMode | None = Field(default=None, examples=["advise"])
    """observe, advise, approve (a person confirms) or auto; advise where absent. Changed here, it is taken at the next
    start; what a person set meanwhile, or a demotion, outlives a restart."""
    period_s: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=1, le=3600)] | None = Field(
        default=None, examples=[30]
    )
    """Seconds between two ticks: a few scrapes, far under a settling time; 30 where absent."""
    earn_auto: bool | None = Field(default=None, examples=[True])
    """true (where absent): auto acts on a knob only after enough of its shadow moves have proved good."""
    foreign: Foreign | None = Field(default=None, examples=["adopt"])
    """When somebody else turns a knob: adopt it (where absent), or pause that knob until told to resume."""
    approval_s: Seconds | None = Field(default=None, examples=[1800])
    """A question to a person expires after so many seconds; 1800 where absent."""
    freeze_s: Seconds | None = Field(default=None, examples=[3600])
    """How long a knob rests after a move that failed or was taken back; 3600 where absent."""
    drift_s: Seconds | None = Field(default=None, examples=[21600])
    """Half-life of the job's drift: a gain is not counted for longer; 21600 where absent."""
    kill_file: FileName | None = Field(default=None, examples=["equipoise.pause"])
    """While a file of this name is there, everything is paused; `equipoise resume` goes on once it is gone."""


class GuardrailsSection(Section):
    """What holds a move back. Absent keys keep their proven values."""

    stale_s: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=1)] | None = Field(default=None, examples=[600])
    """Evidence older than this is none; 600 where absent, and never less than three of the job's steps."""
    coverage_min: Frac | None = Field(default=None, examples=[0.9])
    """Share of the engines that must report; 0.9 where absent."""
    deadband_frac: Frac | None = Field(default=None, examples=[0.02])
    """A gain under this is noise, whatever the model says; 0.02 where absent."""
    confirm_starved: Annotated[int, BeforeValidator(not_bool), Field(ge=1)] | None = Field(default=None, examples=[2])
    """Ticks in a row that must want a move which relieves a starving trainer; 2 where absent."""
    confirm_shrink: Annotated[int, BeforeValidator(not_bool), Field(ge=1)] | None = Field(default=None, examples=[6])
    """The same for all other moves; 6 where absent, at least confirm_starved."""
    confirm_first: Annotated[int, BeforeValidator(not_bool), Field(ge=1)] | None = Field(default=None, examples=[1])
    """The same before the job's first step has ended; 1 where absent."""
    payback_ratio: Ratio | None = Field(default=None, examples=[2.0])
    """A gain must be worth this many times its cost within the horizon; 2 where absent."""
    trusted_moves: Times | None = Field(default=None, examples=[1])
    """Moves that probation let stand, after which a split may go further than one lattice step; 1 where absent."""
    reversals_max: Times | None = Field(default=None, examples=[1])
    """Changes of direction of one knob that are no oscillation yet; 1 where absent."""
    memory_settles: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=3)] | None = Field(
        default=None, examples=[12.0]
    )
    """Settling times for which a move is remembered by the oscillation guard; 12 where absent."""
    donor_load_max: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=0.5)] | None = Field(
        default=None, examples=[1.05]
    )
    """The giving side's work over its capacity after a move; 1.05 where absent."""
    auto_data_changing: tuple[Knob, ...] = Field(default=(), examples=[["max_in_flight"]])
    """Knobs that change which rollouts are trained, and may be turned in auto all the same."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        starved, shrink = self.confirm_starved, self.confirm_shrink
        if starved is not None and (shrink or 6) < starved:
            raise ValueError(f"confirm_shrink={shrink or 6} must be >= confirm_starved={starved}")
        return self


class GateSection(Section):
    """How sure the models must be before a move."""

    probability_min: Frac | None = Field(default=None, examples=[0.9])
    """Least probability that a gain exceeds its cost; 0.9 where absent."""
    draws_min: Count | None = Field(default=None, examples=[30])
    """Least number of possible jobs asked; 30 where absent."""
    structures_min: Times | None = Field(default=None, examples=[1])
    """Structurally different models that must agree; 1 where absent."""
    simulate: bool | None = Field(default=None, examples=[True])
    """true (where absent): the event engine, in a process of its own of some 200 MB, must agree with a move too."""
    deadline_s: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(gt=0, le=600)] | None = Field(
        default=None, examples=[20]
    )
    """Seconds that it has at one tick; 20 where absent. Without an answer the move is held."""


class JournalSection(Section):
    """Where every tick is written before anything is done. On a local disk: NFS and Lustre lose locks."""

    path: FileName | None = Field(default=None, examples=["equipoise.journal"])
    """The file; equipoise.journal where absent. Relative to where the daemon is started."""
    keep_ticks: Annotated[int, BeforeValidator(not_bool), Field(ge=1000, le=10**8)] | None = Field(
        default=None, examples=[20160]
    )
    """Ticks that are kept, about 10 kB each; 20160 where absent: a week of ticks every 30 s."""


class ServerSection(Section):
    """The page, the API and /metrics."""

    enabled: bool | None = Field(default=None, examples=[True])
    """false: no page, no API, no /metrics."""
    host: str | None = Field(default=None, examples=["127.0.0.1"])
    """The address to listen on; 127.0.0.1 where absent. Another one lets the network read, nothing is encrypted."""
    port: Annotated[int, BeforeValidator(not_bool), Field(ge=0, le=65535)] | None = Field(default=None, examples=[9464])
    """The port; 9464 where absent, 0 for any free one."""
    token_file: FileName | None = Field(default=None, examples=["equipoise.token"])
    """A file with one bearer token of at least 16 characters. Whoever knows it may pause, resume, approve and set the
    mode; without one those routes do not exist. It is read anew at each request, so it may rotate."""
