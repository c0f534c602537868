"""How rules for lost tracks compare on simulated series: the last table of docs/explanation/lost-tracks.md (NumPy and SciPy; ten minutes).

    python lost_tracks.py 100 110        # the seeds; the rule was chosen on 0 to 8
"""

import sys

import numpy as np
from scipy.stats import chi2

ROWS, LIMIT = 300, chi2.ppf(0.999, 1)
RULES = ["none", "t", "gate", "grow", "five", "two", "three", "odds"]


class Model:
    """A level, or positions with velocities: n states, of which the first m are measured."""

    def __init__(self, kind):
        if kind == "level":
            self.f, self.q, self.r, self.p = np.eye(1), 0.01 * np.eye(1), np.ones(1), np.eye(1)
            return
        m, q, r, p = {"1-d track": (1, 0.01, 1.0, [1.0, 1.0]), "2-d track": (2, 1.0, 0.25, [1.0, 4.0])}[kind]
        of = lambda block: np.kron(np.array(block), np.eye(m))
        self.f, self.q = of([[1.0, 1.0], [0.0, 1.0]]), q * of([[1 / 3, 1 / 2], [1 / 2, 1.0]])
        self.r, self.p = np.full(m, r), of(np.diag(p))

    def predict(self, mean, cov):
        return self.f @ mean, self.f @ cov @ self.f.T + self.q

    def update(self, mean, cov, y, which, r=None):
        h, r = np.eye(len(mean))[which], np.diag((self.r if r is None else r)[which])
        gain = cov @ h.T @ np.linalg.inv(h @ cov @ h.T + r)
        keep = np.eye(len(mean)) - gain @ h
        return mean + gain @ (y[which] - h @ mean), keep @ cov @ keep.T + gain @ r @ gain.T

    def nis(self, mean, cov, y):
        m = len(self.r)
        s = np.diag(cov)[:m] + self.r
        return (y - mean[:m]) ** 2 / s, s


def simulate(model, data, rng):
    n, m, std = len(model.f), len(model.r), np.sqrt(model.r)
    root = np.linalg.cholesky(model.q + 1e-15 * np.eye(n))
    x, xs, ys = np.linalg.cholesky(model.p) @ rng.normal(size=n), [], []
    for k in range(ROWS):
        if k:
            x = model.f @ x + root @ rng.normal(size=n)
        if "jump" in data and k in (ROWS // 3, 2 * ROWS // 3):
            x = x.copy()
            x[:m] += rng.choice([-1, 1], size=m) * rng.uniform(20, 200) * std
        xs.append(x)
        ys.append(x[:m] + std * rng.normal(size=m))
    xs, ys = np.array(xs), np.array(ys)
    if "outliers" in data:
        bad = rng.random(ROWS) < 0.05
        ys[bad, 0] += rng.choice([-1, 1], size=bad.sum()) * rng.uniform(10, 150, size=bad.sum()) * std[0]
    k = 20
    while ("bursts" in data or "alike" in data) and k < ROWS - 10:
        if "bursts" in data:
            length, scale = rng.integers(3, 6), rng.choice([8.0, 20.0, 100.0])
            ys[k : k + length] += scale * rng.normal(size=(length, m)) * std
        else:
            ys[k : k + 3] = ys[k] + rng.uniform(20, 100) * std
        k += rng.integers(20, 40)
    return xs[:, :m], ys


def run(model, ys, rule):
    """Estimates of what is measured, and how often the filter started anew."""
    every, n = list(range(len(model.r))), len(model.f)
    mean, cov, other, run_length, anew, out = np.zeros(n), model.p, None, 0, 0, []
    for k, y in enumerate(ys):
        if k:
            mean, cov = model.predict(mean, cov)
            if other:
                other = (*model.predict(*other[:2]), other[2])
        before = mean, cov
        if rule in ("none", "t"):
            weights = np.ones(len(every))
            for _ in range(10 if rule == "t" else 1):
                mean, cov = model.update(*before, y, every, model.r / weights)
                weights = 4 / (3 + (y - mean[: len(every)]) ** 2 / (model.r / 3))
            out.append(mean[: len(every)])
            continue
        nis, s = model.nis(mean, cov, y)
        bad, good = [i for i in every if nis[i] > LIMIT], [i for i in every if nis[i] <= LIMIT]
        if good:
            mean, cov = model.update(mean, cov, y, good)
        run_length = run_length + 1 if bad else 0
        if rule == "grow" and bad:
            cov = 2 * cov
        if rule == "five" and run_length >= 5:
            wide = before
            while max(model.nis(*wide, y)[0]) > LIMIT:
                wide = wide[0], 4 * wide[1]
            mean, cov = model.update(*wide, y, every)
            run_length, anew = 0, anew + 1
        if not bad:
            other = None
        elif rule in ("two", "three", "odds"):
            if other:
                off, spread = model.nis(*other[:2], y)
                wide = np.where(nis > LIMIT, 1 + np.log(nis), nis)
                gained = np.sum(wide + np.log(s / spread) - off) / 2 if rule == "odds" else len(every)
                enough = {"two": n + 2 * len(every), "three": n + 3 * len(every), "odds": 12.0}[rule]
                agrees = max(off) <= LIMIT
                other = (*model.update(*other[:2], y, every), other[2] + gained) if agrees else None
                if other and other[2] >= enough:
                    mean, cov, other, bad, anew = other[0], other[1], None, [], anew + 1
            if other is None and bad:
                wide = 1.0
                while max(model.nis(mean, wide * cov, y)[0][bad]) > 1:
                    wide *= 4
                start = model.update(mean, wide * cov, y, bad)
                other = (*start, 0.0 if rule == "odds" else len(every))
        out.append(mean[: len(every)])
    return np.array(out), anew


if __name__ == "__main__":
    seeds = range(int(sys.argv[1]), int(sys.argv[2]))
    print("| system | data |", " | ".join(RULES), "|\n" + "|---" * (len(RULES) + 2) + "|")
    for kind in ("level", "1-d track", "2-d track"):
        for data in ("nothing wrong", "5 % outliers", "bursts of 3 to 5", "three alike", "two jumps", "jumps and outliers"):
            cells = []
            for rule in RULES:
                errors, starts = [], 0
                for seed in seeds:
                    model = Model(kind)
                    truth, ys = simulate(model, data, np.random.default_rng(seed))
                    found, anew = run(model, ys, rule)
                    errors.append(np.sqrt(np.mean((found - truth) ** 2)))
                    starts += anew
                cells.append(f"{np.mean(errors):.2f}, {max(errors):.2f}" + (f" ({starts})" if starts else ""))
            print(f"| {kind} | {data} |", " | ".join(cells), "|", flush=True)
