"""Structural models beside statsmodels, live: seasons, ARMA (measurements without noise), and the cycle of the sunspots.

Both start from the same belief. At the same parameters the log-likelihoods are the same to rounding; at the optimum ours is not
lower, and where both have converged the estimates agree.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import optfilter

sm = pytest.importorskip("statsmodels.api")

SEASON = """
states = ["level", "slope", "s1", "s2", "s3"]
[dynamics]
level = "level + slope"
slope = "slope"
s1 = "-s1 - s2 - s3"
s2 = "s1"
s3 = "s2"
[observation]
y = "level + s1"
[process_noise]
var = { level = 0.05, slope = 0.001, s1 = 0.01 }
[measurement_noise]
var = 0.05
[initial]
mean = 0
std = 1
diffuse = true
"""

ARMA = """
states = ["now", "before"]
[parameters]
phi = 0.2
theta = 0.2
[dynamics]
now = "phi*now"
before = "now"
[observation]
y = "now + theta*before"
[process_noise]
var = { now = 1.5 }
[measurement_noise]
var = 0
[initial]
mean = 0
std = 2
[fit]
free = ["phi", "theta", "process_noise.now"]
[fit.bounds]
phi = [-0.99, 0.99]
theta = [-0.99, 0.99]
"""

CYCLE = """
states = ["level", "c", "cs"]
[parameters]
rho = {rho}
lam = {lam}
[dynamics]
level = "level"
c = "rho*(cos(lam)*c + sin(lam)*cs)"
cs = "rho*(cos(lam)*cs - sin(lam)*c)"
[observation]
y = "level + c"
[process_noise]
var = {{ level = {level}, c = {cycle}, cs = {cycle} }}
[measurement_noise]
var = 0
[initial]
mean = 0
std = 1000
diffuse = true
[fit]
free = ["rho", "lam", "process_noise"]
[fit.bounds]
rho = [0, 1]
lam = [0.3, 1.3]
"""


def their_fit(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = model.fit(disp=False, maxiter=500)
        return model.fit(first.params, method="nm", disp=False, maxiter=5000)


def test_trend_and_season():
    weekly = sm.datasets.co2.load_pandas().data["co2"]
    ys = weekly.loc["1970":"1985"].resample("QS").mean().to_numpy(float).copy()
    ys[[7, 20, 21]] = np.nan
    theirs = sm.tsa.UnobservedComponents(ys, "lltrend", seasonal=4, use_exact_diffuse=True)
    ours = optfilter.Model.from_toml(SEASON).fit(ys)
    names = ("measurement_noise.y", "process_noise.level", "process_noise.slope", "process_noise.s1")
    there = theirs.loglike([ours.params[name] for name in names])
    assert ours.log_likelihood == pytest.approx(there, rel=1e-8)
    found = their_fit(theirs)
    assert ours.log_likelihood >= found.llf - 1e-4
    for name, value in zip(names, found.params):
        # Where their search has come as far, and variances that are not at their bound.
        if abs(found.llf - ours.log_likelihood) < 1e-6 and value > 1e-6:
            assert ours.params[name] == pytest.approx(value, rel=1e-2)


def test_an_unknown_start_is_the_exact_diffuse_one():
    weekly = sm.datasets.co2.load_pandas().data["co2"]
    ys = weekly.loc["1970":"1980"].resample("QS").mean().to_numpy(float).copy()
    ys[[0, 7, 20]] = np.nan
    theirs = sm.tsa.UnobservedComponents(ys, "lltrend", seasonal=4, use_exact_diffuse=True)
    theirs = theirs.smooth([0.05, 0.05, 0.001, 0.01])
    model = optfilter.Model.from_toml(SEASON)
    assert model.diffuse == (0, 1, 2, 3, 4)
    ours, smoothed = model.filter(ys), model.smooth(ys)
    assert ours.log_likelihood == pytest.approx(theirs.llf_obs.sum(), rel=1e-10)
    np.testing.assert_allclose(ours.means, theirs.filtered_state.T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(smoothed.means, theirs.smoothed_state.T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(smoothed.covariances, theirs.smoothed_state_cov.transpose(2, 0, 1), rtol=1e-8, atol=1e-8)
    # The first row is missing, five say what the five states are.
    assert np.isinf(ours.covariances[:5]).any(axis=(1, 2)).all() and np.isfinite(ours.covariances[5:]).all()
    assert np.isnan(ours.innovations[:6]).all() and np.isnan(ours.nis[:6]).all()
    assert ours.log_likelihoods[1] == pytest.approx(-0.5 * np.log(2 * np.pi * 5))  # after a step: level, slope and three seasons, of variance one each


def test_a_covariance_that_is_given_is_meant():
    ys = np.array([3.0, 2.0, 4.0])
    known = optfilter.models.Linear([[1.0]], [[1.0]], Q=0.5, R=1.0, P0=4.0)
    unknown = known.replace(diffuse=True)
    assert (known.diffuse, unknown.diffuse, unknown.replace(P0=4.0).diffuse) == ((), (0,), ())
    first = optfilter.KalmanFilter(unknown).filter(ys)
    assert first.means[0] == 3 and first.covariances[0] == 1
    for other in (
        optfilter.KalmanFilter(unknown.replace(P0=4.0)).filter(ys),
        optfilter.KalmanFilter(unknown, P0=4.0).filter(ys),
        optfilter.KalmanFilter(unknown).filter(ys, P0=4.0),
    ):
        assert np.array_equal(other.means, optfilter.KalmanFilter(known).filter(ys).means)


def arma_rows():
    rng = np.random.default_rng(1)
    shocks = rng.standard_normal(401)
    ys = np.zeros(400)
    for t in range(400):
        ys[t] = 0.6 * ys[t - 1] + shocks[t + 1] + 0.3 * shocks[t]
    ys[[5, 100, 101]] = np.nan
    return ys


def test_arma_is_measured_without_noise():
    ys = arma_rows()
    theirs = sm.tsa.SARIMAX(ys, order=(1, 0, 1), hamilton_representation=True)
    theirs.ssm.initialize_known(np.zeros(2), 4.0 * np.eye(2))
    names = ("phi", "theta", "process_noise.now")
    ours = optfilter.Model.from_toml(ARMA).fit(ys)
    assert ours.log_likelihood == pytest.approx(theirs.loglike([ours.params[n] for n in names]), rel=1e-10)
    found = their_fit(theirs)
    assert ours.log_likelihood >= found.llf - 1e-4
    for name, value in zip(names, found.params):
        assert ours.params[name] == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("method", ["kf", "ekf", "iekf", "ukf"])
def test_every_gaussian_filter_takes_exact_measurements(method):
    ys = arma_rows()
    theirs = sm.tsa.SARIMAX(ys, order=(1, 0, 1), hamilton_representation=True)
    theirs.ssm.initialize_known(np.zeros(2), 4.0 * np.eye(2))
    result = theirs.smooth([0.2, 0.2, 1.5])
    model = optfilter.Model.from_toml(ARMA)
    ours = model.filter(ys, method=method)
    assert ours.log_likelihood == pytest.approx(result.llf, rel=1e-10)
    assert np.allclose(ours.means, result.filtered_state.T, rtol=0, atol=1e-9)
    smoothed = model.smooth(ys, method=method)
    assert np.allclose(smoothed.means, result.smoothed_state.T, rtol=0, atol=1e-8)
    assert np.allclose(smoothed.covariances, result.smoothed_state_cov.transpose(2, 0, 1), rtol=0, atol=1e-8)
    ahead, there = model.forecast(ys, 5, method=method), result.get_forecast(5)
    assert np.allclose(ahead.means[:, 0], there.predicted_mean, rtol=0, atol=1e-9)
    assert np.allclose(ahead.stds[:, 0] ** 2, there.var_pred_mean, rtol=1e-9)
    # What is seen without noise is known: the estimate repeats it.
    seen = ~np.isnan(ys)
    assert np.allclose((ours.means @ [1.0, 0.2])[seen], ys[seen], rtol=0, atol=1e-9)


def test_what_divides_by_the_noise_says_so():
    model = optfilter.Model.from_toml(ARMA)
    for method in ("pf", "imap"):
        with pytest.raises(ValueError, match="kf, ekf, iekf and ukf also take measurements without noise"):
            model.filter([1.0, 2.0], method=method)
    drawn = optfilter.simulate(model, 50, seed=1)
    assert np.array_equal(drawn.observations[:, 0], drawn.states @ [1.0, 0.2])


FACTOR = """
states = ["f"]
[parameters]
phi = 0.3
a = 0.5
b = 0.5
c = 0.5
[dynamics]
f = "phi*f"
[observation]
y1 = "a*f"
y2 = "b*f"
y3 = "c*f"
[process_noise]
var = 1
[measurement_noise]
var = { y1 = 0.5, y2 = 0.5, y3 = 0.5 }
[initial]
mean = 0
var = 1
[fit]
free = ["phi", "a", "b", "c", "measurement_noise"]
[fit.bounds]
phi = [-0.99, 0.99]
"""


def test_a_dynamic_factor_of_three_series():
    """One factor behind the growth of investment, consumption and income in the United States, with gaps."""
    macro = sm.datasets.macrodata.load_pandas().data[["realinv", "realcons", "realdpi"]]
    growth = np.log(macro).diff().iloc[1:]
    ys = ((growth - growth.mean()) / growth.std()).to_numpy(float).copy()
    ys[10, 1] = ys[50] = ys[51, :2] = np.nan
    theirs = sm.tsa.DynamicFactor(ys, k_factors=1, factor_order=1)
    theirs.ssm.initialize_known(np.zeros(1), np.eye(1))
    ours = optfilter.Model.from_toml(FACTOR).fit(ys)
    names = ("a", "b", "c", *(f"measurement_noise.y{i}" for i in (1, 2, 3)), "phi")
    at_ours = theirs.smooth([ours.params[name] for name in names])
    assert ours.log_likelihood == pytest.approx(at_ours.llf, rel=1e-10)
    smoothed = ours.model.smooth(ys, method="kf")
    assert np.allclose(smoothed.means, at_ours.smoothed_state.T, rtol=0, atol=1e-8)
    assert np.allclose(smoothed.covariances[:, 0, 0], at_ours.smoothed_state_cov[0, 0], rtol=0, atol=1e-8)
    # From its own start statsmodels ends in a lower optimum (-817.7, where ours is -795.7); from ours it finds nothing better.
    assert ours.log_likelihood >= their_fit(theirs).llf - 1e-4
    found = theirs.fit([ours.params[name] for name in names], disp=False, maxiter=500)
    assert ours.log_likelihood >= found.llf - 1e-6
    for name, value in zip(names, found.params):
        assert ours.params[name] == pytest.approx(value, rel=1e-5)


def test_sunspots_are_a_walk_and_a_damped_cycle():
    """Fitted on the first 70 %, judged on the rest."""
    ys = sm.datasets.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(float)
    rows = int(0.7 * len(ys))
    kind = dict(level="rwalk", cycle=True, stochastic_cycle=True, damped_cycle=True, cycle_period_bounds=(5, 20))

    def held_out(result):
        return np.sqrt(np.mean((result.predict() - ys)[rows:] ** 2)), result.llf_obs[rows:].sum()

    def ours_held_out(model):
        result = model.filter(ys, method="kf")
        return np.sqrt(np.mean(result.innovations[rows:, 0] ** 2)), result.log_likelihoods[rows:].sum()

    theirs = their_fit(sm.tsa.UnobservedComponents(ys[:rows], **kind))
    their_rmse, their_llf = held_out(sm.tsa.UnobservedComponents(ys, **kind).smooth(theirs.params))
    # At their parameters both are the same filter.
    level, cycle, lam, rho = theirs.params
    same = ours_held_out(optfilter.Model.from_toml(CYCLE.format(level=level, cycle=cycle, lam=lam, rho=rho)))
    assert same == pytest.approx((their_rmse, their_llf), rel=1e-7)
    # Ours has a variance for each half of the cycle where theirs has one for both, and the exact diffuse likelihood.
    found = optfilter.Model.from_toml(CYCLE.format(level=20, cycle=100, lam=0.6, rho=0.9)).fit(ys[:rows], starts=2)
    exact = sm.tsa.UnobservedComponents(ys[:rows], **kind, use_exact_diffuse=True)
    assert found.log_likelihood >= their_fit(exact).llf - 1e-4
    our_rmse, our_llf = ours_held_out(found.model)
    print(f"held out: RMSE {our_rmse:.3f} and {their_rmse:.3f}, log-likelihood {our_llf:.2f} and {their_llf:.2f}")
    # With one variance for both halves it is 18.21 and -408.0, with one each 18.20 and -407.6: the data hardly tell them apart.
    assert our_rmse <= 1.001 * their_rmse and our_llf >= their_llf - 0.4
    # The cycle of Schwabe: ten or eleven years.
    assert 9.5 < 2 * np.pi / found.params["lam"] < 11.5
