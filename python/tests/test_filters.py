"""Filters: steps against series, singles against batches, copies, threads, results."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import FILTERS, growth_callable, random_system

import optfilter


def step_through(f, ys, predict_first=False):
    """Step by step; the first row is at the initial belief's own time unless ``predict_first``."""
    means = []
    for y in ys:
        if predict_first or f.k:
            f.predict()
        f.update(y)
        means.append(f.x)
    return np.array(means)


@pytest.mark.parametrize("predict_first", [False, True])
def test_steps_equal_the_series_bit_for_bit(growth, growth_data, make_filter, predict_first):
    ys = growth_data.observations[0]
    f = make_filter(growth)
    result = f.filter(ys, predict_first=predict_first)
    assert np.array_equal(step_through(f, ys, predict_first), result.means)
    if result.covariances is not None:
        assert np.array_equal(f.P, result.covariances[-1])
    assert np.array_equal(f.innovation, result.innovations[-1])
    assert f.k == len(ys) and f.t == result.ts[-1] == pytest.approx((len(ys) - 1 + predict_first) * growth.dt)


def test_a_batch_equals_its_trajectories_bit_for_bit(growth, growth_data, make_filter):
    f = make_filter(growth)
    batch = f.filter(growth_data.observations)
    for b, ys in enumerate(growth_data.observations):
        single = f.filter(ys, first_run=b)
        assert np.array_equal(batch.means[b], single.means)
        assert np.array_equal(batch.innovations[b], single.innovations)
        if single.covariances is not None:
            assert np.array_equal(batch.covariances[b], single.covariances)
        if single.log_likelihood is not None:
            assert batch.log_likelihood[b] == single.log_likelihood


@pytest.mark.parametrize("dimension", [3, 8])
def test_batches_of_larger_states(dimension):
    model = (
        optfilter.models.Lorenz63(dt=0.02) if dimension == 3 else optfilter.models.Lorenz96(dimension)
    )
    data = optfilter.simulate(model, 30, batch=34, seed=1)
    f = optfilter.ImplicitMAP(model, optfilter.SGD(0.1), steps=4)
    batch = f.filter(data.observations)
    for b in (0, 17, 33):
        assert np.array_equal(batch.means[b], f.filter(data.observations[b]).means)


def test_missing_measurements(growth, growth_data, make_filter):
    ys = growth_data.observations[0].copy()
    ys[10:14] = np.nan
    f = make_filter(growth)
    series = f.filter(ys)
    assert np.all(np.isfinite(series.means))
    assert np.all(np.isnan(series.innovations[10:14])) and np.isnan(series.innovations).sum() == 4
    if series.covariances is not None:
        assert np.all(np.isfinite(series.covariances))
        assert np.all(np.isnan(series.innovation_covariances[10:14]))
        assert np.all(np.isnan(series.nis[10:14])) and np.isnan(series.nis).sum() == 4
        assert np.all(series.log_likelihoods[10:14] == 0) and np.isfinite(series.log_likelihood)
        assert series.mean_nis == pytest.approx(np.delete(series.nis, np.s_[10:14]).mean())
    f.reset()
    step_through(f, [None if np.isnan(y[0]) else y for y in ys])
    assert np.array_equal(f.x, series.means[-1])
    as_list = [None if np.isnan(y[0]) else float(y[0]) for y in ys]
    assert np.array_equal(f.filter(as_list).means, series.means)
    masked = np.ma.masked_invalid(ys)
    assert np.array_equal(f.filter(masked).means, series.means)


def test_one_missing_component_of_several():
    model, ys = random_system(1, 3, 2)
    ys[5, 1] = np.nan
    f = optfilter.KalmanFilter(model)
    result = f.filter(ys)
    # The same filter that only ever measures the first component at that time.
    g = optfilter.KalmanFilter(model)
    step_through(g, ys[:5])
    g.predict()
    H, R, P, x = model.H[:1], model.R[:1, :1], g.P, g.x
    gain = P @ H.T @ np.linalg.inv(H @ P @ H.T + R)
    np.testing.assert_allclose(result.means[5], x + gain @ (ys[5, :1] - H @ x), rtol=1e-10)


