"""Priors and learning-rate matrices that stand for each other on linear-Gaussian
updates (Santos 1996; Sections 3.1 and 3.2 of the paper), from numpy and scipy.

Prior to matrix. With A = H' R^-1 H, scipy.linalg.eigh solves A b = r Sigma^-1 b
with B' Sigma^-1 B = I, and M = B diag(lambda) B', where
    lambda_i = (1 - (1 + r_i)^(-1/K)) / r_i,   and 1 where r_i = 0.
K steps x <- x + M H' R^-1 (y - H x) from mu then end at the Kalman mean.

Matrix to prior, for M = rho I: C' M^-1 C = I, C' A C = diag(s),
Sigma = C diag(sigma) C', where
    sigma_i = ((1 - s_i)^-K - 1) / s_i,        and 1 where s_i = 0.

An eigenvalue that is zero in theory comes out near 1e-17, and the formulas are
not continuous there (lambda tends to 1/K, sigma to K, not to 1). Which ones are
zero is therefore taken from the rank of H, which is known by construction.
The numbers written are those of scipy; each is checked with mpmath at 60 digits,
and both recursions are run to see that they end where the theory says.
"""

import mpmath as mp
import numpy as np
import scipy
from scipy.linalg import eigh

import golden_io

STEPS = [1, 2, 5, 50]
mp.mp.dps = 60


def spd(rng, n):
    a = rng.standard_normal((n, n))
    return a @ a.T / n + 0.3 * np.eye(n)


def lam(r, K, power=np.power):
    return (1 - power(1 + r, -1 / K)) / r


def sig(s, K, power=np.power):
    return (power(1 - s, -K) - 1) / s


def scipy_form(A, inverse, zeros, spectrum):
    """Eigenvalues and B diag(spectrum(eigenvalues)) B' for A b = r inverse b."""
    values, B = eigh(A, inverse)
    assert (np.abs(values[:zeros]) < 1e-12).all() and (values[zeros:] > 1e-3).all()
    values[:zeros] = 0.0
    weights = np.ones_like(values)
    weights[zeros:] = spectrum(values[zeros:])
    product = (B * weights) @ B.T
    return values, weights, (product + product.T) / 2


def mpmath_form(A, matrix, zeros, spectrum):
    """The same product at 60 digits, by way of the Cholesky factor of `matrix`."""
    L = mp.cholesky(matrix)
    values, V = mp.eigsy(L.T * A * L)
    weights = [mp.mpf(1) if i < zeros else spectrum(values[i]) for i in range(len(values))]
    product = L * V * mp.diag(weights) * V.T * L.T
    return np.array(product.tolist(), dtype=float)


def descend(x, M, H, R, y, K):
    for _ in range(K):
        x = x + M @ H.T @ np.linalg.solve(R, y - H @ x)
    return x


def kalman_mean(mu, Sigma, H, R, y):
    return mu + Sigma @ H.T @ np.linalg.solve(H @ Sigma @ H.T + R, y - H @ mu)


def exact_kalman_mean(mu, Sigma, H, R, y):
    mu, y, H, Sigma, R = (mp.matrix(a.tolist()) for a in (mu, y, H, Sigma, R))
    mean = mu + Sigma * H.T * mp.lu_solve(H * Sigma * H.T + R, y - H * mu)
    return np.array(mean.tolist(), dtype=float).ravel()


def relative(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def system(rng, n, m, rank):
    Sigma, R = spd(rng, n), spd(rng, m)
    H = rng.standard_normal((m, n)) if rank == min(m, n) else np.outer(rng.standard_normal(m), rng.standard_normal(n))
    mu, y = rng.standard_normal(n), 2 * rng.standard_normal(m)
    zeros = n - rank
    A = H.T @ np.linalg.solve(R, H)
    A = (A + A.T) / 2
    exact_H = mp.matrix(H.tolist())
    exact_A = exact_H.T * mp.inverse(mp.matrix(R.tolist())) * exact_H
    mean = kalman_mean(mu, Sigma, H, R, y)
    np.testing.assert_allclose(mean, exact_kalman_mean(mu, Sigma, H, R, y), rtol=1e-12)

    worst = 0.0
    matrices = []
    for K in STEPS:
        values, weights, M = scipy_form(A, np.linalg.inv(Sigma), zeros, lambda r: lam(r, K))
        exact = mpmath_form(exact_A, mp.matrix(Sigma.tolist()), zeros, lambda r: lam(r, mp.mpf(K), mp.power))
        end = descend(mu, M, H, R, y, K)
        gaps = relative(M, exact), relative(end, mean)
        assert max(gaps) < 1e-12, gaps
        worst = max(worst, *gaps)
        matrices.append(dict(K=K, r=values, lambda_=weights, M=M, mean_after_K_steps=end))
    for row in matrices:
        row["lambda"] = row.pop("lambda_")

    priors = []
    curvature = np.linalg.eigvalsh(A).max()
    for share in (0.05, 0.3):
        rho = float(share / curvature)
        for K in STEPS:
            values, weights, implied = scipy_form(A, np.eye(n) / rho, zeros, lambda s: sig(s, K))
            exact = mpmath_form(exact_A, rho * mp.eye(n), zeros, lambda s: sig(s, K, mp.power))
            end = descend(mu, rho * np.eye(n), H, R, y, K)
            gaps = relative(implied, exact), relative(exact_kalman_mean(mu, exact, H, R, y), end)
            assert gaps[0] < 1e-11 and gaps[1] < 1e-10, gaps
            worst = max(worst, *gaps)
            priors.append(dict(rho=rho, K=K, s=values, sigma=weights, Sigma=implied, mean_after_K_steps=end))
    print(f"n={n} m={m} rank={rank}: worst relative gap {worst:.2g}")
    return dict(
        n=n, m=m, rank=rank, Sigma=Sigma, H=H, R=R, mu=mu, y=y, kalman_mean=mean, prior_to_matrix=matrices, rate_to_prior=priors
    )


def main():
    rng = np.random.default_rng(31)
    systems = [system(rng, *shape) for shape in ((2, 2, 2), (3, 1, 1), (4, 2, 1), (4, 2, 2))]
    program = f"scipy {scipy.__version__}, numpy {np.__version__}, checked with mpmath {mp.__version__}"
    golden_io.write("implied_prior_numpy.json", dict(program=program, systems=systems))


if __name__ == "__main__":
    main()
