"""The nonlinear systems behind the EKF and UKF files, with exact Jacobians by jax.

Every system has a transition f(x, t), where t = 1, 2, ... is the index of the
*new* step, and an observation h(x). Jacobians come from jax in float64.
"""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp
import numpy as np


class System:
    """Functions as float64 NumPy, and the numbers that define the problem."""

    def __init__(self, name, f, h, **numbers):
        self.name = name
        self.numbers = numbers
        fast_f, fast_h = jax.jit(f), jax.jit(h)
        jac_f, jac_h = jax.jit(jax.jacfwd(f)), jax.jit(jax.jacfwd(h))
        self.f = lambda x, t: np.asarray(fast_f(jnp.asarray(x), float(t)))
        self.h = lambda x: np.asarray(fast_h(jnp.asarray(x)))
        self.jac_f = lambda x, t: np.asarray(jac_f(jnp.asarray(x), float(t)))
        self.jac_h = lambda x: np.asarray(jac_h(jnp.asarray(x)))

    def __getattr__(self, key):
        try:
            return self.__dict__["numbers"][key]
        except KeyError:
            raise AttributeError(key) from None

    @property
    def n(self):
        return len(self.m0)

    @property
    def m(self):
        return self.R.shape[0]


def simulate(system, T, seed):
    """Observations y_1..y_T of one path of the system."""
    rng = np.random.default_rng(seed)
    lq, lr = np.linalg.cholesky(system.Q), np.linalg.cholesky(system.R)
    x = system.m0 + np.linalg.cholesky(system.P0) @ rng.standard_normal(system.n)
    ys = np.empty((T, system.m))
    for t in range(1, T + 1):
        x = system.f(x, t) + lq @ rng.standard_normal(system.n)
        ys[t - 1] = system.h(x) + lr @ rng.standard_normal(system.m)
    return ys


def growth():
    dt = 0.1

    def f(x, t):
        return x / 2 + 25 * x / (1 + x**2) + 8 * jnp.cos(1.2 * t * dt)

    def h(x):
        return x**2 / 20

    one = np.eye(1)
    return System("growth", f, h, dt=dt, Q=one, R=one, m0=np.zeros(1), P0=one)


def lorenz():
    dt, sigma, rho, beta = 0.02, 10.0, 28.0, 8.0 / 3.0

    def rate(x):
        return jnp.stack([sigma * (x[1] - x[0]), x[0] * (rho - x[2]) - x[1], x[0] * x[1] - beta * x[2]])

    def f(x, t):
        k1 = rate(x)
        k2 = rate(x + dt / 2 * k1)
        k3 = rate(x + dt / 2 * k2)
        k4 = rate(x + dt * k3)
        return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def h(x):
        return x

    eye = np.eye(3)
    return System(
        "lorenz",
        f,
        h,
        dt=dt,
        sigma=sigma,
        rho=rho,
        beta=beta,
        Q=100 * dt * eye,
        R=2 * eye,
        m0=np.full(3, 10.0),
        P0=eye,
    )


def range_bearing():
    """State (px, py, vx, vy). The path stays away from the cut of atan2."""
    dt, q = 0.5, 0.02
    F = np.eye(4)
    F[0, 2] = F[1, 3] = dt
    block = q * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    Q = np.zeros((4, 4))
    Q[np.ix_([0, 2], [0, 2])] = block
    Q[np.ix_([1, 3], [1, 3])] = block

    def f(x, t):
        return jnp.asarray(F) @ x

    def h(x):
        return jnp.stack([jnp.sqrt(x[0] ** 2 + x[1] ** 2), jnp.arctan2(x[1], x[0])])

    return System(
        "range_bearing",
        f,
        h,
        dt=dt,
        F=F,
        Q=Q,
        R=np.array([[0.09, 0.001], [0.001, 0.0004]]),
        m0=np.array([6.0, 3.0, 0.4, 0.5]),
        P0=np.diag([1.0, 1.0, 0.1, 0.1]),
    )
