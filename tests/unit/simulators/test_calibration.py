"""What a job's history tells, what it does not, and whether questions to it are answered honestly."""

from dataclasses import replace
from math import exp
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.analytic import AnalyticModel
from simulators.calibration import Calibration, ask, calibrate, spread
from simulators.calibration.decode import fit_decode
from simulators.calibration.estimates import Estimate, Unidentified
from simulators.calibration.lengths import cut_frac, cut_mean, fit_lengths, uncut_mean
from simulators.calibration.priors import spread_points
from simulators.calibration.survival import Lifetime, censored_lognormal, kaplan_meier, restricted_mean
from simulators.calibration.training import fit_training
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Row, Snapshot, snapshot_of
from simulators.stations import Admission, Engine, Plug, Stations, Trainer, affine
from simulators.window import assemble
from simulators.workload import Lengths, Workload


def quantiles(count: int) -> list[float]:
    return [NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)]


def test_kaplan_meier_gives_the_worked_table() -> None:
    lives = [Lifetime(3), Lifetime(5, ended=False), Lifetime(7), Lifetime(9)]
    assert kaplan_meier(lives) == ((3, 0.75), (7, 0.375), (9, 0.0))


def test_without_running_rollouts_the_curve_is_the_mean() -> None:
    lengths = [4.0, 9.0, 1.0, 30.0]
    assert restricted_mean(kaplan_meier([Lifetime(n) for n in lengths])) == pytest.approx(sum(lengths) / 4)


def test_aborted_rollouts_count_as_longer_than_they_got() -> None:
    """Every rollout over 4,000 tokens is aborted there: the survivors' mean is far too short, the fit is not."""
    truth = [exp(8.0 + z) for z in quantiles(400)]
    lives = [Lifetime(min(n, 4000.0), ended=n <= 4000.0) for n in truth]
    survivors = [life.tokens for life in lives if life.ended]
    found = censored_lognormal(lives)
    assert found is not None
    assert sum(survivors) / len(survivors) < 0.5 * exp(8.5)
    assert found.mu == pytest.approx(8.0, abs=2.5 * found.mu_error)
    assert found.sigma == pytest.approx(1.0, abs=2.5 * found.sigma_error)


def test_censoring_costs_precision() -> None:
    truth = [exp(8.0 + z) for z in quantiles(200)]
    whole = censored_lognormal([Lifetime(n) for n in truth])
    cut = censored_lognormal([Lifetime(min(n, 3000.0), ended=n <= 3000.0) for n in truth])
    assert whole is not None
    assert cut is not None
    assert cut.mu_error > whole.mu_error


@given(st.floats(0.1, 1.5), st.floats(1.5, 20.0))
def test_the_uncut_mean_undoes_the_cut(sigma: float, ratio: float) -> None:
    logged = cut_mean(1000.0, sigma, 1000.0 * ratio)
    assert uncut_mean(logged, sigma, 1000.0 * ratio) == pytest.approx(1000.0, rel=1e-3)


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_sigma_follows_from_the_share_that_is_cut(sigma: float) -> None:
    cap = 16384
    snapshot = snapshot_of(
        resp_len_mean=cut_mean(8000.0, sigma, cap), truncated_frac=cut_frac(8000.0, sigma, cap), batch_rollouts=512
    )
    found = fit_lengths(Topology(max_response_tokens=cap), snapshot).sigma
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(sigma, rel=0.01)


def test_sigma_follows_from_the_99_percent_quantile_and_from_the_median() -> None:
    p99 = snapshot_of(resp_len_mean=8000, resp_len_p99=8000 * exp(NormalDist().inv_cdf(0.99) - 0.5))
    median = snapshot_of(resp_len_mean=8000, resp_len_p50=8000 * exp(-0.5))
    for snapshot in (p99, median):
        found = fit_lengths(Topology(), snapshot).sigma
        assert isinstance(found, Estimate)
        assert found.value == pytest.approx(1.0, rel=0.01)


def test_a_mean_length_alone_leaves_sigma_to_its_prior() -> None:
    found = fit_lengths(Topology(), snapshot_of(resp_len_mean=8000)).sigma
    assert isinstance(found, Unidentified)
    assert "not identified, because" in found.sentence()


def engine_log(residents: list[float], noise: float = 0.0) -> Snapshot:
    """An engine of t = 8 ms + 0.25 ms x residents: half-rate batch 32."""
    rows = [
        Row({"running": b, "tpot_s": (0.008 + 0.00025 * b) * (1.0 + noise * (-1) ** i)}, time_s=float(i))
        for i, b in enumerate(residents)
    ]
    return assemble((), rows)


def test_ramps_and_drains_show_the_half_rate_batch() -> None:
    found = fit_decode(engine_log([4, 16, 40, 64, 64, 30, 8], noise=0.01)).half_rate
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(32.0, abs=2.5 * found.standard_error)


def test_pinned_concurrency_shows_one_point_of_the_curve_only() -> None:
    found = fit_decode(engine_log([64, 63, 64, 65, 64, 64], noise=0.02)).half_rate
    assert isinstance(found, Unidentified)
    assert "pinned" in found.why


def trained(tokens: list[float]) -> Snapshot:
    return assemble([Row({"tokens_total": n, "update_s": 20.0 + n / 1e5}, step=i) for i, n in enumerate(tokens)])


