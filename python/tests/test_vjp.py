"""Products with the Jacobians of callables: used where a gradient or a tangent is needed, counted, and missed aloud."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import optfilter

N = 30
RULE = optfilter.SGD(0.05)
RING = np.roll(np.eye(N), 1, axis=0)


def f(x, dt):
    return x + dt * np.sin(RING @ x)


def f_vjp(x, w, dt):
    return w + dt * RING.T @ (np.cos(RING @ x) * w)


def h(x):
    return x[::2] ** 2


def h_vjp(x, w):
    out = np.zeros(N)
    out[::2] = 2 * x[::2] * w
    return out


def h_jvp(x, v):
    return 2 * x[::2] * v[::2]


def f_jvp(x, v, dt):
    return v + dt * np.cos(RING @ x) * (RING @ v)


class Counted:
    def __init__(self, function):
        self.function, self.calls = function, 0
        self.__signature__ = __import__("inspect").signature(function)

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


PULLED = dict(f_vjp=f_vjp, h_vjp=h_vjp)
PUSHED = dict(f_jvp=f_jvp, h_jvp=h_jvp)


def model(**products):
    return optfilter.Model(f, h, n=N, m=N // 2, dt=0.1, R=0.5, x0=1.0, **products)


def filtered(model, **settings):
    ys = np.random.default_rng(1).normal(1.0, 0.3, (4, N // 2))
    return optfilter.ImplicitMAP(model, RULE, 5, error_bars=False, **settings).filter(ys).means


def by_conjugate_gradients(model, rows=6, steps=5):
    ys = np.random.default_rng(1).normal(1.0, 0.3, (rows, model.m))
    return optfilter.ImplicitMAP(model, optfilter.CG(), steps, window=3, error_bars=False).filter(ys).means


def test_a_gradient_is_one_call():
    product, value = Counted(h_vjp), Counted(h)
    counted = optfilter.Model(f, value, n=N, m=N // 2, dt=0.1, R=0.5, x0=1.0, h_vjp=product)
    filtered(counted)
    # Five steps for each of four rows; the function itself once per gradient and once per innovation.
    assert product.calls == 20
    assert value.calls <= 24 + 4


def test_a_window_calls_both_products():
    products = Counted(f_vjp), Counted(h_vjp)
    value = Counted(f)
    counted = optfilter.Model(
        value, h, n=N, m=N // 2, dt=0.1, R=0.5, x0=1.0, f_vjp=products[0], h_vjp=products[1]
    )
    filtered(counted, window=2)
    assert products[0].calls > 0 and products[1].calls > 0
    # Differences would have called it 60 times for every row of every window.
    assert value.calls < 200


def test_products_are_the_jacobian():
    x = np.linspace(0.5, 1.5, N)
    exact = model(f_vjp=f_vjp, h_vjp=h_vjp)
    np.testing.assert_allclose(exact.f_jacobian(x), np.eye(N) + 0.1 * np.cos(RING @ x)[:, None] * RING, atol=1e-15)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        means = filtered(exact)
    with pytest.warns(UserWarning, match="h: its gradient is taken by differences, for 60 calls"):
        rough = filtered(model())
    np.testing.assert_allclose(means, rough, atol=1e-8)


def test_differences_are_told_of_once():
    without = model()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        filtered(without)
        filtered(without)
    assert len([w for w in seen if "by differences" in str(w.message)]) == 1


def test_a_jacobian_of_tangents_is_told_of():
    only = model(**PUSHED)
    x = np.linspace(0.5, 1.5, N)
    np.testing.assert_allclose(only.f_jacobian(x), model(f_vjp=f_vjp).f_jacobian(x), atol=1e-15)
    np.testing.assert_allclose(only.h_jacobian(x), model(h_vjp=h_vjp).h_jacobian(x), atol=1e-15)
    with pytest.warns(UserWarning, match="h: its gradient is taken by h_jvp, for 30 calls each time; give h_vjp"):
        means = filtered(only)
    np.testing.assert_allclose(means, filtered(model(h_vjp=h_vjp)), atol=1e-12)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="h_vjp: returned a ndarray of shape .* where 30 numbers are needed"):
        filtered(model(h_vjp=lambda x, w: w))
    with pytest.raises(ZeroDivisionError):
        filtered(model(h_vjp=lambda x, w: 1 / 0))
    with pytest.raises(ValueError, match="h_jvp: returned a ndarray of shape .* where 15 numbers are needed"):
        by_conjugate_gradients(model(**PULLED, h_jvp=lambda x, v: v))
    with pytest.raises(ZeroDivisionError):
        by_conjugate_gradients(model(**PULLED, f_jvp=lambda x, v: 1 / 0))
    with pytest.raises(ValueError, match="h_vjp: must be callable"):
        model(h_vjp=3)
    with pytest.raises(ValueError, match='h_vjp: must be callable or "jax"'):
        model(h_vjp="torch")
    with pytest.raises(ValueError, match='f_jvp: must be callable or "jax"'):
        model(f_jvp="torch")


def test_models_with_products_are_pickled():
    exact = model(**PULLED, **PUSHED)
    copy = pickle.loads(pickle.dumps(exact))
    assert copy == exact and copy != model(**PULLED)
    np.testing.assert_array_equal(by_conjugate_gradients(copy), by_conjugate_gradients(exact))


def ring(n, names):
    """The functions above for `n` states, counted, as arguments of a model."""
    turn = lambda x: np.roll(x, 1)
    back = lambda x: np.roll(x, -1)

    def pulled(x, w):
        out = np.zeros(n)
        out[::2] = 2 * x[::2] * w
        return out

    functions = dict(
        f=lambda x, dt: x + dt * np.sin(turn(x)),
        h=lambda x: x[::2] ** 2,
        f_vjp=lambda x, w, dt: w + dt * back(np.cos(turn(x)) * w),
        h_vjp=pulled,
        f_jvp=lambda x, v, dt: v + dt * np.cos(turn(x)) * turn(v),
        h_jvp=lambda x, v: 2 * x[::2] * v[::2],
        f_jacobian=lambda x, dt: np.eye(n) + dt * np.cos(turn(x))[:, None] * np.roll(np.eye(n), 1, axis=0),
        h_jacobian=lambda x: 2 * np.diag(x)[::2],
    )
    return {name: Counted(functions[name]) for name in ("f", "h", *names)}


@pytest.mark.parametrize("n", [20, 200])
def test_conjugate_gradients_cost_the_same_at_any_size(n):
    def run(*names):
        given = ring(n, names)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            means = by_conjugate_gradients(optfilter.Model(n=n, m=n // 2, dt=0.1, R=0.5, x0=1.0, **given))
        return means, {name: function.calls for name, function in given.items()}

    # Windows of up to four rows at six rows: 12 transitions and 18 rows. Over each go a gradient and five curvatures: a
    # pass backwards for all, and a tangent for the curvatures.
    moves, rows, steps = 12, 18, 5
    means, calls = run("f_vjp", "h_vjp")
    assert calls["f_vjp"] <= (steps + 1) * moves and calls["h_vjp"] <= (steps + 1) * rows
    # Besides, the path is followed a few times, and h is asked what to expect at every tangent.
    assert calls["f"] <= 4 * steps * moves + 5 * moves and calls["h"] <= 5 * steps * rows + 5 * rows
    exact, calls = run("f_vjp", "h_vjp", "f_jvp", "h_jvp")
    assert 0 < calls["f_jvp"] <= steps * moves and 0 < calls["h_jvp"] <= steps * rows
    assert calls["f"] <= 5 * moves
    np.testing.assert_allclose(means, exact, rtol=0, atol=1e-6)
    # A Jacobian that is given is multiplied with.
    means, calls = run("f_vjp", "h_vjp", "f_jacobian", "h_jacobian")
    assert 0 < calls["f_jacobian"] <= steps * moves and calls["f"] <= 5 * moves
    np.testing.assert_allclose(means, exact, rtol=0, atol=1e-12)


def lorenz96(n, forcing=8.0):
    """Runge-Kutta steps of Lorenz '96 and their products."""
    at = lambda x, i: np.roll(x, -i)
    g = lambda x: (at(x, 1) - at(x, -2)) * at(x, -1) - x + forcing
    push = lambda x, v: (at(v, 1) - at(v, -2)) * at(x, -1) + (at(x, 1) - at(x, -2)) * at(v, -1) - v

    def pull(x, w):
        left = w * at(x, -1)
        return at(left, -1) - at(left, 2) + at(w * (at(x, 1) - at(x, -2)), 1) - w

    def stages(x, dt):
        second = x + dt / 2 * g(x)
        third = x + dt / 2 * g(second)
        return x, second, third, x + dt * g(third)

    def f(x, dt):
        a, b, c, d = map(g, stages(x, dt))
        return x + dt / 6 * (a + 2 * b + 2 * c + d)

    def f_jvp(x, v, dt):
        first, second, third, fourth = stages(x, dt)
        a = push(first, v)
        b = push(second, v + dt / 2 * a)
        c = push(third, v + dt / 2 * b)
        d = push(fourth, v + dt * c)
        return v + dt / 6 * (a + 2 * b + 2 * c + d)

    def f_vjp(x, w, dt):
        first, second, third, fourth = stages(x, dt)
        d = pull(fourth, dt / 6 * w)
        c = pull(third, dt / 3 * w + dt * d)
        b = pull(second, dt / 3 * w + dt / 2 * c)
        a = pull(first, dt / 6 * w + dt / 2 * b)
        return w + a + b + c + d

    same = dict(h_vjp=lambda x, w: w, h_jvp=lambda x, v: v)
    return dict(f=f, h=lambda x: x, n=n, m=n, f_vjp=f_vjp, f_jvp=f_jvp, **same)


