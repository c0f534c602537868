"""Smoothing and forecasting from Python: the engine's numbers, in the shapes that users expect."""

import io
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import optfilter

GOLDEN = Path(__file__).resolve().parents[2] / "crates/optfilter/tests/golden/smoother_statsmodels.json"


def nile():
    found = json.loads(GOLDEN.read_text())["nile"]
    ys = np.array(found["ys"], dtype=float)
    for case in found["cases"]:
        numbers = {key: np.array(value, dtype=float) for key, value in case.items() if key != "name"}
        model = optfilter.models.Linear(
            numbers["F"], numbers["H"], Q=numbers["Q"], R=numbers["R"], x0=numbers["m0"], P0=numbers["P0"]
        )
        yield model, ys, numbers


def test_the_nile_equals_statsmodels():
    for model, ys, expected in nile():
        for kind in (optfilter.KalmanFilter, optfilter.ExtendedKalmanFilter, optfilter.UnscentedKalmanFilter):
            smoothed = kind(model).smooth(ys)
            np.testing.assert_allclose(smoothed.means, expected["smoothed_mean"], rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(smoothed.covariances, expected["smoothed_cov"], rtol=1e-8, atol=1e-8)
            ahead = kind(model).filter(ys).forecast(12)
            np.testing.assert_allclose(ahead.state_means, expected["forecast_state"], rtol=1e-8)
            np.testing.assert_allclose(ahead.means, expected["forecast"], rtol=1e-8)
            np.testing.assert_allclose(ahead.stds**2, expected["forecast_cov"][:, :, 0], rtol=1e-8)


def walk():
    return optfilter.models.RandomWalk(1, Q=0.5, R=1.0)


def test_a_batch_is_its_series():
    model = walk()
    ys = optfilter.simulate(model, 20, batch=3, seed=2).observations
    together = optfilter.KalmanFilter(model).smooth(ys)
    ahead = optfilter.KalmanFilter(model).forecast(ys, steps=4)
    assert ahead.intervals.shape == (3, 4, 1, 3, 2)
    for b in range(3):
        alone = optfilter.KalmanFilter(model).smooth(ys[b])
        np.testing.assert_array_equal(together.means[b], alone.means)
        np.testing.assert_array_equal(together.covariances[b], alone.covariances)
        np.testing.assert_array_equal(ahead.means[b], optfilter.KalmanFilter(model).forecast(ys[b], steps=4).means)


def test_the_last_row_is_the_filtered_one():
    smoothed = optfilter.KalmanFilter(walk()).smooth([1.0, None, 2.0])
    np.testing.assert_array_equal(smoothed.means[-1], smoothed.filtered_means[-1])
    assert np.all(smoothed.stds[:-1] < smoothed.filtered_stds[:-1])


def test_particles_and_windows_come_near_the_exact_smoother():
    model, ys = walk(), [0.3, 1.1, None, 2.4, 3.9, 3.0]
    exact = optfilter.KalmanFilter(model).smooth(ys)
    sampled = optfilter.ParticleFilter(model, particles=3000).smooth(ys)
    assert np.max(np.abs(sampled.means - exact.means)) < 0.1
    window = optfilter.ImplicitMAP(model).smooth(ys)
    np.testing.assert_allclose(window.means, exact.means, rtol=1e-6)
    np.testing.assert_allclose(window.covariances, exact.covariances, rtol=1e-8)


def test_callables_are_smoothed_and_raise():
    model = optfilter.Model(lambda x: 0.9 * x, lambda x: x, n=1, Q=0.5, R=1.0)
    linear = optfilter.models.Linear([[0.9]], [[1.0]], Q=0.5, R=1.0)
    ys = [1.0, None, 2.0, 1.5]
    found = optfilter.UnscentedKalmanFilter(model).smooth(ys)
    np.testing.assert_allclose(found.means, optfilter.KalmanFilter(linear).smooth(ys).means, rtol=1e-9)

    def breaks(x):
        raise RuntimeError("no such state")

    broken = optfilter.Model(breaks, lambda x: x, n=1, Q=0.5, R=1.0)
    with pytest.raises(RuntimeError, match="no such state"):
        optfilter.UnscentedKalmanFilter(broken).smooth(ys)
    with pytest.raises(RuntimeError, match="no such state"):
        optfilter.UnscentedKalmanFilter(broken).forecast([1.0], steps=2)


def test_filters_without_a_smoother_say_so():
    for kind in (optfilter.VariationalKalmanFilter, optfilter.ETKF):
        with pytest.raises(ValueError, match="cannot be smoothed; use kf, ekf"):
            kind(walk()).smooth([1.0, 2.0])


def test_times_ahead():
    model = walk()
    f = optfilter.KalmanFilter(model)
    np.testing.assert_array_equal(f.forecast([1.0, 2.0], steps=2).ts, [2.0, 3.0])
    np.testing.assert_array_equal(f.forecast([1.0, 2.0, 1.0], steps=2, ts=[5.0, 5.5, 6.0]).ts, [6.5, 7.0])
    dates = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], dtype="datetime64[D]")
    ahead = f.forecast([1.0, 2.0, 1.0], steps=2, ts=dates)
    np.testing.assert_array_equal(ahead.ts, np.array(["2026-01-04", "2026-01-05"], dtype="datetime64[D]"))


