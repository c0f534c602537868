"""Against filterpy and statsmodels, run live on random systems."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import random_system

import optfilter

SIZES = [(1, 1), (2, 1), (3, 2), (4, 4), (6, 3)]
# Both sides round in double precision over 60 steps of systems with condition numbers up to about 1e3;
# the largest relative difference seen over these seeds is below 1e-12.
TOLERANCE = dict(rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n, m", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_kalman_filter_equals_statsmodels(seed, n, m):
    statsmodels = pytest.importorskip("statsmodels.tsa.statespace.kalman_filter")
    model, ys = random_system(seed, n, m)
    # In statsmodels, too, the initial belief is of the first measurement's time.
    oracle = statsmodels.KalmanFilter(k_endog=m, k_states=n)
    oracle.bind(np.asfortranarray(ys.T))
    oracle["design"], oracle["transition"] = model.H, model.F
    oracle["selection"], oracle["state_cov"], oracle["obs_cov"] = np.eye(n), model.Q, model.R
    oracle.initialize_known(model.x0, model.P0)
    oracle.tolerance = 0  # no switch to the steady state
    equals_statsmodels(optfilter.KalmanFilter(model).filter(ys), oracle.filter())
    oracle.initialize_known(model.F @ model.x0, model.F @ model.P0 @ model.F.T + model.Q)
    equals_statsmodels(optfilter.KalmanFilter(model, predict_first=True).filter(ys), oracle.filter())


def equals_statsmodels(result, expected):
    np.testing.assert_allclose(result.means, expected.filtered_state.T, **TOLERANCE)
    np.testing.assert_allclose(
        result.covariances, np.moveaxis(expected.filtered_state_cov, 2, 0), **TOLERANCE
    )
    np.testing.assert_allclose(result.innovations, expected.forecasts_error.T, **TOLERANCE)
    np.testing.assert_allclose(result.log_likelihoods, expected.llf_obs, **TOLERANCE)


@pytest.mark.parametrize("n, m", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_kalman_filter_equals_filterpy_step_by_step(seed, n, m):
    kalman = pytest.importorskip("filterpy.kalman")
    model, ys = random_system(seed, n, m)
    theirs = kalman.KalmanFilter(dim_x=n, dim_z=m)
    theirs.x, theirs.P = np.array(model.x0), np.array(model.P0)
    theirs.F, theirs.H, theirs.Q, theirs.R = model.F, model.H, model.Q, model.R
    ours = optfilter.KalmanFilter(model)
    for k, y in enumerate(ys):
        theirs.predict()
        ours.predict()
        missing = k % 7 == 3
        theirs.update(None if missing else y)
        ours.update(None if missing else y)
        np.testing.assert_allclose(ours.x, theirs.x, **TOLERANCE)
        np.testing.assert_allclose(ours.P, theirs.P, **TOLERANCE)
        if not missing:
            np.testing.assert_allclose(ours.y, theirs.y, **TOLERANCE)
            np.testing.assert_allclose(ours.S, theirs.S, **TOLERANCE)
            np.testing.assert_allclose(ours.log_likelihood, theirs.log_likelihood, **TOLERANCE)


@pytest.mark.parametrize("seed", range(3))
def test_extended_filter_equals_filterpy_on_a_nonlinear_system(seed):
    kalman = pytest.importorskip("filterpy.kalman")
    model = optfilter.models.system("pendulum")
    ys = optfilter.simulate(model, 80, seed=seed).observations
    ours = optfilter.ExtendedKalmanFilter(model)
    theirs = kalman.ExtendedKalmanFilter(dim_x=2, dim_z=1)
    theirs.x, theirs.P = np.array(model.x0), np.array(model.P0)
    theirs.Q, theirs.R = np.array(model.Q), np.array(model.R)
    for y in ys:
        ours.predict()
        theirs.F = model.f_jacobian(theirs.x)
        theirs.predict_x = lambda u=0: None
        x = model.f(theirs.x)
        theirs.predict()
        theirs.x = x
        theirs.update(y, model.h_jacobian, model.h)
        ours.update(y)
        np.testing.assert_allclose(ours.x, theirs.x, **TOLERANCE)
        np.testing.assert_allclose(ours.P, theirs.P, **TOLERANCE)


@pytest.mark.parametrize("seed", range(3))
def test_unscented_filter_equals_filterpy(seed):
    kalman = pytest.importorskip("filterpy.kalman")
    model = optfilter.models.Lorenz63(dt=0.02, Q_per_time=False, Q=0.1)
    ys = optfilter.simulate(model, 60, seed=seed).observations
    alpha, beta, kappa = 0.5, 2.0, 1.0
    points = kalman.MerweScaledSigmaPoints(3, alpha, beta, kappa)
    theirs = kalman.UnscentedKalmanFilter(
        3, 3, model.dt, hx=lambda x: model.h(x), fx=lambda x, dt: model.f(x), points=points
    )
    theirs.x, theirs.P = np.array(model.x0), np.array(model.P0)
    theirs.Q, theirs.R = np.array(model.Q), np.array(model.R)
    ours = optfilter.UnscentedKalmanFilter(model, alpha=alpha, beta=beta, kappa=kappa)
    for y in ys:
        theirs.predict()
        # filterpy measures the points that came out of the transition; ours, like the textbook's, are
        # drawn anew from the predicted moments.
        theirs.sigmas_f = points.sigma_points(theirs.x, theirs.P)
        theirs.update(y)
        ours.predict()
        ours.update(y)
        # P - K S K' loses a few digits against the Joseph form.
        np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.P, theirs.P, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_implicit_filter_with_the_right_matrix_is_the_kalman_filter(steps):
    model, ys = random_system(3, 3, 2)
    kalman = optfilter.KalmanFilter(model)
    for y in ys[:20]:
        kalman.predict()
        # The learning-rate matrix of this step's own prediction.
        M = optfilter.learning_rate_matrix(kalman.P, model.H, model.R, steps=steps)
        implicit = optfilter.ImplicitMAP(
            model, optfilter.Preconditioned(M), steps=steps, x0=kalman.x
        )
        implicit.update(y)
        kalman.update(y)
        np.testing.assert_allclose(implicit.x, kalman.x, rtol=1e-9, atol=1e-9)


def test_theory_round_trip():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 3))
    prior, H, R = a @ a.T + np.eye(3), rng.normal(size=(2, 3)), np.diag([0.5, 2.0])
    prior = (prior + prior.T) / 2
    for steps in (1, 4, 30):
        M = optfilter.learning_rate_matrix(prior, H, R, steps=steps)
        np.testing.assert_allclose(optfilter.implied_prior(M, H, R, steps=steps), prior, rtol=1e-9)
