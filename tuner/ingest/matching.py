"""Finds the aliases of a raw key, and the framework whose keys a record holds."""

import re
from collections.abc import Callable, Iterable, Sequence

from simulators.signals import SIGNALS, Fold
from simulators.window import RARE
from tuner.frameworks.base import Alias, Framework
from tuner.frameworks.sandbox_lines import FORMATS
from tuner.ingest.sandbox_counts import SERVED, TOTALS, counted
from tuner.remembering import Remembered

KEY_SETS_MAX = 10_000
"""Sets of keys remembered; a file with more invents one per row."""
SIGNATURE_WEIGHT = 3
"""A key that only one framework writes counts as this many shared ones."""
NEUTRAL = Framework(
    name="neutral",
    aliases=tuple(
        Alias(name, spec.name) for spec in SIGNALS.values() for name in (spec.name, *spec.also, f"rl_{spec.name}")
    ),
    formats=FORMATS,
    serves=("rl_", "rl_step", *SERVED),
    signature=(*TOTALS, *SERVED),
    interpret=counted,
    computed_trust={"sandbox_fail_frac": 0.5},
    step_keys=("step", "global_step", "training/global_step", "train/global_step", "rl_step"),
)
"""Our own signal names, as the columns of a neutral CSV; as Prometheus metrics they begin with rl_."""


class Matcher:
    """The aliases of one framework, exact keys first, `*` for one path part; remembers what it found."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self._exact: dict[str, list[tuple[int, Alias]]] = {}
        self._patterns: list[tuple[int, re.Pattern[str], Alias]] = []
        for rank, alias in enumerate(framework.aliases):
            if "*" in alias.key:
                parts = (re.escape(part) for part in alias.key.split("*"))
                self._patterns.append((rank, re.compile("[^/]+".join(parts)), alias))
            else:
                self._exact.setdefault(alias.key, []).append((rank, alias))
        self.aliases: Callable[[str], tuple[tuple[int, Alias], ...]] = Remembered(self._aliases).__getitem__
        """(rank, alias) of every alias that a raw key meets."""
        self.fold_of: Callable[[str], Fold] = Remembered(self._fold_of).__getitem__
        """How neighbouring values of a raw key merge: as its signal does, totals by their latest."""

    def _aliases(self, key: str) -> tuple[tuple[int, Alias], ...]:
        wild = [(rank, alias) for rank, pattern, alias in self._patterns if pattern.fullmatch(key)]
        return (*self._exact.get(key, ()), *wild)

    def _fold_of(self, key: str) -> Fold:
        for _, alias in self.aliases(key):
            if alias.signal in RARE:
                return Fold.SUM
            return Fold.LAST if alias.counter else SIGNALS[alias.signal].over
        return Fold.MEAN

    def score(self, keys: Iterable[str]) -> int:
        """How much a set of keys looks like this framework."""
        return sum(bool(self.aliases(key)) + SIGNATURE_WEIGHT * self._signed(key) for key in keys)

    def _signed(self, key: str) -> bool:
        return any(
            key.startswith(mark) if mark.endswith(("/", ".", "_")) else key == mark for mark in self.framework.signature
        )


class Detector:
    """Which framework a record without one belongs to; a set of keys is judged once."""

    def __init__(self, matchers: Sequence[Matcher]) -> None:
        self._matchers = matchers
        self._known: dict[frozenset[str], str | None] = {}

    def framework_of(self, keys: frozenset[str]) -> str | None:
        """Name of the best match, the earlier in the registry at a tie; None when no key means anything."""
        if keys in self._known:
            return self._known[keys]
        scores = [(m.score(keys), m.framework.name) for m in self._matchers]
        best, name = max(scores, key=lambda s: s[0], default=(0, ""))
        if len(self._known) < KEY_SETS_MAX:
            self._known[keys] = name if best else None
        return name if best else None


def configured_by(frameworks: Sequence[Framework], keys: Iterable[str]) -> str | None:
    """The framework whose own configuration keys are among these; None when none, or nobody leads."""
    names = list(keys)
    hits = sorted(((_config_hits(f, names), f.name) for f in frameworks), reverse=True)
    if not hits or hits[0][0] == 0 or (len(hits) > 1 and hits[1][0] == hits[0][0]):
        return None
    return hits[0][1]


def _config_hits(framework: Framework, keys: list[str]) -> int:
    return sum(
        any(k.startswith(mark) if mark.endswith(("/", ".", "_")) else k == mark for mark in framework.config_signature)
        for k in keys
    )
