"""Equality with the Rust library to the bit.

``OPTFILTER_RUST_RESULTS`` names the output of ``cargo run --release -p optfilter-py --example rust_results``;
``python/run_tests.sh`` makes it.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import optfilter


@pytest.fixture(scope="module")
def rust():
    path = os.environ.get("OPTFILTER_RUST_RESULTS")
    if not path:
        pytest.skip("OPTFILTER_RUST_RESULTS is not set; run python/run_tests.sh")
    out = {}
    with open(path) as file:
        for line in file:
            name, *words = line.split()
            out[name] = np.array([int(w, 16) for w in words], dtype=np.uint64).view(np.float64)
    return out


def check(rust, name, result):
    for part in ("means", "innovations", "covariances", "log_likelihoods"):
        ours = getattr(result, part)
        if f"{name}.{part}" in rust:
            assert np.array_equal(rust[f"{name}.{part}"], np.ravel(ours)), f"{name}.{part}"
        else:
            assert ours is None or part == "log_likelihoods", f"{name}.{part}"


def test_every_filter_equals_rust_bit_for_bit(rust):
    growth = optfilter.models.Growth(Q=3.0, R=2.0)
    data = optfilter.simulate(growth, 60, batch=40, seed=9)
    assert np.array_equal(rust["growth.states"], data.states[0, :, 0])
    assert np.array_equal(rust["growth.observations"], data.observations[0, :, 0])
    ys = data.observations[0]
    adam = optfilter.Adam(lr=0.1)
    check(rust, "ekf", optfilter.ExtendedKalmanFilter(growth).filter(ys))
    check(rust, "iekf", optfilter.IteratedEKF(growth, iterations=4).filter(ys))
    check(rust, "ukf", optfilter.UnscentedKF(growth, kappa=2.0).filter(ys))
    check(rust, "pf", optfilter.ParticleFilter(growth, 100, seed=5).filter(ys))
    check(rust, "imap", optfilter.ImplicitMAP(growth, adam, steps=50).filter(ys))
    check(rust, "bars", optfilter.ImplicitMAP(growth, adam, steps=50, error_bars=True).filter(ys))
    check(rust, "vkf", optfilter.VariationalKF(growth, 2.0, adam, steps=30).filter(ys))
    batch = optfilter.ImplicitMAP(growth, adam, steps=50).filter(data.observations)
    assert np.array_equal(rust["batch.means"], batch.means.ravel())


def test_lorenz_equals_rust_bit_for_bit(rust):
    model = optfilter.models.Lorenz63(dt=0.02)
    ys = optfilter.simulate(model, 60, seed=9).observations
    check(rust, "lorenz-ekf", optfilter.ExtendedKalmanFilter(model).filter(ys))
    check(rust, "lorenz-ukf", optfilter.UnscentedKF(model).filter(ys))
