"""Answers a published case: fits its free parameters on the calibration rows, then predicts every row.

What a row of role `predicted` measured is looked at only after the model and its baseline have answered.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import exp, isfinite, log, nan

from simulators.analytic import AnalyticModel
from simulators.assembling import Tables, Value, assemble, at, meant
from simulators.closed_forms import Number, answer
from simulators.event_model import EventModel
from simulators.fitting import fit
from simulators.forms import FORMS
from simulators.model import PlantModel, Prediction
from simulators.plant import Setpoints, Topology
from simulators.published import Baseline, Case, Compared, Kind, Naive, Outcome, Relation, Role, Row
from simulators.stations import Stations
from simulators.workload import Workload

Model = Callable[[Tables, str], float]
"""(inputs, output) -> figure. ValueError names what is impossible."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a row is simulated: the table `inputs.run` of the event model."""

    warm_up_batches: int = 20
    batches: int = 200
    replications: int = 4
    seed: int = 0


Plant = Callable[[Stations, Run], PlantModel]


def _simulated(stations: Stations, run: Run) -> PlantModel:
    return EventModel(stations, run.seed, run.batches, run.replications, run.warm_up_batches)


PLANTS: Mapping[str, Plant] = {"analytic": lambda stations, _: AnalyticModel(stations), "event": _simulated}
"""Models of whole jobs: their inputs are the tables topology, workload, stations and setpoints, and run."""

SECTIONS = ("topology", "workload", "stations", "setpoints", "run")


def model_named(name: str) -> Model:
    """The model that a case names; ValueError lists those there are."""
    if name in PLANTS:
        return _plant(PLANTS[name])
    form = FORMS.get(name)
    if form is None:
        raise ValueError(f"model={name!r}: unknown; {meant(name, [*FORMS, *PLANTS])}")

    def closed(inputs: Tables, output: str) -> float:
        if output not in form.outputs:
            raise ValueError(f"output={output!r}: {name} answers {', '.join(form.outputs)}")
        return answer(form, {key: _number(key, value) for key, value in inputs.items()})[output]

    return closed


LONGEST_RUN = 100_000
"""Trainer steps, and seeds, of one simulated row."""


def _plant(made: Plant) -> Model:
    def predicted(inputs: Tables, output: str) -> float:
        for key in inputs:
            if key not in SECTIONS:
                raise ValueError(f"inputs.{key}: unknown table; {meant(key, SECTIONS)}")
        tables = [_table(inputs, name) for name in SECTIONS]
        topology = assemble(Topology, tables[0], "inputs.topology")
        workload = assemble(Workload, tables[1], "inputs.workload")
        stations = assemble(Stations, tables[2], "inputs.stations")
        setpoints = assemble(Setpoints, tables[3], "inputs.setpoints")
        run = assemble(Run, tables[4], "inputs.run")
        for name, count in (("batches", run.batches), ("replications", run.replications)):
            if not 1 <= count <= LONGEST_RUN:
                raise ValueError(f"inputs.run.{name}={count} must be from 1 to {LONGEST_RUN}")
        return _figure(made(stations, run).predict(topology, workload, setpoints), output)

    return predicted


def _table(inputs: Tables, name: str) -> Tables:
    table = inputs.get(name, {})
    if not isinstance(table, Mapping):
        raise ValueError(f"inputs.{name}={table!r} must be a table")
    return table


def _figure(prediction: Prediction, output: str) -> float:
    """The field of a prediction at a dotted path, e.g. `step_s`, `staleness.mean`, `waste.filtered`."""
    here: object = prediction
    for part in output.split("."):
        known = (
            list(here) if isinstance(here, Mapping) else [f.name for f in fields(here)] if is_dataclass(here) else []
        )
        if part not in known:
            raise ValueError(f"output={output!r}: {meant(part, known) if known else 'this model cannot tell'}")
        here = here[part] if isinstance(here, Mapping) else getattr(here, part)
    if prediction.stopped is not None:
        raise ValueError(f"the job of these inputs cannot run: {prediction.stopped}")
    if not isinstance(here, int | float):
        raise ValueError(f"output={output!r}: this model cannot tell")
    return float(here)


def _number(key: str, value: Value) -> Number:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"inputs.{key}={value!r} must be a number, a list of numbers or a parameter")
    return tuple(float(each) for each in (_number(key, inner) for inner in value) if isinstance(each, float))


def default_output(model: str) -> str:
    """What a case means that names no output: the first one of a closed form."""
    model_named(model)
    if model in PLANTS:
        raise ValueError(f"output is missing; model {model!r} answers many, e.g. step_s or staleness.mean")
    return next(iter(FORMS[model].outputs))


