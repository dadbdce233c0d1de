"""Calibration: from a job's own history to possible jobs behind it, all of which reproduce what it does now."""

from dataclasses import dataclass, replace
from math import exp
from statistics import NormalDist

from simulators.calibration.completion import Guess, Laid, beyond_any_job, complete
from simulators.calibration.decode import DecodeFit, fit_decode
from simulators.calibration.draws import Draw, Values, draw_of
from simulators.calibration.estimates import Parameter, Unidentified
from simulators.calibration.headroom import Room, headroom_of, queue_room, scatter_frac
from simulators.calibration.lengths import LengthFit, fit_lengths
from simulators.calibration.operating import OperatingPoint, operating_point
from simulators.calibration.priors import (
    BETWEEN_PROMPT,
    ENGINE_SIZE,
    GENERATION_SHARE,
    OVERLAPPED_TRAINER,
    RESIDENTS,
    Prior,
    spread_points,
)
from simulators.calibration.residuals import Residual, log_likelihood, residuals_of
from simulators.calibration.training import TrainingFit, fit_training
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Snapshot

DRAWS = 24
"""Points of the posterior: its mean is good to a few hundredths of its width, at a millisecond or two each."""
NOMINAL_PROMPT = 512.0
"""Tokens of a prompt that nobody logs: they count in the trainer's time only, and cancel."""
WAIT_FLOOR = 0.02
"""A trainer that waits for less never shows how fast the generator could be."""
NORMAL = NormalDist()
DIMENSIONS = 13
"""Coordinates of a draw, in the order of `_values`."""


@dataclass(frozen=True, slots=True)
class Calibration:
    draws: tuple[Draw, ...]
    parameters: tuple[Parameter, ...]
    assumed: tuple[str, ...]
    """Facts that were not stated and were filled in."""
    residuals: tuple[Residual, ...]
    """How far the model is from measurements that it was not set to."""
    generator_limits: bool

    @property
    def unidentified(self) -> tuple[Unidentified, ...]:
        return tuple(p for p in self.parameters if isinstance(p, Unidentified))


@dataclass(frozen=True, slots=True)
class _Fits:
    point: OperatingPoint
    lengths: LengthFit
    decode: DecodeFit
    training: TrainingFit
    generator_limits: bool
    gated_frac: float | None
    batch_waits: bool
    """A whole finished batch waits for the trainer."""
    queue_room: Room | None
    """What the queue could still hold when the trainer begins to take a batch."""


def calibrate(
    topology: Topology, setpoints: Setpoints, snapshot: Snapshot, generator_limits: bool
) -> Calibration | str:
    """The posterior, or a sentence saying what would allow one.

    `generator_limits`: whether the trainer's wait comes from a slower generator rather than from the scatter of
    batches; the diagnosis tells.
    """
    if (beyond := beyond_any_job(setpoints, snapshot)) is not None:
        return beyond
    point = operating_point(topology, setpoints, snapshot)
    if point is None:
        return "no step time is known of a serial or overlapped job: log it, and the model can be calibrated"
    fits = _Fits(
        point,
        fit_lengths(topology, snapshot),
        fit_decode(snapshot),
        fit_training(snapshot),
        generator_limits,
        snapshot.get("generator_idle_frac"),
        (snapshot.get("queue_depth") or 0.0) >= (snapshot.get("batch_rollouts") or float("inf")),
        queue_room(setpoints, snapshot),
    )
    pairs = [_drawn(u, (topology, setpoints, snapshot), fits) for u in spread_points(DRAWS, DIMENSIONS)]
    found = [pair for pair in pairs if pair is not None]
    if len(found) < DRAWS // 4:
        return "no speed of the engines reproduces the measured step: its phases contradict each other"
    weighed = _weighed([draw for _, draw in found], snapshot)
    parameters = _parameters(fits, found[0][0], (topology, setpoints, snapshot))
    return Calibration(weighed, parameters, found[0][0].assumed, residuals_of(weighed, snapshot), generator_limits)


