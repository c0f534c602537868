"""Kalman filter numbers from statsmodels, with missing observations.

The filter starts from a belief N(m0, P0) at time 0 and does predict, then
update, for t = 1..T. statsmodels starts from the *predicted* belief of its
first observation, so it is given N(F m0, F P0 F' + Q); both are written.

Three things are checked before anything is written:
  * statsmodels' conventional filter against its univariate one,
  * its log-likelihood against the density of all observed numbers at once, as
    one big Gaussian vector (scipy),
  * that it never switched to a steady state (tolerance 0).
"""

import numpy as np
import scipy
import statsmodels
from scipy.stats import multivariate_normal
from statsmodels.tsa.statespace.kalman_filter import (
    FILTER_CONVENTIONAL,
    FILTER_UNIVARIATE,
    KalmanFilter,
)

import golden_io

T = 50


def spd(rng, n, low):
    a = rng.standard_normal((n, n))
    return a @ a.T / n + low * np.eye(n)


def local_level():
    return dict(
        F=np.array([[1.0]]),
        H=np.array([[1.0]]),
        Q=np.array([[0.4]]),
        R=np.array([[1.5]]),
        m0=np.array([0.5]),
        P0=np.array([[2.0]]),
    )


def constant_velocity():
    dt, q = 0.5, 0.3
    g = np.array([[dt * dt / 2], [dt]])
    return dict(
        F=np.array([[1.0, dt], [0.0, 1.0]]),
        H=np.array([[1.0, 0.0]]),
        Q=q * (g @ g.T),  # rank 1: acceleration is the only noise
        R=np.array([[0.8]]),
        m0=np.array([1.0, -0.5]),
        P0=np.array([[1.0, 0.2], [0.2, 0.7]]),
    )


def random_stable(rng):
    a = rng.standard_normal((4, 4))
    return dict(
        F=0.95 * a / np.abs(np.linalg.eigvals(a)).max(),
        H=rng.standard_normal((2, 4)),
        Q=spd(rng, 4, 0.05),
        R=spd(rng, 2, 0.2),
        m0=rng.standard_normal(4),
        P0=spd(rng, 4, 0.5),
    )


def simulate(rng, s):
    n, m = s["F"].shape[0], s["H"].shape[0]
    x = rng.multivariate_normal(s["m0"], s["P0"], method="cholesky")
    ys = np.empty((T, m))
    for t in range(T):
        x = s["F"] @ x + rng.multivariate_normal(np.zeros(n), s["Q"], method="svd")
        ys[t] = s["H"] @ x + rng.multivariate_normal(np.zeros(m), s["R"], method="cholesky")
    return ys


def run(s, ys, method):
    n, m = s["F"].shape[0], s["H"].shape[0]
    kf = KalmanFilter(k_endog=m, k_states=n, k_posdef=n, loglikelihood_burn=0, tolerance=0.0)
    kf.bind(np.asfortranarray(ys.T.copy()))
    kf["design"] = s["H"]
    kf["obs_cov"] = s["R"]
    kf["transition"] = s["F"]
    kf["selection"] = np.eye(n)
    kf["state_cov"] = s["Q"]
    kf.initialize_known(s["F"] @ s["m0"], s["F"] @ s["P0"] @ s["F"].T + s["Q"])
    kf.filter_method = method
    assert kf.tolerance == 0.0
    result = kf.filter()
    assert not result.converged
    return result


def joint_llf(s, ys):
    """log p(all observed numbers), without any recursion."""
    n, m = s["F"].shape[0], s["H"].shape[0]
    mean, cov = np.zeros(T * n), np.zeros((T * n, T * n))
    mu, p = s["m0"], s["P0"]
    for t in range(T):
        mu, p = s["F"] @ mu, s["F"] @ p @ s["F"].T + s["Q"]
        mean[t * n : (t + 1) * n] = mu
        block = p
        for u in range(t, T):  # Cov(x_u, x_t) = F^(u-t) P_t
            cov[u * n : (u + 1) * n, t * n : (t + 1) * n] = block
            cov[t * n : (t + 1) * n, u * n : (u + 1) * n] = block.T
            block = s["F"] @ block
    big_h = np.kron(np.eye(T), s["H"])
    seen = ~np.isnan(ys.ravel())
    my = (big_h @ mean)[seen]
    sy = (big_h @ cov @ big_h.T + np.kron(np.eye(T), s["R"]))[np.ix_(seen, seen)]
    return multivariate_normal.logpdf(ys.ravel()[seen], my, (sy + sy.T) / 2)


