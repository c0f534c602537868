"""One update of the ensemble transform Kalman filter, whole and local, by NumPy's formulas.

    X = Y R^-1 Y' / (N-1),  w = d R^-1 Y' ((N-1) (I + X))^-1,  T = (I + X)^-1/2 (scipy.linalg.sqrtm)
    E <- mean + w A + inflation T A

with a row per member, as in DAPPER. A local update has a w and a T for each state, of the measurements within reach,
whose deviations and innovations, times the symmetric root of R^-1, are multiplied by the root of DAPPER's taper. The script stops
unless DAPPER's own EnKF_analysis("Sqrt") and local_analyses agree to 1e-12.
"""

import dapper
import numpy as np
import scipy
from dapper.da_methods.ensemble import EnKF_analysis, local_analyses
from dapper.tools.localization import dist2coeff, inds_and_coeffs
from dapper.tools.randvars import GaussRV
from scipy.linalg import inv, sqrtm
from scipy.stats import multivariate_normal

import golden_io


def transformed(E, A, Y, d):
    """mean + w A + T A for whitened Y (N x p) and d."""
    free = len(A) - 1
    X = Y @ Y.T / free
    w = d @ Y.T @ inv(free * (np.eye(len(A)) + X))
    T = np.real(inv(sqrtm(np.eye(len(A)) + X)))
    return E.mean(0) + w @ A + T @ A


def taperer(n, m, radius, periodic):
    states, measured = np.arange(n), np.arange(m) * (n / m)
    apart = np.abs(states[:, None] - measured)
    if periodic:
        apart = np.minimum(apart, n - apart)
    return lambda i: inds_and_coeffs(apart[i], radius)


def case(rng, name, n, m, count, radius, periodic, correlated, missing, inflation):
    E = 2 * rng.standard_normal((count, n)) + 3
    H = np.eye(n)[:: n // m] if radius else rng.standard_normal((m, n))
    B = rng.standard_normal((m, m))
    R = B @ B.T / m + 0.5 * np.eye(m) if correlated else np.diag(0.5 + rng.random(m))
    y = H @ (E.mean(0) + rng.standard_normal(n))
    there = np.array([j not in missing for j in range(m)])
    Hs, Rs, ys = H[there], R[np.ix_(there, there)], y[there]
    A, Y = E - E.mean(0), (E - E.mean(0)) @ Hs.T
    d = ys - Hs @ E.mean(0)
    root = np.real(inv(sqrtm(Rs)))
    Yw, dw = Y @ root, d @ root
    if radius:
        near = taperer(n, m, radius, periodic)
        position = np.cumsum(there) - 1

        def seen(i):
            inds, coeffs = near(i)
            kept = there[inds]
            return position[inds[kept]], coeffs[kept]

        after = E.copy()
        for i in range(n):
            inds, coeffs = seen(i)
            Yl, dl = Yw[:, inds] * np.sqrt(coeffs), dw[inds] * np.sqrt(coeffs)
            after[:, i] = transformed(E[:, [i]], A[:, [i]], Yl, dl)[:, 0]
        batches = [np.array([i]) for i in range(n)]
        noise = GaussRV(C=Rs).C
        theirs, _ = local_analyses(E.copy(), E @ Hs.T, noise, ys, batches, lambda ii: seen(ii[0]))
    else:
        after = transformed(E, A, Yw, dw)
        theirs = EnKF_analysis(E.copy(), E @ Hs.T, GaussRV(C=Rs), ys, "Sqrt")
    gap = np.abs(after - theirs).max()
    assert gap < 1e-12, gap
    after = after.mean(0) + inflation * (after - after.mean(0))
    S = Y.T @ Y / (count - 1) + Rs
    density = multivariate_normal(np.zeros(len(d)), S)
    print(f"{name}: DAPPER apart by {gap:.1e}")
    return dict(
        name=name,
        n=n,
        m=m,
        radius=radius,
        periodic=periodic,
        inflation=inflation,
        H=H,
        R=R,
        members=E,
        y=np.where(there, y, np.nan),
        after=after,
        nis=d @ inv(S) @ d,
        loglik=density.logpdf(d),
    )


def main():
    rng = np.random.default_rng(12)
    cases = [
        case(rng, "few members", 6, 6, 4, 0, False, False, [], 1.0),
        case(rng, "many members", 6, 3, 9, 0, False, True, [], 1.05),
        case(rng, "a gap", 5, 5, 7, 0, False, True, [2], 1.0),
        case(rng, "circle", 12, 12, 5, 1.5, True, False, [], 1.04),
        case(rng, "circle, gaps", 12, 12, 5, 1.5, True, True, [0, 1, 7], 1.0),
        case(rng, "line, every second", 12, 6, 8, 1.0, False, True, [], 1.02),
    ]
    program = f"scipy {scipy.__version__}, numpy {np.__version__}, checked with dapper 1.7.1"
    golden_io.write("ensemble_dapper.json", dict(program=program, cases=cases))


if __name__ == "__main__":
    main()
