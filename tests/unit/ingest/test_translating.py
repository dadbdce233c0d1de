"""From a writer's own keys to our signals."""

from math import inf, nan

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Alias, Framework
from tuner.ingest.history import RawRow
from tuner.ingest.matching import Matcher
from tuner.ingest.translating import Provenance, translate_rows

WRITER = Framework(
    "writer",
    (
        Alias("step_ms", "step_s", scale=1e-3),
        Alias("step", "step_s", trust=0.5),
        Alias("gen", "rollout_s", only=Mode.SERIAL),
        Alias("gen", "trainer_wait_s", only=Mode.OVERLAPPED),
        Alias("fwd", "update_s", add=True),
        Alias("bwd", "update_s", add=True),
        Alias("len/*/max", "resp_len_max"),
        Alias("lost", "preemptions_per_s", counter=True),
        Alias("dropped", "dropped_stale", counter=True),
        Alias("mfu", "mfu"),
    ),
)


def translated(
    *rows: dict[str, float], mode: Mode = Mode.SERIAL, seen: Provenance | None = None
) -> list[dict[str, float]]:
    raw = [RawRow(values, i, 10.0 * i, i, origin=f"log:{i}") for i, values in enumerate(rows)]
    return [dict(r.values) for r in translate_rows(Matcher(WRITER), raw, mode, seen or Provenance())]


def test_values_are_scaled_to_our_units() -> None:
    assert translated({"step_ms": 1500.0}) == [{"step_s": 1.5}]


def test_the_more_trusted_of_two_keys_wins_and_is_named() -> None:
    seen = Provenance()
    assert translated({"step": 9.0, "step_ms": 1500.0}, seen=seen) == [{"step_s": 1.5}]
    assert (seen.trust["step_s"], seen.keys["step_s"]) == (1.0, ("step_ms",))


def test_a_key_means_what_the_mode_says() -> None:
    assert translated({"gen": 5.0}) == [{"rollout_s": 5.0}]
    assert translated({"gen": 5.0}, mode=Mode.OVERLAPPED) == [{"trainer_wait_s": 5.0}]
    assert translated({"gen": 5.0}, mode=Mode.UNKNOWN) == [{}]


def test_parts_add_up_and_domains_fold() -> None:
    assert translated({"fwd": 2.0, "bwd": 3.0}) == [{"update_s": 5.0}]
    assert translated({"len/math/max": 800.0, "len/code/max": 1200.0}) == [{"resp_len_max": 1200.0}]


def test_a_running_total_is_a_difference_per_second_or_per_step() -> None:
    assert translated({"lost": 10.0, "dropped": 4.0}, {"lost": 30.0, "dropped": 9.0}) == [
        {},
        {"preemptions_per_s": pytest.approx(2.0), "dropped_stale": 5.0},
    ]


def test_a_total_that_was_reset_says_nothing_once() -> None:
    assert translated({"dropped": 9.0}, {"dropped": 2.0}, {"dropped": 3.0}) == [{}, {}, {"dropped_stale": 1.0}]


def test_an_impossible_value_is_not_used_and_remembered_with_its_place() -> None:
    seen = Provenance()
    assert translated({"mfu": 1.018}, {"mfu": 2.0}, {"mfu": 0.4}, seen=seen) == [{}, {}, {"mfu": 0.4}]
    assert seen.impossible["mfu"] == ("mfu", 1.018, "log:0", 2)


def test_nan_is_absent_and_infinity_impossible() -> None:
    seen = Provenance()
    assert translated({"mfu": nan, "step": inf}, seen=seen) == [{}]
    assert seen.impossible.keys() == {"step_s"}