def _drawn(u: tuple[float, ...], job: tuple[Topology, Setpoints, Snapshot], fits: _Fits) -> tuple[Laid, Draw] | None:
    topology, setpoints, snapshot = job
    guess = Guess(RESIDENTS.quantile(u[0]), round(2 ** ENGINE_SIZE.quantile(u[9])))
    laid = complete(topology, setpoints, snapshot, guess)
    draw = draw_of(laid, _values(u, laid, snapshot, fits))
    return None if draw is None else (laid, draw)


def _values(u: tuple[float, ...], laid: Laid, snapshot: Snapshot, fits: _Fits) -> Values:
    point, lengths = fits.point, fits.lengths
    step, trainer = _phases(point, laid, (u[1], u[2]))
    sigma, between = _at(lengths.sigma, u[6], 0.05, 2.5), BETWEEN_PROMPT.quantile(u[7])
    headroom = headroom_of(fits.queue_room, scatter_frac(sigma, between, laid.setpoints))
    turns = max(1.0, snapshot.get("turns_mean") or 1.0)
    outside = snapshot.get("non_generation_mean_s") or 0.0
    if outside > 0.0 and turns < 2.0:
        turns = 2.0
    return Values(
        step_s=step,
        trainer_s=trainer,
        sync_s=point.sync_s,
        rare_s=point.rare_s,
        trainer_fixed_frac=_at(fits.training.fixed_frac, u[3], 0.0, 0.9),
        trainer_exponent=_at(fits.training.exponent, u[4]),
        half_rate=_half_rate(fits.decode.half_rate, laid, u[5]),
        response_tokens=_at(lengths.mean, u[10]),
        prompt_tokens=snapshot.get("prompt_len_mean") or NOMINAL_PROMPT,
        length_sigma=sigma,
        length_cap=lengths.cap_tokens,
        between_prompt_frac=between,
        turns=turns,
        tool_s=outside / max(1.0, turns - 1.0),
        usable_frac=_usable_frac(laid.setpoints, snapshot),
        group_size=laid.setpoints.group_size or 1,
        overlapped_trainer=_overlapped_trainer(snapshot, u[12]),
        headroom=_headroom(fits, laid, headroom, u[8]),
        one_batch=laid.topology.mode is Mode.SERIAL or u[11] < 0.5,
    )


def _half_rate(fitted: Parameter, laid: Laid, u: float) -> float:
    """Residents of the whole engine: the prior is for each of its GPUs."""
    gpus = (laid.topology.gpus_per_engine or 1) if isinstance(fitted, Unidentified) else 1
    return gpus * _at(fitted, u, 1.0)


def _overlapped_trainer(snapshot: Snapshot, u: float) -> float:
    """Its work over that in turn: passes of log-probabilities that are timed may all go.

    # 28.7 + 20.9 s of passes beside an update of 86.3 s: from 0.51 instead of 0.8
    """
    busy, passes = snapshot.get("trainer_busy_s"), snapshot.get("logprob_s") or 0.0
    kept = 1.0 - passes / busy if busy and passes < busy else 1.0
    return replace(OVERLAPPED_TRAINER, low=OVERLAPPED_TRAINER.low * kept).quantile(u)


def _usable_frac(setpoints: Setpoints, snapshot: Snapshot) -> float | None:
    """Of finished groups. Behind a filter the trained ones are all usable: what it dropped tells the share."""
    filtered, usable = snapshot.get("filtered_frac"), snapshot.get("usable_group_frac")
    if filtered is None or not setpoints.filter_zero_adv:
        return usable
    return (1.0 - filtered) * (1.0 if usable is None else usable)


def _phases(point: OperatingPoint, laid: Laid, u: tuple[float, float]) -> tuple[float, float]:
    """(step, the trainer's part of it) of one draw, each inside its standard error; a share by its prior if unknown."""
    floor = point.sync_s + point.rare_s
    if point.trainer_s is None:
        step = max(_at(point.step_s, u[1]), 1.02 * floor)
        share = GENERATION_SHARE.quantile(u[0])
        if laid.topology.mode is Mode.SERIAL:
            return step, (1.0 - share) * (step - floor)
        return step, min(1.0, (1.0 - share) / share) * (step - floor)
    trainer = max(_at(point.trainer_s, u[1]), 1e-3 * point.step_s.value)
    if point.generation_s is not None:
        return trainer + max(_at(point.generation_s, u[0]), 1e-3 * point.step_s.value) + floor, trainer
    waited = max(0.0, point.rest_s - point.trainer_s.value)
    return trainer + waited * _at(point.step_s, u[0]) / point.step_s.value + floor, trainer


