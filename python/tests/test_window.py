"""Windows on linear systems beside NumPy: batch and recursive least squares, and error bars by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import random_system

import optfilter


def gaps(ys):
    """Rows without anything, and rows without their first component."""
    ys = ys.copy()
    ys[5::7] = np.nan
    ys[8::5, 0] = np.nan
    return ys


def batch(model, ys, first, last, discount):
    """The state at row `last` that fits the rows from `first` on best: one call of `lstsq` on the stacked, whitened rows."""
    path, rows, right = np.eye(len(model.x0)), [], []
    for k in range(first, last + 1):
        if k > first:
            path = model.F @ path
        seen = ~np.isnan(ys[k])
        if seen.any():
            white = np.linalg.inv(np.linalg.cholesky(model.R[np.ix_(seen, seen)])) * discount ** ((last - k) / 2)
            rows.append(white @ model.H[seen] @ path)
            right.append(white @ ys[k][seen])
    return path @ np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]


@pytest.mark.parametrize("seed, n, m", [(0, 2, 2), (1, 3, 2), (2, 4, 3)])
@pytest.mark.parametrize("window, discount", [(4, 1.0), (9, 1.0), (9, 0.8), (1000, 0.9)])
def test_any_window_is_batch_least_squares(seed, n, m, window, discount):
    model, ys = random_system(seed, n, m)
    ys = gaps(ys)
    # Whoever runs conjugate gradients to their end goes three times around: rounding spoils the last digits of one.
    filter = optfilter.ImplicitMAP(model, optfilter.CG(), 4 * n, window=window, discount=discount, error_bars=False)
    result = filter.filter(ys)
    checked = 0
    for k in range(4, len(ys)):
        if np.isnan(ys[k]).all():
            continue  # no step is taken there
        expected = batch(model, ys, max(0, k - window), k, discount)
        np.testing.assert_allclose(result.means[k], expected, rtol=1e-8, atol=1e-8)
        checked += 1
    assert checked > 30


def test_a_window_over_everything_is_recursive_least_squares():
    # A turn that loses little: where states die out, the first of 60 rows cannot be told from the last, whoever solves for it.
    F = 0.99 * np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    like, ys = random_system(3, 3, 2)
    model = optfilter.models.Linear(F, like.H, Q=like.Q, R=like.R, x0=like.x0, P0=like.P0)
    filter = optfilter.ImplicitMAP(model, optfilter.CG(), 12, window=10_000, error_bars=False)
    means = filter.filter(ys).means
    information, weighted = np.zeros((3, 3)), np.zeros(3)
    back = np.linalg.inv(model.F)
    weight = model.H.T @ np.linalg.inv(model.R)
    for k, y in enumerate(ys):
        if k > 0:
            information, weighted = back.T @ information @ back, back.T @ weighted
        information, weighted = information + weight @ model.H, weighted + weight @ y
        if k >= 4:
            np.testing.assert_allclose(means[k], np.linalg.solve(information, weighted), rtol=1e-10, atol=1e-10)


RULES = [
    (optfilter.SGD(0.05), dict(steps=3, window=4, discount=0.8)),
    (optfilter.SGD(0.02), dict(steps=5, window=0)),
    (optfilter.SGD(0.02, momentum=0.5), dict(steps=4, window=3)),
    (optfilter.CG(), dict(steps=12, window=6)),
    (optfilter.CG(), dict(steps=12, window=8, discount=0.7)),
]


@pytest.mark.parametrize("rule, settings", RULES, ids=lambda v: str(v)[:40])
def test_error_bars_and_nis_are_within_their_95_percent_bands(rule, settings):
    """Four hundred series of their own: NEES and NIS of the last row are independent and chi-squared."""
    scipy = pytest.importorskip("scipy.stats")
    runs, rows, n, m = 400, 25, 2, 2
    F = np.array([[0.95, 0.2], [-0.1, 0.9]])
    H, Q, R, P0 = np.eye(2), np.diag([0.05, 0.02]), np.array([[0.5, 0.1], [0.1, 0.3]]), np.eye(2)
    model = optfilter.models.Linear(F, H, Q=Q, R=R, x0=[1.0, -1.0], P0=P0)
    draw = np.random.default_rng(11)
    filter = optfilter.ImplicitMAP(model, rule, **settings)
    nees, nis = [], []
    for _ in range(runs):
        x = draw.multivariate_normal(model.x0, P0)
        ys = []
        for k in range(rows):
            if k > 0:
                x = F @ x + draw.multivariate_normal(np.zeros(n), Q)
            ys.append(H @ x + draw.multivariate_normal(np.zeros(m), R))
        result = filter.filter(np.array(ys))
        error = result.means[-1] - x
        nees.append(error @ np.linalg.solve(result.covariances[-1], error))
        nis.append(result.nis[-1])
    for found, freedom in ((nees, n), (nis, m)):
        low, high = scipy.chi2.ppf([0.025, 0.975], runs * freedom) / runs
        assert low < np.mean(found) < high


def test_windows_that_are_longer_than_the_data_and_discounts_that_are_none():
    model, ys = random_system(4, 2, 2)
    of = lambda **settings: optfilter.ImplicitMAP(model, optfilter.CG(), 6, error_bars=False, **settings)
    np.testing.assert_array_equal(of(window=1000).filter(ys).means, of(window=len(ys)).filter(ys).means)
    stepped, whole = of(window=5, discount=0.7), of(window=5, discount=0.7).filter(ys)
    for k, y in enumerate(ys):
        if k > 0:
            stepped.predict()
        stepped.update(y)
        np.testing.assert_array_equal(stepped.x, whole.means[k])
    assert not np.allclose(whole.means[-1], of(window=5).filter(ys).means[-1])
    for discount in (-0.5, 0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="discount"):
            of(window=5, discount=discount)
