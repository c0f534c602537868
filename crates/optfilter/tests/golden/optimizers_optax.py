"""Iterates of optax's optimizers in float64 on two fixed problems.

Beside every optax run goes a NumPy run of the formula that README.md states
for it; a disagreement stops the script, so the README cannot drift from optax.
"""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp
import numpy as np
import optax

import golden_io

STEPS = 200
KEPT = [1, 2, 3, 10, 50, 100, 200]

A = np.array([[100.0, 3.0, 0.5], [3.0, 10.0, 0.2], [0.5, 0.2, 0.1]])
B = np.array([1.0, -2.0, 0.5])
C = 10.0


def quadratic(x):
    return 0.5 * x @ jnp.asarray(A) @ x - jnp.asarray(B) @ x


def quadratic_gradient(xp, x):
    return xp.asarray(A) @ x - xp.asarray(B)


def valley(x):
    return (1 - x[0]) ** 2 + C * (x[1] - x[0] ** 2) ** 2


def valley_gradient(xp, x):
    d = x[1] - x[0] * x[0]
    return xp.stack([-2 * (1 - x[0]) - 4 * C * x[0] * d, 2 * C * d])


PROBLEMS = {
    "quadratic": (quadratic, quadratic_gradient, np.array([1.0, 1.5, -2.0])),
    "valley": (valley, valley_gradient, np.array([-1.2, 1.0])),
}


class Sgd:
    """t <- g + mu t;  x <- x - lr (g + mu t if nesterov else t)."""

    def __init__(self, learning_rate, momentum=None, nesterov=False):
        self.lr, self.mu, self.nesterov, self.t = learning_rate, momentum, nesterov, 0.0

    def step(self, x, g):
        if self.mu is None:
            return x - self.lr * g
        self.t = g + self.mu * self.t
        return x - self.lr * (g + self.mu * self.t if self.nesterov else self.t)


class Adagrad:
    """s <- s + g^2;  x <- x - lr g / sqrt(s + eps), no move where s = 0."""

    def __init__(self, learning_rate, initial_accumulator_value, eps):
        self.lr, self.s, self.eps = learning_rate, initial_accumulator_value, eps

    def step(self, x, g):
        self.s = self.s + g * g
        root = np.sqrt(np.where(self.s > 0, self.s + self.eps, 1.0))
        return x - self.lr * np.where(self.s > 0, g / root, 0.0)


class Adadelta:
    """a <- rho a + (1 - rho) g^2;  d = sqrt(b + eps) / sqrt(a + eps) g;
    b <- rho b + (1 - rho) d^2;  x <- x - lr d."""

    def __init__(self, learning_rate, rho, eps):
        self.lr, self.rho, self.eps, self.a, self.b = learning_rate, rho, eps, 0.0, 0.0

    def step(self, x, g):
        self.a = self.rho * self.a + (1 - self.rho) * g * g
        d = np.sqrt(self.b + self.eps) / np.sqrt(self.a + self.eps) * g
        self.b = self.rho * self.b + (1 - self.rho) * d * d
        return x - self.lr * d


class Rmsprop:
    """v <- decay v + (1 - decay) g^2;  u = -lr g / sqrt(v + eps), or / (sqrt(v) + eps);
    with momentum t <- u + mu t, and x <- x + t; without, x <- x + u."""

    def __init__(self, learning_rate, decay, eps, initial_scale, eps_in_sqrt, momentum=None):
        self.lr, self.decay, self.eps, self.v = learning_rate, decay, eps, initial_scale
        self.inside, self.mu, self.t = eps_in_sqrt, momentum, 0.0

    def step(self, x, g):
        self.v = self.decay * self.v + (1 - self.decay) * g * g
        root = np.sqrt(self.v + self.eps) if self.inside else np.sqrt(self.v) + self.eps
        u = -self.lr * g / root
        if self.mu is None:
            return x + u
        self.t = u + self.mu * self.t
        return x + self.t


class Adam:
    """m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  at step k = 1, 2, ...
    x <- x - lr (m / (1 - b1^k)) / (sqrt(v / (1 - b2^k)) + eps)."""

    def __init__(self, learning_rate, b1, b2, eps):
        self.lr, self.b1, self.b2, self.eps = learning_rate, b1, b2, eps
        self.m, self.v, self.k = 0.0, 0.0, 0

    def step(self, x, g):
        self.k += 1
        self.m = self.b1 * self.m + (1 - self.b1) * g
        self.v = self.b2 * self.v + (1 - self.b2) * g * g
        m, v = self.m / (1 - self.b1**self.k), self.v / (1 - self.b2**self.k)
        return x - self.lr * m / (np.sqrt(v) + self.eps)


def entry(rule, formula, rates, **hyper):
    return rule, formula, rates, hyper


