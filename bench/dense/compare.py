"""A dense Kalman filter of 100 to 2,000 states beside NumPy with OpenBLAS, as ratios within one run.

    python compare.py [--threads 1 2] > results.md

needs numpy and cargo. Both have the update in Joseph form; NumPy's is written as one would. Each size is timed in turns, five times NumPy
and five times ours, and the fastest cycle of each counts. R is the identity, given as a matrix.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZES = [(100, 50), (200, 100), (200, 20), (500, 250), (500, 50), (1000, 500), (2000, 1000), (2000, 100)]


def numpy_cycle(n, m, rounds):
    """Seconds of NumPy's fastest cycle; run in a process of its own, whose threads the environment sets."""
    import numpy as np

    rng = np.random.default_rng(1)
    F = 0.7 * rng.standard_normal((n, n)) / np.sqrt(n)
    H, y = rng.standard_normal((m, n)), rng.standard_normal(m)
    Q, R, unit = np.eye(n), np.eye(m), np.eye(n)
    x, P = np.zeros(n), np.eye(n)
    best = np.inf
    for k in range(rounds + 1):
        start = time.perf_counter()
        x, P = F @ x, F @ P @ F.T + Q
        HP = H @ P
        S = HP @ H.T + R
        K = np.linalg.solve(S, HP).T
        x = x + K @ (y - H @ x)
        keep = unit - K @ H
        P = keep @ P @ keep.T + K @ R @ K.T
        if k:
            best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--numpy", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.numpy:
        print(numpy_cycle(*options.numpy))
        return
    manifest = HERE.parent / "Cargo.toml"
    subprocess.run(["cargo", "build", "-q", "--release", "--example", "dense", "--manifest-path", manifest], check=True)
    program = os.environ.get("DENSE", HERE.parent / "target" / "release" / "examples" / "dense")
    import numpy as np

    print("# Dense Kalman filters beside NumPy\n")
    print("```\npython bench/dense/compare.py > bench/dense/results.md\n```\n")
    print(f"NumPy {np.__version__} with its OpenBLAS, {platform.machine()}; milliseconds of a predict and an update, and how many of ours fit into one of NumPy's.\n")
    print("| threads | states | measurements | NumPy, ms | ours, ms | ratio |\n|---|---|---|---|---|---|")
    for threads in options.threads:
        environment = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads), RAYON_NUM_THREADS=str(threads))
        for n, m in SIZES:
            rounds = max(2, min(200, int(4e9 / n**3)))

            def timed(command):
                words = list(map(str, [*command, n, m, rounds]))
                return float(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)

            turns = [(timed([sys.executable, __file__, "--numpy"]), timed([program])) for _ in range(5 if n < 1000 else 3)]
            theirs, ours = (1e3 * min(t[i] for t in turns) for i in (0, 1))
            print(f"| {threads} | {n} | {m} | {theirs:.2f} | {ours:.2f} | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