def test_times(growth, growth_data, make_filter):
    ys = growth_data.observations[0]
    f = make_filter(growth)
    even = f.filter(ys)
    ts = np.arange(len(ys)) * growth.dt
    # The steps' lengths are differences of times, which round; the times themselves are the same.
    same = f.filter(ys, ts=ts)
    np.testing.assert_allclose(same.means, even.means, rtol=1e-6, atol=1e-6)
    later = f.filter(ys, ts=ts + 0.7)
    assert np.abs(later.means - even.means).max() > 1e-3
    f.predict(dt=0.25)
    assert f.t == 0.25


def test_the_first_row_is_predicted_only_if_asked(growth, growth_data, make_filter):
    ys = growth_data.observations
    f = make_filter(growth)
    result = f.filter(ys[0])
    assert np.array_equal(result.means, f.filter(ys[0], predict_first=False).means)
    assert result.ts[0] == 0.0
    f.update(ys[0, 0])
    assert np.array_equal(result.means[0], f.x)
    f.predict()  # the step that ends at dt, as the second row does
    f.update(ys[0, 1])
    assert np.array_equal(result.means[1], f.x) and f.k == 2 and f.t == growth.dt
    batch = f.filter(ys, predict_first=False)
    assert np.array_equal(batch.means[0], result.means)
    # One more step: as if a row were missing before the first.
    predicted = f.filter(ys, predict_first=True)
    late = f.filter(np.concatenate([np.full((5, 1, 1), np.nan), ys], axis=1))
    assert predicted.ts[0] == growth.dt
    assert np.array_equal(predicted.means, late.means[:, 1:])
    # By its time, too: the belief is of t0, the first row of a step later.
    timed = f.filter(ys[0], ts=np.arange(1, 81) * growth.dt, t0=0.0)
    np.testing.assert_allclose(timed.means, predicted.means[0], rtol=1e-6, atol=1e-6)


def test_time_dependent_noise_grows_with_the_step():
    model = optfilter.models.Lorenz63(Q=2.0, R=4.0, P0=1e-12, dt=0.02)
    f = optfilter.ExtendedKalmanFilter(model)
    f.predict()
    g = optfilter.ExtendedKalmanFilter(model)
    g.predict(dt=0.04)
    # P0 is negligible, so P is Q dt.
    np.testing.assert_allclose(np.diag(f.P), 2.0 * 0.02, rtol=1e-6)
    np.testing.assert_allclose(np.diag(g.P), 2.0 * 0.04, rtol=1e-6)


def test_setting_the_belief(growth):
    f = optfilter.ExtendedKalmanFilter(growth)
    f.x, f.P = 2.5, [[0.5]]
    assert f.x[0] == 2.5 and f.P[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        f.x[0] = 99.0
    assert f.x[0] == 2.5
    with pytest.raises(ValueError, match="^P: "):
        f.P = -1.0


def test_pickle_and_copy_in_the_middle(growth, growth_data, make_filter):
    ys = growth_data.observations[0]
    f = make_filter(growth)
    step_through(f, ys[:30])
    others = [pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f), f.copy()]
    expected = step_through(f, ys[30:60])
    for other in others:
        assert np.array_equal(step_through(other, ys[30:60]), expected)
        assert other.k == f.k and other.t == f.t
        assert type(f).__name__ in repr(other)


def test_results_pickle(growth, growth_data):
    result = optfilter.ImplicitMAP(growth, steps=3).filter(growth_data.observations)
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.means, result.means)
    assert np.array_equal(again.innovations, result.innovations)


def test_threads_filtering_at_the_same_time(growth, growth_data):
    filters = [make(growth) for make in FILTERS.values()]
    expected = [f.filter(growth_data.observations).means for f in filters]
    with ThreadPoolExecutor(8) as pool:
        tasks = [(i, pool.submit(filters[i].filter, growth_data.observations)) for i in range(len(filters))] * 1
        for _ in range(4):
            tasks += [
                (i, pool.submit(filters[i].filter, growth_data.observations))
                for i in range(len(filters))
            ]
        for i, task in tasks:
            assert np.array_equal(task.result().means, expected[i])