@pytest.mark.parametrize("constraint", ["strong", "weak"])
def test_tangents_are_those_of_the_built_in_system(constraint):
    n, settings = 40, dict(dt=0.05, Q=0.1, Q_per_time=True, P0=4.0, R=1.0, x0=np.linspace(-2.0, 6.0, 40))
    built_in = optfilter.models.Lorenz96(n, **settings)
    ys = optfilter.simulate(built_in, 30, seed=2).observations

    def run(model):
        rule = optfilter.CG()
        given = dict(window=4, constraint=constraint, error_bars=False)
        return optfilter.ImplicitMAP(model, rule, 4, **given).filter(ys).means

    expected = run(built_in)
    # Sums in another order, on a system that doubles errors every few rows.
    np.testing.assert_allclose(run(optfilter.Model(**lorenz96(n), **settings)), expected, rtol=0, atol=1e-9)
    without = {key: value for key, value in lorenz96(n).items() if "jvp" not in key}
    np.testing.assert_allclose(run(optfilter.Model(**without, **settings)), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "h, slope",
    [
        (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
        (np.log, lambda x: 1 / x),
        (lambda x: 1 / x, lambda x: -1 / x**2),
        (np.sin, np.cos),
        (lambda x: x + x**2, lambda x: 1 + 2 * x),
    ],
)
@pytest.mark.parametrize("smallest", [1e-20, 1e-8, 1e-4, 1e-2, 1.0, 1e3])
def test_a_tangent_suits_states_near_zero(h, slope, smallest):
    x0 = np.array([smallest, 2.0, 7.0, 0.5, 3.0])
    ys = h(x0) + [[0.1 * max(1.0, abs(slope(smallest)) * smallest), -0.2, 0.15, 0.1, 0.05]]

    def step(**product):
        pulled = lambda x, w: slope(x) * w
        model = optfilter.Model(lambda x: x, h, n=5, m=5, R=0.5, x0=x0, h_vjp=pulled, **product)
        with np.errstate(all="ignore"):
            means = optfilter.ImplicitMAP(model, optfilter.CG(), 1, error_bars=False).filter(ys).means
        return means[0] - x0

    # One step goes down the gradient; how far is what the tangent says. The bend beside zero is worth 4e-7, twice that
    # in a square.
    found, exact = step(), step(h_jvp=lambda x, v: slope(x) * v)
    assert np.max(np.abs(exact / x0)) > 1e-3
    # Where it goes is rounded, too.
    assert np.all(np.abs(found - exact) <= 2e-6 * np.abs(exact) + 1e-15 * x0)


def test_tangents_of_single_precision_are_told_of():
    single = model(**PULLED).replace(f=lambda x, dt: f(x, dt).astype(np.float32))
    exact = by_conjugate_gradients(single.replace(**PUSHED))
    with pytest.warns(RuntimeWarning, match="^f: its results have single precision"):
        means = by_conjugate_gradients(single)
    # eps^(2/3) = 2.4e-5, through five iterations at each of six rows.
    np.testing.assert_allclose(means, exact, rtol=0, atol=1e-2)


def test_many_states_at_once_make_a_tangent_one_call():
    both = Counted(lambda x, dt: x + dt * np.sin(x @ RING.T))
    counted = optfilter.Model(
        both, lambda x: x[..., ::2] ** 2, n=N, m=N // 2, dt=0.1, R=0.5, x0=1.0, vectorized=True, **PULLED
    )
    means = by_conjugate_gradients(counted)
    # 12 transitions, five tangents and a few paths over each; a second call where a state is nearly zero.
    assert both.calls <= (2 * 5 + 5) * 12
    np.testing.assert_allclose(means, by_conjugate_gradients(model(**PULLED, **PUSHED)), rtol=0, atol=1e-6)


def test_jax_makes_its_own():
    jax = pytest.importorskip("jax")
    jitted = jax.jit(lambda x: x[::2] ** 2)
    for given in (
        optfilter.Model(f, jitted, n=N, m=N // 2, dt=0.1, R=0.5, x0=1.0),
        optfilter.Model(f, lambda x: x[::2] ** 2, n=N, m=N // 2, dt=0.1, R=0.5, x0=1.0, h_vjp="jax"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            means = filtered(given)
        # Single precision, unless JAX was told otherwise.
        np.testing.assert_allclose(means, filtered(model(h_vjp=h_vjp)), rtol=1e-4)


def test_jax_makes_tangents():
    jax = pytest.importorskip("jax")

    @jax.custom_vjp
    def squared(x):
        return x[::2] ** 2

    def pulled(x, w):
        return (jax.numpy.zeros_like(x).at[::2].set(2 * x[::2] * w),)

    squared.defvjp(lambda x: (squared(x), x), pulled)
    moved = lambda x, dt: x + dt * jax.numpy.sin(jax.numpy.roll(x, 1))
    settings = dict(n=N, m=N // 2, dt=0.1, R=0.5, x0=1.0)
    expected = by_conjugate_gradients(model(**PULLED, **PUSHED))
    for f, h, given in (
        (jax.jit(moved), jax.jit(lambda x: x[::2] ** 2), {}),
        (moved, lambda x: x[::2] ** 2, dict(f_vjp="jax", h_vjp="jax")),
        # Only ever pulled back by itself.
        (moved, squared, dict(f_jvp="jax", h_jvp="jax")),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # differences of single precision would be warned of
            means = by_conjugate_gradients(optfilter.Model(f, h, **settings, **given))
        # Single precision, unless JAX was told otherwise.
        np.testing.assert_allclose(means, expected, rtol=1e-3)
