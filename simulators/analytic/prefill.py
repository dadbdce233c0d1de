"""Prefill engines of their own in front of the decoding ones.

A turn passes the pool before it decodes: wait of M/M/c, prefill, transfer of its KV. The pool is a ceiling too: no more
turns per second than its engines can prefill. That its KV stays occupied until a decoder admits it is not modelled
here (blocking after service): P/D jobs are in the weak rule.
"""

import math

from simulators.queueing.stations import mmc_wait
from simulators.stations import PrefillPool


def prefill_pause_s(pool: PrefillPool, engines: int, tokens: float, turns_per_s: float) -> float:
    """Seconds between the wish for a turn and its first decoded token. Half of M/M/c's wait: lengths vary little."""
    service = tokens * pool.prefill_s_per_token
    transfer = pool.transfer_base_s + tokens * pool.transfer_s_per_token
    wait = 0.5 * mmc_wait(engines, turns_per_s * service)
    return transfer + service * (1.0 + min(wait, 1e6)) if math.isfinite(wait) else 1e6 * service + transfer
