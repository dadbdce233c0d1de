"""What the state of a simulated job is made of: columns by name, codes, limits, and its arrays."""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from simulators.event_state import Counts, Rates

Compiled = Callable[..., Any]


def _names(title: str, names: str, first: int = 0) -> Any:
    """A tuple of column numbers by name: compile-time constants in the engine."""
    listed = names.split()
    return namedtuple(title, listed)(*range(first, first + len(listed)))


LINE, SHORT_LINE = 8, 16
"""8-byte and 4-byte numbers of a cache line."""
STALENESS_BINS = 1024
TIME_BINS = 512
"""Eight to an octave, from 2^-16 s on."""
C = _names("C", " ".join(f.name for f in fields(Counts)))
P = _names("P", " ".join(f.name for f in fields(Rates)))
N = _names(
    "N",
    # where the job stands
    "key stamp version step in_flight resident outside queued open_group next_group wip ring_head ring_count"
    " free_rollouts free_groups phase training_groups loose hole need_room stopped traced handled"
    # cumulative counts
    " dispatched finished finished_groups trained trained_groups useful trained_tokens trained_response trained_solved"
    " attempted attempted_response attempted_solved truncated filtered dropped stale oversampled pruned aborted failed"
    " waiting since_training turns events spanned"
    # what the plugs promise
    " peak_wip peak_ring peak_ring_at_open"
    # beyond the core: lists (head, tail, length), then counts
    " box_head box_tail boxes_waiting judge_head judge_tail judges_waiting again_head again_tail agains"
    " wide owed hold_again draining rolling_at roll_again planned opened_since_sync round round_opened judging"
    " boxes_live boxes_starting boxes_started boxes_failed boxes_leaked preempted prefilled_tokens prefix_tokens"
    " trained_resumed trained_longest order_head order_seen order_tail in_line lost_running",
)
X = _names(
    "X",
    "now trainer_at next_start"
    # cumulative seconds and areas under counts
    " area_in_flight area_resident area_outside area_queued area_ring training_s sync_s decoded_tokens context_area"
    " engine_busy_s rollout_s trained_rollout_s stint_s group_s queue_age_s ring_s resident_s outside_s queued_s"
    " box_wait_s judge_s verifying_s tenant_tokens",
)
# An engine, a rollout and a group are a cache line each: what most events touch, in 8-byte and in 4-byte columns of the
# same 64 bytes. What else there is (the widest variant's, mostly) has tables of its own.
F = _names("F", "clock resume context departs returns")
"""Of an engine: its clock in tokens, when it runs on, context of its residents, next departure, next return."""
E = _names("E", "residents in_flight outside queued queue_head queue_tail", 10)
FW = _names("FW", "tax cached")
EW = _names("EW", "draining reserved overflowing cached_head cached_tail")
R = _names("R", "group member draw version tokens context turn turns response engine next")
T = _names("T", "dispatched entered", 6)
RW = _names("RW", "state flags cached before link")
TW = _names("TW", "began tax box judge")
G = _names("G", "id size started done solved tokens response kept prompt_tokens target")
H = _names("H", "solve_rate factor score", 5)
M = _names("M", "opened ready longest")
"""Of a group: two moments, and the response tokens of its longest member."""
GW = _names("GW", "round state resumed place spent")
Q = _names("Q", "head tail queued busy rollouts")
L = _names("L", "mean location own_sigma shared_sigma root_shared root_own")
K = _names("K", "kind limit pairs")
"""Of a law: its numbers, and its whole numbers."""
PROMPT_LAW, RESPONSE_LAW, TURN_LAW, TOOL_TOKEN_LAW, TOOL_TIME_LAW, SOLVE_LAW = range(6)
IDLE, TRAINING, WAITING, DRAINING = range(4)
"""Phases of the trainer."""
RESIDENT, QUEUED, TOOL, STARTING, VERIFYING, TRANSFER, BOX_QUEUE, JUDGE_QUEUE, POOLED, HELD, PAUSED = range(11)
"""Where a rollout is."""
PRUNED, DYING, RESUMED, HOLDS_BOX, BOX_FAILS = 1, 2, 4, 8, 16
"""Flags of a rollout."""
NO_GROUP, OPEN, READY = range(3)
"""States of a group's slot."""
NOT_KEPT = 1 << 30
"""In place of the version of a member that is not trained."""
PREFILLED, POOL_FREE, BOX_GONE, ROLL = range(4)
AGENDA_STEP = 1 << 32
"""An event of no engine is its kind times this, plus a number."""
SPENT_PER_S = 16.0
"""What the members of a group have spent in flight is kept in sixteenths of a second."""
REMOVED = 1 << 30
"""Added to the rollouts in flight of an engine that is being removed: it is never the one with the fewest."""
ATTEMPT_STEP = 1 << 20
"""Added to a member's number for the draws of each further attempt."""
MOST_ATTEMPTS = 1000
MOST_LOST_RUNNING = 4_000_000
"""Attempts lost with no rollout finished in between (seconds of computing, hours of any job): none ever will."""
THRASH = 1000
"""Preemptions per finished turn at which a job counts as thrashing."""
ROUNDS = 4096
"""Oversampling rounds that may be open at once."""
DISPATCHED, TURN_END, RETURNED, GROUP_READY, TRAIN_START, TRAIN_END = range(6)
"""Kinds of a trace row: (time, kind, group, member or count, engine)."""
DONE, GROW = range(2)
"""Why the compiled engine came back."""
RUNNING, NO_EVENT, STARVED, NO_ROOM, CONTEXT_TOO_LONG, THRASHING, ALWAYS_FAILS, NONE_FINISHES = range(8)
"""Why a job stopped."""
LAST_CURABLE = NO_ROOM
"""Up to here other knobs may bring a job on again."""
STARVED_BATCHES = 10_000
"""Finished groups since the last training, in batches, at which a job counts as starved."""


class State(NamedTuple):
    """All arrays of one simulated job: sized by what is in flight and in the buffer, never by what was simulated."""

    addresses: Any
    """(address, rows, columns) of every array in the order of these fields, this one first."""
    n: Any
    x: Any
    counts: Any
    rates: Any
    laws: Any
    kinds: Any
    tables: Any
    pairs: Any
    step_s: Any
    slowness: Any
    clocks: Any
    engines: Any
    """The same lines."""
    heap: Any
    """(bits of the mark, rollout) side by side, a binary heap of each engine."""
    outs: Any
    """(bits of the return time, rollout): the same."""
    tree: Any
    """(bits of the next event, engine) side by side: winners of a tournament; node 1 is the root."""
    loads: Any
    """(rollouts in flight, engine): the same over loads."""
    rollouts: Any
    times: Any
    """The same lines."""
    groups: Any
    traits: Any
    """The same lines."""
    marks: Any
    versions: Any
    free_rollouts: Any
    free_groups: Any
    ring: Any
    """Finished groups in the order of completion."""
    staleness: Any
    latency: Any
    trace: Any
    # beyond the core
    clocks_wide: Any
    engines_wide: Any
    rollouts_wide: Any
    times_wide: Any
    groups_wide: Any
    members: Any
    """The rollout of each member in flight, else -1."""
    order: Any
    """Groups in the order of dispatch, -1 where one was thrown away."""
    rounds: Any
    """Finished groups of each oversampling round."""
    pool: Any
    pool_kv: Any
    """(KV tokens held, end of the prefill in service) of each prefill engine."""
    agenda: Any
    """(time, event): a heap of one row, for events of no engine."""
