"""Random numbers keyed by (stream, group, member, turn), and quantiles of the laws.

These are streams.py and distributions.py on arrays.
"""

from math import exp, log

import numpy as np
from numba import njit

from simulators import streams
from simulators.distributions import CELLS, EDGE, EMPIRICAL_SHARED, EXPONENTIAL, FIXED, GEOMETRIC, LOGNORMAL
from simulators.events.layout import K, L
from simulators.events.tables import OPTIONS, called, inlined

_U12, _U27, _U30, _U31 = np.uint64(12), np.uint64(27), np.uint64(30), np.uint64(31)
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STREAM, _GROUP = np.uint64(streams.STREAM_STEP), np.uint64(streams.GROUP_STEP)
_MEMBER, _TURN = np.uint64(streams.MEMBER_STEP), np.uint64(streams.TURN_STEP)
normal_quantile = njit(**OPTIONS)(streams.normal_quantile)
normal_share = njit(**OPTIONS)(streams.normal_share)


@inlined
def uniform(key, stream, group, member, turn):
    word = np.uint64(key) + np.uint64(stream) * _STREAM + np.uint64(group) * _GROUP
    word += np.uint64(member) * _MEMBER + np.uint64(turn) * _TURN
    word = (word ^ (word >> _U30)) * _MIX_A
    word = (word ^ (word >> _U27)) * _MIX_B
    word = word ^ (word >> _U31)
    return (float(np.int64(word >> _U12)) + 0.5) * 2.220446049250313e-16


@called
def exact_quantile(s, law, share):
    """distributions.exact_quantile on arrays."""
    kind = s.kinds[law, K.kind]
    if kind == LOGNORMAL:
        return exp(s.laws[law, L.location] + s.laws[law, L.own_sigma] * normal_quantile(share))
    if kind == EXPONENTIAL:
        return -s.laws[law, L.mean] * log(1.0 - share)
    if kind == GEOMETRIC:
        return 1.0 + float(int(log(1.0 - share) / log(1.0 - 1.0 / s.laws[law, L.mean])))
    if kind == FIXED:
        return s.laws[law, L.mean]
    last = s.kinds[law, K.pairs] - 1
    for i in range(last):
        left, low = s.pairs[law, 2 * i], s.pairs[law, 2 * i + 1]
        right, high = s.pairs[law, 2 * i + 2], s.pairs[law, 2 * i + 3]
        if share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return s.pairs[law, 2 * last + 1]


@inlined
def quantile(s, law, share):
    if EDGE < share < 1.0 - EDGE:
        place = share * CELLS
        cell = int(place)
        low = s.tables[law, cell]
        return low + (place - cell) * (s.tables[law, cell + 1] - low)
    return exact_quantile(s, law, share)


@inlined
def drawn(s, law, share, score):
    """A quantile, moved by the prompt's score where an empirical law shares part of its variance."""
    if s.kinds[law, K.kind] == EMPIRICAL_SHARED:
        own = s.laws[law, L.root_own] * normal_quantile(share)
        share = normal_share(s.laws[law, L.root_shared] * score + own)
    return quantile(s, law, share)


@inlined
def tokens_of(s, law, value):
    return max(1, min(s.kinds[law, K.limit], int(value + 0.5)))