# Rates by problem: gradient descent must stay below 2 / (largest curvature);
# the others scale their step by the gradient's own size.
DESCENT = dict(quadratic=(0.001, 0.01), valley=(0.0005, 0.002))
OWN_SCALE = dict(quadratic=(0.001, 0.01, 0.1), valley=(0.001, 0.01, 0.1))
OPTIMIZERS = [
    entry("sgd", Sgd, DESCENT),
    entry("sgd", Sgd, DESCENT, momentum=0.9, nesterov=False),
    entry("sgd", Sgd, DESCENT, momentum=0.9, nesterov=True),
    entry("adagrad", Adagrad, dict(quadratic=(0.1, 1.0), valley=(0.1, 0.5)), initial_accumulator_value=0.0, eps=1e-7),
    entry("adagrad", Adagrad, dict(quadratic=(0.1, 1.0), valley=(0.1, 0.5)), initial_accumulator_value=0.0, eps=1e-10),
    entry("adagrad", Adagrad, dict(quadratic=(0.1, 1.0), valley=(0.1, 0.5)), initial_accumulator_value=0.1, eps=1e-7),
    entry("adadelta", Adadelta, dict(quadratic=(0.1, 1.0), valley=(0.1, 1.0)), rho=0.9, eps=1e-6),
    entry("rmsprop", Rmsprop, OWN_SCALE, decay=0.9, eps=1e-8, initial_scale=0.0, eps_in_sqrt=True),
    entry("rmsprop", Rmsprop, OWN_SCALE, decay=0.9, eps=1e-8, initial_scale=0.0, eps_in_sqrt=False),
    entry(
        "rmsprop",
        Rmsprop,
        dict(quadratic=(0.001, 0.01), valley=(0.001, 0.01)),
        decay=0.9,
        eps=1e-8,
        initial_scale=0.0,
        eps_in_sqrt=True,
        momentum=0.9,
    ),
    entry("adam", Adam, OWN_SCALE, b1=0.9, b2=0.999, eps=1e-8),
    entry("adam", Adam, OWN_SCALE, b1=0.5, b2=0.5, eps=1e-8),
]


def optax_path(rule, gradient, x0, hyper):
    optimizer = getattr(optax, rule)(**hyper)

    @jax.jit
    def step(x, state):
        updates, state = optimizer.update(gradient(jnp, x), state, x)
        return optax.apply_updates(x, updates), state

    x = jnp.asarray(x0)
    state, path = optimizer.init(x), []
    for _ in range(STEPS):
        x, state = step(x, state)
        assert x.dtype == jnp.float64
        path.append(np.asarray(x))
    return np.array(path)


def formula_path(formula, gradient, x0, hyper, noise=lambda x: 0.0):
    rule, x, path = formula(**hyper), x0.copy(), []
    for _ in range(STEPS):
        x = rule.step(x, gradient(np, x))
        x = x + noise(x)
        path.append(x)
    return np.array(path)


def rounding_growth(formula, gradient, x0, hyper, path):
    """By what factor rounding may grow: every iterate is moved by up to 1e-12 of
    its size, and the largest departure so far, over 16 runs, divided by 1e-12."""
    worst = np.zeros(STEPS)
    for seed in range(16):
        rng = np.random.default_rng(seed)
        moved = formula_path(
            formula, gradient, x0, hyper, lambda x: 1e-12 * rng.uniform(-1, 1, x.size) * np.maximum(np.abs(x), 1e-3)
        )
        worst = np.maximum(worst, np.abs(moved - path).max(axis=1))
    return np.maximum.accumulate(worst) / 1e-12


def run(problem, rule, formula, rate, hyper, x0=None):
    value, gradient, default_x0 = PROBLEMS[problem]
    x0 = default_x0 if x0 is None else x0
    hyper = dict(learning_rate=rate) | hyper
    path, ours = optax_path(rule, gradient, x0, hyper), formula_path(formula, gradient, x0, hyper)
    assert np.isfinite(path).all()
    # Once a rule circles around the minimum in steps of nearly fixed length it
    # amplifies rounding without bound; iterates from there on test nothing and
    # are left out.
    growth = rounding_growth(formula, gradient, x0, hyper, ours)
    gap = np.abs(ours - path).max(axis=1)
    steps = [k for k in KEPT if growth[k - 1] < 1e4]
    kept = np.array(steps) - 1
    print(
        f"{problem:9} {rule:8} {hyper}: f {float(value(jnp.asarray(x0))):.3g} -> "
        f"{float(value(jnp.asarray(path[-1]))):.3g}, to step {steps[-1]} growth {growth[kept].max():.2g}, "
        f"formula gap {gap[kept].max():.2g}"
    )
    np.testing.assert_array_less(gap[kept], 1e-14 * (1 + growth[kept]))
    return dict(
        problem=problem,
        optimizer=rule,
        hyper=hyper,
        x0=x0,
        steps=steps,
        iterates=path[kept],
        rounding_growth=growth[kept],
        formula_gap=gap[kept],
    )


def main():
    for name, (value, gradient, x0) in PROBLEMS.items():
        np.testing.assert_allclose(gradient(np, x0), jax.grad(value)(jnp.asarray(x0)), rtol=1e-13)
    runs = [
        run(problem, rule, formula, rate, hyper)
        for problem in PROBLEMS
        for rule, formula, rates, hyper in OPTIMIZERS
        for rate in rates[problem]
    ]
    # The second gradient component is exactly 0 at this start, with no eps to
    # lean on: the coordinate must stay, not become NaN.
    runs.append(
        run("valley", "adagrad", Adagrad, 0.1, dict(initial_accumulator_value=0.0, eps=0.0), np.array([-1.0, 1.0]))
    )
    golden_io.write(
        "optimizers_optax.json",
        dict(
            program=f"optax {optax.__version__}, jax {jax.__version__}, numpy {np.__version__}",
            quadratic=dict(A=A, b=B),
            valley=dict(c=C),
            runs=runs,
        ),
    )


if __name__ == "__main__":
    main()
