"""Before a run: which signals a source will bring, which not, and what to do about those. Names are all it looks at."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Protocol

from tuner.feeds.promql import metric_names
from tuner.frameworks.base import Framework

NEEDED: Mapping[str, tuple[str, ...]] = {
    "step_s": ("step_s",),
    "who waits": ("trainer_wait_s", "trainer_busy_s", "trainer_idle_frac"),
    "the batch": ("batch_rollouts", "gen_samples_per_s"),
    "engines at work": ("running",),
    "engines' queues": ("queued",),
    "the KV pool": ("kv_usage_frac",),
    "tokens generated": ("decode_tokens_per_s", "gen_tokens_per_s"),
}
"""What a controller goes by, and the signals of which one is enough."""
OF_THE_TRAINER = frozenset({"step_s", "who waits", "the batch"})
TRAINER_REMEDY = (
    "add the trainer's own log or metrics file as a second source, or serve gauges named rl_<signal> (docs/signals.md)"
)
ALIKE = 0.75
"""Names this similar may be a renamed metric."""
ALIKE_MAX = 3


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that no metric of the source says."""

    what: str
    signals: tuple[str, ...]
    looked_for: tuple[str, ...]
    alike: tuple[str, ...]
    """Metrics of the source under a known prefix, unknown to us: renamed ones, perhaps."""
    remedy: str


@dataclass(frozen=True, slots=True)
class Contract:
    """What a source says it has, held against what we know."""

    source: str
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Framework -> its metrics that are there."""
    signals: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    failure: str | None = None
    """Why it could not be asked."""


class Contracting(Protocol):
    """A feed that can say beforehand what it will bring. Like any feed it never raises."""

    def contract(self, frameworks: Sequence[Framework], deadline_s: float) -> Contract: ...


def contract_of(source: str, names: Collection[str], frameworks: Sequence[Framework]) -> Contract:
    """The contract of a source with metrics of these names."""
    wanted = {framework.name: metric_names(framework) for framework in frameworks}
    there = {name: tuple(metric for metric in known if metric in names) for name, known in wanted.items()}
    found = {name: metrics for name, metrics in there.items() if metrics}
    signals = {signal for framework in frameworks for signal in _signals(framework, found.get(framework.name, ()))}
    lacking = [what for what, enough in NEEDED.items() if signals.isdisjoint(enough)]
    speaking = [framework for framework in frameworks if framework.name in found] or list(frameworks)
    missing = tuple(_missing(what, names, speaking, frameworks) for what in lacking)
    return Contract(source, found, tuple(sorted(signals)), missing)


def _signals(framework: Framework, metrics: Collection[str]) -> set[str]:
    return {alias.signal for alias in framework.aliases if _base(alias.key) in metrics}


def _base(key: str) -> str:
    return key.split("{")[0].split("/")[0]


def _missing(
    what: str, names: Collection[str], speaking: Sequence[Framework], frameworks: Sequence[Framework]
) -> Missing:
    signals = NEEDED[what]
    known = {name for framework in frameworks for name in metric_names(framework)}
    looked_for = tuple(dict.fromkeys(_names_of(signals, speaking) or _names_of(signals, frameworks)))
    prefixes = tuple(p for framework in frameworks for p in framework.serves if p.endswith((":", "_")))
    strangers = [name for name in names if name.startswith(prefixes) and name not in known]
    alike = dict.fromkeys(near for name in looked_for for near in get_close_matches(name, strangers, 1, ALIKE))
    remedy = TRAINER_REMEDY if what in OF_THE_TRAINER else _engine_remedy(speaking)
    return Missing(what, signals, looked_for, tuple(alike)[:ALIKE_MAX], remedy)


def _names_of(signals: Collection[str], frameworks: Sequence[Framework]) -> list[str]:
    pairs = ((framework, set(metric_names(framework))) for framework in frameworks)
    return [_base(a.key) for f, known in pairs for a in f.aliases if a.signal in signals and _base(a.key) in known]


def _engine_remedy(speaking: Sequence[Framework]) -> str:
    """How each engine is made to serve its metrics, by its own option."""
    hints = [f"{f.name}: {k.key} ({k.note})" for f in speaking if f.engine for k in f.knobs if k.knob == "logging"]
    return f"check that the engines are scraped; {'; '.join(hints)}" if hints else "check that the engines are scraped"
