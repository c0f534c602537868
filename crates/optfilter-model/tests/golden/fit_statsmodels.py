"""Maximum likelihood by statsmodels, with gaps and exact diffuse starts.

Each case holds a model file, a series, what statsmodels estimates by several
optimizers from several starts (the best is kept), and its log-likelihood
there and at one other point, so that values are compared apart from optima.
Run in this folder: python fit_statsmodels.py
"""

import json
from pathlib import Path

import numpy as np
import statsmodels
from statsmodels.tsa.statespace.mlemodel import MLEModel
from statsmodels.tsa.statespace.structural import UnobservedComponents

HERE = Path(__file__).resolve().parent
NILE = HERE / "../../../../examples/data/nile.csv"


def best(model, starts):
    """The highest likelihood that statsmodels reaches."""
    found = None
    for start in starts:
        params = np.array(start, float)
        for method in ("nm", "lbfgs", "bfgs", "newton"):
            extra = dict(xatol=1e-10, fatol=1e-12, maxfun=20000) if method == "nm" else dict(gtol=1e-10)
            try:
                fit = model.fit(params, method=method, maxiter=5000, disp=0, cov_type="none", **extra)
            except (np.linalg.LinAlgError, ValueError):
                continue
            params = fit.params
            if found is None or fit.llf > found.llf:
                found = fit
    assert found is not None
    return found


def case(name, toml, names, model, ys, starts, other):
    found = best(model, starts)
    info = -model.hessian(found.params, transformed=True, includes_fixed=True, method="approx", approx_complex_step=True)
    errors = np.sqrt(np.diag(np.linalg.inv(info * model.nobs)))  # their Hessian is of the mean over rows
    print(name, found.llf, dict(zip(names, found.params)), "aic", found.aic, "bic", found.bic)
    return dict(
        name=name,
        model=toml,
        ys=[[None if np.isnan(v) else v for v in row] for row in ys.tolist()],
        parameters=dict(zip(names, found.params.tolist())),
        std_errors=dict(zip(names, errors.tolist())),
        log_likelihood=float(found.llf),
        aic=float(found.aic),
        bic=float(found.bic),
        other=dict(zip(names, map(float, other))),
        log_likelihood_at_other=float(model.loglike(np.array(other, float))),
    )


def level_model(mean, std, diffuse):
    return (
        'states = ["level"]\n[dynamics]\nlevel = "level"\n[observation]\ny = "level"\n'
        "[process_noise]\nvar = 1000\n[measurement_noise]\nvar = 10000\n"
        f"[initial]\nmean = {mean}\nstd = {std}\ndiffuse = {diffuse}\n"
    )


class Noisy(MLEModel):
    """x' = phi x + w, y = x + v, from N(0, 4) at the first row."""

    def __init__(self, endog):
        super().__init__(endog, k_states=1, k_posdef=1)
        self["design"] = np.eye(1)
        self["selection"] = np.eye(1)
        self.initialize_known(np.zeros(1), 4 * np.eye(1))
        self.ssm.tolerance = 0

    param_names = ["phi", "process_noise.x", "measurement_noise.y"]
    start_params = np.array([0.5, 1.0, 1.0])

    def transform_params(self, z):
        return np.array([z[0], z[1] ** 2, z[2] ** 2])

    def untransform_params(self, p):
        return np.array([p[0], p[1] ** 0.5, p[2] ** 0.5])

    def update(self, params, **kwargs):
        params = super().update(params, **kwargs)
        self["transition", 0, 0] = params[0]
        self["state_cov", 0, 0] = params[1]
        self["obs_cov", 0, 0] = params[2]


class Two(MLEModel):
    """A damped trend seen by two outputs, the level diffuse, the slope from N(0, 1)."""

    def __init__(self, endog):
        super().__init__(endog, k_states=2, k_posdef=2)
        self["design"] = np.array([[1.0, 0.0], [0.5, 1.0]])
        self["selection"] = np.eye(2)
        from statsmodels.tsa.statespace.initialization import Initialization

        start = Initialization(2)
        start.set(0, "diffuse")
        start.set(1, "known", constant=np.zeros(1), stationary_cov=np.eye(1))
        self.ssm.initialization = start
        self.ssm.tolerance = 0

    param_names = [
        "damping",
        "process_noise.level",
        "process_noise.slope",
        "measurement_noise.a",
        "measurement_noise.b",
    ]
    start_params = np.array([0.8, 0.5, 0.5, 0.5, 0.5])

    def transform_params(self, z):
        return np.concatenate([z[:1], z[1:] ** 2])

    def untransform_params(self, p):
        return np.concatenate([p[:1], p[1:] ** 0.5])

    def update(self, params, **kwargs):
        params = super().update(params, **kwargs)
        self["transition"] = np.array([[1.0, 1.0], [0.0, params[0]]])
        self["state_cov"] = np.diag(params[1:3])
        self["obs_cov"] = np.diag(params[3:5])


