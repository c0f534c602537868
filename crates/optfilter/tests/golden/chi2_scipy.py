"""Quantiles of the chi-square and the normal distribution from scipy, each compared
with mpmath at 60 digits."""

import mpmath as mp
import numpy as np
import scipy
from scipy.stats import chi2, norm

import golden_io

DEGREES = [1, 2, 3, 5, 10, 30, 100, 600, 1000, 20000, 60000]
LEVELS = [0.025, 0.975]
PROBABILITIES = [1e-300, 1e-100, 1e-16, 1e-10, 1e-5, 0.001, 0.02, 0.02425, 0.1, 0.3, 0.425, 0.5]
PROBABILITIES += [0.575, 0.7, 0.9, 0.97575, 0.975, 0.99, 0.999, 1 - 1e-10, 1 - 2.0**-53]


mp.mp.dps = 60


def chi2_error(quantile, p, df):
    """Relative error of a quantile, by one Newton step from it at 60 digits."""
    q, k = mp.mpf(quantile), mp.mpf(df)
    density = mp.exp((k / 2 - 1) * mp.log(q) - q / 2 - k / 2 * mp.log(2) - mp.loggamma(k / 2))
    return float((mp.gammainc(k / 2, 0, q / 2, regularized=True) - mp.mpf(p)) / density / q)


def normal_error(quantile, p):
    z = mp.mpf(quantile)
    step = (mp.ncdf(z) - mp.mpf(p)) / mp.npdf(z)
    return float(step / z) if z else float(step)


def main():
    chi = [dict(df=d, p=p, quantile=chi2.ppf(p, d)) for d in DEGREES for p in LEVELS]
    normal = [dict(p=p, quantile=norm.ppf(p)) for p in PROBABILITIES]
    errors = [chi2_error(row["quantile"], row["p"], row["df"]) for row in chi]
    errors += [normal_error(row["quantile"], row["p"]) for row in normal]
    print(f"largest relative error against mpmath: {np.abs(errors).max():.2g}")
    assert np.abs(errors).max() < 1e-15
    golden_io.write(
        "chi2_scipy.json",
        dict(program=f"scipy {scipy.__version__}, numpy {np.__version__}", chi_square=chi, normal=normal),
    )


if __name__ == "__main__":
    main()
