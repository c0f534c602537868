"""Systems whose covariances lose most of their digits: filtered and smoothed in 80 digits by mpmath, and how far NumPy's Joseph form is off.

Seeds are those of a thousand on which an update that forms P - G (H P) was 30 times and more worse than NumPy.
"""

import mpmath as mp
import numpy as np
from golden_io import write

SEEDS = [149, 266, 324, 337]
ROWS = 20
mp.mp.dps = 80


def system(seed):
    g = np.random.default_rng(seed)
    n, m = int(g.integers(1, 5)), int(g.integers(1, 4))
    a = g.normal(size=(n, n))
    a *= g.uniform(0.3, 1.02) / max(abs(np.linalg.eigvals(a)))
    h = g.normal(size=(m, n))
    b = g.normal(size=(n, n))
    p = b @ b.T * 10.0 ** g.integers(6, 16)
    c = g.normal(size=(n, int(g.integers(1, n + 1))))
    q = c @ c.T * 10.0 ** g.integers(-8, 7)
    b = g.normal(size=(m, m)) * 0.3
    r = b @ b.T * 10.0 ** g.integers(-6, 1) + np.eye(m) * 10.0 ** g.integers(-9, -3)
    if g.random() < 0.3:
        r = np.diag(np.diag(r))
    x = g.normal(size=n)
    y = g.normal(size=(ROWS, m))
    y[g.random((ROWS, m)) < 0.2] = np.nan
    return a, h, (q + q.T) / 2, (r + r.T) / 2, x, (p + p.T) / 2, y


def exact(a, h, q, r, x, p, ys):
    """Filtered and smoothed moments."""
    big = lambda v: mp.matrix(np.atleast_2d(v).tolist())
    a, q, x, p = big(a), big(q), big(x).T, big(p)
    filtered, predicted = [], []
    for k, y in enumerate(ys):
        if k:
            x, p = a * x, a * p * a.T + q
        predicted.append((x, p))
        seen = ~np.isnan(y)
        if seen.any():
            h_k, r_k = big(h[seen]), big(r[np.ix_(seen, seen)])
            gain = p * h_k.T * mp.inverse(h_k * p * h_k.T + r_k)
            x, p = x + gain * (big(y[seen]).T - h_k * x), p - gain * h_k * p
        filtered.append((x, p))
    smoothed = [filtered[-1]]
    for (x, p), (x_next, p_next) in zip(filtered[-2::-1], predicted[:0:-1]):
        gain = p * a.T * mp.inverse(p_next)
        s, v = smoothed[-1]
        smoothed.append((x + gain * (s - x_next), p + gain * (v - p_next) * gain.T))
    return filtered, smoothed[::-1]


def joseph(a, h, q, r, x, p, ys):
    out = []
    for k, y in enumerate(ys):
        if k:
            x, p = a @ x, a @ p @ a.T + q
        seen = ~np.isnan(y)
        if seen.any():
            h_k, r_k = h[seen], r[np.ix_(seen, seen)]
            gain = np.linalg.solve(h_k @ p @ h_k.T + r_k, h_k @ p).T
            keep = np.eye(len(x)) - gain @ h_k
            x, p = x + gain @ (y[seen] - h_k @ x), keep @ p @ keep.T + gain @ r_k @ gain.T
        out.append((x, np.diag(p)))
    return out


def plain(moments):
    means = np.array([[float(v) for v in x] for x, _ in moments])
    return means, np.array([[float(p[i, i]) for i in range(p.rows)] for _, p in moments])


def off(found, means, variances):
    """In deviations of the mean, and as a share of the variance."""
    x, v = (np.array(part) for part in zip(*found))
    return max(np.max(np.abs(x - means) / np.sqrt(variances)), np.max(np.abs(v / variances - 1)))


cases = []
for seed in SEEDS:
    parts = system(seed)
    filtered, smoothed = (plain(moments) for moments in exact(*parts))
    names = ["f", "h", "q", "r", "mean", "cov", "ys"]
    case = dict(zip(names, parts))
    case |= {"filtered_mean": filtered[0], "filtered_var": filtered[1]}
    case |= {"smoothed_mean": smoothed[0], "smoothed_var": smoothed[1]}
    case["joseph_off"] = float(off(joseph(*parts), *filtered))
    cases.append(case)
write("ill_conditioned.json", {"cases": cases})
