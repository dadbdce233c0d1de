"""The predictive law goes where its model says it pays, and nowhere else."""

from dataclasses import dataclass, field, replace

import pytest

from policies.climbing import FLAT
from policies.control import Capability, Hold, Proposal, View
from policies.laws.predictive import Predictive
from policies.options import next_ratios
from policies.settings import ACTED, knobs_of, merged, with_in_flight
from simulators.analytic import AnalyticModel
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.plant import Bounds, Change, Setpoints, Topology
from simulators.scenario import job_at
from simulators.snapshot import snapshot_of
from simulators.workload import Workload
from tuner.scenario_files import load

LIMIT = frozenset({"max_in_flight"})
CAPABILITIES = tuple(Capability(knob, actuation_s=60.0, cost_s=5.0) for knob in ACTED)


def job_of(name: str, **setpoints: int) -> Job:
    job = job_at(load(name).scenario, 0, 0.0)
    return replace(job, setpoints=replace(job.setpoints, **setpoints))


def view_of(job: Job, *knobs: str, bounds: Bounds | None = None) -> View:
    return View(
        10_000.0,
        snapshot_of(step_s=80.0),
        job.setpoints,
        job.topology,
        bounds=bounds or Bounds(gpus_trainer_min=32),
        doubt=2e-4,
        capabilities=tuple(c for c in CAPABILITIES if c.knob in knobs),
        horizon_s=21600.0,
        model=AnalyticModel(job.stations),
        workload=job.workload,
    )


def useful(view: View, settings: Setpoints) -> float:
    assert view.model is not None
    assert view.workload is not None
    return view.model.predict(view.topology, view.workload, settings).useful_rollouts_per_s


@pytest.mark.parametrize(("trainer", "smaller"), [(112, True), (40, False)])
def test_gpus_go_to_the_side_that_is_slower(trainer: int, smaller: bool) -> None:
    job = job_of("steady-noise-24h", gpus_trainer=trainer, gpus_generator=256 - trainer)
    answer = Predictive().decide(view_of(job, "gpus_trainer"))
    assert isinstance(answer, Proposal)
    assert answer.changes.gpus_trainer is not None
    assert (answer.changes.gpus_trainer < trainer) is smaller


def test_the_split_it_finds_is_the_best_on_the_lattice_within_two_percent() -> None:
    view = view_of(job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144), "gpus_trainer")
    answer = Predictive().decide(view)
    assert isinstance(answer, Proposal)
    splits = [replace(view.in_force, gpus_trainer=t, gpus_generator=256 - t) for t in range(32, 249, 8)]
    best = max(useful(view, split) for split in splits)
    assert useful(view, merged(view.in_force, answer.changes)) >= 0.98 * best


@dataclass(frozen=True)
class Counting:
    """A model that notes what it is asked."""

    model: AnalyticModel
    asked: list[Setpoints] = field(default_factory=list)

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        self.asked.append(setpoints)
        return self.model.predict(topology, workload, setpoints)


def test_of_a_fleet_with_thousands_of_splits_it_finds_one_as_good_as_the_best_and_asks_for_few() -> None:
    """2,400 engines: nine lattice steps more or less are worth the same."""
    job = job_of("steady-noise-24h", gpus_trainer=11200, gpus_generator=14400, batch_rollouts=51200)
    job = replace(job, topology=replace(job.topology, gpus_total=25600))
    model = Counting(AnalyticModel(job.stations))
    answer = Predictive().decide(replace(view_of(job, "gpus_trainer"), model=model))
    assert isinstance(answer, Proposal)
    assert len(model.asked) <= 32
    splits = [replace(job.setpoints, gpus_trainer=t, gpus_generator=25600 - t) for t in range(2400, 11200, 40)]
    best = max(useful(view_of(job), split) for split in splits)
    assert max(useful(view_of(job), split) for split in model.asked) >= 0.998 * best
    assert useful(view_of(job), merged(job.setpoints, answer.changes)) >= 0.98 * best