def components(ys, kind):
    model = UnobservedComponents(ys, kind, use_exact_diffuse=True)
    model.ssm.tolerance = 0
    return model


def main():
    rng = np.random.default_rng(20240711)
    cases = []
    nile = np.loadtxt(NILE, delimiter=",", skiprows=1)[:, 1]
    names = ["measurement_noise.y", "process_noise.level"]
    starts = [[15000, 1400], [5000, 5000]]
    cases.append(
        case("nile", level_model(1000, 500, "true"), names, components(nile, "llevel"), nile[:, None], starts, [10000, 3000])
    )
    gaps = nile.copy()
    gaps[20:40] = gaps[60:80] = np.nan  # Durbin and Koopman, section 2.7
    cases.append(
        case("nile_gaps", level_model(1000, 500, "true"), names, components(gaps, "llevel"), gaps[:, None], starts, [10000, 3000])
    )

    steps = 300
    slope = np.cumsum(0.3 * rng.standard_normal(steps))
    level = np.cumsum(slope + rng.standard_normal(steps))
    ys = level + 2.0 * rng.standard_normal(steps)
    ys[[0, 7, 8, 9, 100, 101, 150, 299]] = np.nan  # before anything is known, and at the end, too
    toml = (
        'states = ["level", "slope"]\n[dynamics]\nlevel = "level + slope"\nslope = "slope"\n[observation]\ny = "level"\n'
        "[process_noise]\nvar = { level = 0.5, slope = 0.5 }\n[measurement_noise]\nvar = 1\n"
        "[initial]\nmean = 0\nstd = 10\ndiffuse = true\n"
    )
    names = ["measurement_noise.y", "process_noise.level", "process_noise.slope"]
    cases.append(
        case("trend_gaps", toml, names, components(ys, "lltrend"), ys[:, None], [[4, 1, 0.1], [1, 3, 1]], [2, 2, 0.5])
    )

    x, ys = 1.0, np.empty(400)
    for t in range(400):
        ys[t] = x + 0.7 * rng.standard_normal()
        x = 0.85 * x + rng.standard_normal()
    ys[40:60] = np.nan
    toml = (
        'states = ["x"]\n[parameters]\nphi = 0.5\n[dynamics]\nx = "phi*x"\n[observation]\ny = "x"\n'
        "[process_noise]\nvar = 2\n[measurement_noise]\nvar = 2\n[initial]\nmean = 0\nvar = 4\n"
        '[fit]\nfree = ["phi", "process_noise", "measurement_noise"]\n'
    )
    cases.append(
        case("ar1_noise", toml, Noisy.param_names, Noisy(ys), ys[:, None], [[0.5, 1, 1], [0.9, 0.5, 0.5]], [0.6, 2, 0.3])
    )

    state, ys = np.array([3.0, 0.5]), np.empty((250, 2))
    for t in range(250):
        ys[t] = [state[0], 0.5 * state[0] + state[1]] + np.array([1.0, 0.5]) * rng.standard_normal(2)
        state = np.array([state[0] + state[1], 0.7 * state[1]]) + np.array([0.4, 0.8]) * rng.standard_normal(2)
    ys[0, 0] = ys[1, 1] = ys[50, 0] = np.nan
    ys[70:75] = np.nan
    toml = (
        'states = ["level", "slope"]\n[parameters]\ndamping = 0.5\n'
        '[dynamics]\nlevel = "level + slope"\nslope = "damping*slope"\n[observation]\na = "level"\nb = "level/2 + slope"\n'
        "[process_noise]\nvar = 0.5\n[measurement_noise]\nvar = 0.5\n"
        '[initial]\nmean = 0\nstd = 1\ndiffuse = ["level"]\n'
        '[fit]\nfree = ["damping", "process_noise", "measurement_noise"]\n'
    )
    starts = [[0.7, 0.16, 0.64, 1, 0.25], [0.5, 0.5, 0.5, 0.5, 0.5]]
    cases.append(case("two_outputs", toml, Two.param_names, Two(ys), ys, starts, [0.6, 0.3, 0.4, 0.8, 0.6]))

    document = dict(program=f"statsmodels {statsmodels.__version__}, numpy {np.__version__}", cases=cases)
    (HERE / "fit_statsmodels.json").write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
