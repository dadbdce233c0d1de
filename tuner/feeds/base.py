"""What a feed is: a live source that is asked once a tick, and says what is new since its cursor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tuner.feeds.contract import Contracting
from tuner.records import Item

Cursor = Mapping[str, float | int | str]
"""Where a feed stands, as small JSON: kept with the controller's state, and a restarted daemon goes on from it."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What one question brought."""

    items: tuple[Item, ...] = ()
    """In the order of their time; trouble that a person should know of comes as a Remark among them."""
    cursor: Cursor = field(default_factory=dict)
    asked: int = 1
    """Targets that should have answered (engines, queries, files)."""
    answered: int = 1
    failure: str | None = None
    """Why nothing could be read at all: server down, file gone. None: the feed answered, be it with nothing new.
    Told beside the feed's name, which it need not repeat."""

    @property
    def coverage_frac(self) -> float:
        return self.answered / self.asked if self.asked else 0.0


class Feed(Protocol):
    """A live source. It never raises for what the other side does: that is a failure of the Poll."""

    @property
    def name(self) -> str:
        """For messages: the address or path, without any secret."""
        ...

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        """What is new since `cursor` (empty: from the start of what matters now), in at most `deadline_s` seconds."""
        ...

    def close(self) -> None:
        """Lets go of connections and files."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """A feed, and what its items are."""

    feed: Feed
    kind: str = "file"
    """As `source[].kind` in the answer."""
    sampled: bool = False
    """True for scrapes: each holds all that lives, and shows the gauges of one trainer step many times."""
    pool: str = ""
    """Sources of one pool ask different targets of one fleet: their replicas are counted together."""
    contracting: Contracting | None = None
    """The feed itself where it can say before a run what it will bring: names, signals, what is missing."""
