"""An M/M/c queue on the same heap and random numbers, for checks and for speed against others."""

from math import inf, log

import numpy as np

from simulators import streams
from simulators.events.draws import uniform
from simulators.events.heaps import bits_of, mark_of, rise, sift
from simulators.events.layout import Compiled
from simulators.events.loop import STAMP, cached
from simulators.streams import ARRIVAL, SERVICE


def _build(stamp: int) -> Compiled:
    def run(key, arrival_s, service_s, customers, busy, line):
        """An M/M/c queue on the engine's heap and random numbers, event by event: mean wait in line and mean number of
        customers there. `busy` is a heap for c servers, `line` a ring for those who wait."""
        if stamp < 0:  # it never is: closed over, so that a kept compilation is of this code (loop.STAMP)
            return inf, inf
        servers = busy.shape[1] // 2 - 1
        now, in_service, head, waiting, waited, area = 0.0, 0, 0, 0, 0.0, 0.0
        arrived, served = 0, 0
        next_arrival = -arrival_s * log(uniform(key, ARRIVAL, 0, 0, 0))
        while served < customers:
            leaves = mark_of(busy[0, 0]) if in_service > 0 else inf
            last, now = now, min(next_arrival, leaves)
            area += waiting * (now - last)
            if next_arrival <= leaves:
                arrived += 1
                next_arrival = now - arrival_s * log(uniform(key, ARRIVAL, arrived, 0, 0))
                if in_service < servers:
                    end = now - service_s * log(uniform(key, SERVICE, served, 0, 0))
                    rise(busy, 0, in_service, bits_of(end), served)
                    in_service += 1
                    served += 1
                    continue
                if waiting == line.shape[0]:
                    return inf, inf
                line[(head + waiting) % line.shape[0]] = now
                waiting += 1
                continue
            if waiting == 0:
                in_service -= 1
                if in_service > 0:
                    sift(busy, 0, in_service, busy[0, 2 * in_service], busy[0, 2 * in_service + 1])
                continue
            waited += now - line[head]
            head = (head + 1) % line.shape[0]
            waiting -= 1
            end = now - service_s * log(uniform(key, SERVICE, served, 0, 0))
            sift(busy, 0, in_service, bits_of(end), served)
            served += 1
        return waited / served, area / now

    return run


MULTI_SERVER = cached(_build(STAMP))


def multi_server(servers: int, arrivals_per_s: float, service_s: float, customers: int, seed: int = 0) -> float:
    """Mean wait of an M/M/c queue in seconds, over so many customers (for checks, and for speed against others)."""
    busy, line = np.zeros((1, 2 * servers + 2), np.int64), np.zeros(1 << 20)
    key = np.uint64(streams.seed_key(seed)).astype(np.int64)
    return float(MULTI_SERVER(key, 1.0 / arrivals_per_s, service_s, customers, busy, line)[0])