def test_threads_stepping_one_filter_lose_no_step(growth):
    for model in (growth, growth_callable()):
        f = optfilter.ExtendedKalmanFilter(model)

        def work():
            for _ in range(200):
                f.predict()
                f.update(4.0)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert f.k == 800 and np.isfinite(f.x[0])


def test_threads_with_callables_get_their_own_exceptions():
    def failing(tag):
        def h(x):
            raise KeyError(tag)

        return optfilter.Model(lambda x: x, h, n=1, m=1, Q=1.0, R=1.0)

    def run(tag):
        with pytest.raises(KeyError) as caught:
            optfilter.UnscentedKalmanFilter(failing(tag)).filter(np.zeros((5, 1)))
        return caught.value.args[0]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(40))) == list(range(40))


def test_the_lock_is_released_while_a_batch_runs():
    model = optfilter.models.Lorenz96(20)
    ys = optfilter.simulate(model, 100, batch=16, seed=0).observations
    f = optfilter.ImplicitMAP(model, optfilter.Adam(0.05), steps=40)
    done = threading.Event()
    ticks = 0

    def run():
        f.filter(ys)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.is_set():
        ticks += 1
        done.wait(0.001)
    thread.join()
    assert ticks > 3, "the main thread ran while the batch did"


def test_the_filter_that_nobody_named_fits_the_model():
    make = optfilter.filters.make
    linear, lorenz = optfilter.models.Linear(F=1.0, H=1.0), optfilter.models.Lorenz63()
    assert type(make(linear)) is optfilter.KalmanFilter
    assert type(make(lorenz)) is optfilter.ExtendedKalmanFilter
    ys = optfilter.simulate(lorenz, 30, seed=1).observations
    assert np.array_equal(lorenz.filter(ys).means, optfilter.ExtendedKalmanFilter(lorenz).filter(ys).means)
    # An extended Kalman filter follows a wrong sign of this state for long.
    assert type(make(optfilter.models.Growth())) is optfilter.ParticleFilter
    # Without noise, gradient descent at half of one over the curvature H^2 / R = 8.
    bare = optfilter.Model.from_expressions({"x": "x"}, {"y": "2*x"}, Q=None, R=0.5)
    assert make(bare).flags == "--method imap --optimizer gd --steps 50 --lr 0.0625"
    # Whatever belongs to an optimizer means imap, with its usual settings.
    assert make(linear, steps=3).flags == "--method imap --optimizer adam --steps 3 --lr 0.1"
    assert type(make(linear, optimizer=lambda x, g, s: (x - 0.1 * g, s))) is optfilter.ImplicitMAP


def test_particles(growth):
    f = optfilter.ParticleFilter(growth, 50, seed=3, resampling="stratified", threshold=0.5)
    f.predict()
    f.update(4.0)
    assert f.particles.shape == (50, 1)
    assert f.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(f.weights @ f.particles, f.x, rtol=1e-12)
    other = optfilter.ParticleFilter(growth, 50, seed=4)
    other.predict()
    assert not np.array_equal(other.particles, f.particles)


def test_consistency_of_error_bars():
    model = optfilter.models.Lorenz63(dt=0.02, Q=1.0, R=4.0)
    data = optfilter.simulate(model, 400, batch=20, seed=2)
    f = optfilter.ExtendedKalmanFilter(model)
    result = f.filter(data.observations)
    # NEES of 20 runs of 400 correlated steps: about 3 for an honest filter.
    assert 2.0 < result.nees(data.states)[:, 50:].mean() < 4.5
    low, high = result.nis_band()
    assert low < 3.0 < high


def test_dataframes_and_plots(growth, growth_data):
    result = optfilter.ExtendedKalmanFilter(growth).filter(growth_data.observations)
    pandas = pytest.importorskip("pandas")
    frame = result.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 5 * 80
    assert list(frame.columns)[:3] == ["trajectory", "t", "x0"]
    polars = pytest.importorskip("polars")
    assert isinstance(result.to_dataframe("polars"), polars.DataFrame)
    with pytest.raises(ValueError, match="^library: "):
        result.to_dataframe("excel")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = result.plot(truth=growth_data.states, trajectory=2)
    assert len(axes) == 1 and axes[0].get_ylabel() == "x0"
    model = optfilter.models.Lorenz63()
    single = optfilter.UnscentedKalmanFilter(model).filter(np.tile(model.x0, (5, 1)))
    assert len(single.plot()) == 3
    with pytest.raises(ValueError, match="^ax: "):
        single.plot(ax=axes)


