"""The log-likelihood of a linear system by dynamax, and its gradient by JAX through dynamax's filter.

    x_t = F x_{t-1} + q,  F = [[a, b], [0, c]];    y_t = H x_t + r,  H = [[1, 0], [d, 1]]

dynamax updates before it predicts, so its first state is that of the first row, as ours. It adds 1e-9 to the diagonal of
what it solves with, which is the tolerance of the comparison. Before anything is written the gradient is compared with
differences.
"""

import dynamax
import jax
import jax.numpy as jnp
import numpy as np
from dynamax.linear_gaussian_ssm import LinearGaussianSSM
from dynamax.linear_gaussian_ssm.inference import lgssm_filter

import golden_io

jax.config.update("jax_enable_x64", True)

NAMES = ["a", "b", "c", "d", "q1", "q2", "r1", "r2", "m1", "m2"]
AT = np.array([0.9, 0.2, 0.7, 0.4, 0.3, 0.1, 0.5, 0.8, 0.6, -0.2])


def value(at, ys):
    a, b, c, d, q1, q2, r1, r2, m1, m2 = at
    params, _ = LinearGaussianSSM(2, 2).initialize(
        jax.random.PRNGKey(0),
        initial_mean=jnp.array([m1, m2]),
        initial_covariance=jnp.array([[1.5, 0.2], [0.2, 0.9]]),
        dynamics_weights=jnp.array([[a, b], [0.0, c]]),
        dynamics_bias=jnp.zeros(2),
        dynamics_covariance=jnp.diag(jnp.array([q1, q2])),
        emission_weights=jnp.array([[1.0, 0.0], [d, 1.0]]),
        emission_bias=jnp.zeros(2),
        emission_covariance=jnp.diag(jnp.array([r1, r2])),
    )
    return lgssm_filter(params, ys).marginal_loglik


def main():
    ys = jnp.array(np.random.default_rng(5).standard_normal((40, 2)).cumsum(axis=0) * 0.4)
    total, slope = jax.value_and_grad(value)(jnp.array(AT), ys)
    for i in range(len(AT)):
        h = 1e-5 * np.eye(len(AT))[i]
        difference = (value(jnp.array(AT + h), ys) - value(jnp.array(AT - h), ys)) / 2e-5
        assert abs(difference - slope[i]) < 1e-6 * (1 + abs(slope[i])), (NAMES[i], difference, slope[i])
    golden_io.write(
        "evidence_dynamax.json",
        {
            "program": f"dynamax {dynamax.__version__}, jax {jax.__version__}, numpy {np.__version__}",
            "names": NAMES,
            "at": AT,
            "cov": [[1.5, 0.2], [0.2, 0.9]],
            "ys": np.asarray(ys),
            "log_likelihood": float(total),
            "gradient": np.asarray(slope),
        },
    )


if __name__ == "__main__":
    main()
