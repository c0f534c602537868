"""Times the Kalman filter of many series against simdkalman in one process, and checks that both compute the same.

Prints a Markdown table; exits with an error if estimates disagree.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time

import numpy as np
import simdkalman

import optfilter


def best(function, repeat):
    """Seconds: the smallest of `repeat` calls after one warm-up, because other programs can only add time."""
    function()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def level():
    return [[1.0]], [[1.0]], [[0.5]], [[1.0]]


def tracker():
    F = [[1, 0.1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.1], [0, 0, 0, 1]]
    H = [[1, 0, 0, 0], [0, 0, 1, 0]]
    return F, H, np.diag([0.1, 0.2, 0.1, 0.3]), np.diag([1.0, 2.0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    count, rows = arguments.series, arguments.rows
    rng = np.random.default_rng(0)
    table = []
    for title, (F, H, Q, R) in (("1 state, 1 measurement", level()), ("4 states, 2 measurements", tracker())):
        F, H = np.array(F, dtype=float), np.array(H, dtype=float)
        (m, n), whole = H.shape, rng.normal(size=(count, rows, len(H))).cumsum(axis=1)
        gappy = whole.copy()
        gappy[rng.random((count, rows)) < 0.02] = np.nan
        model = optfilter.models.Linear(F, H, Q=Q, R=R, P0=2.0)
        ours = optfilter.KalmanFilter(model)
        peer = simdkalman.KalmanFilter(F, Q, H, R)
        start = dict(initial_value=np.zeros(n), initial_covariance=2.0 * np.eye(n))

        def theirs(ys, all_of_it):
            ys = ys[..., 0] if m == 1 else ys
            return peer.compute(
                ys, 0, smoothed=False, filtered=True, observations=all_of_it, log_likelihood=all_of_it,
                likelihoods=all_of_it, **start,
            )

        cases = [("means and covariances", whole, False), ("everything", whole, True)]
        if m == 1:  # simdkalman takes a gap in one of two components for a gap in both
            cases.append(("everything, 2 % of rows missing", gappy, True))
        for asked, ys, all_of_it in cases:
            only = None if all_of_it else ("means", "covariances")
            found, other = ours.filter(ys, only=only), theirs(ys, all_of_it)
            for mine, its in ((found.means, other.filtered.states.mean), (found.covariances, other.filtered.states.cov)):
                worst = float(np.max(np.abs(mine - its)))
                if not worst < 1e-9:
                    sys.exit(f"{title}, {asked}: estimates differ by {worst:g}")
            steps = count * rows
            a = best(lambda: ours.filter(ys, only=only), arguments.repeat) / steps
            b = best(lambda: theirs(ys, all_of_it), max(2, arguments.repeat // 5)) / steps
            table.append((title, asked, a, b))
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, NumPy "
          f"{np.__version__}, optfilter {optfilter.__version__}, {time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f}; "
          f"{count} series of {rows} rows\n")
    print("| model | result | optfilter, ns per step | simdkalman, ns per step | ratio |\n|---|---|---|---|---|")
    for title, asked, a, b in table:
        print(f"| {title} | {asked} | {a * 1e9:.1f} | {b * 1e9:.0f} | {b / a:.1f}x |")


if __name__ == "__main__":
    main()