def test_likelihoods(growth, growth_data):
    ys = growth_data.observations[0].copy()
    ys[40] += 1e4
    robust = optfilter.ImplicitMAP(
        growth, optfilter.SGD(0.5), 10, likelihood=optfilter.likelihoods.StudentT(4.0, 1.0)
    ).filter(ys)
    assert np.all(np.isfinite(robust.means))
    counts = optfilter.Model.from_expressions(
        {"r": "r"}, {"c": {"equation": "r", "likelihood": "poisson"}}, Q=0.01, x0=1.0, P0=0.1
    )
    result = optfilter.ImplicitMAP(counts, optfilter.SGD(0.1), 3).filter([3.0, 4.0, 2.0])
    assert result.means[-1, 0] > 1.0 and list(result.flags) == ["ok"] * 3
    # A count where the rate was exactly zero: the loss is as steep as a million there.
    wild = optfilter.ImplicitMAP(counts, optfilter.SGD(0.15), 1, x0=0.0).filter([2.0, np.nan, 2.0])
    assert list(wild.flags) == ["runaway"] * 3
    with pytest.raises(ValueError, match="^y: 2.5 .*impossible"):
        optfilter.ImplicitMAP(counts, optfilter.SGD(0.1), 3).filter([3.0, 2.5])
    with pytest.raises(ValueError, match="^dof: "):
        optfilter.likelihoods.StudentT(-1.0, 1.0)
    with pytest.raises(ValueError, match="^link: "):
        optfilter.likelihoods.Poisson(link="sqrt")


def test_bounds(growth, growth_data):
    f = optfilter.ImplicitMAP(growth, optfilter.Adam(0.5), 10, bounds=(0.0, 5.0))
    means = f.filter(growth_data.observations).means
    assert means.min() >= 0.0 and means.max() <= 5.0
    with pytest.raises(ValueError, match="^bounds: "):
        optfilter.ImplicitMAP(growth, bounds=(1.0, 0.0))


@pytest.mark.parametrize("method", sorted(optfilter.filters.BY_NAME))
def test_every_filter_keeps_the_bounds_of_the_model(method):
    model = optfilter.models.Linear(F=0.9, H=1.0, B=[[1.0]], Q=0.25, R=0.1, x0=-1.0, bounds=(0.0, np.inf))
    ys = np.r_[np.nan, 0.3, -0.4, np.full(8, np.nan), -0.2, 0.5]
    us = np.full((len(ys), 1), -0.4)
    more = dict(optimizer=optfilter.SGD(lr=0.02), steps=10) if method in ("imap", "vkf") else {}
    kept = optfilter.filters.make(model, method=method, **more).filter(ys, us=us)
    assert kept.means.min() >= 0.0
    if kept.stds is not None:
        assert kept.stds.min() > 0.05
    free = optfilter.filters.make(model.replace(bounds=None), method=method, **more).filter(ys, us=us)
    assert free.means.min() < -0.5
    # A filter may have a box of its own; step by step and side by side it is the same box.
    f = optfilter.filters.make(model, method=method, bounds=(0.2, 1.0), **more)
    means = f.filter(ys, us=us).means
    assert means.min() >= 0.2 and means.max() <= 1.0
    # What draws random numbers draws others for each series, and for the first what it draws for one alone.
    which = 0 if method in ("pf", "etkf", "letkf") else 2
    assert np.array_equal(f.filter(np.array([ys] * 3)[:, :, None], us=us).means[which], means)
    for k, (y, u) in enumerate(zip(ys, us)):
        if k:
            f.predict(u)
        f.update(y, u)
        assert f.x[0] == means[k, 0]


