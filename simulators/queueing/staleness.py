"""Mean staleness of fully asynchronous training behind a queue that drops its oldest group.

Applied Compute, "Predicting and Controlling Staleness in Fully Asynchronous RL Training" (July 2026). Assumes
continuous generation, updates in flight, and a group that enters the queue when its last rollout is done.
"""


def drop_oldest_staleness(
    in_flight: float, batch_rollouts: float, queue_batches: float, load: float, tail: float
) -> float:
    """Versions from the first token of a group to its training: before the queue, and in it.

    before = C M / (B max(1, rho)), with M = E[longest of a group] / E[length]
    inside = rho if rho < 1, else (2 q + rho - 1) / (2 rho);  rho = rollout rate / trainer rate
    # C 120, B 240, q 2, rho .63, M 1.42: 1.34 | C = B, q 2, rho 1.07, M 1.44: 3.25
    """
    before = in_flight * tail / (batch_rollouts * max(1.0, load))
    inside = load if load < 1.0 else (2.0 * queue_batches + load - 1.0) / (2.0 * load)
    return before + inside