def test_the_prefill_split_it_finds_is_the_best_within_two_percent() -> None:
    job = job_of("tool-calls-20-to-51", gpus_prefill=112, gpus_decode=48)
    view = view_of(job, "prefill_decode_split", bounds=Bounds())
    answer = Predictive().decide(view)
    assert isinstance(answer, Proposal)
    pools = [replace(view.in_force, gpus_prefill=p, gpus_decode=160 - p) for p in range(16, 160, 16)]
    best = max(useful(view, pool) for pool in pools)
    assert useful(view, merged(view.in_force, answer.changes)) >= 0.98 * best


def test_a_limit_of_each_engine_goes_up_with_the_limit_of_all() -> None:
    """Both are reported where a job knows both; raised alone, the total would change nothing."""
    starved = job_of("steady-noise-24h", max_in_flight=240, max_in_flight_per_engine=12)
    view = view_of(starved, "max_in_flight")
    answer = Predictive().decide(view)
    assert isinstance(answer, Proposal)
    then = merged(view.in_force, answer.changes)
    assert then.max_in_flight is not None
    assert then.max_in_flight > 240
    engines = (then.gpus_generator or 0) // (starved.topology.gpus_per_engine or 1)
    assert (then.max_in_flight_per_engine or 0) * engines >= then.max_in_flight


@pytest.mark.parametrize("total", [None, 2000])
def test_a_limit_of_each_engine_goes_up_alone_where_it_alone_binds(total: int | None) -> None:
    """Engines that are limited one by one, as a server's own limit does it, and no total or one that is far off."""
    view = view_of(job_of("steady-noise-24h", max_in_flight=total, max_in_flight_per_engine=12), "max_in_flight")
    answer = Predictive().decide(view)
    assert isinstance(answer, Proposal)
    each = answer.changes.max_in_flight_per_engine or 0
    assert answer.changes == Setpoints(max_in_flight_per_engine=each)
    assert useful(view, merged(view.in_force, answer.changes)) > 1.2 * useful(view, view.in_force)
    if total is None:
        bound = Predictive().decide(replace(view, bounds=Bounds(max_in_flight_max=24 * (each - 1))))
        assert isinstance(bound, Proposal)
        assert 12 < (bound.changes.max_in_flight_per_engine or 0) < each


@pytest.mark.parametrize(
    ("now", "near"), [(None, [1.125]), (1.075, [1.0, 1.2]), (2.0, [1.875]), (2.5, [2.375]), (1.25, [1.125, 1.375])]
)
def test_oversampling_goes_down_to_none_from_wherever_it_is(now: float | None, near: list[float]) -> None:
    assert next_ratios(Setpoints(oversampling_ratio=now)) == pytest.approx(near)


def restarted(view: View) -> View:
    return replace(view, capabilities=tuple(replace(c, change=Change.RESTART) for c in view.capabilities))


def oversampled_in_vain() -> View:
    """Twice as many groups are started as a batch needs; each is usable."""
    job = job_of("steady-noise-24h")
    knobs = replace(job.setpoints, oversampling_ratio=2.0, filter_zero_adv=False)
    return view_of(replace(job, setpoints=knobs), "oversampling_ratio")


def behind_its_cap(*knobs: str) -> View:
    """Half of the groups end without a signal, and the cap on started groups binds: oversampling widens it."""
    scenario = load("solve-rate-saturates").scenario
    job = job_at(scenario, 250, 0.0, replace(scenario.setpoints, gpus_trainer=320, gpus_generator=1728))
    return restarted(view_of(job, *knobs, bounds=scenario.bounds))


