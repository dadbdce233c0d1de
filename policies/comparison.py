"""Why one run is slower than another: phase by phase, per rollout and per token, and what explains the difference."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from policies.estimators import phases_of
from policies.wording import figure
from simulators.plant import Mode
from simulators.signals import SIGNALS, TINY
from simulators.snapshot import Snapshot

SAME_FRAC = 0.02
"""Two runs whose pace differs by less are called equal: step times of one job vary by more from hour to hour."""

RESPONSE_PHASES = frozenset({"rollout_s"})
"""Phases whose work grows with generated tokens."""
TOKEN_PHASES = frozenset({"step_s", "trainer_busy_s", "update_s", "logprob_s"})
"""Times whose work grows with all tokens of the batch; the rest are paid by the step."""

Basis = Literal["rollout", "step", "none"]
Because = Literal["tokens", "pace", "time"]

PLAIN: Mapping[Because, str] = {
    "tokens": "the number of tokens in {}",
    "pace": "the seconds per token in {}",
    "time": "the time of {}",
}
"""How a contribution is called in a sentence."""

WORKLOAD = (
    "batch_rollouts",
    "tokens_total",
    "resp_len_mean",
    "resp_len_max",
    "prompt_len_mean",
    "truncated_frac",
    "turns_mean",
    "tool_calls_mean",
    "non_generation_mean_s",
    "reward_latency_s",
    "trainer_idle_frac",
    "generator_idle_frac",
    "waste_frac",
    "staleness_mean",
    "running",
    "kv_usage_frac",
    "prompt_tokens_per_s",
    "decode_tokens_per_s",
    "reward_mean",
    "zero_adv_frac",
)
"""What a reader looks at beside the times, in this order."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs."""

    name: str
    mode: Mode
    snapshot: Snapshot

    def get(self, signal: str) -> float | None:
        return self.snapshot.get(signal)

    def per_rollout(self, signal: str) -> float | None:
        """Seconds of a phase for each rollout of the batch."""
        return _over(self.get(signal), self.get("batch_rollouts"))

    def tokens_per_rollout(self, phase: str) -> float | None:
        """The tokens that this phase works through for one rollout; None where it is not paid by the token."""
        if phase in RESPONSE_PHASES:
            return self.get("resp_len_mean")
        if phase not in TOKEN_PHASES:
            return None
        total = _over(self.get("tokens_total"), self.get("batch_rollouts"))
        if total is not None:
            return total
        prompt, response = self.get("prompt_len_mean"), self.get("resp_len_mean")
        return None if prompt is None or response is None else prompt + response


@dataclass(frozen=True, slots=True)
class Pair:
    """One quantity of both runs."""

    a: float | None
    b: float | None

    @property
    def known(self) -> bool:
        return self.a is not None and self.b is not None

    @property
    def ratio(self) -> float | None:
        """b / a."""
        return _over(self.b, self.a)


@dataclass(frozen=True, slots=True)
class PhaseLine:
    phase: str
    per_step_s: Pair
    per_rollout_s: Pair
    per_token_s: Pair
    """Per generated token for the generation, per token of the batch for the trainer's passes."""