def system(name, s, ys):
    conv, univ = run(s, ys, FILTER_CONVENTIONAL), run(s, ys, FILTER_UNIVARIATE)
    for key in ("filtered_state", "filtered_state_cov", "predicted_state", "predicted_state_cov"):
        np.testing.assert_allclose(getattr(conv, key), getattr(univ, key), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(conv.llf_obs, univ.llf_obs, rtol=1e-10, atol=1e-10)
    joint = joint_llf(s, ys)
    np.testing.assert_allclose(conv.llf_obs.sum(), joint, rtol=1e-10)

    missing = np.isnan(ys)
    innovation = conv.forecasts_error.T.copy()
    innovation[missing] = np.nan
    innovation_cov = np.moveaxis(conv.forecasts_error_cov, 2, 0).copy()
    for t in range(T):
        innovation_cov[t][missing[t], :] = np.nan
        innovation_cov[t][:, missing[t]] = np.nan
    # The filter's own inputs must give back what it reports as S and v.
    for t in range(T):
        k = ~missing[t]
        p = conv.predicted_state_cov[:, :, t]
        np.testing.assert_allclose(
            innovation_cov[t][np.ix_(k, k)], (s["H"] @ p @ s["H"].T + s["R"])[np.ix_(k, k)], rtol=1e-12
        )
        np.testing.assert_allclose(
            innovation[t][k], (ys[t] - s["H"] @ conv.predicted_state[:, t])[k], rtol=1e-9, atol=1e-12
        )
        if not k.any():
            assert conv.llf_obs[t] == 0.0
            np.testing.assert_array_equal(conv.filtered_state[:, t], conv.predicted_state[:, t])
    print(f"{name}: llf {conv.llf_obs.sum():.12f}, joint density {joint:.12f}, missing {int(missing.sum())}")
    return dict(
        name=name,
        n=s["F"].shape[0],
        m=s["H"].shape[0],
        T=T,
        **s,
        statsmodels_initial_mean=s["F"] @ s["m0"],
        statsmodels_initial_cov=s["F"] @ s["P0"] @ s["F"].T + s["Q"],
        ys=ys,
        predicted_mean=conv.predicted_state[:, :T].T,
        predicted_cov=np.moveaxis(conv.predicted_state_cov[:, :, :T], 2, 0),
        filtered_mean=conv.filtered_state.T,
        filtered_cov=np.moveaxis(conv.filtered_state_cov, 2, 0),
        innovation=innovation,
        innovation_cov=innovation_cov,
        loglik_obs=conv.llf_obs,
        loglik=conv.llf_obs.sum(),
        joint_loglik=joint,
    )


def main():
    rng = np.random.default_rng(20240601)
    systems = []

    s = local_level()
    ys = simulate(rng, s)
    ys[[0, 6, 7, 8, 30]] = np.nan  # the very first one too
    systems.append(system("local_level", s, ys))

    s = constant_velocity()
    ys = simulate(rng, s)
    ys[[3, 17, 18, 19, 20, 49]] = np.nan  # the last one too
    systems.append(system("constant_velocity", s, ys))

    s = random_stable(rng)
    ys = simulate(rng, s)
    ys[[5, 22, 23]] = np.nan
    ys[[0, 9, 10, 31], 0] = np.nan
    ys[[2, 10, 14, 40], 1] = np.nan  # time index 10 loses both, one by one
    systems.append(system("random_stable", s, ys))

    golden_io.write(
        "kalman_statsmodels.json",
        dict(
            program=f"statsmodels {statsmodels.__version__}, scipy {scipy.__version__}, numpy {np.__version__}",
            systems=systems,
        ),
    )


if __name__ == "__main__":
    main()