def _headroom(fits: _Fits, laid: Laid, believed: Prior, u: float) -> float:
    """How much faster the generator is than the slowest one that fits the data: 1 where that one is the job's own."""
    if laid.topology.mode is Mode.SERIAL or fits.generator_limits:
        return 1.0
    if fits.gated_frac is not None and fits.gated_frac < 1.0:
        return 1.0 / (1.0 - fits.gated_frac)
    if _may_limit(fits):
        return 1.0 if u < 0.5 else believed.quantile(2.0 * u - 1.0)
    return believed.quantile(u)


def _may_limit(fits: _Fits) -> bool:
    """A trainer that waits for a moment, with no batch in store: scatter, or a generator a little slower, as likely."""
    if fits.point.trainer_s is None or fits.batch_waits:
        return False
    return fits.point.rest_s - fits.point.trainer_s.value > WAIT_FLOOR * fits.point.step_s.value


def _at(parameter: Parameter, u: float, low: float = 0.0, high: float = float("inf")) -> float:
    """The parameter's quantile: normal around an estimate (cut at two standard errors), else of its prior."""
    if isinstance(parameter, Unidentified):
        return parameter.prior.quantile(u)
    z = max(-2.0, min(2.0, NORMAL.inv_cdf(min(max(u, 1e-6), 1.0 - 1e-6))))
    return max(low, min(high, parameter.value + z * parameter.standard_error))


def _weighed(draws: list[Draw], snapshot: Snapshot) -> tuple[Draw, ...]:
    """Weights by how well each draw tells what it was not set to; they sum to one."""
    scores = [log_likelihood(draw, snapshot) for draw in draws]
    best = max(scores)
    weights = [exp(score - best) for score in scores]
    total = sum(weights)
    return tuple(replace(draw, weight=w / total) for draw, w in zip(draws, weights, strict=True))


def _parameters(fits: _Fits, laid: Laid, job: tuple[Topology, Setpoints, Snapshot]) -> tuple[Parameter, ...]:
    """Every parameter of the model, told or not; `laid` is the job with its gaps filled."""
    topology, setpoints, snapshot = job
    found: list[Parameter] = [fits.point.step_s]
    if fits.point.trainer_s is None:
        why = "neither generation nor training nor waiting is timed"
        found.append(Unidentified("generation over generation and training", why, GENERATION_SHARE))
    else:
        found += [p for p in (fits.point.generation_s, fits.point.trainer_s) if p is not None]
    found += [fits.training.fixed_frac, fits.training.exponent, fits.decode.half_rate]
    found += [fits.lengths.mean, fits.lengths.sigma]
    found.append(Unidentified("between-prompt share h of the lengths", "no length is logged by group", BETWEEN_PROMPT))
    if topology.mode is Mode.OVERLAPPED and not fits.generator_limits and fits.gated_frac is None:
        why = "the trainer is never kept waiting for long, and what the generator waits is not logged"
        if fits.queue_room is not None:
            room = f"{fits.queue_room.mean:.2g} batches"
            why += f"; its queue has room for {room} when one is taken, so it is seldom held up"
        scatter = scatter_frac(_at(fits.lengths.sigma, 0.5), BETWEEN_PROMPT.quantile(0.5), laid.setpoints)
        found.append(Unidentified("generator's headroom", why, headroom_of(fits.queue_room, scatter)))
    if not (setpoints.gpus_generator or setpoints.engines or topology.gpus_total or snapshot.get("engines")):
        found.append(Unidentified("residents per engine", "neither engines nor their GPUs are counted", RESIDENTS))
    return tuple(found)
