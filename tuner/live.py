"""LivePlant: a running job as a plant. Its feeds say how it does, its actuators what is in force and can be turned."""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from policies.settings import ACTED, SPLIT, values
from simulators.plant import Inventory, Observation, Order, Outcome, Receipt, Setpoints, Status, Topology
from simulators.snapshot import Note, Snapshot
from tuner.actuators.base import Actuator
from tuner.errors import ActuationError, ConfigError, ContractError
from tuner.feeds.base import Cursor, Poll, Source
from tuner.feeds.discovery import Options, source_of
from tuner.ingest.continuing import continued
from tuner.ingest.following import Follower, Stream, spoken
from tuner.ingest.joining import Reading
from tuner.ingest.merging import better
from tuner.ingest.reading import formats_of

DEADLINE_S = 5.0
"""For all feeds of one tick together, where nothing else is said."""
GRACE_S = 0.5
"""What a feed may take beyond its deadline to put its answer together."""


@dataclass(frozen=True, slots=True)
class FeedState:
    """How a feed does: for the status page and the daemon's own metrics."""

    name: str
    kind: str
    asked: int = 0
    answered: int = 0
    failure: str | None = "not asked yet"
    answered_s: float | None = None
    """When it last answered."""
    failures: int = 0
    """In a row."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a user says of the job; it holds where neither the job nor an actuator says otherwise."""

    topology: Topology = field(default_factory=Topology)
    setpoints: Setpoints = field(default_factory=Setpoints)

    def to_topology(self) -> Topology:
        return self.topology

    def to_setpoints(self) -> Setpoints:
        """None: a knob that was turned since would be hidden behind the statement."""
        return Setpoints()


@dataclass(frozen=True, slots=True)
class Before:
    """What the daemon before this one wrote down last."""

    seen: Observation = field(default_factory=lambda: Observation(0.0, Snapshot({}), Setpoints()))
    topology: Topology = field(default_factory=Topology)


def source_at(text: str, framework: str = "auto", **given: Any) -> Source:
    """The live source that a SOURCE names; `given`: access, kind, match, as in feeds.discovery.Options.

    Raises ConfigError for what is no source.
    """
    frameworks = spoken(framework)
    return source_of(text, Options(frameworks, formats_of(frameworks), **given))


class LivePlant:
    """Asks all feeds at once, each under the same deadline. One that fails costs its own signals only: they age."""

    def __init__(
        self,
        sources: Sequence[Source],
        actuators: Sequence[Actuator] = (),
        stated: Stated | None = None,
        framework: str = "auto",
        deadline_s: float = DEADLINE_S,
        before: Before | None = None,
    ) -> None:
        """`before`: its sources are read on, its rows stand before new ones, its facts hold until others are said."""
        self._sources = tuple(sources)
        self._actuators = tuple(actuators)
        self._stated = stated or Stated()
        self._follower = Follower(self._stated, framework)
        self._deadline_s = deadline_s
        self._before = before or Before()
        named = ((place, self._before.seen.cursors.get(source.feed.name)) for place, source in enumerate(self._sources))
        self._cursors: dict[int, Cursor] = {place: json.loads(text) for place, text in named if text is not None}
        self._polls: dict[int, Future[Poll]] = {}
        """Under way, by the place of the source: one that hangs is not asked again meanwhile."""
        self._threads = ThreadPoolExecutor(max(1, len(self._sources)), thread_name_prefix="feed")
        self._reading: Reading | None = None
        self._owners = owners(self._actuators)
        self.feeds = tuple(FeedState(s.feed.name, s.kind) for s in self._sources)
        """How each feed does, as of the last look."""

    def hand_over(self, actuators: Sequence[Actuator]) -> None:
        """From now on these turn its knobs: they are made of what a first look knew."""
        self._owners = owners(actuators)
        self._actuators = tuple(actuators)

    @property
    def actuators(self) -> tuple[Actuator, ...]:
        return self._actuators

    @property
    def reading(self) -> Reading | None:
        """What the last look knew: facts, framework, its own names of the knobs."""
        return self._reading

    @property
    def topology(self) -> Topology:
        """As stated, else as the job itself says."""
        said = self._reading.topology if self._reading is not None else self._stated.topology
        return better(said, self._before.topology)

    def observe(self, now_s: float) -> Observation:
        self._listen(now_s)
        self._reading = self._follower.reading(now_s) or self._reading
        snapshot = self._reading.snapshot if self._reading is not None else Snapshot({})
        snapshot = continued(self._before.seen.snapshot, snapshot, now_s)
        told = self._current()
        notes = (*snapshot.notes, *_troubles(self.feeds), *told.notes)
        there = _together(told.inventory, Inventory(syncing=self._follower.syncing))
        return Observation(now_s, replace(snapshot, notes=notes), self._in_force(told), there, self._places())

    def _places(self) -> Mapping[str, str]:
        """Where each feed stands, as small JSON."""
        held = ((self._sources[place].feed.name, cursor) for place, cursor in sorted(self._cursors.items()))
        return {name: json.dumps(dict(cursor), sort_keys=True) for name, cursor in held if cursor}

    def _listen(self, now_s: float) -> None:
        """One poll of every feed, side by side; what they bring goes to the follower in the feeds' order."""
        for place, source in enumerate(self._sources):
            if place not in self._polls:
                cursor = self._cursors.get(place, {})
                self._polls[place] = self._threads.submit(source.feed.poll, cursor, now_s, self._deadline_s)
        wait(self._polls.values(), timeout=self._deadline_s + GRACE_S)
        self.feeds = tuple(self._taken(place, source, now_s) for place, source in enumerate(self._sources))

    def _taken(self, place: int, source: Source, now_s: float) -> FeedState:
        before = self.feeds[place]
        if not self._polls[place].done():
            return replace(before, answered=0, failure="no answer in time", failures=before.failures + 1)
        poll = _answer(self._polls.pop(place), self._cursors.get(place, {}))
        self._cursors[place] = poll.cursor
        if poll.items:
            self._follower.take(Stream(source.pool or source.feed.name, source.kind, source.sampled), poll.items)
        good = poll.failure is None
        return FeedState(
            source.feed.name,
            source.kind,
            poll.asked,
            poll.answered,
            poll.failure,
            now_s if good else before.answered_s,
            0 if good else before.failures + 1,
        )

    # ---- what is in force, what there is ----

    def _current(self) -> "_Told":
        settings, there, notes = Setpoints(), Inventory(), list[Note]()
        for actuator in self._actuators:
            try:
                settings = better(settings, actuator.current())
                there = _together(there, actuator.inventory())
            except ActuationError as fault:
                notes.append(Note("actuator-silent", f"{actuator.name}: {fault}", {"actuator": actuator.name}))
        return _Told(settings, there, tuple(notes))

    def _in_force(self, told: "_Told") -> Setpoints:
        """Who knows best first: the hands on the knobs, the job's own configuration, the user's statement."""
        before = self._before.seen.in_force
        configured = _plausible(self._reading) if self._reading is not None else before
        return better(better(better(told.settings, configured), self._stated.setpoints), before)

    # ---- orders ----

    def apply(self, order: Order, now_s: float) -> Receipt:
        """Each knob to the one actuator that owns it; a knob of nobody is refused."""
        parts: dict[int | None, dict[str, Any]] = {}
        for name, value in values(order.setpoints).items():
            parts.setdefault(self._owners.get(name), {})[name] = value
        outcomes: dict[str, Outcome] = {}
        for place, wanted in parts.items():
            actuator = self._actuators[place] if place is not None else None
            outcomes |= _applied(actuator, replace(order, setpoints=Setpoints(**wanted)), now_s)
        return Receipt(order.decision_id, outcomes)

    def close(self) -> None:
        """Lets go of feeds and actuators; the job runs on."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for source in self._sources:
            source.feed.close()
        for actuator in self._actuators:
            actuator.close()


def said_since(was: Topology, now: Topology) -> tuple[str, ...]:
    """Names of the facts that were unknown, and are known now."""
    blank, before, after = asdict(Topology()), asdict(was), asdict(now)
    return tuple(name for name, unknown in blank.items() if before[name] == unknown != after[name])


def _answer(future: Future[Poll], cursor: Cursor) -> Poll:
    """What a feed brought. One that breaks its promise never to raise fails alone; its words may hold anything."""
    try:
        return future.result()
    except ContractError:
        raise
    except Exception as fault:
        return Poll((), cursor, 1, 0, f"it broke: {type(fault).__name__}; please report")


def _plausible(reading: Reading) -> Setpoints:
    """What the job configures. One server's own settings count its own engines: no number where more report."""
    configured, reporting = reading.setpoints, reading.snapshot.get("engines")
    if configured.engines is not None and reporting is not None and reporting > configured.engines:
        return replace(configured, engines=None)
    return configured


