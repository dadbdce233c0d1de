"""One possible job behind the data: every unknown at one value, and the engines' speed set so that today comes out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, isfinite, log, sqrt

from simulators.analytic import AnalyticModel
from simulators.analytic.solving import usable_share
from simulators.calibration.completion import SLOTS, Laid
from simulators.calibration.lengths import uncut_mean
from simulators.model import Prediction
from simulators.plant import Mode, Setpoints, Topology
from simulators.stations import Admission, Engine, Plug, Stations, SyncMode, Trainer, WeightSync, affine
from simulators.workload import Duration, Lengths, SolvePart, SolveRates, TurnLaw, Turns, Workload

FIT_ROUNDS = 40
CLOSE = 5e-3
"""Relative error of the fitted step: far below what any job's steps scatter."""
SLOWEST, FASTEST = 1e3, 1e-12
"""Seconds that one resident may add to a decode step: where the fit looks."""
WIDEN = 4.0
CROWDED = log(200.0)
"""Logarithm of the largest Beta parameter: all prompts solved about every second time."""


@dataclass(frozen=True, slots=True)
class Values:
    """What one draw assumes."""

    step_s: float
    trainer_s: float
    """The trainer's side of a step, without weights and rare events."""
    sync_s: float
    rare_s: float
    trainer_fixed_frac: float
    trainer_exponent: float
    half_rate: float
    response_tokens: float
    """As logged: after the cut."""
    prompt_tokens: float
    length_sigma: float
    length_cap: float | None
    between_prompt_frac: float
    turns: float
    tool_s: float
    """Per turn but the last."""
    usable_frac: float | None
    group_size: int
    overlapped_trainer: float
    """The trainer's work once the sides overlap, over its work in turn."""
    headroom: float
    """What the generator could do over what it does; 1 where it is the slower side."""
    one_batch: bool
    """Overlapped without a stated bound: strictly one step off, else two batches started and untrained."""


NOWHERE = Prediction(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, stopped="not fitted yet")


@dataclass(frozen=True, slots=True)
class Draw:
    topology: Topology
    setpoints: Setpoints
    workload: Workload
    stations: Stations
    values: Values
    shared_gpus: bool = False
    """Both sides take turns on the same GPUs: each has all of them."""
    now: Prediction = NOWHERE
    weight: float = 1.0

    def predict(self) -> Prediction:
        return AnalyticModel(self.stations).predict(self.topology, self.workload, self.setpoints)

    def under(self, topology: Topology, setpoints: Setpoints) -> "Draw":
        """The same workload and stations under other settings; admission and publications follow the settings."""
        # An overlapped job that is given a bound of 0 waits for new weights; a job in turn has that bound by nature.
        given_zero = setpoints.staleness_bound == 0.0 and self.setpoints.overlap is not False
        streams = streaming(self.setpoints) or (streaming(setpoints) and not given_zero)
        mode = SyncMode.DRAIN if setpoints.in_flight_update is False else SyncMode.IN_FLIGHT
        stations = replace(
            self.stations,
            admission=admission_of(setpoints, streams, self.values.one_batch),
            sync=replace(self.stations.sync, mode=mode),
        )
        if self.setpoints.overlap is False and setpoints.overlap is True:
            stations = replace(stations, trainer=slower(stations.trainer, self.values.overlapped_trainer))
        return replace(self, topology=topology, setpoints=setpoints, stations=stations)


def slower(trainer: Trainer, factor: float) -> Trainer:
    """The same trainer with that many times the work."""
    return replace(trainer, base_s=trainer.base_s * factor, gpu_s_per_token=trainer.gpu_s_per_token * factor)


def admission_of(setpoints: Setpoints, streams: bool, one_batch: bool) -> Admission:
    """What holds the generator back, read from the settings.

    | job | plug |
    |---|---|
    | in turn | one batch, its slots free again at the end of training |
    | one step off | one batch, freed at the start of training |
    | overlapped, no bound stated | the same, or two batches, freed at the end: the draw says |
    | overlapped, bound b | b + 1 batches started and untrained, freed at the end (AReaL, Tinker) |
    | the same, streaming | freed at the start: training takes minibatches as they come, so that it holds up nobody |
    """
    groups = (setpoints.batch_rollouts or 1) // (setpoints.group_size or 1)
    if setpoints.overlap is False:
        return Admission(Plug.WIP_CAP, limit_groups=groups)
    if setpoints.staleness_bound is None:
        return Admission(Plug.WIP_CAP, limit_groups=groups if one_batch else 2 * groups, freed_at_start=one_batch)
    return Admission(Plug.WIP_CAP, freed_at_start=streams)


def streaming(setpoints: Setpoints) -> bool:
    """A bound under one version only makes sense where the trainer takes minibatches from a stream (verl)."""
    bound = setpoints.staleness_bound
    return setpoints.overlap is not False and bound is not None and bound < 1.0


