"""Measured changes against what the advisor promised before them: `python -m tests.stories.pairs` prints the table."""

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from policies.base import Interval, Recommendation
from policies.estimators import estimate
from policies.prospects import Value, prospects_of
from policies.recommendations import advise
from simulators.plant import Topology
from tests.stories.answers import Move
from tests.stories.field_cases import field_cases
from tests.stories.rows import Job, job_of

PAIRS = Path(__file__).with_name("pairs.toml")
LEADS = 2
"""The change that was made should be one of the first two."""
WIDTH_MAX = 2.0
"""An interval may be this many measured gains wide."""


@dataclass(frozen=True, slots=True)
class Pair:
    id: str
    before: Job
    change: tuple[str, ...]
    settings: dict[str, Value]
    """The same change as settings of the model; empty where it has none."""
    gain_frac: float
    """Measured: rollouts per second after over before, less 1."""
    held_out: bool
    not_leading: str
    """Why the change that was made is not advised first or second; empty where it is. Likewise below."""
    outside: str
    too_wide: str

    def promised(self) -> tuple[int, Recommendation] | None:
        """Rank and recommendation of the change that was made; the best ranked where it counts as several moves."""
        for rank, advised in enumerate(advise(*self.before).recommendations, start=1):
            if any(Move(advised.knob, advised.direction.value).is_(move) for move in self.change):
                return rank, advised
        return None


@dataclass(frozen=True, slots=True)
class Outcome:
    pair: Pair
    rank: int | None
    advised: Interval | None
    """Promised by the recommendation, for the value that it proposes."""
    asked: Interval | None
    """Answered by the model, for the settings that were chosen."""

    @property
    def gain(self) -> Interval | None:
        return self.asked or self.advised

    @property
    def leads(self) -> bool:
        return self.rank is not None and self.rank <= LEADS

    @property
    def inside(self) -> bool:
        return self.gain is not None and self.gain.low <= self.pair.gain_frac <= self.gain.high

    @property
    def narrow(self) -> bool:
        """No gain is no promise: it is narrow, and holds nothing."""
        return self.width <= WIDTH_MAX * self.pair.gain_frac

    @property
    def width(self) -> float:
        return 0.0 if self.gain is None else self.gain.high - self.gain.low


def outcome_of(pair: Pair) -> Outcome:
    rank, advised = pair.promised() or (None, None)
    topology, setpoints, snapshot = pair.before
    asked = None
    if pair.settings:
        prospects = prospects_of(topology, setpoints, estimate(topology, setpoints, snapshot))
        asked = prospects.gain(**pair.settings)
    return Outcome(pair, rank, None if advised is None else advised.gain_frac, asked)


def pairs() -> tuple[Pair, ...]:
    return tuple(_pair(entry) for entry in tomllib.loads(PAIRS.read_text(encoding="utf-8"))["pair"])


def _pair(entry: dict[str, Any]) -> Pair:
    (rollouts_before, rollouts_after), (seconds_before, seconds_after) = entry["rollouts"], entry["seconds"]
    gain = rollouts_after / seconds_after / (rollouts_before / seconds_before) - 1.0
    job = _before(entry["before"])
    stated = entry.get("stated", {})
    facts = {name: value for name, value in stated.items() if name in {f.name for f in fields(Topology)}}
    knobs = {name: value for name, value in stated.items() if name not in facts}
    before = Job(replace(job.topology, **facts), replace(job.setpoints, **knobs), job.snapshot)
    settings = dict(entry.get("set", {}))
    misses = (entry.get(name, "") for name in ("not_leading", "outside", "too_wide"))
    return Pair(entry["id"], before, tuple(entry["change"]), settings, gain, entry.get("held_out", False), *misses)


def _before(where: dict[str, str]) -> Job:
    if "table" in where:
        return job_of(where["table"], where["row"])
    case = next(case for case in field_cases() if case.id == where["case"])
    return Job(case.topology, case.setpoints, case.snapshot)


def lines() -> Iterator[str]:
    yield "| pair | change | rank | advised (80 %) | model, as set | measured | leads | inside | width / gain |"
    yield "|---|---|---|---|---|---|---|---|---|"
    outcomes = [outcome_of(pair) for pair in pairs()]
    for o in outcomes:
        width = "-" if o.gain is None or o.pair.gain_frac <= 0.0 else f"{o.width / o.pair.gain_frac:.2f}"
        name = f"{o.pair.id}{' (held out)' if o.pair.held_out else ''}"
        marks = ("yes" if o.leads else "no", "yes" if o.inside else "no")
        cells = (
            name,
            " or ".join(o.pair.change),
            str(o.rank or "-"),
            told(o.advised),
            told(o.asked),
            f"{o.pair.gain_frac:+.2f}",
            *marks,
            width,
        )
        yield "| " + " | ".join(cells) + " |"
    counted, further = ([o for o in outcomes if o.pair.held_out is held_out] for held_out in (False, True))
    yield ""
    yield (
        f"Of {len(counted)} pairs {sum(o.leads for o in counted)} lead, {sum(o.inside for o in counted)} lie inside; "
        f"intervals wider than {WIDTH_MAX:g} gains: {sum(not o.narrow for o in counted)}. Of "
        f"{len(further)} held out {sum(o.inside for o in further)} lie inside."
    )
    yield ""
    for o in outcomes:
        whys = (o.pair.not_leading, o.pair.outside, o.pair.too_wide)
        yield from (f"- {o.pair.id}: {why}" for why in whys if why)


def told(gain: Interval | None) -> str:
    return "-" if gain is None else f"{gain.low:+.2f} .. {gain.mean:+.2f} .. {gain.high:+.2f}"


if __name__ == "__main__":
    for line in lines():
        sys.stdout.write(line + "\n")
