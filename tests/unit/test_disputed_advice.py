"""Verdicts and changes that a reader of real figures would dispute if they were otherwise."""

from collections.abc import Mapping
from dataclasses import replace

from policies.base import Advice, Verdict
from policies.recommendations import advise
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Row, Snapshot
from simulators.window import assemble

STREAM = {"step_s": 300.0, "trainer_wait_s": 110.0, "trainer_busy_s": 190.0, "generator_wait_s": 1.0}
TAIL = {"rollout_latency_s": 120.0, "slowest_s": 400.0, "inflight_rollouts": 2000.0, "inflight_limit": 2048.0}
SPLIT = Setpoints(gpus_trainer=96, gpus_generator=32, overlap=True, staleness_bound=0.5)


def steps(values: Mapping[str, float], count: int = 8) -> Snapshot:
    return assemble([Row(dict(values), i, None) for i in range(count)])


def overlapped(values: Mapping[str, float], setpoints: Setpoints) -> Advice:
    return advise(Topology(mode=Mode.OVERLAPPED, gpus_per_engine=4), setpoints, steps(values))


def knobs(advice: Advice) -> list[str]:
    return [r.knob for r in advice.recommendations]


def test_a_slow_rollout_holds_nothing_up_while_every_place_in_flight_is_taken() -> None:
    full = overlapped(STREAM | TAIL, SPLIT)
    assert full.diagnosis.verdict is Verdict.GENERATION_BOUND
    assert "pruning" not in knobs(full)
    draining = overlapped(STREAM | TAIL | {"inflight_rollouts": 700.0}, SPLIT)
    assert draining.diagnosis.verdict is Verdict.TAIL_BOUND


def test_a_staleness_bound_that_never_stops_the_generator_is_left_alone() -> None:
    assert "staleness_bound" not in knobs(overlapped(STREAM | TAIL, SPLIT))
    gated = overlapped(STREAM | TAIL | {"generator_wait_s": 60.0}, SPLIT)
    assert "staleness_bound" in knobs(gated)


def test_packing_promises_a_gain_only_where_it_is_known_to_be_off() -> None:
    busy = {"step_s": 290.0, "trainer_wait_s": 18.0, "trainer_busy_s": 265.0, "generator_wait_s": 120.0, "mfu": 0.09}
    gains = {
        packing: [r.gain_frac for r in overlapped(busy, replace(SPLIT, packing=packing)).recommendations
                  if r.knob == "packing"]
        for packing in (None, True, False)
    }  # fmt: skip
    assert gains[None] == [None]
    assert gains[True] == []
    assert [g is not None for g in gains[False]] == [True]


def test_activations_that_are_kept_already_are_not_advised_to_be_kept() -> None:
    busy = {"step_s": 290.0, "trainer_wait_s": 3.0, "trainer_busy_s": 280.0, "generator_wait_s": 120.0}
    current = {
        known: [
            r.current
            for r in overlapped(busy, replace(SPLIT, packing=True, activation_checkpointing=known)).recommendations
            if r.knob == "activation_checkpointing"
        ]
        for known in (None, True, False)
    }
    assert current == {None: [None], True: ["on"], False: []}


def test_unpacked_training_is_named_beside_a_slower_generation_that_takes_turns_with_it() -> None:
    step = {"step_s": 260.0, "rollout_s": 150.0, "trainer_busy_s": 100.0}
    packing = {
        known: "packing" in knobs(advise(Topology(mode=Mode.SERIAL), Setpoints(packing=known), steps(step)))
        for known in (False, True)
    }
    assert packing == {False: True, True: False}


def waves(queue_share: float, kv_usage: float = 0.13) -> Advice:
    """An hour of an engine that serves a synchronous job: each batch comes at once, drains, and ends with a pause."""
    scrapes = []
    for i in range(120):
        begins = i % 12 < 12 * queue_share
        values = {"running": 64.0, "queued": 150.0} if begins else {"running": 58.0 - 4.0 * (i % 12), "queued": 0.0}
        scrapes.append(Row(values | {"kv_usage_frac": kv_usage}, None, 30.0 * i))
    return advise(Topology(mode=Mode.ENGINE), Setpoints(), assemble([], scrapes))


def test_a_queue_at_the_start_of_every_batch_shows_a_cap() -> None:
    advice = waves(0.5)
    assert advice.diagnosis.verdict is Verdict.CONCURRENCY_CAPPED
    first = advice.recommendations[0]
    assert (first.knob, first.current) == ("max_in_flight", 64.0)
    assert isinstance(first.proposed, float)
    assert 64.0 < first.proposed <= 64.0 + 150.0


def test_a_rare_queue_or_a_full_pool_shows_no_cap() -> None:
    assert waves(0.08).diagnosis.verdict is not Verdict.CONCURRENCY_CAPPED
    assert waves(0.5, kv_usage=0.8).diagnosis.verdict is not Verdict.CONCURRENCY_CAPPED


def test_tool_time_is_asked_for_first_where_there_are_tools_and_not_at_all_where_there_are_none() -> None:
    def missing(turns: float | None) -> list[str]:
        step = {"step_s": 260.0, "rollout_s": 150.0, "trainer_busy_s": 100.0}
        known = step if turns is None else step | {"turns_mean": turns}
        return [m.signal for m in advise(Topology(mode=Mode.SERIAL), Setpoints(), steps(known)).missing]

    assert missing(12.0)[0] == "non_generation_mean_s"
    assert "non_generation_mean_s" in missing(None)[1:]
    assert "non_generation_mean_s" not in missing(2.0)


def test_a_step_whose_time_follows_from_its_phases_is_not_called_missing() -> None:
    advice = advise(Topology(mode=Mode.SERIAL), Setpoints(), steps({"rollout_s": 150.0, "trainer_busy_s": 100.0}))
    assert "step_s" not in [m.signal for m in advice.missing]


def test_a_trainer_that_is_the_limit_asks_for_nothing_about_the_engines() -> None:
    step = {"step_s": 260.0, "rollout_s": 60.0, "trainer_busy_s": 190.0}
    wanted = [m.signal for m in advise(Topology(mode=Mode.SERIAL), Setpoints(), steps(step)).missing]
    assert wanted[0] == "mfu"
    assert set(wanted) & {"running", "kv_usage_frac", "slowest_s"} == set()


def test_a_queue_that_came_once_and_went_shows_no_cap() -> None:
    once = [(64.0, 150.0)] * 40 + [(60.0, 0.0)] * 80
    scrapes = [Row({"running": r, "queued": q, "kv_usage_frac": 0.1}, None, 30.0 * i) for i, (r, q) in enumerate(once)]
    advice = advise(Topology(mode=Mode.ENGINE), Setpoints(), assemble([], scrapes))
    assert advice.diagnosis.verdict is not Verdict.CONCURRENCY_CAPPED