def test_a_linear_model_in_continuous_time():
    # numpy, with Van Loan's matrices by scipy.linalg.expm; two rows are at one time.
    ts, ys = [0.0, 0.3, 0.3, 1.1, 4.0], [1.1, 0.7, 0.9, -0.4, 0.05]
    settings = dict(R=0.04, x0=[1.0, 0.0], P0=0.5, dt=0.3)
    A, H = [[0.0, 1.0], [-4.0, -0.6]], [[1.0, 0.0]]
    model = optfilter.models.ContinuousLinear(A, H, L=[[0.0], [1.0]], Qc=0.5, **settings)
    text = optfilter.Model.from_expressions(
        {"dp/dt": "v", "dv/dt": "-4*p - 0.6*v"}, {"y": "p"}, Q=[0.0, 0.5], Q_per_time=True, **settings
    )
    for kind in ("kf", "ekf", "iekf", "ukf"):
        for one in (model, model.replace(dt=1.0), text):
            result = optfilter.filters.make(one, method=kind).filter(ys, ts=ts)
            np.testing.assert_allclose(result.means[-1], [0.03460167368141062, -0.6296451663718792], atol=1e-12)
            expected = [[0.02798984189180037, -0.00037070638783816], [-0.00037070638783816, 0.36905664681978567]]
            np.testing.assert_allclose(result.covariances[-1], expected, atol=1e-12)
    assert pickle.loads(pickle.dumps(model)) == model
    np.testing.assert_array_equal(model.Q, [[0.0, 0.0], [0.0, 0.5]])
    with pytest.raises(ValueError, match="^L: "):
        optfilter.models.ContinuousLinear(A, H, L=[[1.0]])
    with pytest.raises(ValueError, match="^Q: "):
        optfilter.models.ContinuousLinear(A, H, Q=1.0, Qc=1.0)
    with pytest.raises(ValueError, match="^A: "):
        optfilter.models.ContinuousLinear([[1.0, 2.0]], H)


def test_irregular_times_of_a_model_without_time():
    ts, ys = [0.0, 1.0, 2.0, 4.0], [0.1, 0.4, 0.2, 0.3]
    model = optfilter.models.Linear(F=0.9, H=1.0, Q=0.1, R=0.1)
    with pytest.raises(ValueError, match="^ts: the step to index 3 is 2 long"):
        optfilter.KalmanFilter(model).filter(ys, ts=ts)
    f = optfilter.KalmanFilter(model, irregular="per_row")
    assert np.array_equal(f.filter(ys, ts=ts).means, f.filter(ys).means)
    assert "--irregular per_row" in f.flags
    assert optfilter.KalmanFilter(model).filter(ys, ts=[0.0, 1.0, 1.0, 2.0]).means.shape == (4, 1)
    timed = optfilter.Model(lambda x, dt: 0.9**dt * x, lambda x: x, n=1, Q=0.1, R=0.1)
    assert optfilter.ExtendedKalmanFilter(timed).filter(ys, ts=ts).means.shape == (4, 1)
    with pytest.raises(ValueError, match="^ts: "):
        optfilter.ExtendedKalmanFilter(optfilter.Model(lambda x: 0.9 * x, lambda x: x, n=1, Q=0.1, R=0.1)).filter(
            ys, ts=ts
        )
    with pytest.raises(ValueError, match="^irregular: "):
        optfilter.KalmanFilter(model, irregular="sometimes")


def test_gaps_are_widened_where_noise_is_per_time():
    ys = np.r_[0.1, 0.2, np.full(30, np.nan), 5.0]
    walk = optfilter.models.RandomWalk(1, Q=0.25, R=1.0)
    sgd = dict(optimizer=optfilter.SGD(lr=0.15), steps=3)

    def last(model, **more):
        f = optfilter.ImplicitMAP(model, **sgd, **more)
        result = f.filter(ys).means
        # Step by step, with missing rows as updates, as None, or not at all.
        for missing in ([np.nan], [None], []):
            f.reset()
            for k, y in enumerate(ys):
                if k:
                    f.predict()
                if not np.isnan(y):
                    f.update(y)
                elif missing:
                    f.update(missing[0])
            assert f.x[0] == result[-1, 0]
        return result[-1, 0]

    timed = walk.replace(Q_per_time=True)
    assert last(timed) == last(walk, gaps="widen") > 4.0
    assert last(walk) == last(timed, gaps="ignore") < 3.0
