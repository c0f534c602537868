"""Extended Kalman filter numbers from filterpy.

f and its Jacobian are taken at the previous mean; h and its Jacobian at the
predicted mean. filterpy's own predict() multiplies the mean by F, so only its
update() is used as it stands; `predict_x`, which filterpy asks users to
override for a nonlinear transition, is overridden.
"""

import filterpy
import jax
import numpy as np
from filterpy.kalman import ExtendedKalmanFilter

import golden_io
import nonlinear_systems as systems


class Ekf(ExtendedKalmanFilter):
    def predict_x(self, u=0):
        self.x = self.transition(self.x)


def run(s, ys, m0):
    kf = Ekf(dim_x=s.n, dim_z=s.m)
    kf.x, kf.P, kf.Q, kf.R = m0.copy(), s.P0.copy(), s.Q, s.R
    out = {key: [] for key in ("predicted_mean", "predicted_cov", "filtered_mean", "filtered_cov")}
    out |= {key: [] for key in ("jacobian_f", "jacobian_h", "innovation", "innovation_cov", "loglik_obs")}
    for t, y in enumerate(ys, start=1):
        kf.F = s.jac_f(kf.x, t)  # at the previous mean, before it moves
        kf.transition = lambda x, t=t: s.f(x, t)
        kf.predict()
        out["jacobian_f"].append(kf.F)
        out["predicted_mean"].append(kf.x)
        out["predicted_cov"].append(kf.P)
        out["jacobian_h"].append(s.jac_h(kf.x))
        kf.update(y, s.jac_h, s.h)
        out["filtered_mean"].append(kf.x)
        out["filtered_cov"].append(kf.P)
        out["innovation"].append(kf.y)
        out["innovation_cov"].append(kf.S)
        out["loglik_obs"].append(kf.log_likelihood)
    return {key: np.array(value) for key, value in out.items()}


def sensitivity(s, ys, out):
    """How much a change of 1e-9 in m0 grows in any filtered mean: the factor by
    which rounding differences between two programs may grow."""
    moved = run(s, ys, s.m0 + 1e-9)
    return float(np.abs(moved["filtered_mean"] - out["filtered_mean"]).max() / 1e-9)


def system(s, T, seed):
    ys = systems.simulate(s, T, seed)
    out = run(s, ys, s.m0)
    growth = sensitivity(s, ys, out)
    print(f"{s.name}: log-likelihood {out['loglik_obs'].sum():.12f}, sensitivity {growth:.3g}")
    return dict(
        name=s.name,
        n=s.n,
        m=s.m,
        T=T,
        **s.numbers,
        ys=ys,
        **out,
        loglik=out["loglik_obs"].sum(),
        sensitivity_to_m0=growth,
    )


def main():
    golden_io.write(
        "ekf_filterpy.json",
        dict(
            program=f"filterpy {filterpy.__version__}, jax {jax.__version__}, numpy {np.__version__}",
            systems=[
                system(systems.growth(), 40, 1),
                system(systems.lorenz(), 40, 2),
                system(systems.range_bearing(), 40, 3),
            ],
        ),
    )


if __name__ == "__main__":
    main()
