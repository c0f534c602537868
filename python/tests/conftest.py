"""What the tests share: models of every kind and small random systems."""

from __future__ import annotations

import numpy as np
import pytest

import optfilter


def random_system(seed: int, n: int, m: int, steps: int = 60):
    """A random stable linear-Gaussian system with its simulated data."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, n))
    F *= 0.95 / np.max(np.abs(np.linalg.eigvals(F)))
    H = rng.normal(size=(m, n))
    a, b, c = (rng.normal(size=(k, k)) for k in (n, m, n))
    Q, R, P0 = a @ a.T + 0.1 * np.eye(n), b @ b.T + 0.1 * np.eye(m), c @ c.T + 0.1 * np.eye(n)
    x0 = rng.normal(size=n)
    # Symmetric to the last bit, as filterpy and statsmodels assume.
    Q, R, P0 = ((s + s.T) / 2 for s in (Q, R, P0))
    model = optfilter.models.Linear(F, H, Q=Q, R=R, x0=x0, P0=P0)
    ys = optfilter.simulate(model, steps, seed=seed).observations
    return model, ys


def growth_callable(**changes):
    """The growth system as Python callables."""
    settings = dict(dt=0.1, Q=3.0, R=2.0)
    settings.update(changes)
    return optfilter.Model(
        f=lambda x, t: x / 2 + 25 * x / (1 + x**2) + 8 * np.cos(1.2 * t),
        h=lambda x: x**2 / 20,
        n=1,
        m=1,
        **settings,
    )


def growth_text(**changes):
    """The growth system as expressions."""
    settings = dict(dt=0.1, Q=3.0, R=2.0)
    settings.update(changes)
    return optfilter.Model.from_expressions(
        {"x": "x/2 + 25*x/(1+x^2) + 8*cos(1.2*t)"}, {"y": "x^2/20"}, **settings
    )


def cart_text(*, pushed: bool = True, doppler: bool = False, timed: bool = True) -> str:
    """A cart on a line as a model file: its position is measured, and its velocity if asked for; with or without a push, with steps
    of 1 or times in hours in a column."""
    lines = [
        'states = ["x", "v"]',
        *['inputs = ["push"]'] * pushed,
        "[dynamics]",
        'x = "x + dt*v"',
        'v = "v + dt*push"' if pushed else 'v = "v"',
        "[observation]",
        'gps = "x"',
        *['doppler = "v"'] * doppler,
        "[process_noise]\nstd = 0.1",
        f"[measurement_noise]\nstd = {[0.5, 0.2] if doppler else 0.5}",
        "[initial]\nmean = 0\nstd = 1",
        "[time]\ndt = 1",
        *['column = "when"\nunit = "hour"'] * timed,
    ]
    return "\n".join(lines) + "\n"


def walk(rng: np.random.Generator, rows: int) -> dict:
    """Columns of one series at irregular times of a calendar: a random walk."""
    when = np.datetime64("2026-03-01", "us") + np.cumsum(rng.integers(10, 90, rows)).astype("timedelta64[m]")
    return {"when": when, "gps": rng.normal(size=rows).cumsum()}


FILTERS = {
    "ekf": lambda model: optfilter.ExtendedKalmanFilter(model),
    "iekf": lambda model: optfilter.IteratedKalmanFilter(model, steps=4),
    "ukf": lambda model: optfilter.UnscentedKalmanFilter(model),
    "pf": lambda model: optfilter.ParticleFilter(model, particles=64, seed=5),
    "etkf": lambda model: optfilter.ETKF(model, 10, rotate=True, seed=3),
    "letkf": lambda model: optfilter.LETKF(model, 10, radius=1.0, periodic=True),
    "imap": lambda model: optfilter.ImplicitMAP(
        model, optimizer=optfilter.Adam(lr=0.1), steps=10, error_bars=False
    ),
    "imap-squared": lambda model: optfilter.ImplicitMAP(
        model, optimizer=optfilter.Adam(lr=0.1), steps=10, loss="squared", error_bars=False
    ),
    "imap-carry": lambda model: optfilter.ImplicitMAP(
        model, optimizer=optfilter.RMSProp(lr=0.05), steps=3, carry=True
    ),
    "imap-bars": lambda model: optfilter.ImplicitMAP(
        model, optimizer=optfilter.SGD(lr=0.05), steps=5
    ),
    "vkf": lambda model: optfilter.VariationalKalmanFilter(model, 2.0, optimizer=optfilter.Adam(0.1), steps=30),
}


@pytest.fixture(params=sorted(FILTERS))
def make_filter(request):
    return FILTERS[request.param]


@pytest.fixture
def growth():
    return optfilter.models.Growth(Q=3.0, R=2.0)


@pytest.fixture
def growth_data(growth):
    return optfilter.simulate(growth, 80, batch=5, seed=11)
