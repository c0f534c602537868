"""Models of callables: derivatives by differences at any size and precision, and many states in one call."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pytest

import optfilter

SIZES = [10.0**k for k in range(-8, 9)]

# Functions that bend on the scale of x itself, with their derivatives by hand.
POWERS = [
    (lambda x: x**3, lambda x: 3 * x**2),
    (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    (np.log, lambda x: 1 / x),
    (lambda x: 1 / x, lambda x: -1 / x**2),
]


def model_of(f, n=1, m=1, h=None, **settings):
    return optfilter.Model(f, h or (lambda x: x[..., :m]), n=n, m=m, Q=0.1, R=0.5, **settings)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("f, slope", POWERS)
def test_differences_suit_the_size_of_the_state(f, slope, size):
    for x in (size, 1.7 * size):
        found = model_of(f).f_jacobian([x])[0, 0]
        # Truncation and rounding are both of order eps^(2/3) = 4e-11, times the bend of the function.
        assert found == pytest.approx(slope(x), rel=1e-7), (x, found)


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e-12, 1e-8, 1e-3])
def test_a_small_state_beside_a_large_one_is_not_rounded_away(size):
    f = lambda x: np.array([x[0] + 0.1 * x[1], 1.0 + np.sin(x[0]), x[1]])
    h = lambda x: x[:1]
    model = optfilter.Model(f, h, n=3, m=1)
    found = model.f_jacobian([size, 5.0, 0.0])
    expected = [[1.0, 0.1, 0.0], [np.cos(size), 0.0, 0.0], [0.0, 1.0, 0.0]]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "single",
    [
        lambda y: np.asarray(y, dtype=np.float32),
        lambda y: [np.float32(v) for v in y],
        # No dtype tells of it: a function of single precision whose results are handed on as doubles.
        lambda y: np.asarray(y, dtype=np.float32).astype(np.float64),
    ],
)
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.3, 1.0, 40.0, 1e6])
def test_differences_suit_single_precision(single, size):
    def f(x):
        x = np.asarray(x, dtype=np.float32)
        return single(x**3)

    model = model_of(f)
    with pytest.warns(RuntimeWarning, match="^f: its results have single precision"):
        found = model.f_jacobian([size])[0, 0]
    # eps^(2/3) = 2.4e-5 for single precision; the step for doubles would be off by 1e-2 and more.
    assert found == pytest.approx(3 * size**2, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        model.f_jacobian([size])
        model_of(f, f_jacobian=lambda x: 3 * x**2).f_jacobian([size])


def test_a_function_of_doubles_is_not_taken_for_one_of_singles():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in (lambda x: x, np.floor, np.sin, lambda x: 0 * x, lambda x: x + 0.5):
            for x in (0.0, 1.0, 0.25, 3.0):
                model_of(f).f_jacobian([x])


def test_a_float32_function_of_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    try:
        function, slope = jax.jit(lambda x: jnp.sin(x) + x**2), np.cos(0.7) + 1.4
        # A jitted function is differentiated by JAX itself, to the last digit of single precision.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = model_of(function).f_jacobian([0.7])[0, 0]
        assert found == pytest.approx(slope, rel=1e-6)
        # Inside another function it is one of single precision like any other.
        with pytest.warns(RuntimeWarning, match="jax_enable_x64"):
            found = model_of(lambda x: function(x)).f_jacobian([0.7])[0, 0]
        assert found == pytest.approx(slope, rel=1e-3)
    finally:
        jax.config.update("jax_enable_x64", before)


def swing(x, dt, u):
    """A pendulum that is pushed, for one state or for the rows of an array."""
    angle, speed = x[..., 0], x[..., 1]
    return np.stack([angle + dt * speed, speed - dt * np.sin(angle) + dt * u[0]], axis=-1)


def seen(x):
    return np.stack([x[..., 0] ** 2, x[..., 1]], axis=-1)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0
        # A model looks for the parameters that a function names.
        self.__signature__ = inspect.signature(function)

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


def both(**settings):
    common = dict(n=2, m=2, inputs=1, dt=0.1, Q=0.01, R=0.1, x0=[0.5, 0.0], **settings)
    return optfilter.Model(swing, seen, **common), optfilter.Model(swing, seen, vectorized=True, **common)


@pytest.mark.parametrize(
    "make",
    [
        optfilter.ExtendedKalmanFilter,
        optfilter.IteratedKalmanFilter,
        optfilter.UnscentedKalmanFilter,
        optfilter.ImplicitMAP,
        lambda model: optfilter.ParticleFilter(model, particles=50, seed=3),
        lambda model: optfilter.ParticleFilter(model, particles=64, seed=3, resampling="residual", threshold=1.0),
    ],
)
def test_many_states_at_once_give_the_same_bits(make):
    rng = np.random.default_rng(1)
    ys = rng.normal(size=(20, 2))
    ys[5] = np.nan
    ys[8, 0] = np.nan
    us = rng.normal(size=(20, 1))
    one, many = (make(model).filter(ys, us=us) for model in both())
    assert np.array_equal(one.means, many.means)
    assert (one.covariances is None) == (many.covariances is None)
    if one.covariances is not None:
        assert np.array_equal(one.covariances, many.covariances)


def test_a_jacobian_or_a_step_of_all_particles_is_one_call():
    f, h = Counted(swing), Counted(seen)
    model = optfilter.Model(f, h, n=2, m=2, inputs=1, dt=0.1, Q=0.01, R=0.1, vectorized=True)
    model.f_jacobian([0.5, 2.0], [0.0])
    assert f.calls <= 2 and h.calls == 0  # the value, and all differences at once
    plain, vectorized = both()
    point = [0.5, -1e-7]
    assert np.array_equal(plain.f_jacobian(point, [0.3]), vectorized.f_jacobian(point, [0.3]))
    assert np.array_equal(plain.h_jacobian(point, [0.3]), vectorized.h_jacobian(point, [0.3]))

    particles = optfilter.ParticleFilter(model, particles=100, seed=1)
    f.calls = h.calls = 0
    particles.filter(np.zeros((10, 2)), us=np.zeros((10, 1)))
    # The first row is not predicted; h once for all particles, and once for what is expected of the estimate (its flag).
    assert (f.calls, h.calls) == (9, 20)


def test_a_vectorized_function_of_another_shape_is_named():
    # Transposed it has as many numbers.
    model = optfilter.Model(lambda x: x.T, lambda x: x[:, :1], n=2, m=1, vectorized=True)
    with pytest.raises(ValueError, match=r"^f: returned a ndarray of shape \[2, 1\].*\[1, 2\]"):
        model.f([1.0, 2.0])
    # One number per state may come as a vector.
    model = optfilter.Model(lambda x: x, lambda x: x[:, 0], n=2, m=1, Q=0.1, R=0.1, vectorized=True)
    assert model.h([1.0, 2.0]) == [1.0]
    assert optfilter.ParticleFilter(model, particles=30).filter([[1.0], [2.0]]).means.shape == (2, 2)


def test_vectorized_is_kept_by_copies():
    _, model = both()
    again = pickle.loads(pickle.dumps(model)).replace(R=0.2)
    assert again.f([0.1, 0.2], [0.0]).shape == (2,)


def test_a_window_tells_of_its_oldest_row_while_it_is_stepped():
    turn = lambda x, dt: np.array([x[0] + dt * x[1], x[1] - dt * np.sin(x[0])])
    model = optfilter.Model(turn, lambda x: x[:1], n=2, m=1, dt=0.1, R=0.1, x0=[1.0, 0.0])
    ys = np.cos(0.1 * np.arange(12))[:, None]
    rows = 3
    windowed = optfilter.ImplicitMAP(model, optfilter.CG(), 2, window=rows, error_bars=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gradients by differences
        whole = windowed.filter(ys)
        assert windowed.lagged is None
        for k, y in enumerate(ys):
            if k > 0:
                windowed.predict()
            windowed.update(y)
            if k >= rows:
                np.testing.assert_array_equal(windowed.lagged, whole.lagged[k - rows])
                assert not np.array_equal(windowed.lagged, whole.means[k - rows])
    windowed.reset()
    assert windowed.lagged is None
    windowed.update(ys[0])
    np.testing.assert_array_equal(windowed.lagged, windowed.x)
    for without in (optfilter.ImplicitMAP(model, optfilter.CG(), 2), optfilter.ExtendedKalmanFilter(model, Q=0.1)):
        without.update(ys[0])
        assert without.lagged is None


def test_what_a_callable_raises_on_the_way_to_the_oldest_row_is_raised():
    broken = []

    def f(x):
        if broken:
            raise ZeroDivisionError("by the user")
        return x

    model = model_of(f, f_jacobian=lambda x: np.eye(1), h_jacobian=lambda x: np.eye(1))
    windowed = optfilter.ImplicitMAP(model, optfilter.CG(), 1, window=2, error_bars=False)
    windowed.update(1.0)
    windowed.predict()
    windowed.update(1.0)
    broken.append(True)
    with pytest.raises(ZeroDivisionError, match="by the user"):
        windowed.lagged
    broken.clear()
    assert windowed.lagged.shape == (1,)