@dataclass(frozen=True, slots=True)
class WorkloadLine:
    signal: str
    unit: str
    value: Pair


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part of `b - a`, positive where it makes b slower."""

    phase: str
    because: Because
    """`tokens` (more or fewer of them), `pace` (seconds per token), or `time` where the two cannot be told apart."""
    seconds: float
    share: float | None
    """Of the whole difference; None when that is too small to share out."""


@dataclass(frozen=True, slots=True)
class Comparison:
    a: str
    b: str
    basis: Basis
    """`rollout`: seconds per trained rollout; `step`: seconds per step, where a batch size is unknown; `none`."""
    whole: Pair
    phases: tuple[PhaseLine, ...]
    workload: tuple[WorkloadLine, ...]
    contributions: tuple[Contribution, ...]
    headline: str
    notes: tuple[str, ...]


def compare(a: Side, b: Side) -> Comparison:
    """Both runs side by side. Contributions add up to the difference where every phase is known on both sides."""
    lines = tuple(_phase_lines(a, b))
    basis, whole = _basis(a, b)
    parts = _contributions(a, b, basis, whole, lines)
    return Comparison(
        a.name,
        b.name,
        basis,
        whole,
        lines,
        tuple(_workload(a, b)),
        parts,
        _headline(a, b, basis, whole, parts),
        tuple(_notes(a, b, basis, lines)),
    )


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None or whole <= TINY else part / whole


def _phase_lines(a: Side, b: Side) -> Iterable[PhaseLine]:
    for name in dict.fromkeys(["step_s", *_phases(a, b), "rollout_s"]):
        line = PhaseLine(
            name,
            Pair(a.get(name), b.get(name)),
            Pair(a.per_rollout(name), b.per_rollout(name)),
            Pair(*(_over(side.per_rollout(name), side.tokens_per_rollout(name)) for side in (a, b))),
        )
        if line.per_step_s.a is not None or line.per_step_s.b is not None:
            yield line


def _phases(a: Side, b: Side) -> tuple[str, ...]:
    """The phases that add up to a step in either run."""
    return tuple(dict.fromkeys([*phases_of(a.mode, a.snapshot.signals), *phases_of(b.mode, b.snapshot.signals)]))


def _workload(a: Side, b: Side) -> Iterable[WorkloadLine]:
    for name in WORKLOAD:
        pair = Pair(a.get(name), b.get(name))
        if pair.a is not None or pair.b is not None:
            unit = SIGNALS[name].unit if name in SIGNALS else "1"
            yield WorkloadLine(name, unit, pair)


def _basis(a: Side, b: Side) -> tuple[Basis, Pair]:
    per_rollout = Pair(a.per_rollout("step_s"), b.per_rollout("step_s"))
    if per_rollout.known:
        return "rollout", per_rollout
    per_step = Pair(a.get("step_s"), b.get("step_s"))
    return ("step", per_step) if per_step.known else ("none", Pair(None, None))


def _contributions(
    a: Side, b: Side, basis: Basis, whole: Pair, lines: tuple[PhaseLine, ...]
) -> tuple[Contribution, ...]:
    """What each phase adds to the difference, split into tokens and pace by the midpoint rule (exact for a product):

    d(tokens x pace) = d(tokens) x mean(pace) + mean(tokens) x d(pace)
    """
    if whole.a is None or whole.b is None:
        return ()
    total = whole.b - whole.a
    found: list[Contribution] = []
    for line in lines:
        pair = line.per_rollout_s if basis == "rollout" else line.per_step_s
        if line.phase not in _phases(a, b) or pair.a is None or pair.b is None:
            continue
        tokens = Pair(a.tokens_per_rollout(line.phase), b.tokens_per_rollout(line.phase))
        pieces: dict[Because, float] = {"time": pair.b - pair.a}
        if basis == "rollout" and tokens.a and tokens.b:
            pace_a, pace_b = pair.a / tokens.a, pair.b / tokens.b
            pieces = {
                "tokens": (tokens.b - tokens.a) * (pace_a + pace_b) / 2,
                "pace": (tokens.a + tokens.b) / 2 * (pace_b - pace_a),
            }
        found += [Contribution(line.phase, why, seconds, None) for why, seconds in pieces.items()]
    if found and all(line.per_step_s.known for line in lines if line.phase in _phases(a, b)):
        found.append(Contribution("unaccounted", "time", total - sum(c.seconds for c in found), None))
    told = abs(total) > SAME_FRAC * max(whole.a, whole.b)
    shared = [Contribution(c.phase, c.because, c.seconds, c.seconds / total if told else None) for c in found]
    return tuple(sorted(shared, key=lambda c: -abs(c.seconds)))


def _headline(a: Side, b: Side, basis: Basis, whole: Pair, parts: tuple[Contribution, ...]) -> str:
    if whole.a is None or whole.b is None:
        return f"Cannot compare: no step time in {a.name if a.get('step_s') is None else b.name}."
    unit = "s per trained rollout" if basis == "rollout" else "s per step"
    figures = f"{figure(whole.a)} against {figure(whole.b)} {unit}"
    if abs(whole.b - whole.a) <= SAME_FRAC * max(whole.a, whole.b):
        return f"{a.name} and {b.name} run at the same pace: {figures}."
    slow, fast = (b, a) if whole.b > whole.a else (a, b)
    times = max(whole.a, whole.b) / max(TINY, min(whole.a, whole.b))
    cause = next((c for c in parts if c.share is not None and c.share > 0), None)
    because = ""
    if a.mode is not b.mode:
        return f"{slow.name} ({slow.mode}) takes {times:.2f} times as long as {fast.name} ({fast.mode}): {figures}."
    if cause is not None and cause.share is not None:
        because = f"; the largest part of the difference is {say(cause)} ({100 * cause.share:.0f}%)"
    return f"{slow.name} takes {times:.2f} times as long as {fast.name}: {figures}{because}."


def say(part: Contribution) -> str:
    """A contribution in words: `the seconds per token in rollout_s`."""
    if part.phase == "unaccounted":
        return "time that no logged phase accounts for"
    return PLAIN[part.because].format(part.phase)


def _notes(a: Side, b: Side, basis: Basis, lines: tuple[PhaseLine, ...]) -> Iterable[str]:
    if a.mode is not b.mode:
        yield f"{a.name} is {a.mode}, {b.name} is {b.mode}: their phases do not mean the same."
    if basis == "step":
        yield "A batch size is unknown, so steps are compared as they are; pass each run's configuration as well."
    for side in (a, b) if basis != "none" else ():
        absent = [x.phase for x in lines if x.phase in _phases(a, b) and side.get(x.phase) is None]
        if absent:
            yield f"Not logged by {side.name}, so left out of the difference: {', '.join(absent)}."
    for side in (a, b):
        if side.snapshot.window.steps < 3:
            yield f"{side.name} has {side.snapshot.window.steps} step(s): take its figures with care."
