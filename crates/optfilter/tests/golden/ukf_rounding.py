"""How exact ukf_filterpy.json is itself: the same filter in 80-bit floats.

Prints, for every case, the largest error of the stored filtered means and
covariances, relative to 1 + the size of the entry. A test cannot ask for less.
Needs a machine whose long double is wider than float64 (x86).
"""

import json

import numpy as np

import golden_io

LD = np.longdouble
assert np.finfo(LD).eps < 1e-18


def cholesky(P):
    n = len(P)
    L = np.zeros((n, n), LD)
    for j in range(n):
        L[j, j] = np.sqrt(P[j, j] - (L[j, :j] ** 2).sum())
        for i in range(j + 1, n):
            L[i, j] = (P[i, j] - (L[i, :j] * L[j, :j]).sum()) / L[j, j]
    return L


def inverse(S):
    n, L = len(S), cholesky(S)
    Y = np.zeros((n, n), LD)
    for i in range(n):
        Y[i] = (np.eye(n, dtype=LD)[i] - (L[i, :i, None] * Y[:i]).sum(0)) / L[i, i]
    return Y.T @ Y


def functions(s):
    dt = LD(s["dt"])
    if s["name"] == "growth":
        return lambda x, t: x / 2 + 25 * x / (1 + x * x) + 8 * np.cos(LD(1.2) * t * dt), lambda x: x * x / 20
    if s["name"] == "lorenz":
        sigma, rho, beta = LD(s["sigma"]), LD(s["rho"]), LD(s["beta"])

        def rate(x):
            return np.array([sigma * (x[1] - x[0]), x[0] * (rho - x[2]) - x[1], x[0] * x[1] - beta * x[2]])

        def f(x, t):
            k1 = rate(x)
            k2 = rate(x + dt / 2 * k1)
            k3 = rate(x + dt / 2 * k2)
            k4 = rate(x + dt * k3)
            return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        return f, lambda x: x
    F = np.array(s["F"], LD)
    return lambda x, t: F @ x, lambda x: np.array([np.sqrt(x[0] ** 2 + x[1] ** 2), np.arctan2(x[1], x[0])])


def run(s, choice):
    n, (f, h) = s["n"], functions(s)
    alpha, beta, kappa = (LD(choice.get(key, other)) for key, other in (("alpha", 1), ("beta", 0), ("kappa", 0)))
    spread = alpha * alpha * (n + kappa)
    wm = np.full(2 * n + 1, 1 / (2 * spread), LD)
    wc = wm.copy()
    wm[0] = 1 - n / spread
    wc[0] = wm[0] + 1 - alpha * alpha + beta

    def points(x, P):
        L = cholesky(spread * P)
        return np.array([x, *(x + L.T), *(x - L.T)])

    Q, R, P, x = (np.array(s[key], LD) for key in ("Q", "R", "P0", "m0"))
    means, covs = [], []
    for t, y in enumerate(np.array(s["ys"], LD), start=1):
        X = np.array([f(p, t) for p in points(x, P)])
        x = wm @ X
        P = (X - x).T @ (wc[:, None] * (X - x)) + Q
        X = points(x, P)
        Y = np.array([h(p) for p in X])
        mean = wm @ Y
        S = (Y - mean).T @ (wc[:, None] * (Y - mean)) + R
        gain = (X - x).T @ (wc[:, None] * (Y - mean)) @ inverse(S)
        x = x + gain @ (y - mean)
        P = P - gain @ S @ gain.T
        means.append(x)
        covs.append(P)
    return np.array(means), np.array(covs)


def error(stored, better):
    return float((np.abs(np.array(stored) - better) / (1 + np.abs(better))).max())


def main():
    document = json.loads((golden_io.HERE / "ukf_filterpy.json").read_text())
    for s in document["systems"]:
        for case in s["cases"]:
            means, covs = run(s, case["points"])
            print(
                f"{s['name']} {case['points']}: mean {error(case['filtered_mean'], means):.1e}, "
                f"cov {error(case['filtered_cov'], covs):.1e}"
            )


if __name__ == "__main__":
    main()