@dataclass(frozen=True, slots=True)
class _Told:
    """What the actuators say."""

    settings: Setpoints
    inventory: Inventory
    notes: tuple[Note, ...]


def _together(a: Inventory, b: Inventory) -> Inventory:
    """What either knows, the first where both do; a sync that one sees is one."""
    return Inventory(
        _known(a.gpus_trainer, b.gpus_trainer),
        _known(a.gpus_generator, b.gpus_generator),
        _known(a.engines_current, b.engines_current),
        a.syncing or b.syncing,
        _known(a.steps_done, b.steps_done),
    )


def _known(a: int | None, b: int | None) -> int | None:
    return b if a is None else a


def owners(actuators: Sequence[Actuator]) -> Mapping[str, int]:
    """The place of each setpoint's actuator: by its own name, or as part of a knob. ConfigError where two claim one."""
    found: dict[str, int] = {}
    for place, actuator in enumerate(actuators):
        for capability in actuator.capabilities():
            other = found.setdefault(capability.knob, place)
            if other != place:
                names = f"{actuators[other].name} and {actuator.name}"
                raise ConfigError(f"{capability.knob} is turned by two actuators, {names}; leave it to one")
    parts = {part: found[knob] for knob, all_parts in ACTED.items() if knob in found for part in all_parts}
    if SPLIT in found:
        parts.setdefault("gpus_decode", found[SPLIT])
    return {**parts, **found}


def _applied(actuator: Actuator | None, order: Order, now_s: float) -> Mapping[str, Outcome]:
    wanted = values(order.setpoints)
    if actuator is None:
        return {name: Outcome(Status.REFUSED, f"no actuator turns {name}") for name in wanted}
    try:
        told = actuator.apply(order, now_s).outcomes
    except ActuationError as fault:
        return dict.fromkeys(wanted, Outcome(Status.REFUSED, f"{actuator.name}: {fault}"))
    silent = Outcome(Status.REFUSED, f"{actuator.name} said nothing of it")
    return {name: told.get(name, silent) for name in wanted}


def _troubles(feeds: Iterable[FeedState]) -> Iterable[Note]:
    """What failed, and what only part of the targets answered."""
    for state in feeds:
        numbers: Mapping[str, float | str] = {"asked": float(state.asked), "answered": float(state.answered)}
        if state.failure is not None:
            yield Note("feed-failed", f"{state.name}: {state.failure.removeprefix(f'{state.name}: ')}", numbers)
        elif state.answered < state.asked:
            yield Note("partial-coverage", f"{state.name}: {state.answered} of {state.asked} targets answered", numbers)
