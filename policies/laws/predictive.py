"""Predictive: the product's own law. Ask the model of the job what every near setting would give; go where it pays.

A tick without a review due holds. A review climbs, knob by knob, from the setting in force over the legal ones:

    split (in flight per engine kept) | prefill : decode | oversampling ratio, alone or with in flight | in flight

all the way.

    X(s) = value of the model's prediction (policies/objective.py); a setting that breaks a hard bound, or breaks
           one further that is broken now, does not count
    gain = X(best) / X(now) - 1,  wanted when  gain x horizon >= payback_ratio x cost  and  its 80 % interval > 0

The interval. Of a split only the *ratio* of the two service rates matters, and an error of that ratio is the same as
standing at another split: were the generator e^d faster, the job would behave at (t : g) as it does now where g/t is
e^d larger. So with L(x) = ln X along x = ln(g/t), read off the settings that were asked for anyway,

    gain(d) = exp(L(x_best + d) - L(x_now + d)) - 1,     d = drift to come, and that +- 1.28 sigma

averaged over all d that are equally likely (policies/outlook.py: half of a trend goes on until a move could be taken
back; of a load that swings, every phase). sigma^2 = variance of what the model was fitted to + its misfit + that of the
trainer's exponent + the doubt of what is to come; the interval is wider the more often the same was looked at
(policies/looks.py). Of another knob's gain between a half and one and a half is believed.
Of several splits the one whose least gain is largest, of several knobs that are sure to gain the best is wanted; where
that is a restart, knobs that gain on top of it go with it.

States: waiting (review not due) -> review -> hold, or proposal; a proposal is reviewed at every tick until it is gone.

# 64 : 192, lattice of 8, X(56) 4.9, X(48) 5.2, X(40) 5.0, X(64) 4.5, sigma 5 %:
#   best 48; x_now 1.10, x_best 1.47; gain +15.6 %, at d = +-0.064: +10.7 .. +16.9 % -> propose 48 : 208
#   X(56) 4.55, X(48) 4.4 -> +1.1 %, under the 2 % that are worth a move -> hold
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt

from policies.base import Interval
from policies.beliefs import CENTRAL_80, EXPONENT_VARIANCE
from policies.control import REVIEW_S, Hold, Memory, Proposal, View
from policies.guardrails.case import cost_s
from policies.laws.parameters import demand_bounds, within
from policies.looks import looked, widened
from policies.objective import Violation
from policies.options import CLIMBS, Ask, Option, asked, keeping, named, splits
from policies.outlook import Outlook, at, place, to_come
from policies.probation import STEPS_MIN
from policies.readings import ROWS_MIN, settling_s
from policies.settings import SPLIT, knobs_of, merged, values
from policies.stages import nearer
from simulators.plant import Change, Setpoints
from simulators.signals import TINY

SHOWN = 3
"""Alternatives that are told beside the best."""
DOUBTS = (0.5, 1.0, 1.5)
"""How far a model's gain of a knob other than the split is believed: low, mean, high."""

NO_MODEL = "no calibrated model of this job"


