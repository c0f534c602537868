"""Vector-Jacobian products of callables: used where a gradient is needed, counted, and missed aloud."""

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


class Counted:
    def __init__(self, function):
        self.function, self.calls = function, 0
        self.__signature__ = __import__("inspect").signature(function)

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


def model(**products):
    return optfilter.Model(f, h, n=N, m=N // 2, dt=0.1, R=0.5, x0=1.0, **products)


def filtered(model, **settings):
    ys = np.random.default_rng(1).normal(1.0, 0.3, (4, N // 2))
    return optfilter.ImplicitMAP(model, RULE, 5, error_bars=False, **settings).filter(ys).means


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


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="h_vjp: returned a ndarray of shape .* where 30 numbers are needed"):
        filtered(model(h_vjp=lambda x, w: w))
    with pytest.raises(ZeroDivisionError):
        filtered(model(h_vjp=lambda x, w: 1 / 0))
    with pytest.raises(ValueError, match="h_vjp: must be callable"):
        model(h_vjp=3)
    with pytest.raises(ValueError, match='h_vjp: must be callable or "jax"'):
        model(h_vjp="torch")


def test_models_with_products_are_pickled():
    copy = pickle.loads(pickle.dumps(model(f_vjp=f_vjp, h_vjp=h_vjp)))
    np.testing.assert_array_equal(filtered(copy), filtered(model(f_vjp=f_vjp, h_vjp=h_vjp)))


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
