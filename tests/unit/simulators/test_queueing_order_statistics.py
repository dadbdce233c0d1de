"""The longest of a group, against printed maxima, exact sums and drawn samples."""

import math
import random

import pytest

from simulators.queueing.order_statistics import Part, clipped_moments, harmonic, mixture, normal_nodes


@pytest.mark.parametrize(("members", "longest"), [(4, 2.2081), (8, 3.0838), (16, 4.1697), (64, 7.0731)])
def test_longest_of_lognormals(members: int, longest: float) -> None:
    law = mixture([(1.0, [Part(1.0, 5.0, 1.0)])])
    assert law.longest(members) / 5.0 == pytest.approx(longest, abs=2e-4)


@pytest.mark.parametrize(("share", "longest"), [(0.0, 3.08), (0.5, 2.35), (0.75, 1.89)])
def test_answers_to_one_prompt_resemble_each_other(share: float, longest: float) -> None:
    nodes = normal_nodes(11) if share else ((1.0, 0.0),)
    law = mixture(
        [(w, [Part(1.0, math.exp(math.sqrt(share) * z - share / 2), math.sqrt(1 - share))]) for w, z in nodes]
    )
    assert law.mean() == pytest.approx(1.0, abs=2e-3)
    assert law.longest(8) == pytest.approx(longest, abs=6e-3)


@pytest.mark.parametrize(("members", "longest"), [(4, 2.0833), (8, 2.7179), (16, 3.3807), (64, 4.7439)])
def test_longest_of_exponentials(members: int, longest: float) -> None:
    assert harmonic(members) == pytest.approx(longest, abs=5e-5)


def test_cut_lengths_keep_their_moments() -> None:
    draw = random.Random(5)
    sample = [min(3.0, draw.lognormvariate(-0.32, 0.8)) for _ in range(200_000)]
    first, second = clipped_moments(1.0, 0.8, 3.0)
    assert first == pytest.approx(sum(sample) / len(sample), rel=5e-3)
    assert second == pytest.approx(sum(x * x for x in sample) / len(sample), rel=1e-2)
    law = mixture([(1.0, [Part(1.0, 1.0, 0.8, 3.0)])])
    assert law.mean() == pytest.approx(first, rel=2e-3)
    assert law.longest(1000) == pytest.approx(3.0, rel=2e-3)


def test_a_constant_is_its_own_maximum() -> None:
    law = mixture([(1.0, [Part(1.0, 7.0, 0.0)])])
    assert law.longest(16) == pytest.approx(7.0, rel=2e-3)
    assert law.curve().over(6.9) > 0.99
    assert law.curve().over(7.1) == 0.0


def test_quantiles_and_tails_agree() -> None:
    curve = mixture([(1.0, [Part(1.0, 1.0, 1.0)])]).curve()
    assert curve.quantile(0.5) == pytest.approx(math.exp(-0.5), rel=5e-3)
    assert curve.mean == pytest.approx(1.0, abs=2e-4)
    assert curve.beyond(2.0) + curve.at_most(2.0) == pytest.approx(1.0, abs=2e-4)
    assert curve.over(2.0) == pytest.approx(0.5 * math.erfc((math.log(2.0) + 0.5) / math.sqrt(2.0)), abs=2e-3)


def test_a_stretched_law_is_the_law_of_stretched_parts() -> None:
    parts = [Part(0.6, 2.0, 0.9, 9.0), Part(0.4, 5.0, 0.3, 9.0)]
    stretched = mixture([(1.0, parts)]).scaled(7.0)
    drawn_anew = mixture([(1.0, [Part(p.weight, 7.0 * p.mean, p.sigma, 7.0 * p.cap) for p in parts])])
    for members in (1.0, 8.0):
        one, other = stretched.curve(members), drawn_anew.curve(members)
        assert one.mean == pytest.approx(other.mean, rel=1e-12)
        assert [one.over(x) for x in (1.0, 10.0, 40.0)] == pytest.approx([other.over(x) for x in (1.0, 10.0, 40.0)])


def test_sums_in_a_row_are_the_sums_of_what_is_asked_one_by_one() -> None:
    curve = mixture([(1.0, [Part(1.0, 1.0, 1.0)])]).curve()
    points = [-0.2 + 0.3 * i for i in range(200)]
    assert curve.over_sum(-0.2, 0.3, 200) == pytest.approx(sum(map(curve.over, points)), abs=1e-7)
    assert curve.at_most_sum(-0.2, 0.3, 200) == pytest.approx(sum(map(curve.at_most, points)), rel=1e-7)
