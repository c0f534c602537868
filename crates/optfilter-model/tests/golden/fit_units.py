"""Optima by statsmodels that must be found in any unit, one at a bound beside a lower inner maximum among them.

All starts are exactly diffuse, so that series times c have the same optimum, variances times c^2, and a log-likelihood that is less
by ln c for every number but the diffuse ones (of which the first rows resolve one each).
Run in this folder: python fit_units.py
"""

import json
from pathlib import Path

import numpy as np
import statsmodels
from scipy.optimize import minimize
from statsmodels.tsa.statespace.mlemodel import MLEModel
from statsmodels.tsa.statespace.structural import UnobservedComponents

HERE = Path(__file__).resolve().parent
TAIL = "[process_noise]\nvar = {q}\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nstd = 1\ndiffuse = true\n"
LEVEL = 'states = ["level"]\n[dynamics]\nlevel = "level"\n[observation]\ny = "level"\n' + TAIL.format(q=1)
TREND = (
    'states = ["level", "slope"]\n[dynamics]\nlevel = "level + slope"\nslope = "slope"\n[observation]\ny = "level"\n'
    + TAIL.format(q=1)
)
SEASON = (
    'states = ["level", "s1", "s2", "s3"]\n[dynamics]\nlevel = "level"\ns1 = "-(s1 + s2 + s3)"\ns2 = "s1"\ns3 = "s2"\n'
    '[observation]\ny = "level + s1"\n' + TAIL.format(q="{ level = 1, s1 = 1, s2 = 0, s3 = 0 }")
)
TWO = (
    'states = ["x", "y"]\n[dynamics]\nx = "x"\ny = "y"\n[observation]\na = "x"\nb = "y"\n' + TAIL.format(q=1)
)


class Two(MLEModel):
    """Two levels, each seen by one output."""

    def __init__(self, endog):
        super().__init__(endog, k_states=2, k_posdef=2)
        for matrix in ("design", "selection", "transition"):
            self[matrix] = np.eye(2)
        self.ssm.initialize_diffuse()
        self.ssm.tolerance = 0

    param_names = ["obs.a", "obs.b", "state.x", "state.y"]
    start_params = np.ones(4)

    def update(self, params, **kwargs):
        params = super().update(params, **kwargs)
        self["obs_cov"] = np.diag(params[:2])
        self["state_cov"] = np.diag(params[2:])


def components(ys, kind, **more):
    model = UnobservedComponents(ys, kind, use_exact_diffuse=True, **more)
    model.ssm.tolerance = 0
    return model


def optimum(model, size, rng):
    """The best of many climbs in the logarithms of variances, and of climbs with one of them zero."""
    p, best = len(size), None
    for mask in [0] + [1 << i for i in range(p)]:
        kept = [i for i in range(p) if not mask >> i & 1]
        ends = []

        def loss(z):
            params = np.zeros(p)
            params[kept] = size[kept] * np.exp(z)
            with np.errstate(all="ignore"):
                value = -model.loglike(params)
            return value if np.isfinite(value) else 1e10

        for start in range(8):
            z = rng.normal(0, 2.5, len(kept)) if start else np.zeros(len(kept))
            found = minimize(loss, z, method="L-BFGS-B", bounds=[(-25, 8)] * len(kept))
            ends.append((found.fun, found.x))
        ends.sort(key=lambda end: end[0])
        for _, z in ends[:2]:
            for _ in range(2):  # a simplex that has collapsed begins again
                z = minimize(loss, z, method="Nelder-Mead", options=dict(xatol=1e-9, fatol=1e-12, maxiter=4000)).x
            value = -loss(z)
            if best is None or value > best[0] + 1e-7:
                params = np.zeros(p)
                params[kept] = size[kept] * np.exp(z)
                best = (value, params)
    return best


def case(name, toml, names, model, ys, rng):
    size = np.full(len(names), np.nanvar(np.diff(np.asarray(ys), axis=0)) / 2)
    value, params = optimum(model, size, rng)
    print(name, value, dict(zip(names, params)))
    rows = np.asarray(ys).reshape(len(ys), -1)
    return dict(
        name=name,
        model=toml,
        ys=[[None if np.isnan(v) else v for v in row] for row in rows.tolist()],
        parameters=dict(zip(names, params.tolist())),
        log_likelihood=float(value),
        inner=None,
    )


def inner(ys):
    """The highest inner maximum of a local level that is lower than its bound q = 0."""
    model = components(ys, "llevel")
    profile = []
    for q in np.geomspace(1e-8, 10, 91):
        found = minimize(lambda z: -model.loglike([np.exp(z[0]), q]), [0.0], method="Nelder-Mead", options=dict(xatol=1e-8, fatol=1e-10))
        profile.append(-found.fun)
    profile = np.array(profile)
    tops = [profile[i] for i in range(1, 90) if profile[i] > max(profile[i - 1], profile[i + 1]) + 1e-9]
    return max(tops) if tops and profile[0] > max(tops) + 0.02 and max(tops) - profile[: np.argmax(profile == max(tops))].min() > 0.02 else None


def main():
    rng = np.random.default_rng(20261119)
    level, obs, slope = "process_noise.level", "measurement_noise.y", "process_noise.slope"
    cases = []
    for k, q in enumerate([1.0, 0.05, 0.0]):
        ys = 20 + np.cumsum(q**0.5 * rng.standard_normal(80)) + rng.standard_normal(80)
        ys[30:35] = np.nan
        cases.append(case(f"level_{k}", LEVEL, [obs, level], components(ys, "llevel"), ys, rng))
    growth = np.cumsum(0.2 * rng.standard_normal(120))
    ys = np.cumsum(growth + 0.5 * rng.standard_normal(120)) + 2 * rng.standard_normal(120)
    cases.append(case("trend", TREND, [obs, level, slope], components(ys, "lltrend"), ys, rng))
    season = np.tile([3.0, -1.0, 0.5, -2.5], 25) + np.cumsum(0.3 * rng.standard_normal(100))
    ys = season + rng.standard_normal(100)
    seasonal = components(ys, "llevel", seasonal=4)
    cases.append(case("season", SEASON, [obs, level, "process_noise.s1"], seasonal, ys, rng))
    walks = np.cumsum(np.array([1.0, 0.3]) * rng.standard_normal((90, 2)), axis=0)
    ys = walks + np.array([0.5, 1.0]) * rng.standard_normal((90, 2))
    two = ["measurement_noise.a", "measurement_noise.b", "process_noise.x", "process_noise.y"]
    cases.append(case("two", TWO, two, Two(ys), ys, rng))
    for _ in range(2000):
        ys = rng.standard_normal(40)
        lower = inner(ys)
        if lower is not None:
            cases.append(case("inner", LEVEL, [obs, level], components(ys, "llevel"), ys, rng))
            cases[-1]["inner"] = float(lower)
            print("inner", lower)
            break
    document = dict(program=f"statsmodels {statsmodels.__version__}, numpy {np.__version__}", cases=cases)
    (HERE / "fit_units.json").write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