@pytest.mark.parametrize(
    "view", [oversampled_in_vain(), restarted(oversampled_in_vain()), behind_its_cap("oversampling_ratio")]
)
def test_oversampling_goes_all_the_way_at_once_and_no_further(view: View) -> None:
    answer = Predictive().decide(view)
    assert isinstance(answer, Proposal)
    worths = {1.0 + k / 8.0: useful(view, replace(view.in_force, oversampling_ratio=1.0 + k / 8.0)) for k in range(9)}
    enough, start = (1.0 - FLAT) * max(worths.values()), view.in_force.oversampling_ratio or 1.0
    nearest = min((ratio for ratio in worths if worths[ratio] >= enough), key=lambda ratio: abs(ratio - start))
    assert abs(nearest - start) > 0.125
    assert answer.changes == Setpoints(oversampling_ratio=nearest)


def short_of_sandboxes() -> View:
    """An hour in which starts and tools take eight times as long, with as many in flight as before."""
    job = job_at(load("slow-sandbox-hour").scenario, 0, 9000.0)
    return view_of(job, "oversampling_ratio", "max_in_flight")


def test_more_is_started_with_as_much_more_in_flight_where_neither_gains_so_much_alone() -> None:
    view = short_of_sandboxes()
    answer = Predictive().decide(view)
    assert isinstance(answer, Proposal)
    assert knobs_of(answer.changes) == ("oversampling_ratio", "max_in_flight")
    now, ratio, flights = view.in_force, answer.changes.oversampling_ratio or 1.0, answer.changes.max_in_flight or 0
    assert flights == round(ratio * (now.max_in_flight or 0))
    both = useful(view, merged(now, answer.changes))
    for alone in (replace(now, oversampling_ratio=ratio), merged(now, with_in_flight(now, view.topology, flights))):
        assert both > 1.02 * useful(view, alone)


def test_a_restart_for_a_split_takes_all_of_the_oversampling_with_it() -> None:
    view = behind_its_cap("gpus_trainer", "oversampling_ratio")
    view = replace(view, in_force=replace(view.in_force, gpus_trainer=512, gpus_generator=1536))
    answer = Predictive().decide(view)
    assert isinstance(answer, Proposal)
    assert knobs_of(answer.changes) == ("gpus_trainer", "oversampling_ratio")
    assert (answer.changes.oversampling_ratio or 1.0) > 1.125
    split = replace(answer.changes, oversampling_ratio=None)
    alone, both = (useful(view, merged(view.in_force, changes)) for changes in (split, answer.changes))
    assert both > 1.02 * alone


def test_a_knob_that_is_only_advised_keeps_no_other_from_being_turned() -> None:
    """More in flight would gain more than the split; where it may not be turned, the split is."""
    starved = job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144, max_in_flight=400)
    view = view_of(starved, "gpus_trainer", "max_in_flight")
    free, bound = (Predictive().decide(replace(view, locked=locked)) for locked in (frozenset(), LIMIT))
    assert isinstance(free, Proposal)
    assert isinstance(bound, Proposal)
    assert knobs_of(free.changes) == ("max_in_flight",)
    assert knobs_of(bound.changes) == ("gpus_trainer",)


def test_a_knob_that_is_only_advised_is_still_spoken_of() -> None:
    view = view_of(job_of("steady-noise-24h", max_in_flight=240), "max_in_flight")
    answer = Predictive().decide(replace(view, locked=LIMIT))
    assert isinstance(answer, Proposal)
    assert knobs_of(answer.changes) == ("max_in_flight",)


@pytest.mark.parametrize(
    ("now", "total", "each"),
    [
        (Setpoints(engines=2, max_in_flight=32, max_in_flight_per_engine=16), 40, 20),
        (Setpoints(engines=3, max_in_flight=32, max_in_flight_per_engine=11), 40, 14),
        (Setpoints(engines=2, max_in_flight=32, max_in_flight_per_engine=64), 40, None),
        (Setpoints(engines=2, max_in_flight=32, max_in_flight_per_engine=16), 20, None),
        (Setpoints(gpus_generator=16, max_in_flight=32, max_in_flight_per_engine=16), 40, 20),
        (Setpoints(gpus_generator=24, gpus_prefill=8, gpus_decode=16, max_in_flight_per_engine=16), 40, 20),
        (Setpoints(max_in_flight=32, max_in_flight_per_engine=16), 40, None),
        (Setpoints(engines=2, max_in_flight=32), 40, None),
        (Setpoints(engines=2, max_in_flight=32, max_in_flight_per_engine=8), 40, None),
    ],
)
def test_what_lets_more_be_in_flight(now: Setpoints, total: int, each: int | None) -> None:
    wish = Setpoints(max_in_flight=total, max_in_flight_per_engine=each)
    assert with_in_flight(now, Topology(gpus_per_engine=8), total) == wish


