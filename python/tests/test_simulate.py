"""Simulation: named streams, inputs, every likelihood, bounds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import optfilter
from optfilter import likelihoods


def walk(likelihood, **settings):
    """A state that hardly moves from 0, seen through ``likelihood``."""
    settings = {"Q": 1e-18, "x0": 0.0, "P0": 1e-18, "likelihood": likelihood, **settings}
    return optfilter.models.RandomWalk(1, **settings)


def draws(likelihood, count=40_000, **settings):
    return optfilter.simulate(walk(likelihood, **settings), count, seed=3).observations[:, 0]


# Each law against scipy's. The statistic of Kolmogorov and Smirnov exceeds 1.95 / sqrt(n) once in a thousand; the
# seed is fixed, so a law that passes, passes always.
LIMIT = 1.95 / np.sqrt(40_000)


@pytest.mark.parametrize("dof, scale", [(0.7, 1.0), (4.0, 0.5), (30.0, 2.0)])
def test_student_t(dof, scale):
    stats = pytest.importorskip("scipy.stats")
    seen = draws(likelihoods.StudentT(dof, scale))
    assert stats.kstest(seen, stats.t(dof, scale=scale).cdf).statistic < LIMIT


@pytest.mark.parametrize("delta, scale", [(0.3, 1.0), (1.345, 2.0), (12.0, 1.0)])
def test_huber(delta, scale):
    stats = pytest.importorskip("scipy.stats")
    integrate = pytest.importorskip("scipy.integrate")
    grid = np.linspace(-60 / delta, 60 / delta, 400_001)
    size = np.abs(grid)
    loss = np.where(size <= delta, 0.5 * grid**2, delta * size - 0.5 * delta**2)
    cdf = integrate.cumulative_trapezoid(np.exp(-loss), grid, initial=0.0)
    cdf /= cdf[-1]
    seen = draws(likelihoods.Huber(delta, scale)) / scale
    assert stats.kstest(seen, lambda z: np.interp(z, grid, cdf)).statistic < LIMIT


@pytest.mark.parametrize("rate", [0.0, 0.3, 7.0, 80.0, 900.0])
@pytest.mark.parametrize("link", ["identity", "log"])
def test_poisson(rate, link):
    stats = pytest.importorskip("scipy.stats")
    if link == "log" and rate == 0.0:
        return
    x0 = rate if link == "identity" else np.log(rate)
    seen = draws(likelihoods.Poisson(link), x0=x0)
    # At whole numbers the empirical distribution and the law can be compared as they are.
    values = np.arange(seen.max() + 1)
    ours = np.searchsorted(np.sort(seen), values, side="right") / len(seen)
    assert np.max(np.abs(ours - stats.poisson(rate).cdf(values))) < LIMIT
    assert np.all(seen == np.round(seen))


@pytest.mark.parametrize("link, x0", [("identity", 0.2), ("logit", np.log(0.25))])
def test_bernoulli(link, x0):
    seen = draws(likelihoods.Bernoulli(link), x0=x0)
    assert set(seen) == {0.0, 1.0}
    # Probability 0.2 either way; five standard errors.
    assert abs(seen.mean() - 0.2) < 5 * np.sqrt(0.16 / len(seen))


def test_gaussian_kinds_agree_with_R():
    R = np.array([[2.0, 0.6], [0.6, 1.0]])
    model = optfilter.models.RandomWalk(2, Q=1e-18, P0=1e-18, R=R)
    by_R = optfilter.simulate(model, 200, seed=1)
    by_likelihood = optfilter.simulate(model.replace(likelihood=likelihoods.Gaussian(R)), 200, seed=1)
    assert np.array_equal(by_R.observations, by_likelihood.observations)
    seen = optfilter.simulate(model, 40_000, seed=1).observations
    np.testing.assert_allclose(np.cov(seen.T), R, atol=0.05)
    ones = optfilter.simulate(model.replace(likelihood=likelihoods.SquaredError()), 40_000, seed=1)
    np.testing.assert_allclose(np.cov(ones.observations.T), np.eye(2), atol=0.05)


def test_components_of_different_kinds():
    mixed = likelihoods.Independent(
        likelihoods.Independent.normal(0.1), likelihoods.Poisson("log"), likelihoods.Bernoulli("logit")
    )
    model = optfilter.models.RandomWalk(3, Q=1e-18, x0=[5.0, 1.0, 0.0], P0=1e-18, likelihood=mixed)
    seen = optfilter.simulate(model, 5000, seed=2).observations
    np.testing.assert_allclose(seen.mean(axis=0), [5.0, np.e, 0.5], atol=0.05)


def test_inputs():
    model = optfilter.models.Linear(F=np.eye(2), H=np.eye(2), B=[[1.0], [2.0]], Q=1e-18, R=1e-18, P0=1e-18)
    us = np.arange(5.0)
    data = optfilter.simulate(model, 5, us=us)
    np.testing.assert_allclose(data.states[:, 0], np.cumsum(us), atol=1e-6)
    np.testing.assert_allclose(data.states[:, 1], 2 * np.cumsum(us), atol=1e-6)
    assert data.us.shape == (5, 1)
    many = optfilter.simulate(model, 5, us=np.stack([us[:, None], 3 * us[:, None]]), batch=2)
    np.testing.assert_allclose(many.states[1, :, 0], 3 * np.cumsum(us), atol=1e-6)
    shared = optfilter.simulate(model, 5, us=us[:, None], batch=2)
    np.testing.assert_array_equal(shared.states[0], data.states)
    for wrong in (None, us[:4], np.zeros((5, 2)), np.full(5, np.nan)):
        with pytest.raises(ValueError, match="^us: "):
            optfilter.simulate(model, 5, us=wrong)
    with pytest.raises(ValueError, match="^us: "):
        optfilter.simulate(optfilter.models.Growth(), 5, us=us)


def test_inputs_of_callables_and_monte_carlo():
    model = optfilter.Model(lambda x, u: x + u, lambda x: x, n=1, m=1, inputs=1, Q=0.1, R=0.1)
    us = np.ones((20, 1))
    data = optfilter.simulate(model, 20, us=us, seed=4)
    assert abs(data.states[-1, 0] - 20) < 8
    result = optfilter.monte_carlo(
        model, [optfilter.UnscentedKalmanFilter(model), optfilter.UnscentedKalmanFilter(model, Q=9.0)], runs=3, steps=20, us=us, progress=False
    )
    assert list(result.rmse) == ["UnscentedKalmanFilter", "UnscentedKalmanFilter 2"]
    assert np.all(result.rmse["UnscentedKalmanFilter"] < 1.0)


def test_bounds_are_kept():
    model = optfilter.models.RandomWalk(1, Q=4.0, R=1e-12, bounds=(0.0, 1.0))
    states = optfilter.simulate(model, 500, seed=1).states
    assert states.min() == 0.0 and states.max() == 1.0


def test_links_of_model_files_are_applied_once():
    def model(equation, **more):
        seen = {"c": {"equation": equation, "likelihood": "poisson", **more}}
        return optfilter.Model.from_expressions({"r": "0.95*r"}, seen, Q=0.1, x0=1.0, P0=0.1)

    linked, spelled_out = model("r", link="log"), model("exp(r)")
    data = optfilter.simulate(spelled_out, 300, seed=5)
    np.testing.assert_array_equal(optfilter.simulate(linked, 300, seed=5).observations, data.observations)
    # The mean of the counts is the rate, not its exponential.
    rate = np.exp(data.states[:, 0])
    assert abs(np.sum(data.observations[:, 0] - rate)) < 5 * np.sqrt(rate.sum())
    for make in (
        lambda m: optfilter.ImplicitMAP(m, optfilter.SGD(0.05), 5),
        lambda m: optfilter.ParticleFilter(m, 200, seed=1),
    ):
        a, b = make(linked).filter(data.observations), make(spelled_out).filter(data.observations)
        np.testing.assert_allclose(a.means, b.means, rtol=1e-12)
    by_hand = optfilter.Model(
        lambda x: 0.95 * x, lambda x: x, n=1, m=1, Q=0.1, x0=1.0, P0=0.1, likelihood=likelihoods.Poisson("log")
    )
    f = optfilter.ImplicitMAP(by_hand, optfilter.SGD(0.05), 5)
    g = optfilter.ImplicitMAP(linked, optfilter.SGD(0.05), 5)
    ys = data.observations[:50]
    # By hand with differences of h, so not to the last bit.
    np.testing.assert_allclose(f.filter(ys).means, g.filter(ys).means, rtol=1e-6, atol=1e-8)


def test_what_cannot_be_simulated():
    with pytest.raises(ValueError, match="^R: the model's likelihood"):
        optfilter.simulate(walk(likelihoods.Poisson()), 5, R=1.0)
    with pytest.raises(ValueError, match="^likelihood: nothing can be drawn"):
        optfilter.simulate(walk(likelihoods.Poisson("log"), x0=60.0), 5)
    with pytest.raises(optfilter.DivergenceError) as caught:
        model = optfilter.Model.from_expressions({"x": "exp(x)"}, {"y": "x"}, x0=3.0, Q=1e-9, P0=1e-9)
        optfilter.simulate(model, 9)
    # 3, e^3 = 20, e^20 = 5e8, then infinity.
    assert caught.value.index == 3 and np.all(np.isfinite(caught.value.last_good))
    with pytest.raises(MemoryError):
        optfilter.simulate(optfilter.models.Growth(), 2**55)

    def h(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        optfilter.simulate(optfilter.Model(lambda x: x, h, n=1, m=1, Q=1.0, R=1.0), 5)


def test_simulations_pickle():
    data = optfilter.simulate(optfilter.models.Growth(), 5)
    again = pickle.loads(pickle.dumps(data))
    assert np.array_equal(again.states, data.states) and repr(again) == repr(data)
