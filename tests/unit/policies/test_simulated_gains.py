"""Gains behind which the queueing model is weak: checked by the event engine where it is at hand, else said so."""

from policies.base import Advice
from policies.recommendations import advise
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Snapshot, snapshot_of

OVERLAPPED = Topology(mode=Mode.OVERLAPPED, gpus_total=16, gpus_per_engine=1, max_response_tokens=4096)
DRAINED = Setpoints(
    gpus_trainer=8,
    gpus_generator=8,
    overlap=True,
    in_flight_update=False,
    group_size=8,
    batch_rollouts=256,
    staleness_bound=2.0,
)
STARVING = {"step_s": 60.0, "trainer_wait_s": 40.0, "trainer_busy_s": 20.0, "resp_len_mean": 900.0}


def advised(setpoints: Setpoints, at_hand: bool | None) -> Advice:
    engine = None if at_hand is None else lambda: at_hand
    return advise(OVERLAPPED, setpoints, seen(), engine_at_hand=engine)


def seen() -> Snapshot:
    return snapshot_of(**STARVING)


def reason_of(advice: Advice, knob: str) -> str:
    return next(r.reason for r in advice.recommendations if r.knob == knob)


def codes(advice: Advice) -> set[str]:
    return {finding.code for finding in advice.diagnosis.findings}


def test_a_weak_gain_is_simulated_and_the_reason_says_what_came_out() -> None:
    advice = advised(DRAINED, at_hand=True)
    assert "Simulated, because weights come by drain" in reason_of(advice, "in_flight_update")
    assert "gain-unchecked" not in codes(advice)


def test_without_a_compiled_engine_the_answer_says_that_nothing_was_checked_and_how() -> None:
    advice = advised(DRAINED, at_hand=False)
    told = next(f.detail for f in advice.diagnosis.findings if f.code == "gain-unchecked")
    assert "in_flight_update on: weights come by drain" in told
    assert "make warm" in told
    assert "Simulated" not in reason_of(advice, "in_flight_update")


def test_where_nothing_is_weak_no_engine_is_asked() -> None:
    def never() -> bool:
        raise AssertionError("asked for the engine")

    serial = snapshot_of(step_s=100.0, rollout_s=60.0, trainer_busy_s=35.0)
    advice = advise(Topology(mode=Mode.SERIAL, gpus_total=8), Setpoints(overlap=False), serial, engine_at_hand=never)
    assert [r.knob for r in advice.recommendations][:1] == ["overlap"]
    assert advice == advise(Topology(mode=Mode.SERIAL, gpus_total=8), Setpoints(overlap=False), serial)