def test_near_the_optimum_it_holds_and_does_not_ask_again_until_the_next_review() -> None:
    view = view_of(job_of("steady-noise-24h"), "gpus_trainer")
    answer = Predictive().decide(view)
    assert isinstance(answer, Hold)
    waiting = replace(view, now_s=view.now_s + 60.0, memory=answer.memory, model=None)
    assert "next review" in Predictive().decide(waiting).reason


def test_a_gain_that_cannot_pay_for_its_move_is_left() -> None:
    view = view_of(job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144), "gpus_trainer")
    dear = tuple(replace(c, cost_s=9000.0) for c in view.capabilities)
    answer = Predictive().decide(replace(view, capabilities=dear))
    assert isinstance(answer, Hold)
    assert "pay" in answer.reason


def test_no_setting_beyond_a_hard_bound_is_proposed() -> None:
    view = view_of(job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144), "gpus_trainer")
    answer = Predictive().decide(replace(view, bounds=Bounds(gpus_trainer_min=96)))
    assert isinstance(answer, Hold) or (answer.changes.gpus_trainer or 0) >= 96


def test_doubt_about_the_rates_widens_the_interval() -> None:
    view = view_of(job_of("steady-noise-24h", gpus_trainer=80, gpus_generator=176), "gpus_trainer")
    widths = []
    for variance in (1e-5, 0.02):
        answer = Predictive(gain_min_frac=0.005, misfit_frac=0.01).decide(replace(view, doubt=variance))
        gain = answer.gain_frac if isinstance(answer, Proposal) else None
        widths.append(float("inf") if gain is None else gain.high - gain.low)
    assert widths[0] < widths[1]


def test_where_the_models_refused_a_split_a_sure_one_on_the_way_is_wanted() -> None:
    view = view_of(job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144), "gpus_trainer")
    first = Predictive().decide(view)
    assert isinstance(first, Proposal)
    second = Predictive().decide(replace(view, refused=first.changes))
    assert isinstance(second, Proposal)
    assert (first.changes.gpus_trainer or 0) < (second.changes.gpus_trainer or 0) < 112


def test_where_nothing_sure_is_on_the_way_the_refused_one_is_wanted_still() -> None:
    view = view_of(job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144), "gpus_trainer")
    one_step = Setpoints(gpus_trainer=104, gpus_generator=152)
    assert Predictive().decide(replace(view, refused=one_step)) == Predictive().decide(view)


def test_where_each_step_of_a_split_is_a_restart_the_refused_one_is_wanted_still() -> None:
    """A nearer one would have to be left by a second restart."""
    view = restarted(view_of(job_of("steady-noise-24h", gpus_trainer=112, gpus_generator=144), "gpus_trainer"))
    first = Predictive().decide(view)
    assert isinstance(first, Proposal)
    assert Predictive().decide(replace(view, refused=first.changes)) == first


def test_no_more_goes_in_flight_than_the_quota_of_sandboxes_that_is_measured() -> None:
    view = view_of(job_of("steady-noise-24h", max_in_flight=400), "max_in_flight")
    wanted = Predictive().decide(view)
    assert (wanted.changes.max_in_flight or 0) > 600
    short = replace(view, snapshot=snapshot_of(step_s=80.0, sandbox_quota=600.0))
    bounded = Predictive().decide(short)
    assert 400 < (bounded.changes.max_in_flight or 0) <= 600
    over = Predictive().decide(replace(view, snapshot=snapshot_of(step_s=80.0, sandbox_quota=300.0)))
    assert isinstance(over, Hold)
