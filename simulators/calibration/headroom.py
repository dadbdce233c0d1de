"""How much faster the generator could be than it is asked to: by what it waits, by its queue, or by belief.

A queue of finished rollouts that the trainer finds full holds the generator up; one that it finds with room did not.
The room W before a batch is taken, in batches, is a random walk that is reflected at 0: each step takes a batch and
the generator, were it not held up, makes 1 + d of one, with a relative scatter s. Kingman (1962) bounds its mean,

    E[W] <= s^2 / (2 d)        so        headroom = 1 + d <= 1 + s^2 / (2 W)

and s^2 is that of a batch's tokens (groups of G, whose lengths share h of their variance) and of the step's time:

    s^2 = CV^2 (1 + (G - 1) h) / n + STEP_SCATTER^2

    # room for 0.2 batches, n 256, G 8, CV 0.8, h 0.5: s 0.15, headroom at most 1.05
    # the same of a queue that is read when its batch is gone (room 1.2): the same; read with room 0.9: nothing is told
"""

from math import expm1

from simulators.calibration.priors import HEADROOM, STEP_SCATTER, Prior
from simulators.plant import Setpoints
from simulators.snapshot import Snapshot


def queue_room(snapshot: Snapshot) -> float | None:
    """Room in the queue when the trainer begins to take a batch, in batches; at least that much.

    None where no bounded queue is logged, or where its depth could also be that of one found full: a depth that is
    read while a batch is taken or after it lacks that much of the batch (`queue_taken_frac`; unknown: all of it).
    """
    depth, capacity, batch = (snapshot.get(name) for name in ("queue_depth", "queue_capacity", "batch_rollouts"))
    if depth is None or not capacity or not batch:
        return None
    taken = snapshot.get("queue_taken_frac")
    room = (capacity - depth) / batch - (1.0 if taken is None else taken)
    return room if room > 0.0 else None


def scatter_frac(sigma: float, between_prompt_frac: float, setpoints: Setpoints) -> float:
    """Relative deviation of what the generator makes while one batch is trained: lognormal lengths, and the step."""
    size, group = setpoints.batch_rollouts or 1, setpoints.group_size or 1
    lengths = expm1(sigma**2) * (1.0 + (group - 1) * between_prompt_frac) / size
    return float((lengths + STEP_SCATTER**2) ** 0.5)


def headroom_of(room: float | None, scatter: float) -> Prior:
    """What is believed of the headroom, given the room that the trainer finds in the queue."""
    if room is None:
        return HEADROOM
    return Prior(HEADROOM.low, min(HEADROOM.high, 1.0 + 0.5 * scatter**2 / room))
