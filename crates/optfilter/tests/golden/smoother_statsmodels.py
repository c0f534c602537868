"""Smoothed states and forecasts from programs that are not ours.

  * `systems`: the systems and observations of kalman_statsmodels.json, smoothed by statsmodels (conventional
    smoother, tolerance 0), and its forecasts of 12 rows beyond the last. The script stops unless statsmodels'
    classical smoother agrees to 1e-9.
  * `nile`: Nile, 1871-1970, with two gaps of twenty rows as in Durbin and Koopman (2012, section 2.7): local level
    at their variances, and a local linear trend. The initial belief is of the first row's own time.
  * `unscented`, `extended`: the systems of ekf_filterpy.json and ukf_filterpy.json. filterpy's UnscentedKalmanFilter.rts_smoother
    goes over its own filtered beliefs. It has none for an extended filter; range_bearing has linear dynamics, so
    KalmanFilter.rts_smoother over the filtered beliefs of the extended filter is its smoother.
"""

import json

import filterpy
import numpy as np
import statsmodels
from filterpy.kalman import KalmanFilter as FilterpyKalman
from filterpy.kalman import UnscentedKalmanFilter
from statsmodels.datasets import nile
from statsmodels.tsa.statespace.kalman_smoother import SMOOTH_CLASSICAL, SMOOTH_CONVENTIONAL, KalmanSmoother

import golden_io
import nonlinear_systems as systems
import ukf_filterpy

AHEAD = 12


def numbers(value):
    return np.array(value, dtype=float)


def smoother(F, H, Q, R, mean, cov, method=SMOOTH_CONVENTIONAL):
    n, m = F.shape[0], H.shape[0]
    kf = KalmanSmoother(k_endog=m, k_states=n, k_posdef=n, tolerance=0, smooth_method=method)
    kf["design"], kf["transition"], kf["selection"] = H, F, np.eye(n)
    kf["state_cov"], kf["obs_cov"] = Q, R
    kf.initialize_known(mean, cov)
    return kf


def smoothed(F, H, Q, R, mean, cov, ys):
    """`mean` and `cov` are of the first row, before its observation."""
    both = []
    for method in (SMOOTH_CONVENTIONAL, SMOOTH_CLASSICAL):
        kf = smoother(F, H, Q, R, mean, cov, method)
        kf.bind(ys)
        both.append(kf.smooth())
    a, b = both
    np.testing.assert_allclose(a.smoothed_state, b.smoothed_state, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.smoothed_state_cov, b.smoothed_state_cov, rtol=1e-9, atol=1e-9)
    # Forecasts: rows of nothing behind the last.
    longer = np.vstack([ys, np.full((AHEAD, ys.shape[1]), np.nan)])
    kf = smoother(F, H, Q, R, mean, cov)
    kf.bind(longer)
    ahead = kf.filter()
    states = ahead.filtered_state[:, -AHEAD:]
    covs = ahead.filtered_state_cov[:, :, -AHEAD:]
    return dict(
        smoothed_mean=a.smoothed_state.T,
        smoothed_cov=a.smoothed_state_cov.transpose(2, 0, 1),
        forecast_state=states.T,
        forecast_state_cov=covs.transpose(2, 0, 1),
        forecast=(H @ states).T,
        forecast_cov=np.array([H @ covs[:, :, k] @ H.T + R for k in range(AHEAD)]),
        log_likelihood=float(a.llf_obs.sum()),
    )


def linear():
    out = []
    for s in json.loads((golden_io.HERE / "kalman_statsmodels.json").read_text())["systems"]:
        F, H, Q, R = (numbers(s[k]) for k in "FHQR")
        mean, cov = numbers(s["predicted_mean"][0]), numbers(s["predicted_cov"][0])
        out.append(dict(name=s["name"]) | smoothed(F, H, Q, R, mean, cov, numbers(s["ys"])))
    return out


def nile_cases():
    ys = nile.load_pandas().data["volume"].to_numpy(dtype=float).copy()[:, None]
    ys[20:40] = np.nan
    ys[60:80] = np.nan
    level = dict(
        F=np.eye(1), H=np.eye(1), Q=np.array([[1469.1]]), R=np.array([[15099.0]]), m0=np.array([1000.0]), P0=np.array([[1e6]])
    )
    trend = dict(
        F=np.array([[1.0, 1.0], [0.0, 1.0]]),
        H=np.array([[1.0, 0.0]]),
        Q=np.diag([1200.0, 4.0]),
        R=np.array([[15000.0]]),
        m0=np.array([1000.0, 0.0]),
        P0=np.diag([1e6, 1e3]),
    )
    cases = []
    for name, s in (("local_level", level), ("local_linear_trend", trend)):
        cases.append(dict(name=name) | s | smoothed(s["F"], s["H"], s["Q"], s["R"], s["m0"], s["P0"], ys))
    return dict(ys=ys, cases=cases)


def unscented():
    out = []
    for s in json.loads((golden_io.HERE / "ukf_filterpy.json").read_text())["systems"]:
        system = getattr(systems, s["name"])()
        for number, case in enumerate(s["cases"]):
            p = case["points"]
            points, _ = (
                ukf_filterpy.merwe(system.n, p["alpha"], p["beta"], p["kappa"])
                if p["kind"] == "merwe"
                else ukf_filterpy.julier(system.n, p["kappa"])
            )
            means, covs = numbers(case["filtered_mean"]), numbers(case["filtered_cov"])
            kf = UnscentedKalmanFilter(system.n, system.m, system.dt, hx=system.h, fx=system.f, points=points)
            kf.Q = system.Q
            # Its step from row k is told the length of the step; ours is told the number of the row it leads to.
            rows = [t + 2 for t in range(len(means))]
            mean, cov, _ = kf.rts_smoother(means, covs, Qs=[system.Q] * len(means), dts=rows)
            out.append(dict(name=s["name"], case=number, smoothed_mean=mean, smoothed_cov=cov))
    return out


def extended():
    s = next(s for s in json.loads((golden_io.HERE / "ekf_filterpy.json").read_text())["systems"] if s["name"] == "range_bearing")
    means, covs = numbers(s["filtered_mean"]), numbers(s["filtered_cov"])
    F, Q = numbers(s["jacobian_f"])[0], numbers(s["Q"])
    kf = FilterpyKalman(means.shape[1], 2)
    mean, cov, _, _ = kf.rts_smoother(means, covs, Fs=[F] * len(means), Qs=[Q] * len(means))
    return dict(name=s["name"], smoothed_mean=mean, smoothed_cov=cov)


if __name__ == "__main__":
    golden_io.write(
        "smoother_statsmodels.json",
        dict(
            program=f"statsmodels {statsmodels.__version__}, filterpy {filterpy.__version__}, numpy {np.__version__}",
            systems=linear(),
            nile=nile_cases(),
            unscented=unscented(),
            extended=extended(),
        ),
    )
