"""Quantiles of the chi-square and the normal distribution from scipy, checked by
going back: the distribution function of each quantile
must give the probability back."""

import numpy as np
import scipy
from scipy.stats import chi2, norm

import golden_io

DEGREES = [1, 2, 3, 5, 10, 30, 100, 600, 1000, 20000, 60000]
LEVELS = [0.025, 0.975]
PROBABILITIES = [1e-300, 1e-100, 1e-16, 1e-10, 1e-5, 0.001, 0.02, 0.02425, 0.1, 0.3, 0.425, 0.5]
PROBABILITIES += [0.575, 0.7, 0.9, 0.97575, 0.975, 0.99, 0.999, 1 - 1e-10, 1 - 2.0**-53]


def main():
    chi = [dict(df=d, p=p, quantile=chi2.ppf(p, d)) for d in DEGREES for p in LEVELS]
    for row in chi:
        np.testing.assert_allclose(chi2.cdf(row["quantile"], row["df"]), row["p"], rtol=1e-11)
    normal = [dict(p=p, quantile=norm.ppf(p)) for p in PROBABILITIES]
    for row in normal:
        np.testing.assert_allclose(norm.cdf(row["quantile"]), row["p"], rtol=1e-10)
    golden_io.write(
        "chi2_scipy.json",
        dict(program=f"scipy {scipy.__version__}, numpy {np.__version__}", chi_square=chi, normal=normal),
    )


if __name__ == "__main__":
    main()