def test_the_trainers_fixed_share_needs_steps_of_different_sizes() -> None:
    varied = fit_training(trained([4e6, 6e6, 8e6, 10e6])).fixed_frac
    alike = fit_training(trained([8e6, 8.1e6, 7.9e6, 8e6])).fixed_frac
    assert isinstance(varied, Estimate)
    assert varied.value == pytest.approx(20.0 / 90.0, rel=0.01)
    assert isinstance(alike, Unidentified)


def test_the_points_of_a_posterior_fill_every_axis() -> None:
    points = list(spread_points(64, 12))
    for axis in zip(*points, strict=True):
        assert sorted(int(8 * x) for x in axis).count(0) in range(5, 12)
        assert sum(axis) / 64 == pytest.approx(0.5, abs=0.05)


def test_an_interval_holds_its_weights() -> None:
    even = spread([(1.0, float(i)) for i in range(101)])
    assert (even.low, even.mean, even.high) == pytest.approx((9.6, 50.0, 90.4))
    heavy = spread([(1.0, 0.0), (98.0, 1.0), (1.0, 2.0)])
    assert heavy.low > 0.0
    assert heavy.high < 2.0


TOPOLOGY = Topology(mode=Mode.OVERLAPPED, gpus_total=64, gpus_per_engine=2)
SETPOINTS = Setpoints(
    gpus_trainer=16, gpus_generator=48, batch_rollouts=512, group_size=8, staleness_bound=1.0, sync_interval=1
)


def told(sigma: float = 0.8, exponent: float = 0.8, train_s: float = 60.0) -> tuple[Snapshot, Stations, Workload]:
    """What a job whose truth we know logs of itself: step and wait, nothing more."""
    workload = Workload(Lengths(500.0), Lengths(4000.0, sigma, None, 0.4))
    tokens = 512 * 4500.0
    stations = Stations(
        Engine(affine(0.01, 0.0004), 1024),
        Trainer(0.05 * train_s, 0.95 * train_s * 16**exponent / tokens, exponent),
        admission=Admission(Plug.WIP_CAP),
    )
    now = AnalyticModel(stations).predict(TOPOLOGY, workload, SETPOINTS)
    wait = now.trainer_idle_frac * now.step_s
    return snapshot_of(step_s=now.step_s, trainer_wait_s=wait), stations, workload


def calibrated(snapshot: Snapshot, setpoints: Setpoints = SETPOINTS) -> Calibration:
    found = calibrate(TOPOLOGY, setpoints, snapshot, generator_limits=True)
    assert isinstance(found, Calibration)
    return found


def test_every_possible_job_does_what_the_real_one_does() -> None:
    snapshot, _, _ = told()
    found = calibrated(snapshot)
    steps = [draw.now.step_s / draw.values.step_s for draw in found.draws]
    assert steps == pytest.approx([1.0] * len(steps), rel=0.02)
    assert sum(draw.weight for draw in found.draws) == pytest.approx(1.0)


CHANGES = (
    replace(SETPOINTS, gpus_trainer=8, gpus_generator=56),
    replace(SETPOINTS, gpus_trainer=24, gpus_generator=40),
    replace(SETPOINTS, staleness_bound=2.0),
)


def test_the_interval_holds_the_truth_of_jobs_inside_the_priors() -> None:
    """Step and wait are all that is logged; sigma, alpha and the engine's curve are the job's secret."""
    inside = total = 0
    for sigma, exponent, train_s in ((0.5, 0.6, 40.0), (0.8, 0.8, 60.0), (1.1, 0.95, 30.0), (0.7, 0.7, 90.0)):
        snapshot, stations, workload = told(sigma, exponent, train_s)
        found, model = calibrated(snapshot), AnalyticModel(stations)
        before = model.predict(TOPOLOGY, workload, SETPOINTS).useful_rollouts_per_s
        for change in CHANGES:
            truth = model.predict(TOPOLOGY, workload, change).useful_rollouts_per_s / before - 1.0
            gain = ask(found.draws, lambda d, change=change: d.under(TOPOLOGY, change)).gain
            inside += gain.low - 0.01 <= truth <= gain.high + 0.01
            total += 1
    assert inside >= 0.7 * total, f"{inside} of {total}"


def test_what_is_not_logged_is_named() -> None:
    snapshot, _, _ = told()
    named = " ".join(p.sentence() for p in calibrated(snapshot).unidentified)
    for parameter in ("alpha", "half-rate batch", "sigma", "between-prompt share"):
        assert parameter in named


def test_no_change_brings_nothing() -> None:
    snapshot, _, _ = told()
    found = calibrated(snapshot)
    gain = ask(found.draws, lambda d: d.under(d.topology, d.setpoints)).gain
    assert gain.mean == pytest.approx(0.0, abs=1e-9)


def test_without_a_step_time_a_sentence_says_what_would_help() -> None:
    found = calibrate(TOPOLOGY, SETPOINTS, snapshot_of(reward_mean=0.5), generator_limits=True)
    assert isinstance(found, str)
    assert "step time" in found


def test_a_misread_count_is_refused_and_not_simulated() -> None:
    huge = replace(SETPOINTS, batch_rollouts=10**9)
    found = calibrate(TOPOLOGY, huge, snapshot_of(step_s=100.0), generator_limits=True)
    assert isinstance(found, str)
    assert "batch_rollouts" in found


def test_equal_data_give_equal_answers() -> None:
    snapshot, _, _ = told()
    assert calibrated(snapshot) == calibrated(snapshot)