def draw_of(laid: Laid, values: Values) -> Draw | None:
    """None where no speed of the engines gives the measured step under these values.

    A serial job is the overlapped one under a cap of one batch whose slots are freed at the end of training.
    """
    in_turn = laid.topology.mode is Mode.SERIAL
    topology = replace(laid.topology, mode=Mode.OVERLAPPED)
    setpoints = replace(laid.setpoints, overlap=False) if in_turn else laid.setpoints
    workload = _workload(values)

    def at(per_resident_s: float) -> Draw:
        stations = _stations(laid, values, per_resident_s)
        draw = Draw(topology, setpoints, workload, stations, values, in_turn and not laid.separate)
        draw = draw.under(topology, setpoints)
        return replace(draw, now=draw.predict())

    rest_s = values.trainer_s + values.sync_s + values.rare_s if in_turn else 0.0
    try:
        fitted = _slowest_that_keeps(at, values.step_s * (1.0 + CLOSE), _guess(laid, values, rest_s), rest_s)
        if fitted is None:
            return None
        per_resident_s, draw = fitted
        if values.headroom != 1.0:
            draw = at(per_resident_s / values.headroom)
    except (
        ValueError,
        ArithmeticError,
    ):  # settings that make no job, or figures beyond any: this draw explains nothing
        return None
    now = draw.now
    if now.stopped is not None or not isfinite(now.step_s) or now.useful_rollouts_per_s <= 0.0:
        return None
    return draw


def _slowest_that_keeps(
    at: Callable[[float], Draw], target_s: float, guess: float, rest_s: float
) -> tuple[float, Draw] | None:
    """The largest decode time under which a step lasts no longer than the target, and its draw; None without one.

    A step is flat while the trainer is the slower side, then bends up into a straight line of the decode time, which
    starts at what else a step holds, `rest_s`. So secants from above stay above and seldom land on the flat part;
    where they do twice, or leave the ends that are known, the geometric middle is next.
    """
    high, draw = guess, at(guess)
    while draw.now.step_s <= target_s:
        high *= WIDEN
        if high > SLOWEST:
            return None
        draw = at(high)
    low, before, last, below = 0.0, (0.0, min(rest_s, 0.9 * target_s)), (high, draw.now.step_s), 0
    for _ in range(FIT_ROUNDS):
        slope = (last[1] - before[1]) / (last[0] - before[0])
        tried = last[0] - (last[1] - target_s) / slope if slope > 0.0 else 0.0
        if not low < tried < high or below > 1:
            tried = sqrt(max(low, high / WIDEN**2) * high)
        if tried < FASTEST:
            return None
        draw = at(tried)
        excess = draw.now.step_s / target_s - 1.0
        if abs(excess) < 0.5 * CLOSE or high - low < CLOSE * high:
            return tried, draw
        if excess > 0.0:
            high, before, last, below = tried, last, (tried, draw.now.step_s), 0
        else:
            low, before, below = tried, (tried, draw.now.step_s), below + 1
    return None


def _guess(laid: Laid, values: Values, rest_s: float) -> float:
    """Seconds a resident adds to a step, if a batch were made by engines that share it evenly."""
    engines = max(1, (laid.setpoints.gpus_generator or 1) // (laid.topology.gpus_per_engine or 1))
    residents = (laid.setpoints.batch_rollouts or 1) / engines
    making = max(values.step_s - max(rest_s, values.sync_s + values.rare_s), 0.1 * values.step_s)
    return making / (values.response_tokens * (values.half_rate + residents))


def _workload(values: Values) -> Workload:
    turns = max(1.0, values.turns)
    uncut = uncut_mean(values.response_tokens, values.length_sigma, values.length_cap)
    return Workload(
        prompt=Lengths(values.prompt_tokens),
        response=Lengths(
            uncut / turns,
            values.length_sigma,
            int(values.length_cap) if values.length_cap else None,
            values.between_prompt_frac,
        ),
        turns=Turns(turns, TurnLaw.GEOMETRIC if turns > 1.0 else TurnLaw.FIXED),
        tool=Duration(values.tool_s) if values.tool_s > 0.0 and turns > 1.0 else None,
        solve=solve_rates(values.usable_frac, values.group_size),
    )


def _stations(laid: Laid, values: Values, per_resident_s: float) -> Stations:
    setpoints = laid.setpoints
    tokens = (setpoints.batch_rollouts or 1) * (values.prompt_tokens + values.response_tokens)
    scaled = values.trainer_s * (1.0 - values.trainer_fixed_frac)
    gpus = setpoints.gpus_trainer or 1
    return Stations(
        engine=Engine(affine(values.half_rate * per_resident_s, per_resident_s), SLOTS),
        trainer=Trainer(
            base_s=values.trainer_s * values.trainer_fixed_frac + values.rare_s,
            gpu_s_per_token=scaled * gpus**values.trainer_exponent / tokens,
            exponent=values.trainer_exponent,
        ),
        sync=WeightSync(seconds=values.sync_s * (setpoints.sync_interval or 1)),
    )


def solve_rates(usable_frac: float | None, group_size: int) -> SolveRates:
    """Solve rates under which that share of groups is usable.

    Uniform solve rates give the usual share; below it some prompts never vary, above it rates crowd around a half.
    """
    uniform = usable_share(SolveRates(), group_size)
    if usable_frac is None or group_size < 2:
        return SolveRates()
    if usable_frac <= uniform:
        never_varying = 1.0 - usable_frac / uniform
        return SolveRates(always_frac=0.5 * never_varying, never_frac=0.5 * never_varying)
    low, high = 0.0, CROWDED
    for _ in range(30):
        middle = 0.5 * (low + high)
        share = usable_share(SolveRates((SolvePart(1.0, exp(middle), exp(middle)),)), group_size)
        low, high = (middle, high) if share < usable_frac else (low, middle)
    return SolveRates((SolvePart(1.0, exp(low), exp(low)),))