@dataclass(frozen=True, slots=True)
class Predictive:
    """Look ahead over the model, within the bounds; move when it surely pays."""

    gain_min_frac: float = within(0.02, 0.005, 0.1)
    """A gain below this is not worth the trouble of a move."""
    payback_ratio: float = within(2.0, 1.0, 5.0)
    """How often a gain must pay for its cost within the horizon."""
    misfit_frac: float = within(0.01, 0.005, 0.15)
    """What a model's ratio of the two rates is off by at another setting, beside the doubt of what it was fitted to."""
    review_s: float = within(300.0, 10.0, 3600.0)
    """Seconds between two reviews while nothing is wanted; a few steps."""
    trend_share: float = within(0.5, 0.0, 1.0)
    """Share of a trend that is expected to go on."""

    def __post_init__(self) -> None:
        demand_bounds(self)

    def decide(self, view: View) -> Proposal | Hold:
        due = view.memory.get(REVIEW_S, 0.0)
        if isinstance(due, float) and view.now_s < due <= view.now_s + self.review_s:
            why = view.memory.get("why", "nothing was wanted")
            return Hold(f"{why}; the next review is in {due - view.now_s:.0f} s", memory=view.memory)
        if view.model is None or view.workload is None or not view.snapshot.signals:
            why = view.no_model or "too few steps were seen, or it cannot make what the job delivers"
            return Hold(f"{NO_MODEL}: {why}", memory=view.memory)
        here = asked(view, Setpoints())
        if here is None:
            return self._later(view, "the model cannot run the setting in force")
        now, ask = here[0], keeping(view, here[1])
        drift = to_come(view.snapshot, self._ahead_steps(view), self.trend_share)
        view = replace(view, memory=looked(view, drift))
        found = [(self._gain(view, option, now, drift), option) for option in self._options(view, ask, now, drift)]
        best = max(self._with_one_split(view, found), key=lambda pair: self._rank(view, pair), default=None)
        if best is None:
            return self._later(view, "every near setting is worse by the model, illegal or out of bounds")
        others = [f"{named(o.changes)} {g.mean:+.1%}" for g, o in found if o is not best[1] and g.mean > 0.0]
        best = self._joined(view, best, here[1])
        return self._judged(view, best, f"; else {', '.join(others[:SHOWN])}" if others else "")

    def _joined(
        self, view: View, best: tuple[Interval, Option], broken: tuple[Violation, ...]
    ) -> tuple[Interval, Option]:
        """The best option; where it is a restart, with every other knob that gains on top of it."""
        gain, option = best
        restarts = _restarts(view, option.changes)
        for climb in CLIMBS if restarts else ():
            there = replace(view, in_force=merged(view.in_force, option.changes))
            found = climb(there, keeping(there, broken), option.worth)
            if found is None or set(values(found.changes)) & set(values(option.changes)):
                continue
            if not view.locked.isdisjoint(knobs_of(found.changes)):
                continue
            if found.worth < option.worth * (1.0 + self.gain_min_frac):
                continue
            more = found.worth / option.worth
            gain = Interval(*(_on_top(g, share * (more - 1.0)) for g, share in zip(_ends(gain), DOUBTS, strict=True)))
            option = replace(option, changes=merged(option.changes, found.changes), worth=found.worth)
        return gain, option

    def _judged(self, view: View, best: tuple[Interval, Option], beside: str) -> Proposal | Hold:
        gain, option = best
        least = self._least(view, best)
        words = f"{named(option.changes)}: {gain.mean:+.1%} ({gain.low:+.1%}..{gain.high:+.1%}) by the model{beside}"
        if not gain.mean >= least:
            return self._later(view, f"best is {words}, under the {least:.1%} that pay for it")
        if option.first_step < self.gain_min_frac and not _restarts(view, option.changes):
            return self._later(view, f"best is {words}, but its first step gains only {option.first_step:+.1%}")
        if not gain.low > 0.0:
            return self._later(view, f"best is {words}: not sure to gain")
        return Proposal(option.changes, words, gain, view.memory)

    def _later(self, view: View, reason: str) -> Hold:
        """Looks again after as many steps as have a level, or when a review is due: what comes first."""
        step_s = view.snapshot.get("step_s") or inf
        due: Memory = {REVIEW_S: view.now_s + min(self.review_s, ROWS_MIN * step_s), "why": reason}
        return Hold(reason, memory={**view.memory, **due})

    def _options(self, view: View, ask: Ask, now: float, drift: Outlook) -> Iterator[Option]:
        """The best of each knob that can be turned here, where it differs from now."""
        yield from splits(view, ask, now, drift)
        yield from (option for climb in CLIMBS if (option := climb(view, ask, now)) is not None)

    def _with_one_split(
        self, view: View, found: Sequence[tuple[Interval, Option]]
    ) -> Iterator[tuple[Interval, Option]]:
        """Of all splits the one that surely gains most, since the rest of a way can follow; and every other knob.

        Where each part of a way is a restart, none follows: the one that is likely to gain most, also when the models
        have refused it: waiting is cheap beside a second restart. Else, where they have, a sure one on the way to it.
        """
        splits = [(gain, option) for gain, option in found if option.points]
        restart = any(_restarts(view, option.changes) for _, option in splits)
        on_the_way = [pair for pair in splits if not restart and nearer(view.in_force, pair[1].changes, view.refused)]
        splits = [pair for pair in on_the_way if self._surely(view, pair)] or splits
        if splits:
            yield max(splits, key=lambda pair: self._won(view, pair, sure=not restart))
        yield from (pair for pair in found if not pair[1].points)

    def _rank(self, view: View, found: tuple[Interval, Option]) -> tuple[bool, bool, float]:
        """First what is sure to gain and worth it, of that what may be turned, then the gain: a step that is sure beats
        a leap that is not, and a knob that is ours to turn one that we can only speak of."""
        _, option = found
        return self._surely(view, found), view.locked.isdisjoint(knobs_of(option.changes)), self._won(view, found)

    def _surely(self, view: View, found: tuple[Interval, Option]) -> bool:
        return found[0].low > 0.0 and found[0].mean >= self._least(view, found)

    def _won(self, view: View, found: tuple[Interval, Option], *, sure: bool = False) -> float:
        """Gain less cost. Before a first step the least gain, as nothing can be taken back on evidence then; but of a
        restart the likely one, as a second one costs as much as the first."""
        gain, option = found
        sure = sure or (view.begins and not _restarts(view, option.changes))
        return (gain.low if sure else gain.mean) - _cost_frac(view, option.changes)

    def _least(self, view: View, found: tuple[Interval, Option]) -> float:
        """The gain that pays: twice the cost on average, or surely the cost."""
        gain, option = found
        cost = _cost_frac(view, option.changes)
        return max(self.gain_min_frac, cost if gain.low >= cost else self.payback_ratio * cost)

    def _gain(self, view: View, option: Option, now: float, drift: Outlook) -> Interval:
        if not option.points:
            gain = option.worth / now - 1.0
            return Interval(*sorted(share * gain for share in DOUBTS))
        here, there = place(view.in_force), place(merged(view.in_force, option.changes))
        scaling = EXPONENT_VARIANCE * _resized(view, option.changes) ** 2
        sigma = sqrt(view.doubt + self.misfit_frac**2 + scaling + drift.sigma**2)
        reach = CENTRAL_80 * widened(view, view.memory) * sigma
        gains = [
            _mean_gain(option.points, there, here, [d + off for d in drift.shifts]) for off in (-reach, 0.0, reach)
        ]
        return Interval(min(gains), gains[0] / 4.0 + gains[1] / 2.0 + gains[2] / 4.0, max(gains))

    def _ahead_steps(self, view: View) -> float:
        """Steps until a move could be taken back: in force, settled and judged."""
        split, step_s = view.capability(SPLIT), view.snapshot.get("step_s") or 0.0
        if split is None or step_s <= TINY:
            return 0.0
        return settling_s(view.snapshot, view.in_force, split.actuation_s) / step_s + STEPS_MIN


def _restarts(view: View, changes: Setpoints) -> bool:
    found = [view.capability(knob) for knob in knobs_of(changes)]
    return any(c is not None and c.change is Change.RESTART for c in found)


def _ends(gain: Interval) -> tuple[float, float, float]:
    return gain.low, gain.mean, gain.high


def _on_top(gain: float, more: float) -> float:
    return (1.0 + gain) * (1.0 + more) - 1.0


def _mean_gain(points: tuple[tuple[float, float], ...], there: float, here: float, shifts: Iterable[float]) -> float:
    """Of going from `here` to `there`, over the time that all shifts last alike."""
    pairs = [(exp(at(points, there + d)), exp(at(points, here + d))) for d in shifts]
    return sum(after for after, _ in pairs) / sum(before for _, before in pairs) - 1.0


def _resized(view: View, changes: Setpoints) -> float:
    """ln of the trainer's size after over before."""
    before, after = view.in_force.gpus_trainer, changes.gpus_trainer
    return log(after / before) if before and after else 0.0


def _cost_frac(view: View, changes: Setpoints) -> float:
    """Cost as a share of the work left: what a gain must exceed to break even."""
    return cost_s(view, changes) / max(TINY, view.horizon_s)
