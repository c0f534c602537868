"""Likelihoods written in Python: stochastic volatility, and a Gaussian that the library knows too."""

import warnings

import numpy as np
import pytest

import optfilter
from optfilter.likelihoods import Gaussian, LogProb

PHI, Q = 0.95, 0.05
START = Q / (1 - PHI**2)


def volatility(y, h):
    """ln N(y; 0, e^h), of many h."""
    return -0.5 * (np.log(2 * np.pi) + h[:, 0] + y[0] ** 2 * np.exp(-h[:, 0]))


def volatility_slope(y, h):
    return 0.5 * (y[0] ** 2 * np.exp(-h) - 1.0)


def returns(rows=60):
    rng = np.random.default_rng(11)
    h, out = rng.normal() * np.sqrt(START), []
    for _ in range(rows):
        out.append(rng.normal() * np.exp(0.5 * h))
        h = PHI * h + rng.normal() * np.sqrt(Q)
    return np.array(out)


def on_a_grid(ys):
    """Bayes' rule on a fine grid: means and the log-likelihood."""
    grid = np.linspace(-6, 6, 1201)
    step = grid[1] - grid[0]
    density = np.exp(-0.5 * grid**2 / START)
    density /= density.sum() * step
    move = np.exp(-0.5 * (grid[:, None] - PHI * grid[None, :]) ** 2 / Q) / np.sqrt(2 * np.pi * Q)
    means, total = [], 0.0
    for k, y in enumerate(ys):
        if k:
            density = move @ density * step
        if not np.isnan(y):
            density = density * np.exp(volatility([y], grid[:, None]))
            total += np.log(density.sum() * step)
            density /= density.sum() * step
        means.append((grid * density).sum() * step)
    return np.array(means), total


def model(likelihood):
    return optfilter.models.Linear([[PHI]], [[1.0]], Q=Q, P0=START, likelihood=likelihood)


def test_particles_find_the_volatility():
    ys = returns()
    ys[[7, 8, 30]] = np.nan
    means, total = on_a_grid(ys)
    many = optfilter.ParticleFilter(model(LogProb(volatility, vectorized=True)), 20_000, seed=3).filter(ys)
    # Errors of sampling: 20,000 particles, spread 0.4 each, some seeds worth of margin.
    assert np.abs(many.means[:, 0] - means).max() < 0.03
    assert abs(many.log_likelihood - total) < 0.2
    one = LogProb(lambda y, h: volatility(y, h[None])[0])
    single = optfilter.ParticleFilter(model(one), 500, seed=3).filter(ys)
    again = optfilter.ParticleFilter(model(LogProb(volatility, vectorized=True)), 500, seed=3).filter(ys)
    np.testing.assert_allclose(single.means, again.means, rtol=1e-12)
    assert np.isnan(many.nis).all()  # h is no measurement


def test_an_implicit_filter_follows_the_volatility():
    ys = returns(400)
    means, _ = on_a_grid(ys)
    given = LogProb(volatility, volatility_slope, vectorized=True)
    result = optfilter.ImplicitMAP(model(given), optfilter.SGD(0.1), steps=3).filter(ys)
    # No posterior mean, but an estimate that moves with it.
    assert np.corrcoef(result.means[:, 0], means)[0, 1] > 0.8
    with pytest.warns(UserWarning, match="log_prob: its gradient is taken by differences"):
        rough = optfilter.ImplicitMAP(model(LogProb(volatility, vectorized=True)), optfilter.SGD(0.1), steps=3).filter(ys)
    np.testing.assert_allclose(rough.means, result.means, atol=1e-7)


def test_a_gaussian_by_hand_is_the_library_s():
    R = 0.7
    by_hand = LogProb(
        lambda y, eta: float(-0.5 * np.sum((y - eta) ** 2 / R + np.log(2 * np.pi * R))), lambda y, eta: (y - eta) / R
    )
    ys = returns(40)
    for make in (
        lambda likelihood: optfilter.ImplicitMAP(model(likelihood), optfilter.Adam(0.1), steps=5),
        lambda likelihood: optfilter.ParticleFilter(model(likelihood), 300, seed=1),
    ):
        ours, theirs = make(Gaussian(R)).filter(ys), make(by_hand).filter(ys)
        np.testing.assert_allclose(theirs.means, ours.means, rtol=1e-9, atol=1e-12)
    # A bare function will do.
    bare = optfilter.ParticleFilter(model(by_hand.log_prob), 300, seed=1).filter(ys)
    np.testing.assert_allclose(bare.log_likelihoods, theirs.log_likelihoods, rtol=1e-9)


def test_jax_differentiates():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    def log_prob(y, h):
        return -0.5 * (jnp.log(2 * jnp.pi) + h[:, 0] + y[0] ** 2 * jnp.exp(-h[:, 0]))

    ys = returns(50)
    by_jax = LogProb(log_prob, "jax", vectorized=True)
    by_hand = LogProb(volatility, volatility_slope, vectorized=True)
    found = [optfilter.ImplicitMAP(model(l), optfilter.SGD(0.1), steps=3).filter(ys).means for l in (by_jax, by_hand)]
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_what_goes_wrong_is_said():
    def broken(y, h):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        optfilter.ParticleFilter(model(LogProb(broken)), 100).filter([1.0])
    with pytest.raises(ValueError, match=r"log_prob: returned a ndarray of shape \[\d+, 1, 1\] where vectorized=True"):
        optfilter.ParticleFilter(model(LogProb(lambda y, h: h[:, :, None], vectorized=True)), 100).filter([1.0])
    with pytest.raises(ValueError, match="log_prob: must be a function"):
        LogProb(3)
    with pytest.raises(ValueError, match="gradient: must be a function"):
        LogProb(volatility, 3)
    for kind in (optfilter.KalmanFilter, optfilter.ExtendedKalmanFilter, optfilter.ETKF):
        with pytest.raises(ValueError, match="use pf, imap or vkf"):
            kind(model(LogProb(volatility)))
    assert model(LogProb(volatility, vectorized=True)).filter([1.0, 2.0]).nis is not None  # particles, without a word
    with pytest.raises(ValueError, match="cannot be drawn from"):
        optfilter.simulate(model(LogProb(volatility)), 10)
    assert "LogProb(volatility)" in repr(model(LogProb(volatility)).likelihood)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # particles ask for no gradient
        optfilter.ParticleFilter(model(LogProb(volatility, vectorized=True)), 100).filter([1.0])
