"""The other structure: the same lengths on average with a longer tail than is stated, as far as nothing refutes it.

A tail hides where few rollouts reach it. Two things that jobs log speak against it:
- **the share that is cut** at the cap: a longer tail is cut more often;
- **the longest of each batch**: with F the law of the longest of a batch, u = F(longest) is anything from 0 to 1 alike
  where the law is right (probability integral transform: Rosenblatt 1952). Where the tail is too long, what is seen
  lies low in it: a mean of u under 1/2 by CLEAR standard errors, 1 / sqrt(12 m) over m steps, refutes it.

Members of a group share a part of their length, its `between_prompt_frac` r: of G groups of k with z = (ln x - mu) / s

    F(x) = (integral of phi(y) Phi((z - sqrt(r) y) / sqrt(1 - r))^k dy)^G
# 32 groups of 8, r 0.3, s 0.8: the median of the longest is 6.6 means; with s 1.2 it is 13 means
"""

from collections.abc import Sequence
from dataclasses import replace
from math import erf, erfc, exp, inf, log, pi, sqrt

from policies.fitted import RECENT, with_clipped_mean
from policies.following import mean_of
from policies.outlook import CLEAR
from policies.readings import ROWS_MIN, batches_in_flight, kept_rows
from simulators.analytic.rollout import clipped_mean
from simulators.plant import Observation
from simulators.signals import TINY
from simulators.snapshot import Row
from simulators.workload import Workload

HIDDEN_TAIL = 1.5
"""Lengths scatter at most this much more than they are stated to."""
SIGMA_LEAST = 0.3
HALVINGS = 12
FILLS = 2.0
"""Times as many steps as batches are in flight, and the first ones have left no trace."""
STEP, REACH = 0.5, 4.0
"""Of the integral: a trapezoid rule over a normal density is exact to many digits with such steps."""
NODES = tuple(
    (y, STEP * exp(-y * y / 2.0) / sqrt(2.0 * pi))
    for y in (STEP * i - REACH for i in range(round(2.0 * REACH / STEP) + 1))
)


def widest(work: Workload, group_size: int, seen: Observation) -> Workload:
    """The same lengths on average with as much more scatter as is not refuted.

    # sigma 0.8, 12k tokens, cap 64k: 0.6 % are cut; with 1.2 it is 2.5 %, and where 0.6 % are seen nothing is hidden
    """
    allowed, longest = _cut_at_most(seen, group_size), _longest(work, seen)

    def refuted(wide: Workload) -> bool:
        return (allowed is not None and _cut_share(wide) > allowed) or _too_long(wide, longest, group_size)

    sigma, most = work.response.sigma, max(SIGMA_LEAST, work.response.sigma) * HIDDEN_TAIL
    if not refuted(scattered(work, most)):
        return scattered(work, most)
    for _ in range(HALVINGS):
        middle = (sigma + most) / 2.0
        sigma, most = (sigma, middle) if refuted(scattered(work, middle)) else (middle, most)
    return scattered(work, sigma)


def scattered(work: Workload, sigma: float) -> Workload:
    """Other scatter around the same mean after the cut."""
    response = replace(work.response, sigma=sigma, quantiles=())
    return replace(work, response=with_clipped_mean(response, clipped_mean(work.response)))


# ---- by what is cut ----


def _cut_share(work: Workload) -> float:
    """Of all rollouts: some turn of theirs is as long as is allowed."""
    lengths = work.response
    if lengths.max_tokens is None or lengths.sigma <= 0.0:
        return 0.0
    z = log(lengths.max_tokens / lengths.mean_tokens) / lengths.sigma + lengths.sigma / 2.0
    return min(1.0, work.turns.mean * 0.5 * erfc(z * sqrt(0.5)))


def _cut_at_most(seen: Observation, group_size: int) -> float | None:
    """The share of rollouts that reach the cap, and its error; None where it is not logged."""
    rows = [row for row in kept_rows(seen.snapshot)[-RECENT:] if "truncated_frac" in row.values]
    share = mean_of(rows, "truncated_frac")
    groups = sum(row.values.get("batch_rollouts", 0.0) for row in rows) / group_size
    if share is None or groups < 1.0:
        return None
    return share + CLEAR * sqrt(max(share * (1.0 - share), 1.0 / groups) / groups)


# ---- by the longest ----


def _longest(work: Workload, seen: Observation) -> Sequence[Row]:
    """The steps that log it, but a job's first: what is trained first is what was finished first, and short.

    Of several turns none: their sum has another law.
    """
    if work.turns.mean > 1.0:
        return ()
    names = ("resp_len_max", "resp_len_mean", "batch_rollouts")
    rows = [row for row in kept_rows(seen.snapshot) if all(row.values.get(name, 0.0) > TINY for name in names)]
    filled = FILLS * batches_in_flight(seen.snapshot, seen.in_force)
    return [row for row in rows if row.step is None or row.step > filled]


def _too_long(wide: Workload, rows: Sequence[Row], group_size: int) -> bool:
    """Whether the longest of the batches lie too low in the law of such a tail."""
    if len(rows) < ROWS_MIN:
        return False
    places = [_place(wide, row, group_size) for row in rows]
    return sum(places) / len(places) < 0.5 - CLEAR / sqrt(12.0 * len(places))


def _place(wide: Workload, row: Row, group_size: int) -> float:
    """u of one step, its lengths brought to today's mean; at the cap the middle of what may have been above it."""
    lengths, values = wide.response, row.values
    cap, seen = lengths.max_tokens or inf, values["resp_len_max"]
    today = clipped_mean(lengths) / values["resp_len_mean"]
    below = longest_below(wide, min(cap, seen) * today, values["batch_rollouts"] / group_size, group_size)
    return (1.0 + below) / 2.0 if seen >= cap else below


def longest_below(work: Workload, tokens: float, groups: float, group_size: int) -> float:
    """F: the probability that no rollout of so many groups is longer."""
    lengths = work.response
    z = log(tokens / lengths.mean_tokens) / lengths.sigma + lengths.sigma / 2.0
    shared = min(1.0 - TINY, lengths.between_prompt_frac)
    own = sqrt(1.0 - shared)
    one = sum(weight * _normal((z - sqrt(shared) * y) / own) ** group_size for y, weight in NODES)
    return float(min(1.0, one) ** groups)


def _normal(z: float) -> float:
    return 0.5 * (1.0 + erf(z * sqrt(0.5)))