def test_inputs_ahead_are_asked_for():
    model = optfilter.models.Linear([[1.0]], [[1.0]], B=[[1.0]], Q=0.1, R=1.0)
    f = optfilter.KalmanFilter(model)
    with pytest.raises(ValueError, match=r"us_ahead: must have shape \(2, 1\)"):
        f.forecast([1.0, 2.0], steps=2, us=[0.0, 1.0])
    steady = f.forecast([1.0, 2.0], steps=2, us=[0.0, 1.0], us_ahead=[0.0, 0.0])
    pushed = f.forecast([1.0, 2.0], steps=2, us=[0.0, 1.0], us_ahead=[1.0, 1.0])
    np.testing.assert_allclose(pushed.means - steady.means, [[1.0], [2.0]])


def test_a_point_estimate_has_no_intervals():
    ahead = optfilter.ImplicitMAP(walk(), error_bars=False).forecast([1.0, 2.0], steps=2)
    assert np.all(np.isfinite(ahead.means)) and np.all(np.isnan(ahead.intervals))


def test_a_pickled_result_says_that_it_cannot_look_ahead():
    import pickle

    result = pickle.loads(pickle.dumps(optfilter.KalmanFilter(walk()).filter([1.0, 2.0])))
    with pytest.raises(ValueError, match="filter again"):
        result.forecast(3)


@pytest.mark.parametrize("method", ["kf", "ekf", "iekf", "ukf", "pf", "imap"])
def test_the_program_gives_the_same_bits(method):
    binary = os.environ.get("OPTFILTER_BINARY")
    if not binary:
        pytest.skip("OPTFILTER_BINARY is not set; run python/run_tests.sh")
    pd = pytest.importorskip("pandas")
    examples = Path(__file__).resolve().parents[2] / "examples/data"
    model, frame = optfilter.Model.from_toml(examples / "nile.toml"), pd.read_csv(examples / "nile.csv")

    def program(*arguments):
        files = [str(examples / name) for name in ("nile.toml", "nile.csv")]
        command = [binary, arguments[0], *files, *arguments[1:], "--method", method, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return pd.read_csv(io.StringIO(done.stdout)).iloc[:, 1:].to_numpy(dtype=float)

    smoothed = model.smooth(frame, method=method)
    stds = np.full_like(smoothed.means, np.nan) if smoothed.stds is None else smoothed.stds
    np.testing.assert_array_equal(program("smooth"), np.hstack([smoothed.means, stds]))
    ahead = model.forecast(frame, steps=5, method=method).to_dataframe()
    np.testing.assert_array_equal(program("forecast", "--steps", "5"), ahead.iloc[:, 1:].to_numpy(dtype=float))


def test_forecasts_from_every_row():
    model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
    ys = [1.0, None, 2.0, 0.5]
    for made in (
        optfilter.KalmanFilter(model),
        optfilter.UnscentedKalmanFilter(model),
        optfilter.ParticleFilter(model, 64, seed=1),
    ):
        result = made.filter(ys, horizon=2)
        assert result.ahead.means.shape == (4, 2, 1) and result.ahead.state_intervals.shape == (4, 2, 1, 3, 2)
        for k in range(4):
            alone = made.forecast(ys[: k + 1], steps=2)
            for name in ("means", "stds", "intervals", "state_means", "state_stds", "state_intervals"):
                np.testing.assert_array_equal(getattr(result.ahead, name)[k], getattr(alone, name), err_msg=name)
        np.testing.assert_array_equal(result.means, made.filter(ys).means)
    columns = list(optfilter.KalmanFilter(model).filter(ys, horizon=1).to_dataframe().columns)
    assert columns[-4:] == ["y0_ahead_1", "y0_ahead_1_std", "y0_ahead_1_lo95", "y0_ahead_1_hi95"]
    batch = optfilter.KalmanFilter(model).filter(np.ones((3, 4, 1)), horizon=2)
    assert batch.ahead.means.shape == (3, 4, 2, 1)
    assert optfilter.KalmanFilter(model).filter(ys).ahead is None
    with pytest.raises(ValueError, match="horizon"):
        optfilter.KalmanFilter(model).filter(ys, horizon=0)
