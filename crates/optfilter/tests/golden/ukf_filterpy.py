"""Unscented Kalman filter numbers from filterpy.

The sigma points are redrawn from the predicted moments before the update
(`redrawn` in the file). filterpy 2.0.0 does so inside predict(), some versions
have not; here they are drawn once more in the open, and compared.

filterpy takes the rows of scipy's upper Cholesky factor U of (n + lambda) P,
with U' U = (n + lambda) P. These are the columns of the lower factor L = U'.
The order is centre, then +L_1..+L_n, then -L_1..-L_n.
"""

import filterpy
import jax
import numpy as np
from filterpy.kalman import JulierSigmaPoints, MerweScaledSigmaPoints, UnscentedKalmanFilter

import golden_io
import nonlinear_systems as systems


def merwe(n, alpha, beta, kappa):
    points = MerweScaledSigmaPoints(n, alpha=alpha, beta=beta, kappa=kappa)
    lam = alpha**2 * (n + kappa) - n
    return points, dict(kind="merwe", alpha=alpha, beta=float(beta), kappa=float(kappa)) | {"lambda": lam}


def julier(n, kappa):
    points = JulierSigmaPoints(n, kappa=kappa)
    return points, dict(kind="julier", kappa=float(kappa)) | {"lambda": float(kappa)}


def run(s, ys, points, m0):
    kf = UnscentedKalmanFilter(s.n, s.m, s.dt, hx=s.h, fx=lambda x, dt, t: s.f(x, t), points=points)
    kf.x, kf.P, kf.Q, kf.R = m0.copy(), s.P0.copy(), s.Q, s.R
    out = {key: [] for key in ("predicted_mean", "predicted_cov", "filtered_mean", "filtered_cov")}
    out |= {key: [] for key in ("innovation", "innovation_cov", "loglik_obs")}
    for t, y in enumerate(ys, start=1):
        kf.predict(t=t)
        drawn_by_filterpy = kf.sigmas_f
        kf.sigmas_f = points.sigma_points(kf.x, kf.P)
        np.testing.assert_array_equal(kf.sigmas_f, drawn_by_filterpy)
        out["predicted_mean"].append(kf.x)
        out["predicted_cov"].append(kf.P)
        kf.update(y)
        out["filtered_mean"].append(kf.x)
        out["filtered_cov"].append(kf.P)
        out["innovation"].append(kf.y)
        out["innovation_cov"].append(kf.S)
        out["loglik_obs"].append(kf.log_likelihood)
    return {key: np.array(value) for key, value in out.items()}


def case(s, ys, points, parameters):
    out = run(s, ys, points, s.m0)
    assert all(np.linalg.eigvalsh(p).min() > 0 for p in out["filtered_cov"])
    moved = run(s, ys, points, s.m0 + 1e-9)
    growth = float(np.abs(moved["filtered_mean"] - out["filtered_mean"]).max() / 1e-9)
    print(f"{s.name} {parameters}: log-likelihood {out['loglik_obs'].sum():.12f}, sensitivity {growth:.3g}")
    return dict(
        points=parameters,
        weights_mean=points.Wm,
        weights_cov=points.Wc,
        sigma_points_of_start=points.sigma_points(s.m0, s.P0),
        **out,
        loglik=out["loglik_obs"].sum(),
        sensitivity_to_m0=growth,
    )


def system(s, T, seed, choices):
    ys = systems.simulate(s, T, seed)
    cases = [case(s, ys, *choice) for choice in choices]
    return dict(name=s.name, n=s.n, m=s.m, T=T, **s.numbers, ys=ys, redrawn=True, cases=cases)


def main():
    golden_io.write(
        "ukf_filterpy.json",
        dict(
            program=f"filterpy {filterpy.__version__}, jax {jax.__version__}, numpy {np.__version__}",
            systems=[
                system(
                    systems.growth(),
                    40,
                    1,
                    [
                        merwe(1, 0.5, 2, 0),
                        merwe(1, 0.5, 2, 2),
                        merwe(1, 0.1, 2, 0),
                        merwe(1, 0.1, 2, 2),
                        merwe(1, 1.0, 2, 2),
                        julier(1, 2),
                    ],
                ),
                # 3 - n is 0 here, so "kappa = 0" and "kappa = 3 - n" are one case.
                system(
                    systems.lorenz(),
                    30,
                    2,
                    [merwe(3, 0.5, 2, 0), merwe(3, 0.1, 2, 0), merwe(3, 1.0, 0, 0), julier(3, 0)],
                ),
                system(systems.range_bearing(), 20, 3, [merwe(4, 0.5, 2, 0), julier(4, -1)]),
            ],
        ),
    )


if __name__ == "__main__":
    main()
