"""Replicas that report one after another become rows of the whole pool."""

import pytest

from tuner.frameworks.base import Alias, Framework
from tuner.frameworks.vllm import FRAMEWORK as VLLM
from tuner.ingest.engine_rows import SILENT_ROUNDS, EngineRows
from tuner.ingest.matching import Matcher
from tuner.ingest.translating import Provenance
from tuner.records import Record

ENGINE = Framework(
    "engine",
    (
        Alias("run", "running"),
        Alias("kv", "kv_usage_frac"),
        Alias("made", "decode_tokens_per_s", counter=True),
    ),
    engine=True,
    copy_labels=("tp_rank",),
)


def pool(*records: Record) -> list[dict[str, float]]:
    rows = EngineRows(Matcher(ENGINE), Provenance(), None)
    for record in records:
        rows.add(record)
    return [dict(row.values) for row in rows.finish()]


def says(engine: str, time_s: float | None = None, **values: float) -> Record:
    return Record(values, time_s=time_s, labels={"engine": engine})


def test_counts_add_up_and_shares_average_over_the_engines() -> None:
    assert pool(says("a", run=10.0, kv=0.2), says("b", run=30.0, kv=0.6)) == [
        {"running": 40.0, "kv_usage_frac": pytest.approx(0.4), "engines": 2.0}
    ]


def test_an_engine_that_speaks_again_starts_a_new_row_in_which_the_others_still_stand() -> None:
    rows = pool(says("a", run=10.0), says("b", run=30.0), says("a", run=20.0))
    assert [row["running"] for row in rows] == [40.0, 50.0]


def test_copies_of_one_engine_count_once() -> None:
    ranks = [Record({"run": 10.0}, labels={"engine": "a", "tp_rank": str(rank)}) for rank in range(4)]
    assert pool(*ranks) == [{"running": 10.0, "engines": 1.0}]


def test_an_engine_that_fell_silent_no_longer_counts() -> None:
    rows = pool(says("a", run=10.0), says("b", run=30.0), *(says("a", run=10.0) for _ in range(SILENT_ROUNDS + 2)))
    assert rows[0]["running"] == 40.0
    assert (rows[-1]["running"], rows[-1]["engines"]) == (10.0, 1.0)


def test_a_running_total_becomes_a_rate_per_engine_and_the_rates_add_up() -> None:
    rows = pool(
        *(says("a", 0.0, made=1000.0), says("b", 0.0, made=5000.0)),
        *(says("a", 10.0, made=3000.0), says("b", 10.0, made=6000.0)),
    )
    assert rows[-1]["decode_tokens_per_s"] == pytest.approx(300.0)


def test_a_restarted_engine_has_no_rate_until_it_speaks_twice() -> None:
    rows = pool(says("a", 0.0, made=9000.0, run=1.0), says("a", 10.0, made=100.0, run=1.0))
    assert "decode_tokens_per_s" not in rows[-1]


def test_nothing_that_means_anything_makes_no_row() -> None:
    assert pool(says("a", unheard=1.0)) == []


def test_a_mean_of_a_histogram_speaks_of_the_time_between_two_scrapes() -> None:
    rows = EngineRows(Matcher(VLLM), Provenance(), None, sampled=True)
    for time_s, total, count in ((0.0, 100.0, 1000.0), (10.0, 140.0, 2000.0), (20.0, 10.0, 100.0)):
        name = "vllm:inter_token_latency_seconds"
        rows.add(Record({f"{name}_sum": total, f"{name}_count": count}, time_s=time_s, labels={"engine": "0"}))
    means = [row.values["tpot_s"] for row in rows.finish()]
    assert means == pytest.approx([0.1, 0.04, 0.1]), "since the start | between two | since the engine's restart"


def test_engines_that_are_scraped_at_their_own_times_stand_in_every_row_until_they_miss_two() -> None:
    rows = EngineRows(Matcher(ENGINE), Provenance(), None, sampled=True)
    for tick in range(6):
        rows.add(says("a", 10.0 * tick, run=1.0))
        if tick < 3:
            rows.add(says("b", 10.0 * tick + 4.0, run=10.0))
        rows.close_round()
    assert [row.values["running"] for row in rows.finish()] == [11.0, 11.0, 11.0, 11.0, 11.0, 1.0]


def test_a_weight_sync_is_seen_while_it_lasts() -> None:
    rows = EngineRows(Matcher(VLLM), Provenance(), None, sampled=True)
    seen = []
    for tick, in_flight in enumerate((0.0, 1.0, 0.0)):
        values = {"vllm:rl_weight_update_operations_in_flight": in_flight, "vllm:num_requests_running": 3.0}
        rows.add(Record(values, time_s=10.0 * tick, labels={"engine": "0"}))
        seen.append(rows.syncing)
    assert seen == [False, True, False]


def test_engines_that_come_back_under_new_names_are_seen_however_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.ingest.engine_rows.REPLICAS_MAX", 8)
    rows = EngineRows(Matcher(ENGINE), Provenance(), 4, sampled=True)
    for tick in range(60):
        rows.add(says(f"pod-{tick // 3}", 10.0 * tick, run=5.0))
        rows.close_round()
    assert [row.values["running"] for row in rows.finish()][-1] == 5.0
