"""The trainer: when a batch is ready, what its step takes, what follows."""

from math import inf

from simulators.event_state import DISCARD_STALE
from simulators.events.buffer import discard_stale, discard_stale_in_order, free_group, pop_order, pop_ring
from simulators.events.layout import (
    GW,
    IDLE,
    NO_GROUP,
    SPENT_PER_S,
    STALENESS_BINS,
    TRAIN_END,
    TRAIN_START,
    TRAINING,
    WAITING,
    C,
    G,
    M,
    N,
    P,
    X,
)
from simulators.events.lists import note
from simulators.events.publishing import publish, publish_wide
from simulators.events.tables import called


@called
def batch_ready(s, wide):
    if wide is not None:
        if s.counts[C.in_order]:
            if s.counts[C.plug] == DISCARD_STALE and s.n[N.in_line] >= s.counts[C.batch_groups]:
                discard_stale_in_order(s)
            return s.n[N.in_line] >= s.counts[C.batch_groups]
        if s.counts[C.plug] == DISCARD_STALE and s.n[N.ring_count] >= s.counts[C.batch_groups]:
            discard_stale(s)
    return s.n[N.ring_count] >= s.counts[C.batch_groups]


@called
def start_training(s, wide):
    """Take a batch from the head of the buffer."""
    tokens, longest = 0, 0
    now, version, batch = s.x[X.now], s.n[N.version], s.counts[C.batch_groups]
    for _ in range(batch):
        if wide is not None and s.counts[C.in_order]:
            g = pop_order(s)
        else:
            g = pop_ring(s)
        row = s.groups[g]
        tokens += row[G.tokens]
        s.x[X.queue_age_s] += now - s.marks[g, M.ready]
        longest = max(longest, int(s.marks[g, M.longest]))
        for member in range(row[G.started]):
            age = version - s.versions[g, member]
            if wide is None or age >= 0:
                s.staleness[min(age, STALENESS_BINS - 1)] += 1
        s.n[N.trained] += row[G.kept]
        s.n[N.trained_groups] += 1
        s.n[N.trained_response] += row[G.response]
        s.n[N.trained_solved] += row[G.solved]
        if 0 < row[G.solved] < row[G.kept]:
            s.n[N.useful] += row[G.kept]
        if wide is not None:
            s.n[N.trained_resumed] += s.groups_wide[g, GW.resumed]
            s.x[X.trained_rollout_s] += s.groups_wide[g, GW.spent] / SPENT_PER_S
            s.groups_wide[g, GW.state] = NO_GROUP
        free_group(s, g)
    s.n[N.trained_tokens] += tokens
    s.n[N.trained_longest] = longest
    s.n[N.since_training] = 0
    s.n[N.training_groups] = batch
    if s.counts[C.freed_at_start]:
        release_slots(s, batch)
    s.n[N.phase] = TRAINING
    seconds = s.rates[P.trainer_base_s] + tokens * s.rates[P.trainer_s_per_token]
    s.x[X.training_s] += seconds
    s.x[X.trainer_at] = now + seconds
    note(s, TRAIN_START, version, batch, tokens)


@called
def release_slots(s, batch):
    """The WIP cap's slots of a batch, with those of its round that were given up."""
    s.n[N.wip] -= batch + s.n[N.owed]
    s.n[N.owed] = 0
    s.n[N.hold_again] = 0


@called
def trainer_event(s, wide):
    """A step ends (and its weights may be published), or the trainer has waited long enough."""
    s.x[X.trainer_at] = inf
    if s.n[N.phase] == WAITING:
        s.n[N.phase] = IDLE
        return
    s.n[N.step] += 1
    step = s.n[N.step]
    note(s, TRAIN_END, step, s.n[N.training_groups], 0)
    if not s.counts[C.freed_at_start]:
        release_slots(s, s.n[N.training_groups])
    s.n[N.training_groups] = 0
    s.n[N.phase] = IDLE
    wait = 0.0
    if step % s.counts[C.validation_interval] == 0:
        wait += s.rates[P.validation_s]
    if step % s.counts[C.checkpoint_interval] == 0:
        wait += s.rates[P.checkpoint_s]
    if step % s.counts[C.sync_interval] == 0:
        if wide is not None:
            if publish_wide(s):
                return  # it waits for the engines to drain
        else:
            s.n[N.version] += 1
            publish(s)
        if s.counts[C.trainer_waits]:
            wait += s.rates[P.sync_s]
    if wait > 0.0:
        s.n[N.phase] = WAITING
        s.x[X.sync_s] += wait
        s.x[X.trainer_at] = s.x[X.now] + wait
