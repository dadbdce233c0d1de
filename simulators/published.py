"""Published cases: what a job was measured to do against what a model says it does.

A case is data (simulators/cases): a model by name, inputs for each row, free parameters with bounds, a tolerance, a
naive baseline, sources. simulators/validation.py answers it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from simulators.assembling import Tables
from simulators.fitting import Bounded


class Kind(StrEnum):
    """What a case claims."""

    IDENTITY = "identity"
    """Published figures that must agree among themselves."""
    PREDICTION = "prediction"
    """Figures that the model did not see; fewer free parameters than calibration figures."""
    BOUND = "bound"
    """A limit, an order or a verdict that must be true."""
    FIT = "fit"
    """A prediction with as many free parameters as calibration figures: no degree of freedom is left to fail by."""


class Role(StrEnum):
    CALIBRATION = "calibration"
    PREDICTED = "predicted"


class Relation(StrEnum):
    """How the measured figure must stand to the predicted one."""

    EQUAL = "equal"
    """Within the tolerance."""
    AT_MOST = "at-most"
    AT_LEAST = "at-least"
    SAME_SIDE = "same-side"
    """Both above the pivot or both below it: a verdict."""


class Naive(StrEnum):
    """What somebody without a model would have said."""

    SAME = "same"
    """The figure of the last calibration row above; where there is none, the mean of the other rows' figures."""
    PROPORTIONAL = "proportional"
    """The same, times a power of the ratio of one input."""
    INPUT = "input"
    """The value of an input."""


@dataclass(frozen=True, slots=True)
class Baseline:
    naive: Naive = Naive.SAME
    input: str | None = None
    """Dotted path of the input that `proportional` and `input` look at."""
    power: float = 1.0
    about: str = ""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Largest distance of measured and predicted: a share of the measured, or in its own unit."""

    frac: float | None = None
    absolute: float | None = None

    def holds(self, measured: float, predicted: float) -> bool:
        limits = [
            *([] if self.frac is None else [self.frac * abs(measured)]),
            *([] if self.absolute is None else [self.absolute]),
        ]
        return abs(predicted - measured) <= max(limits, default=0.0) * (1 + ROUNDING)


ROUNDING = 1e-9
"""A tolerance is not missed by the last digit of a double."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A free parameter; inputs refer to it as "$name"."""

    name: str
    bounds: Bounded
    unit: str
    about: str


@dataclass(frozen=True, slots=True)
class Source:
    what: str
    where: str
    read: str
    """primary, third-party, chart or computed: how the figure reached us."""


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    role: Role
    measured: float
    inputs: Tables
    output: str
    """Which answer of the model the figure is compared with."""
    tolerance: Tolerance
    relation: Relation = Relation.EQUAL
    pivot: float = 1.0
    naive: float | None = None
    """Stated, where the case's baseline finds no figure of this output."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    ident: str
    title: str
    stated: Kind
    model: str
    """A closed form of simulators/forms.py, or `analytic`, `event`."""
    quantity: str
    unit: str
    sources: tuple[Source, ...]
    rows: tuple[Row, ...]
    parameters: tuple[Parameter, ...] = ()
    baseline: Baseline = field(default_factory=Baseline)
    note: str = ""

    @property
    def calibrated(self) -> int:
        """How many figures the parameters are fitted to."""
        return sum(row.role is Role.CALIBRATION for row in self.rows)

    @property
    def freedom(self) -> int:
        """Residual degrees of freedom."""
        return self.calibrated - len(self.parameters)

    @property
    def kind(self) -> Kind:
        """What it is entitled to claim."""
        saturated = bool(self.parameters) and self.freedom <= 0
        return Kind.FIT if saturated and self.stated is Kind.PREDICTION else self.stated


@dataclass(frozen=True, slots=True)
class Compared:
    """One row with the model's answer beside it."""

    row: Row
    predicted: float
    error_frac: float | None
    """(predicted - measured) / |measured|; None where 0 was measured."""
    within: bool
    baseline: float | None = None
    baseline_error_frac: float | None = None

    @property
    def better(self) -> bool | None:
        """Is the model nearer than the naive baseline?"""
        if self.error_frac is None or self.baseline_error_frac is None:
            return None
        return abs(self.error_frac) < abs(self.baseline_error_frac)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with its fitted parameters and all rows."""

    case: Case
    values: Mapping[str, float]
    rows: tuple[Compared, ...]

    @property
    def judged(self) -> tuple[Compared, ...]:
        """The rows that the parameters were not fitted to."""
        return tuple(c for c in self.rows if c.row.role is Role.PREDICTED)


@dataclass(frozen=True, slots=True)
class Summary:
    """How the model stands over all predicted rows of class prediction, and whether identities and bounds hold."""

    cases: Mapping[Kind, int]
    rows: Mapping[Kind, int]
    """Judged rows: those that no parameter was fitted to."""
    held: Mapping[Kind, int]
    """Of them, those within their tolerance."""
    median_error_frac: float | None = None
    worst_error_frac: float | None = None
    better_than_baseline_frac: float | None = None
    compared_with_baseline: int = 0


def summarise(outcomes: Sequence[Outcome]) -> Summary:
    kinds = {kind: [o for o in outcomes if o.case.kind is kind] for kind in Kind}
    judged = {kind: [c for o in members for c in o.judged] for kind, members in kinds.items()}
    errors = sorted(abs(c.error_frac) for c in judged[Kind.PREDICTION] if c.error_frac is not None)
    better = [c.better for c in judged[Kind.PREDICTION] if c.better is not None]
    summary = Summary(
        {kind: len(members) for kind, members in kinds.items()},
        {kind: len(rows) for kind, rows in judged.items()},
        {kind: sum(c.within for c in rows) for kind, rows in judged.items()},
        compared_with_baseline=len(better),
        better_than_baseline_frac=sum(better) / len(better) if better else None,
    )
    if not errors:
        return summary
    half = len(errors) // 2
    median = errors[half] if len(errors) % 2 else (errors[half - 1] + errors[half]) / 2
    return replace(summary, median_error_frac=median, worst_error_frac=errors[-1])
