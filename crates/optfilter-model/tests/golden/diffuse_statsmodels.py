"""Exact diffuse starts by statsmodels: filtered, smoothed and forecast states of models whose start is unknown.

Each case holds a model file, its rows, and what statsmodels makes of them with exact diffuse initialisation
(Durbin and Koopman 2012, chapter 5) of the states that the file calls diffuse: the log-likelihood of each row, filtered
means, the finite part of their covariances, how many rows begin with something unknown, and what it expects of the state a
few rows after the last. Smoothed means and covariances are those of all rows at once, a dense Gaussian whose unknown states have
a variance of 1e30, in 80 digits (mpmath; null where they have no limit). The script stops unless statsmodels' smoother agrees to
1e-10; it does not where two measurements of an unknown speed lie a thousandth apart, and is off by thousands there. The noise is
drawn by NumPy.
Run in this folder: python diffuse_statsmodels.py
"""

import json
from pathlib import Path

import mpmath as mp
import numpy as np
import statsmodels
from statsmodels.tsa.statespace.initialization import Initialization
from statsmodels.tsa.statespace.kalman_smoother import SMOOTH_CONVENTIONAL, KalmanSmoother

HERE = Path(__file__).resolve().parent
AHEAD = 3
nan = np.nan


def listed(a):
    """Nested lists; null for what is missing."""
    a = np.asarray(a, float)
    if a.ndim == 0:
        return None if np.isnan(a) else float(a)
    return [listed(v) for v in a]


def all_at_once(H, F, Q, R, mean, cov, diffuse, ys):
    """Mean and covariance of the state at every row, given all of them."""
    mp.mp.dps = 80
    rows, n = len(ys), H.shape[1]
    F, Q = ([mp.matrix((a if np.ndim(a) == 2 else a[t]).tolist()) for t in range(rows - 1)] for a in (F, Q))
    H = mp.matrix(H.tolist())
    means = [mp.matrix(mean)]
    joint = [[None] * rows for _ in range(rows)]
    joint[0][0] = mp.diag([mp.mpf(10) ** 30 if diffuse[i] else cov[i] for i in range(n)])
    for t in range(1, rows):
        means.append(F[t - 1] * means[-1])
        joint[t][t] = F[t - 1] * joint[t - 1][t - 1] * F[t - 1].T + Q[t - 1]
        for s in range(t):
            joint[s][t] = joint[s][t - 1] * F[t - 1].T
            joint[t][s] = joint[s][t].T
    seen = [(t, i) for t, row in enumerate(ys) for i, y in enumerate(row) if not np.isnan(y)]
    S = mp.matrix(len(seen), len(seen))
    shared = [mp.matrix(n, len(seen)) for _ in range(rows)]
    v = mp.matrix([ys[t, i] - (H[i, :] * means[t])[0] for t, i in seen])
    for b, (t, j) in enumerate(seen):
        for a, (s, i) in enumerate(seen):
            S[a, b] = (H[i, :] * joint[s][t] * H[j, :].T)[0] + (R[i, j] if s == t else 0)
        for s in range(rows):
            shared[s][:, b] = joint[s][t] * H[j, :].T
    inverse = S**-1
    smoothed = [means[t] + shared[t] * (inverse * v) for t in range(rows)]
    covs = [joint[t][t] - shared[t] * inverse * shared[t].T for t in range(rows)]
    covs = np.array([np.array(c.tolist(), float) for c in covs])
    covs[np.abs(covs) > 1e12] = nan
    return np.array([[float(v) for v in m] for m in smoothed]), covs


