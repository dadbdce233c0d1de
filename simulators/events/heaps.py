"""Who is next: binary heaps and tournament trees of (mark, who).

Whoever waits has a mark: a time, a clock's reading or a number of rollouts. None is negative, so the bits of a mark
rise with it: heaps and trees keep (bits of the mark, who) in two words, which compare as one number of 128 bits (in
the functions here `mark` is those bits). Which of two is smaller is a coin toss, and of numbers in words LLVM makes
a conditional move, not a branch.
"""

from math import inf

import numpy as np

from simulators.events.layout import LINE, R
from simulators.events.tables import called, inlined, prefetch, sooner

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
"""Indices without a sign, for numba adds code for negative ones."""
_FAR, _NEAR, _NEXT = np.uint64(511), np.uint64(127), np.uint64(15)
"""Last nodes of the rounds that leave 256, 64 and 8 of a tournament's players."""
_FETCHED = 16 * LINE
"""Words of a heap that are fetched ahead: its six upper levels."""
INF_BITS = int(np.float64(inf).view(np.int64))


@inlined
def bits_of(mark):
    return np.float64(mark).view(np.int64)


@inlined
def mark_of(bits):
    return np.int64(bits).view(np.float64)


@inlined
def sift(rows, e, size, mark, who):
    """Put (mark, who) into the hole at the root of a heap of `size`: the hole sinks to a leaf, the new one rises."""
    e, size = np.uint64(e), np.uint64(size)
    i, child = _ZERO, _ONE
    while child + _ONE < size:
        a, b = _TWO * child, _TWO * child + _TWO
        child += np.uint64(sooner(rows[e, b], rows[e, b + _ONE], rows[e, a], rows[e, a + _ONE]))
        rows[e, _TWO * i] = rows[e, _TWO * child]
        rows[e, _TWO * i + _ONE] = rows[e, _TWO * child + _ONE]
        i = child
        child = _TWO * child + _ONE
    if child < size:
        rows[e, _TWO * i] = rows[e, _TWO * child]
        rows[e, _TWO * i + _ONE] = rows[e, _TWO * child + _ONE]
        i = child
    rise(rows, e, i, mark, who)


@inlined
def rise(rows, e, i, mark, who):
    e, i = np.uint64(e), np.uint64(i)
    while i > _ZERO:
        parent = (i - _ONE) >> _ONE
        above, owner = rows[e, _TWO * parent], rows[e, _TWO * parent + _ONE]
        if sooner(above, owner, mark, who):
            break
        rows[e, _TWO * i] = above
        rows[e, _TWO * i + _ONE] = owner
        i = parent
    rows[e, _TWO * i] = mark
    rows[e, _TWO * i + _ONE] = who


@inlined
def climb(tree, node, mark, who, last):
    """Play the matches of a node's winner again, until the round that ends with node `last` (1: to the root). The lower
    number wins a tie. Returns the node reached, and the mark and number of its winner."""
    while node > last:
        other = node ^ _ONE
        rival, stranger = tree[_TWO * other], tree[_TWO * other + _ONE]
        beaten = sooner(rival, stranger, mark, who)
        mark = rival if beaten else mark
        who = stranger if beaten else who
        node >>= _ONE
        tree[_TWO * node] = mark
        tree[_TWO * node + _ONE] = who
    return node, mark, who


@inlined
def leaf_of(tree, leaf, mark):
    node = np.uint64(tree.shape[0] >> 2) + np.uint64(leaf)
    tree[_TWO * node] = mark
    return node


@inlined
def replay(tree, leaf, mark):
    """One leaf's mark changed."""
    climb(tree, leaf_of(tree, leaf, mark), mark, np.int64(leaf), _ONE)


@inlined
def schedule(s, e, at):
    """The engine's next event is at this time: who is the soonest of all now?

    The state of many engines is larger than the caches near the processor, and an event reads its engine, heap,
    rollout and group one after the other. But whoever comes to the fore among 1/256 of the engines will be the next of
    these, as will later, among 1/64 and 1/8 of all. So each of these rounds fetches what the round before has shown
    the way to. (A heap without residents names a rollout of old, which does no harm.)"""
    mark, who = bits_of(at), np.int64(e)
    node = leaf_of(s.tree, e, mark)
    if node > _NEAR:
        node, mark, who = climb(s.tree, node, mark, who, _FAR)
        prefetch(s.clocks, who, 0)
        for column in range(0, min(_FETCHED, s.heap.shape[1]), LINE):
            prefetch(s.heap, who, column)
        node, mark, who = climb(s.tree, node, mark, who, _NEAR)
        prefetch(s.rollouts, s.heap[who, 1], 0)
        node, mark, who = climb(s.tree, node, mark, who, _NEXT)
        g = s.rollouts[s.heap[who, 1], R.group]
        prefetch(s.groups, g, 0)
        prefetch(s.marks, g, 0)
    climb(s.tree, node, mark, who, _ONE)


@called
def remove(rows, e, size, who):
    """Out of the middle of a heap."""
    i = 0
    while rows[e, 2 * i + 1] != who:
        i += 1
    last = size - 1
    if i == last:
        return
    mark, moved = rows[e, 2 * last], rows[e, 2 * last + 1]
    child = 2 * i + 1
    while child < last:
        a, b = 2 * child, 2 * child + 2
        if child + 1 < last and sooner(rows[e, b], rows[e, b + 1], rows[e, a], rows[e, a + 1]):
            child += 1
        rows[e, 2 * i] = rows[e, 2 * child]
        rows[e, 2 * i + 1] = rows[e, 2 * child + 1]
        i = child
        child = 2 * i + 1
    rise(rows, e, i, mark, moved)
