"""Models of three kinds: the same system written three ways gives the same filters."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from conftest import growth_callable, growth_text

import optfilter
from optfilter import models


def test_three_ways_agree(growth, growth_data, make_filter):
    ys = growth_data.observations[0, :25]
    expected = make_filter(growth).filter(ys)
    for model in (growth_text(), growth_callable()):
        result = make_filter(model).filter(ys)
        # Expressions have exact derivatives; callables have central differences, good to about 1e-9
        # relative per step, which the system's own sensitivity magnifies over 25 steps.
        tolerance = 1e-9 if isinstance(model, optfilter.TextModel) else 1e-4
        np.testing.assert_allclose(result.means, expected.means, rtol=tolerance, atol=tolerance)


def test_a_given_jacobian_is_used():
    calls = []

    def slope(x):
        calls.append(1)
        return np.array([[x[0] / 10]])

    model = growth_callable(h_jacobian=slope)
    f = optfilter.ExtendedKalmanFilter(model)
    f.predict()
    f.update(3.0)
    assert calls
    wrong = growth_callable(h_jacobian=lambda x: np.array([[7.0]]))
    g = optfilter.ExtendedKalmanFilter(wrong)
    g.predict()
    g.update(3.0)
    assert abs(g.x[0] - f.x[0]) > 1e-3


def test_jacobians_agree_with_differences():
    model = models.Lorenz63(dt=0.02)
    x = np.array([1.0, -2.0, 20.0])
    h = 1e-6
    columns = [(model.f(x + h * e) - model.f(x - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(model.f_jacobian(x), np.array(columns).T, atol=1e-8)
    np.testing.assert_allclose(model.h_jacobian(x), np.eye(3))


def test_callables_may_ask_for_inputs_time_interval_and_index():
    seen = []

    def f(x, u, t, dt, k):
        seen.append((u.copy(), t, dt, k))
        return x + dt * u

    model = optfilter.Model(f, lambda x: x, n=2, m=2, inputs=2, dt=0.5, Q=1.0, R=1.0)
    us = np.arange(6.0).reshape(3, 2)
    optfilter.UnscentedKalmanFilter(model).filter(np.zeros((3, 2)), us=us)
    # Rows count from 1; the first is not predicted.
    assert {(s[1], s[2], s[3]) for s in seen} == {(0.5, 0.5, 2), (1.0, 0.5, 3)}
    assert all(np.array_equal(s[0], us[s[3] - 1]) for s in seen)
    seen.clear()
    optfilter.UnscentedKalmanFilter(model).filter(np.zeros((3, 2)), us=us, predict_first=True)
    assert {(s[1], s[2], s[3]) for s in seen} == {(0.5, 0.5, 1), (1.0, 0.5, 2), (1.5, 0.5, 3)}
    assert all(np.array_equal(s[0], us[s[3] - 1]) for s in seen)
    seen.clear()
    model.f([0.0, 0.0], us[0])
    model.f([0.0, 0.0], us[0], t=7.0, k=3)
    assert {s[1:] for s in seen} == {(0.5, 0.5, 1), (7.0, 0.5, 3)}
    with pytest.raises(ValueError, match="^k: "):
        model.f([0.0, 0.0], us[0], k=0)
    with pytest.raises(ValueError, match="^f: unknown parameter 'z'"):
        optfilter.Model(lambda x, z: x, lambda x: x, n=1)


def test_inputs_of_a_linear_model():
    model = models.Linear(F=np.eye(2), H=np.eye(2), B=[[1.0], [2.0]], Q=1e-9, R=1e9, P0=1e-9)
    us = np.ones((4, 1))
    result = optfilter.KalmanFilter(model).filter(np.zeros((4, 2)), us=us)
    np.testing.assert_allclose(result.means[-1], [3.0, 6.0], rtol=1e-6)
    result = optfilter.KalmanFilter(model).filter(np.zeros((4, 2)), us=us, predict_first=True)
    np.testing.assert_allclose(result.means[-1], [4.0, 8.0], rtol=1e-6)
    with pytest.raises(ValueError, match="^us: "):
        optfilter.KalmanFilter(model).filter(np.zeros((4, 2)))


def test_model_files_and_mistakes_in_them(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('system = "pendulum"\n')
    model = optfilter.Model.from_toml(path)
    assert model.state_names == ("theta", "omega") and model.n == 2
    assert optfilter.Model.from_toml(str(path), R=0.5).R[0, 0] == 0.5
    with pytest.raises(ValueError, match="omgea"):
        optfilter.Model.from_expressions({"x": "x + omgea"}, {"y": "x"})
    with pytest.raises(ValueError, match="^name: there is no system"):
        models.system("pendulun")
    with pytest.raises(FileNotFoundError):
        optfilter.Model.from_toml("nowhere.toml")


@pytest.mark.parametrize("name", models.systems())
def test_every_system_filters(name):
    model = models.system(name)
    rng = np.random.default_rng(0)
    seen = np.array([model.h(model.x0, np.zeros(model.inputs) if model.inputs else None)] * 10)
    # Counts must be whole.
    ys = np.round(seen) if model.likelihood else seen + 0.01 * rng.normal(size=seen.shape)
    us = np.zeros((10, model.inputs)) if model.inputs else None
    result = optfilter.UnscentedKalmanFilter(model).filter(ys, us=us)
    assert np.all(np.isfinite(result.means))
    result = optfilter.ImplicitMAP(model, optfilter.SGD(1e-3), 3).filter(ys, us=us)
    assert np.all(np.isfinite(result.means))


@pytest.mark.parametrize(
    "make",
    [
        lambda: models.Growth(R=1.5),
        lambda: models.Lorenz63(dt=0.01, rho=20.0, method="euler"),
        lambda: models.Lorenz96(8),
        lambda: models.RandomWalk(2),
        lambda: models.Linear([[1.0]], [[2.0]], Q=0.5),
        lambda: models.system("bearings"),
        lambda: optfilter.Model(np.sin, np.cos, n=1, m=1, Q=1.0, R=1.0),
    ],
)
def test_models_pickle_copy_and_show(make):
    model = make()
    again = pickle.loads(pickle.dumps(model))
    assert again == model and copy.deepcopy(model) == model and copy.copy(model) == model
    assert type(model).__name__ in repr(model)
    x = np.full(model.n, 0.3)
    np.testing.assert_array_equal(again.f(x), model.f(x))
    assert model.replace(R=9.0).R[0, 0] == 9.0 and model.R[0, 0] != 9.0


@pytest.mark.parametrize(
    "build, argument",
    [
        (lambda: models.Growth(dt=0.0), "dt"),
        (lambda: models.Growth(Q=[[1.0, 2.0]]), "Q"),
        (lambda: models.Growth(R=np.nan), "R"),
        (lambda: models.Growth(colour=1), "colour"),
        (lambda: models.Lorenz63(method="rk5"), "method"),
        (lambda: models.Lorenz63(substeps=0), "substeps"),
        (lambda: models.Lorenz63(substeps=2.7), "substeps"),
        (lambda: models.Lorenz96(5, method="leapfrog"), "method"),
        (lambda: optfilter.Model.from_expressions({"dx/dt": "-x"}, {"y": "x"}, substeps=2.7), "substeps"),
        (lambda: optfilter.Model.from_expressions({"x": "x"}, {"y": "x"}, substeps=0), "substeps"),
        (lambda: optfilter.Model.from_expressions({"dx/dt": "-x"}, {"y": "x"}, integrator="rk5"), "integrator"),
        (lambda: optfilter.Model.from_expressions({"x": "x"}, {"y": "x"}, integrator="rk5"), "integrator"),
        (lambda: models.Lorenz96(3), "n"),
        (lambda: models.Linear([[1.0, 2.0]], [[1.0]]), "F"),
        (lambda: models.Linear(np.eye(2), np.eye(3)), "H"),
        (lambda: models.Linear(np.eye(2), np.eye(2), B=np.eye(3)), "B"),
        (lambda: models.Linear([[np.inf]], [[1.0]]), "F"),
        (lambda: optfilter.Model(1, 2, n=1), "f"),
        (lambda: optfilter.Model(np.sin, np.sin, n=0), "n"),
        (lambda: optfilter.Model(np.sin, np.sin, n=1.5), "n"),
        (lambda: optfilter.Model(np.sin, np.sin, n=1, angles=[3]), "angles"),
        (lambda: optfilter.Model(np.sin, np.sin, n=1, likelihood="normal"), "likelihood"),
    ],
)
def test_wrong_arguments_are_named(build, argument):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        build()


def test_a_jitted_function_of_jax(growth, growth_data):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    f = jax.jit(lambda x, t: x / 2 + 25 * x / (1 + x**2) + 8 * jnp.cos(1.2 * t))
    h = jax.jit(lambda x: x**2 / 20)
    slopes = dict(f_jacobian=jax.jit(jax.jacfwd(f)), h_jacobian=jax.jit(jax.jacfwd(h)))
    model = optfilter.Model(f, h, n=1, m=1, dt=0.1, Q=3.0, R=2.0, **slopes)
    ys = growth_data.observations[0, :30]
    ours = optfilter.ExtendedKalmanFilter(growth).filter(ys)
    theirs = optfilter.ExtendedKalmanFilter(model).filter(ys)
    # The same formulas, rounded in another order.
    np.testing.assert_allclose(theirs.means, ours.means, rtol=1e-9, atol=1e-9)