def case(name, toml, H, F, Q, R, mean, cov, diffuse, ys, times=None):
    """F and Q are of the step that leads to each row after the first, T + AHEAD - 1 of them, or the same for all."""
    ys = np.asarray(ys, float)
    rows, (m, n) = len(ys), H.shape
    longer = np.vstack([ys, np.full((AHEAD, m), nan)])
    ks = KalmanSmoother(k_endog=m, k_states=n, k_posdef=n, tolerance=0, smooth_method=SMOOTH_CONVENTIONAL)
    ks.bind(np.asfortranarray(longer.T))
    moving = np.ndim(F) == 3

    def along(a):
        # Theirs is the step from a row to the next; nothing follows the last.
        return np.concatenate([a, a[-1:]]).transpose(1, 2, 0) if moving else a

    ks["design"], ks["obs_cov"], ks["selection"] = H, R, np.eye(n)
    ks["transition"], ks["state_cov"] = along(F), along(Q)
    start = Initialization(n)
    for i in range(n):
        if diffuse[i]:
            start.set(i, "diffuse")
        else:
            start.set(i, "known", constant=[mean[i]], stationary_cov=[[cov[i]]])
    assert all(mean[i] == 0 for i in range(n) if diffuse[i])
    ks.initialize(start)
    out = ks.smooth()
    smoothed, covs = all_at_once(H, F, Q, R, mean, cov, diffuse, ys)
    if times is None:
        np.testing.assert_allclose(out.smoothed_state.T[:rows], smoothed, rtol=1e-10, atol=1e-10)
        theirs = np.where(np.isnan(covs), nan, out.smoothed_state_cov.transpose(2, 0, 1)[:rows])
        np.testing.assert_allclose(theirs, covs, rtol=1e-10, atol=1e-10)
    steps = {} if times is None else dict(times=listed(times))
    print(name, out.llf, "diffuse rows", out.nobs_diffuse)
    return dict(
        name=name,
        model=toml,
        ys=listed(ys),
        **steps,
        log_likelihoods=listed(out.llf_obs[:rows]),
        filtered_mean=listed(out.filtered_state.T),
        filtered_cov=listed(out.filtered_state_cov.transpose(2, 0, 1)),
        diffuse_rows=int(out.nobs_diffuse),
        smoothed_mean=listed(smoothed),
        smoothed_cov=listed(covs),
    )


def noise(text, names):
    return "{ " + ", ".join(f"{n} = {v!r}" for n, v in zip(names, text)) + " }"


def level():
    rng = np.random.default_rng(1)
    ys = 3 + np.cumsum(rng.normal(0, 0.7, 12)) + rng.normal(0, 1.1, 12)
    ys[[0, 1, 6]] = nan
    toml = (
        'states = ["level"]\n[dynamics]\nlevel = "level"\n[observation]\ny = "level"\n'
        "[process_noise]\nvar = 0.49\n[measurement_noise]\nvar = 1.21\n[initial]\nmean = 0\nstd = 10\ndiffuse = true\n"
    )
    one = np.eye(1)
    return case("level, its first rows missing", toml, one, one, 0.49 * one, 1.21 * one, [0], [0], [True], ys[:, None])


def season():
    """Trend and four seasons, with gaps in the first rows, and no noise of the measurement."""
    rng = np.random.default_rng(2)
    ys = 50 + 0.3 * np.arange(24) + np.tile([3, -1, -4, 2], 6) + rng.normal(0, 0.5, 24)
    ys[[1, 4, 15]] = nan
    names = ["level", "slope", "s1", "s2", "s3"]
    F = np.array([[1, 1, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, -1, -1, -1], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]], float)
    H = np.array([[1, 0, 1, 0, 0]], float)
    var = [0.2, 0.01, 0.05, 0.0, 0.0]
    toml = (
        f'states = {json.dumps(names)}\n[dynamics]\nlevel = "level + slope"\nslope = "slope"\ns1 = "-(s1 + s2 + s3)"\n'
        's2 = "s1"\ns3 = "s2"\n[observation]\ny = "level + s1"\n'
        f"[process_noise]\nvar = {noise(var, names)}\n[measurement_noise]\nvar = 0\n"
        "[initial]\nmean = 0\nstd = 100\ndiffuse = true\n"
    )
    return case("trend and seasons", toml, H, F, np.diag(var), np.zeros((1, 1)), [0] * 5, [0] * 5, [True] * 5, ys[:, None])