def check(case: Case) -> None:
    """ValueError where a case cannot be answered, before anything is fitted: every row is tried once."""
    if case.parameters and not case.calibrated:
        raise ValueError(
            "[[parameter]] without a row of role 'calibration': nothing to fit it to; state a number instead"
        )
    if case.parameters and case.stated is not Kind.PREDICTION:
        raise ValueError(f"class={str(case.stated)!r} with [[parameter]]: only a prediction is fitted; state a number")
    used = str([row.inputs for row in case.rows])
    for parameter in case.parameters:
        if f"'${parameter.name}'" not in used:
            raise ValueError(f'parameter {parameter.name!r} is used by no input; write "${parameter.name}" as a value')
    model, values = model_named(case.model), {p.name: p.bounds.at(0.5) for p in case.parameters}
    for row in case.rows:
        try:
            _answer(model, row, values)
        except ValueError as error:
            raise ValueError(f"row {row.label!r}: {error}") from None
        if case.baseline.input is not None and _size(case.baseline, row) is None:
            raise ValueError(f"baseline.input={case.baseline.input!r}: row {row.label!r} has no such number")


LARGEST_LOG = 300.0
"""A ratio whose logarithm is larger is a misprint, and would not fit into a double."""


def run(case: Case) -> Outcome:
    """Fits on the calibration rows, then answers every row."""
    model = model_named(case.model)
    names = [p.name for p in case.parameters]
    known = [row for row in case.rows if row.role is Role.CALIBRATION]

    def residuals(values: Sequence[float]) -> list[float]:
        given = dict(zip(names, values, strict=True))
        return [(_answer(model, row, given) - row.measured) / (abs(row.measured) or 1.0) for row in known]

    fitted = fit([p.bounds for p in case.parameters], residuals, len(known), smooth=case.model != "event")
    values = dict(zip(names, fitted, strict=True))
    return Outcome(case, values, tuple(_compare(case, row, _answer(model, row, values)) for row in case.rows))


def substituted(value: Value, values: Mapping[str, float]) -> Value:
    """`value` with every "$name" replaced by the parameter's value.

    >>> substituted({"gpus": 8, "work": ["$w", 1]}, {"w": 3.0})
    {'gpus': 8, 'work': [3.0, 1]}
    """
    if isinstance(value, str):
        if value.startswith("$") and value[1:] not in values:
            raise ValueError(f"{value}: no such parameter; known: {', '.join(sorted(values)) or 'none'}")
        return values[value[1:]] if value.startswith("$") else value
    if isinstance(value, Mapping):
        return {key: substituted(inner, values) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [substituted(inner, values) for inner in value]
    return value


def _answer(model: Model, row: Row, values: Mapping[str, float]) -> float:
    inputs = substituted(row.inputs, values)
    try:
        figure = model(inputs, row.output) if isinstance(inputs, Mapping) else nan
    except ArithmeticError as error:
        raise ValueError(f"the model has no answer ({error}); check the size of its inputs") from None
    if not isfinite(figure):
        raise ValueError(f"the model gives {row.output}={figure}; check its inputs")
    return figure


def _compare(case: Case, row: Row, predicted: float) -> Compared:
    naive = _naive(case, row) if case.kind in (Kind.PREDICTION, Kind.FIT) else None
    return Compared(
        row,
        predicted,
        _error(predicted, row.measured),
        _holds(row, predicted),
        naive,
        None if naive is None else _error(naive, row.measured),
    )


def _error(said: float, measured: float) -> float | None:
    error = nan if measured == 0.0 else (said - measured) / abs(measured)
    return error if isfinite(error) else None


def _holds(row: Row, predicted: float) -> bool:
    near = row.tolerance.holds(row.measured, predicted)
    match row.relation:
        case Relation.EQUAL:
            return near
        case Relation.AT_MOST:
            return row.measured <= predicted or near
        case Relation.AT_LEAST:
            return row.measured >= predicted or near
        case Relation.SAME_SIDE:
            return (row.measured > row.pivot) == (predicted > row.pivot)


def _naive(case: Case, row: Row) -> float | None:
    """What the baseline says for a predicted row: it may look where the model may, and at nothing that it predicts."""
    if row.role is Role.CALIBRATION:
        return None
    if row.naive is not None:
        return row.naive
    here = _size(case.baseline, row)
    if case.baseline.naive is Naive.INPUT:
        return here
    before = _last_known(case, row)
    if before is None:
        others = [r.measured for r in case.rows if r is not row and r.output == row.output]
        return sum(others) / len(others) if others else None
    if case.baseline.naive is Naive.SAME:
        return before.measured
    there = _size(case.baseline, before)
    if here is None or there is None or min(here, there) <= 0.0:
        return None
    return before.measured * exp(min(LARGEST_LOG, case.baseline.power * log(here / there)))


def _last_known(case: Case, row: Row) -> Row | None:
    """The last calibration row of the same output above `row`, else the first below it."""
    alike = [r for r in case.rows if r is row or (r.role is Role.CALIBRATION and r.output == row.output)]
    place = next(i for i, r in enumerate(alike) if r is row)
    return alike[place - 1] if place > 0 else next(iter(alike[1:]), None)


def _size(baseline: Baseline, row: Row) -> float | None:
    value = None if baseline.input is None else at(row.inputs, baseline.input)
    return float(value) if isinstance(value, int | float) else None
