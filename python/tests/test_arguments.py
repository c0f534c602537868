"""Wrong shapes, dtypes, strides, orders, read-only arrays; divergence; callables that raise or give NaN."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest
from conftest import growth_callable, random_system

import optfilter
from optfilter import _core, _settings
from optfilter._settings import TABLE


@pytest.fixture
def linear():
    return random_system(0, 3, 2)


@pytest.mark.parametrize(
    "change",
    [
        np.asfortranarray,
        lambda a: a[::-1].copy()[::-1],
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: np.concatenate([a, a], axis=1)[:, :2],
        lambda a: a.astype(">f8"),
        lambda a: a.tolist(),
        lambda a: a.astype(object),
        lambda a: [row for row in a],
    ],
)
def test_any_layout_gives_the_same_numbers(linear, change):
    model, ys = linear
    f = optfilter.KalmanFilter(model)
    expected = f.filter(ys).means
    assert np.array_equal(f.filter(change(ys)).means, expected)
    batch = np.stack([ys, ys])
    changed = np.asfortranarray(batch)
    assert np.array_equal(f.filter(changed).means[1], expected)


def test_read_only_arrays_and_no_writes_into_the_callers(linear):
    model, ys = linear
    kept = ys.copy()
    ys.flags.writeable = False
    f = optfilter.KalmanFilter(model)
    f.filter(ys)
    f.predict()
    f.update(ys[0])
    assert np.array_equal(ys, kept)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.uint8, bool])
def test_other_kinds_of_numbers(dtype):
    model = optfilter.models.RandomWalk(1)
    ys = np.array([0, 1, 1, 0]).astype(dtype)
    f = optfilter.ExtendedKalmanFilter(model)
    assert np.array_equal(f.filter(ys).means, f.filter(ys.astype(float)).means)
    f.update(ys[:1])


@pytest.mark.parametrize("bad", ["text", [["a", "b"]], 1 + 2j, np.array(["2020-01-01"], dtype="M8[D]"), object()])
def test_what_is_not_numbers(linear, bad):
    model, _ = linear
    f = optfilter.KalmanFilter(model)
    with pytest.raises(ValueError, match="^ys: "):
        f.filter(bad)
    with pytest.raises(ValueError, match="^y: "):
        f.update(bad)


@pytest.mark.parametrize(
    "call, argument",
    [
        (lambda f, ys: f.filter(ys[:, :1]), "ys"),
        (lambda f, ys: f.filter(ys[0]), "ys"),
        (lambda f, ys: f.filter(ys[None, None]), "ys"),
        (lambda f, ys: f.filter(ys[:0]), "ys"),
        (lambda f, ys: f.filter(np.where(np.arange(60)[:, None] == 3, np.inf, ys)), "ys"),
        (lambda f, ys: f.filter(ys, ts=np.arange(5.0)), "ts"),
        (lambda f, ys: f.filter(ys, ts=-np.arange(60.0)), "ts"),
        (lambda f, ys: f.filter(ys, ts=np.full(60, np.nan)), "ts"),
        (lambda f, ys: f.filter(ys, ts=np.arange(60.0), t0=np.nan), "t0"),
        (lambda f, ys: f.filter(ys, t0=np.nan), "t0"),
        (lambda f, ys: f.filter(ys, t0=-np.inf), "t0"),
        (lambda f, ys: f.filter(ys).nees(np.zeros(3)), "truth"),
        (lambda f, ys: f.filter(ys).nees(np.zeros((60, 1))), "truth"),
        (lambda f, ys: f.filter(ys, us=np.zeros((60, 1))), "us"),
        (lambda f, ys: f.filter(ys, x0=[1.0]), "x0"),
        (lambda f, ys: f.filter(ys, x0=[1.0, np.nan, 2.0]), "x0"),
        (lambda f, ys: f.filter(ys, P0=np.eye(2)), "P0"),
        (lambda f, ys: f.filter(ys, P0=-np.eye(3)), "P0"),
        (lambda f, ys: f.filter(np.stack([ys, ys]), x0=np.zeros((3, 3))), "x0"),
        (lambda f, ys: f.filter(ys, errors="ignore"), "errors"),
        (lambda f, ys: f.update([1.0]), "y"),
        (lambda f, ys: f.update([1.0, np.inf]), "y"),
        (lambda f, ys: f.update(np.zeros((2, 2))), "y"),
        (lambda f, ys: f.predict(u=[1.0]), "u"),
        (lambda f, ys: f.predict(dt=-1.0), "dt"),
        (lambda f, ys: f.predict(dt=np.nan), "dt"),
    ],
)
def test_wrong_arguments_of_calls_are_named(linear, call, argument):
    model, ys = linear
    with pytest.raises(ValueError, match=f"^{argument}: "):
        call(optfilter.KalmanFilter(model), ys)


def growth(**settings):
    return optfilter.models.Growth(**settings)


@pytest.mark.parametrize(
    "build, argument",
    [
        (lambda: optfilter.KalmanFilter(growth()), "model"),
        (lambda: optfilter.ExtendedKalmanFilter("model"), "model"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(), Q=-1.0), "Q"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(), R=-1.0), "R"),
        (lambda: optfilter.ParticleFilter(growth(), R=0.0), "R"),
        (lambda: optfilter.ETKF(growth(), R=0.0), "R"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(), R=np.eye(2)), "R"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(Q=None)), "Q"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(), x0=[1.0, 2.0]), "x0"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(), P0=-1.0), "P0"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(), dt=0.0), "dt"),
        (lambda: optfilter.IteratedKalmanFilter(growth(), steps=0), "steps"),
        (lambda: optfilter.IteratedKalmanFilter(growth(), steps=2.5), "steps"),
        (lambda: optfilter.UnscentedKalmanFilter(growth(), alpha=0.0), "alpha"),
        (lambda: optfilter.UnscentedKalmanFilter(growth(), alpha="wide"), "alpha"),
        (lambda: optfilter.UnscentedKalmanFilter(growth(), beta=np.nan), "beta"),
        (lambda: optfilter.UnscentedKalmanFilter(growth(), kappa=-1.0), "kappa"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(), process_scale=0.0), "process_scale"),
        (lambda: optfilter.ExtendedKalmanFilter(growth(), predict_first="no"), "predict_first"),
        (lambda: optfilter.ParticleFilter(growth(), particles=0), "particles"),
        (lambda: optfilter.ParticleFilter(growth(), seed=-1), "seed"),
        (lambda: optfilter.ParticleFilter(growth(), resampling="none"), "resampling"),
        (lambda: optfilter.ParticleFilter(growth(), threshold=2.0), "threshold"),
        (lambda: optfilter.ETKF(growth(), members=1), "members"),
        (lambda: optfilter.ETKF(growth(), inflation=0.0), "inflation"),
        (lambda: optfilter.ETKF(growth(R=None)), "R"),
        (lambda: optfilter.LETKF(growth(), radius=-1.0), "radius"),
        (lambda: optfilter.LETKF(growth(), periodic=1), "periodic"),
        (lambda: optfilter.ImplicitMAP(growth(), steps=0), "steps"),
        (lambda: optfilter.ImplicitMAP(growth(), optimizer="adma"), "optimizer"),
        (lambda: optfilter.ImplicitMAP(growth(), optimizer=optfilter.Adam), "optimizer"),
        (lambda: optfilter.ImplicitMAP(growth(), likelihood="poisson"), "likelihood"),
        (lambda: optfilter.ImplicitMAP(growth(), likelihood="squared"), "likelihood"),
        (lambda: optfilter.ImplicitMAP(growth(), loss="cubed"), "loss"),
        (lambda: optfilter.ImplicitMAP(growth(), loss=3), "loss"),
        (lambda: optfilter.ImplicitMAP(growth(R=None), loss="likelihood"), "loss"),
        (lambda: optfilter.ImplicitMAP(growth(), carry=1), "carry"),
        (lambda: optfilter.ImplicitMAP(growth(), carry=True, error_bars=True), "error_bars"),
        (lambda: optfilter.ImplicitMAP(growth(Q=None), error_bars=True), "error_bars"),
        (lambda: optfilter.ImplicitMAP(growth(R=None), error_bars=True), "error_bars"),
        (lambda: optfilter.ImplicitMAP(growth(), optimizer=optfilter.Preconditioned(np.eye(2))), "M"),
        (lambda: optfilter.VariationalKalmanFilter(growth(), prior_cov=0.0), "prior_cov"),
        (lambda: optfilter.VariationalKalmanFilter(growth(Q=None)), "Q"),
        (lambda: growth().filter([1.0], method="kff"), "method"),
        (lambda: growth().filter([1.0], stepz=3), "stepz"),
        (lambda: growth().filter([1.0], method="ekf", decay="slow"), "decay"),
        (lambda: optfilter.simulate(growth(), 0), "steps"),
        (lambda: optfilter.simulate(growth(Q=None), 5), "Q"),
        (lambda: optfilter.implied_prior(-1.0, H=1.0, steps=2), "learning_rate"),
        (lambda: optfilter.implied_prior(0.1, H=1.0, steps=0), "steps"),
        (lambda: optfilter.learning_rate_matrix(-1.0, H=1.0, steps=2), "prior_cov"),
        (lambda: optfilter.Preconditioned([[1.0, 2.0], [0.0, 1.0]]), "M"),
        (lambda: optfilter.Adam(lr=0.1, b1=1.0), "b1"),
        (lambda: optfilter.Adam(lr="fast"), "lr"),
        (lambda: optfilter.SGD(lr=0.1, momentum=2.0), "momentum"),
        (lambda: optfilter.Adadelta(rho=2.0), "rho"),
        (lambda: optfilter.Adagrad(0.1, -1.0), "initial_accumulator_value"),
        (lambda: optfilter.RMSProp(lr=0.1, decay=2.0), "decay"),
        (lambda: optfilter.Adagrad(lr=0.1, eps=-1.0), "eps"),
    ],
)
def test_wrong_settings_are_named(build, argument):
    with pytest.raises(ValueError, match=f"^{argument}: ") as caught:
        build()
    assert str(caught.value).count(f"{argument}: ") == 1


def test_every_setting_of_the_engine_has_a_kind():
    with pytest.raises(ValueError, match="unknown field") as caught:
        _core.check_spec('{"?": 1}')
    known = re.findall("`([a-z0-9_]+)`", str(caught.value))
    assert sorted(known) == list(_settings.KEYS)


def test_divergence_has_the_time_and_the_last_good_state():
    # Each step doubles the logarithm: exp(exp(...)) overflows after a few steps.
    model = optfilter.Model.from_expressions({"x": "exp(x)"}, {"y": "x"}, x0=1.0, R=1e12, Q=1e-6)
    ys = np.zeros((10, 1))
    f = optfilter.ImplicitMAP(model, optfilter.SGD(1e-9), 1)
    for first, index in ((False, 4), (True, 3)):
        with pytest.raises(optfilter.DivergenceError) as caught:
            f.filter(ys, predict_first=first)
        error = caught.value
        # 1, e, e^e = 15.15, e^15.15 = 3.8e6, then infinity.
        assert error.index == index
        np.testing.assert_allclose(error.last_good, [np.exp(np.exp(np.e))], rtol=1e-2)
        assert isinstance(error, ArithmeticError) and f"time index {index}" in str(error)
        again = pickle.loads(pickle.dumps(error))
        assert again.index == index and np.array_equal(again.last_good, error.last_good)
    # Step by step, the belief stays at the last good state.
    for _ in range(3):
        f.predict()
        f.update(0.0)
    before = f.x
    with pytest.raises(optfilter.DivergenceError):
        f.predict()
    assert np.array_equal(f.x, before) and f.k == 3


def test_a_diverging_trajectory_of_a_batch():
    model = optfilter.Model.from_expressions({"x": "x^2"}, {"y": "x"}, Q=1e-9, R=1e12)
    ys = np.full((3, 40, 1), np.nan)  # nothing holds the state back
    x0 = np.array([[0.5], [3.0], [0.1]])
    for f in (
        optfilter.ImplicitMAP(model, optfilter.SGD(1e-9), 1),
        optfilter.ExtendedKalmanFilter(model, P0=1e-12),
    ):
        with pytest.raises(optfilter.DivergenceError) as caught:
            f.filter(ys, x0=x0)
        assert caught.value.trajectory == 1
        result = f.filter(ys, x0=x0, errors="nan")
        assert [b for b, _ in result.failures] == [1]
        assert np.all(np.isfinite(result.means[[0, 2]]))
        index = result.failures[0][1].index
        assert np.all(np.isfinite(result.means[1, :index])) and np.all(np.isnan(result.means[1, index:]))


class Mine(Exception):
    pass


@pytest.mark.parametrize("which", ["f", "h", "f_jacobian", "h_jacobian"])
@pytest.mark.parametrize("after", [0, 3])
def test_exceptions_of_callables_come_through_unchanged(which, after):
    calls = 0
    error = Mine("as it was", 42)

    def failing(x):
        nonlocal calls
        calls += 1
        if calls > after:
            raise error
        return x.reshape(1, 1) * 0 + 1 if "jacobian" in which else x

    functions = dict(f=lambda x: x, h=lambda x: x, f_jacobian=None, h_jacobian=None)
    functions[which] = failing
    model = optfilter.Model(n=1, m=1, Q=1.0, R=1.0, **functions)
    with pytest.raises(Mine) as caught:
        optfilter.ExtendedKalmanFilter(model).filter(np.zeros((10, 1)))
    assert caught.value is error
    calls = 0
    f = optfilter.ExtendedKalmanFilter(model)
    with pytest.raises(Mine) as caught:
        for _ in range(10):
            f.predict()
            f.update(0.0)
    assert caught.value is error
    # The exception is gone with its call: another filter is not touched by it.
    optfilter.ExtendedKalmanFilter(growth()).filter(np.ones((3, 1)))


@pytest.mark.parametrize("kind", ["ExtendedKalmanFilter", "UnscentedKalmanFilter", "ParticleFilter", "ImplicitMAP", "VariationalKalmanFilter", "IteratedKalmanFilter"])
@pytest.mark.parametrize("which", ["f", "h"])
def test_callables_that_return_nan_diverge(kind, which):
    calls = 0

    def sometimes(x):
        nonlocal calls
        calls += 1
        return x * np.nan if calls > 40 else x

    functions = dict(f=lambda x: x, h=lambda x: x)
    functions[which] = sometimes
    model = optfilter.Model(n=1, m=1, Q=1.0, R=1.0, **functions)
    f = getattr(optfilter, kind)(model, **({"particles": 4} if kind == "ParticleFilter" else {}))
    with pytest.raises(optfilter.DivergenceError) as caught:
        f.filter(np.zeros((200, 1)))
    assert caught.value.last_good.shape == (1,) and np.all(np.isfinite(caught.value.last_good))


@pytest.mark.parametrize("result", [[1.0, 2.0], "text", None, np.zeros((2, 2))])
def test_callables_that_return_something_else(result):
    model = optfilter.Model(lambda x: result, lambda x: x, n=1, m=1, Q=1.0, R=1.0)
    with pytest.raises((ValueError, optfilter.DivergenceError), match="^f: |diverged"):
        optfilter.UnscentedKalmanFilter(model).filter(np.zeros((3, 1)))


def test_a_callable_that_steps_its_own_filter_is_told_so():
    holder = {}

    def f(x):
        if "filter" in holder:
            holder["filter"].predict()
        return x

    model = optfilter.Model(f, lambda x: x, n=1, m=1, Q=1.0, R=1.0)
    holder["filter"] = optfilter.UnscentedKalmanFilter(model)
    with pytest.raises(RuntimeError, match="stepped the filter itself"):
        holder["filter"].predict()


def test_callables_are_called_with_copies():
    def f(x):
        x[0] = 7.0
        return np.array([1.0])

    model = optfilter.Model(f, lambda x: x, n=1, m=1, Q=1.0, R=1.0, x0=3.0)
    g = optfilter.ImplicitMAP(model, optfilter.SGD(0.1), 1)
    assert g.x[0] == 3.0
    g.predict()
    assert g.x[0] == 1.0


def test_growth_as_a_callable_has_its_name():
    assert "n=1" in repr(growth_callable())


def test_a_saved_state_of_another_size_is_refused_and_nothing_changes():
    for kind in (optfilter.ExtendedKalmanFilter, optfilter.ParticleFilter, optfilter.ImplicitMAP, optfilter.UnscentedKalmanFilter):
        small, large = kind(growth()), kind(optfilter.models.Lorenz63())
        small.update([1.0])
        before = large.save()
        with pytest.raises(ValueError):
            large.load(small.save())
        assert large.save() == before
        large.update([1.0, 2.0, 3.0])


#: What an optimizer says itself.
OF_OPTIMIZERS = {"lr", "decay", "beta1", "beta2", "eps", "eps_in_sqrt", "accumulator", "probes"}


@pytest.mark.parametrize("name", sorted(optfilter.filters.BY_NAME))
def test_a_filter_takes_the_settings_that_the_table_says_it_reads(name):
    kind = optfilter.filters.BY_NAME[name]
    taken = set(inspect.signature(kind.__new__).parameters) & set(TABLE)
    read = {key for key, setting in TABLE.items() if name in setting["readers"]}
    # vkf has a covariance in place of one variance.
    assert taken == read - OF_OPTIMIZERS - {"method", "prior_var"}
    assert all(key in kind.__doc__ for key in taken)