def together():
    """Two walks and what they share, first seen at different rows, with noise that is common to the outputs."""
    rng = np.random.default_rng(3)
    common = np.cumsum(rng.normal(0, 1, 15))
    ys = np.stack([common + 1, 0.5 * common - 2, common * 0.3], axis=1) + rng.normal(0, 0.4, (15, 3))
    ys[:2, 0] = nan
    ys[0] = nan
    ys[1:4, 2] = nan
    ys[9, 1] = nan
    F = np.array([[0.9, 0.1, 0], [0, 1, 0], [0, 0, 1]])
    H = np.array([[1, 0, 0], [0.5, 1, 0], [0.3, 0, 1]])
    R = np.array([[0.3, 0.1, 0.05], [0.1, 0.4, 0.0], [0.05, 0.0, 0.2]])
    var = [1.0, 0.1, 0.2]
    toml = (
        'states = ["a", "b", "c"]\n[dynamics]\na = "0.9 * a + 0.1 * b"\nb = "b"\nc = "c"\n'
        '[observation]\nx = "a"\ny = "0.5 * a + b"\nz = "0.3 * a + c"\n'
        f"[process_noise]\nvar = {noise(var, 'abc')}\n[measurement_noise]\nvar = {json.dumps(R.tolist())}\n"
        '[initial]\nmean = { a = 0, b = 1, c = 0 }\nvar = { a = 9, b = 2, c = 9 }\ndiffuse = ["a", "c"]\n'
    )
    return case("three outputs", toml, H, F, np.diag(var), R, [0, 1, 0], [0, 2, 0], [True, False, True], ys)


def uneven():
    """A place and its speed at irregular times, seen at last."""
    rng = np.random.default_rng(4)
    times = np.cumsum([0, 0.5, 0.001, 2.0, 0.7, 0.7, 3.1, 0.2, 1.0, 1.0, 0.4, 2.5])
    ys = 4 - 0.8 * times + rng.normal(0, 0.3, 12)
    ys[0] = ys[5] = nan
    steps = np.append(np.diff(times), np.full(AHEAD, 1.0))
    F = np.array([[[1, d], [0, 1]] for d in steps])
    Q = np.array([0.09 * np.array([[d**3 / 3, d**2 / 2], [d**2 / 2, d]]) for d in steps])
    toml = (
        'states = ["place", "speed"]\n[dynamics]\n"dplace/dt" = "speed"\n"dspeed/dt" = "0"\n[observation]\ny = "place"\n'
        '[process_noise]\nper = "time"\nvar = { speed = 0.09 }\n[measurement_noise]\nvar = 0.09\n'
        '[initial]\nmean = 0\nstd = 10\ndiffuse = true\n[time]\ncolumn = "t"\ndt = 1\n'
    )
    H = np.array([[1.0, 0]])
    return case("irregular times", toml, H, F, Q, np.array([[0.09]]), [0, 0], [0, 0], [True, True], ys[:, None], times)


def hidden():
    """A state that no measurement ever sees, beside one that all do."""
    rng = np.random.default_rng(5)
    ys = 1 + np.cumsum(rng.normal(0, 0.5, 8)) + rng.normal(0, 1, 8)
    toml = (
        'states = ["level", "hidden"]\n[dynamics]\nlevel = "level"\nhidden = "0.8 * hidden"\n[observation]\ny = "level"\n'
        "[process_noise]\nvar = { level = 0.25, hidden = 0.1 }\n[measurement_noise]\nvar = 1\n"
        "[initial]\nmean = 0\nstd = 10\ndiffuse = true\n"
    )
    F, H = np.diag([1.0, 0.8]), np.array([[1.0, 0]])
    return case("never seen", toml, H, F, np.diag([0.25, 0.1]), np.eye(1), [0, 0], [0, 0], [True, True], ys[:, None])


if __name__ == "__main__":
    program = dict(statsmodels=statsmodels.__version__, numpy=np.__version__, mpmath=mp.__version__)
    cases = [level(), season(), together(), uneven(), hidden()]
    text = json.dumps(dict(program=program, ahead=AHEAD, cases=cases), separators=(",", ":"))
    (HERE / "diffuse_statsmodels.json").write_text(text + "\n")
