"""Batches of a linear model share their covariances; every trajectory has the bits of its own run."""

import numpy as np
import pytest

import optfilter

NAMES = ("means", "covariances", "innovations", "innovation_covariances", "log_likelihoods", "nis", "_flags")

TRACK = """
states = ["x", "v"]
inputs = ["push"]
[dynamics]
"dx/dt" = "v"
"dv/dt" = "push - 0.3*v"
[observation]
y = "x"
[process_noise]
var = { x = 0.01, v = 0.2 }
per = "time"
[measurement_noise]
var = 0.5
[initial]
mean = 0
var = 2
"""


def compare(made, ys, **given):
    """A batch against its trajectories one by one."""
    batch = made.filter(ys, **given)
    for b in range(len(ys)):
        own = {key: v[b] if np.ndim(v) > dims else v for key, v, dims in (
            ("x0", given.get("x0"), 1), ("P0", given.get("P0"), 2)) if v is not None}
        shared = {key: v for key, v in given.items() if key not in ("x0", "P0")}
        alone = made.filter(ys[b], **shared, **own)
        for name in NAMES:
            np.testing.assert_array_equal(getattr(batch, name)[b], getattr(alone, name), err_msg=f"{name} of {b}")
    return batch


def gappy(rng, count, rows, m, share):
    ys = rng.normal(size=(count, rows, m)).cumsum(axis=1)
    ys[rng.random(ys.shape) < share] = np.nan
    return ys


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_one_state(share):
    rng = np.random.default_rng(1)
    model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
    compare(optfilter.KalmanFilter(model), gappy(rng, 70, 40, 1, share))
    compare(optfilter.ExtendedKalmanFilter(model), gappy(rng, 7, 20, 1, share), predict_first=True)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_four_states_and_two_measurements(share):
    rng = np.random.default_rng(2)
    F = [[1, 0.1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.1], [0, 0, 0, 1]]
    H = [[1, 0, 0, 0], [0, 0, 1, 0]]
    model = optfilter.models.Linear(F, H, Q=[0.1, 0.2, 0.1, 0.3], R=[[1.0, 0.2], [0.2, 2.0]])
    ys = gappy(rng, 37, 30, 2, share)
    x0 = rng.normal(size=(37, 4))
    compare(optfilter.KalmanFilter(model), ys, x0=x0)
    # Every trajectory from a covariance of its own: nothing is shared, and nothing is wrong.
    P0 = np.array([np.eye(4) * (1 + b) for b in range(37)])
    compare(optfilter.KalmanFilter(model), ys, x0=x0, P0=P0)


def test_a_model_file_with_inputs_and_irregular_times():
    rng = np.random.default_rng(3)
    model = optfilter.Model.from_toml(TRACK)
    ts = np.cumsum(rng.choice([0.0, 0.1, 0.4], size=25))
    us = rng.normal(size=(25, 1))
    compare(optfilter.KalmanFilter(model), gappy(rng, 12, 25, 1, 0.05), ts=ts, us=us)
    compare(optfilter.KalmanFilter(model), gappy(rng, 12, 25, 1, 0.05), ts=ts, us=us, t0=float(ts[0]) - 1.0)


def test_gates_bounds_and_exact_measurements_are_as_alone():
    rng = np.random.default_rng(4)
    ys = gappy(rng, 9, 30, 1, 0.1)
    model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
    for made in (
        optfilter.KalmanFilter(model, gate=0.9),
        optfilter.KalmanFilter(model, gate=0.9, gating="flag"),
        optfilter.KalmanFilter(model, bounds=(0.0, np.inf)),
        optfilter.KalmanFilter(model, R=0.0),
    ):
        compare(made, ys)


def test_one_that_diverges_ends_alone():
    model = optfilter.models.Linear([[10.0]], [[1.0]], Q=1.0, R=1.0)
    ys = np.full((6, 150, 1), np.nan)
    ys[:, 0] = 1.0
    ys[2, :] = 1.0
    result = optfilter.KalmanFilter(model).filter(ys, errors="nan")
    failed = [b for b, _ in result.failures]
    assert failed == [0, 1, 3, 4, 5]
    assert np.isfinite(result.means[2]).all()


def test_only_what_is_asked_for():
    rng = np.random.default_rng(5)
    model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
    made, ys = optfilter.KalmanFilter(model), gappy(rng, 40, 20, 1, 0.0)
    whole = made.filter(ys)
    result = made.filter(ys, only=("means", "covariances"))
    np.testing.assert_array_equal(result.means, whole.means)
    np.testing.assert_array_equal(result.stds, whole.stds)
    assert result.innovations is None and result.nis is None and result.flags is None
    assert result.log_likelihood is None
    assert list(made.filter(ys[0], only=[]).to_dataframe().columns) == ["t", "x0"]
    assert made.filter(ys[0], only="nis").nis.shape == (20,)
    with pytest.raises(ValueError, match="only: there is no 'variance'"):
        made.filter(ys, only=["variance"])
