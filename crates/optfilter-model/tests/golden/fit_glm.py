"""Growing counts, chances and numbers as regressions, by statsmodels.

A state that grows by a parameter, x <- x + growth dt, and is measured as counts of mean exp(x), as zeros and ones of log-odds x,
or with Gaussian noise, is exactly a generalised linear model with an intercept for each window (its first state) and one slope.
Each case holds a model file, series of (times, measurements), the length of the windows, and what statsmodels makes of it.
Run in this folder: python fit_glm.py
"""

import json
from pathlib import Path

import numpy as np
import statsmodels
import statsmodels.api as sm

HERE = Path(__file__).resolve().parent
KINDS = {
    "poisson": ('[observation.y]\nequation = "x"\nlikelihood = "poisson"\nlink = "log"\n', sm.families.Poisson()),
    "bernoulli": ('[observation.y]\nequation = "x"\nlikelihood = "bernoulli"\nlink = "logit"\n', sm.families.Binomial()),
    "gaussian": ('[observation]\ny = "x"\n[measurement_noise]\nvar = 2\n', None),
}


def model(kind, timed):
    dynamics = '"dx/dt" = "growth"' if timed else 'x = "x + growth"'
    text = f'states = ["x"]\n[parameters]\ngrowth = 0.3\n[dynamics]\n{dynamics}\n{KINDS[kind][0]}'
    text += "[initial]\nmean = 0\nstd = 2\n" + ('[time]\ncolumn = "t"\n' if timed else "")
    return text + '[filter]\nmethod = "imap"\n'


def case(name, kind, series, window=None):
    """`series` are pairs of times (None: rows) and measurements; `window` is the number of past rows."""
    ys, ts, intercepts, count = [], [], [], 0
    for times, values in series:
        length = len(values) if window is None else window + 1
        for row, y in enumerate(values):
            if not np.isnan(y):
                ys.append(y)
                ts.append(row if times is None else times[row])
                intercepts.append(count + row // length)
        count += -(-len(values) // length)
    ys, ts = np.array(ys), np.array(ts, float)
    design = np.column_stack([np.eye(count)[intercepts], ts])
    if KINDS[kind][1] is None:
        found = sm.OLS(ys, design).fit()
        n, variance = len(ys), found.ssr / len(ys)  # by maximum likelihood: over n
        error = found.bse[-1] * np.sqrt(found.df_resid / n)
        parameters = {"growth": found.params[-1], "measurement_noise.y": variance}
        errors = {"growth": error, "measurement_noise.y": variance * np.sqrt(2 / n)}
        aic = 2 * (count + 2) - 2 * found.llf
    else:
        found = sm.GLM(ys, design, family=KINDS[kind][1]).fit(tol=1e-14, maxiter=200)
        parameters, errors = {"growth": found.params[-1]}, {"growth": found.bse[-1]}
        aic = found.aic
    print(name, parameters, errors, found.llf)
    return dict(
        name=name,
        model=model(kind, series[0][0] is not None),
        window=window,
        series=[
            dict(
                ts=None if times is None else times.tolist(),
                ys=[None if np.isnan(y) else y for y in values.tolist()],
            )
            for times, values in series
        ],
        parameters={k: float(v) for k, v in parameters.items()},
        std_errors={k: float(v) for k, v in errors.items()},
        log_likelihood=float(found.llf),
        aic=float(aic),
    )


def main():
    rng = np.random.default_rng(20261117)

    def counts(rows, start, growth):
        return rng.poisson(np.exp(start + growth * np.arange(rows))).astype(float)

    gaps = counts(40, 0.7, 0.05)
    gaps[[0, 7, 8, 30, 39]] = np.nan
    times = np.sort(rng.uniform(0, 20, 35))
    irregular = rng.poisson(np.exp(0.5 + 0.12 * times)).astype(float)
    irregular[4] = np.nan
    chances = (rng.uniform(size=80) < 1 / (1 + np.exp(1.5 - 0.04 * np.arange(80)))).astype(float)
    line = 1.0 + 0.2 * np.arange(50) + rng.standard_normal(50)
    line[[3, 20]] = np.nan
    cases = [
        case("counts", "poisson", [(None, counts(40, 1.0, 0.06))]),
        case("counts with gaps", "poisson", [(None, gaps)]),
        case("counts at irregular times", "poisson", [(times, irregular)]),
        case("counts in three series", "poisson", [(None, counts(n, s, 0.05)) for n, s in [(25, 1.0), (30, 0.2), (18, 2.0)]]),
        case("counts in windows of ten rows", "poisson", [(None, counts(45, 1.2, 0.04)), (None, counts(20, 0.5, 0.04))], 9),
        case("zeros and ones", "bernoulli", [(None, chances)]),
        case("a line", "gaussian", [(None, line)]),
        case("a line in windows of eight rows", "gaussian", [(None, line)], 7),
    ]
    document = dict(program=f"statsmodels {statsmodels.__version__}, numpy {np.__version__}", cases=cases)
    (HERE / "fit_glm.json").write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
