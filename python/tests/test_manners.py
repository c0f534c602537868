"""How filters behave unless told otherwise, and what can be asked of them on the way."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from conftest import random_system

import optfilter
from optfilter import likelihoods

ALL = [optfilter.filters.BY_NAME[name] for name in sorted(optfilter.filters.BY_NAME)]


def walk(**settings):
    return optfilter.models.RandomWalk(1, **settings)


def equal(a, b):
    """Whether two results are the same to the bit."""
    assert np.array_equal(a.means, b.means)
    assert (a.covariances is None) == (b.covariances is None)
    if a.covariances is not None:
        assert np.array_equal(a.covariances, b.covariances, equal_nan=True)
        assert np.array_equal(a.log_likelihoods, b.log_likelihoods, equal_nan=True)


# ---- defaults


@pytest.mark.parametrize("n", [1, 3])
def test_defaults_of_the_unscented_filter(n):
    model = optfilter.models.Growth() if n == 1 else optfilter.models.Lorenz63()
    ys = optfilter.simulate(model, 40, seed=1).observations
    spelled = optfilter.UnscentedKalmanFilter(model, alpha=1.0, beta=1.0, kappa=2.0 - n)
    equal(optfilter.UnscentedKalmanFilter(model).filter(ys), spelled.filter(ys))
    assert not np.array_equal(optfilter.UnscentedKalmanFilter(model, beta=2.0).filter(ys).means, spelled.filter(ys).means)


def test_particles_are_resampled_below_half_of_them(growth, growth_data):
    ys = growth_data.observations[0]
    f = optfilter.ParticleFilter(growth, 100)
    equal(f.filter(ys), optfilter.ParticleFilter(growth, 100, seed=0, threshold=0.5, resampling="systematic").filter(ys))
    always = optfilter.ParticleFilter(growth, 100, threshold=1.0)
    assert not np.array_equal(always.filter(ys).means, f.filter(ys).means)
    resampled = set()
    for y in ys:
        before = 1.0 / np.sum(f.weights**2)
        f.predict()  # resamples, if it is time, and moves the particles
        even = np.ptp(f.weights) < 1e-12
        assert even == (before < 50.0) or before > 99.999
        resampled.add(even)
        f.update(y)
        always.predict()
        assert np.ptp(always.weights) < 1e-12, "resampled particles weigh the same"
        always.update(y)
    assert resampled == {True, False}


def test_the_implicit_filter_descends_the_likelihood():
    model = walk(R=4.0)
    y, rate = 2.0, 0.1

    def one_step(**settings):
        f = optfilter.ImplicitMAP(model.replace(**settings.pop("model", {})), optfilter.SGD(rate), 1, **settings)
        f.update(y)
        return f.x[0]

    assert one_step() == pytest.approx(rate * y / 4.0)
    assert one_step(R=8.0) == pytest.approx(rate * y / 8.0)
    assert one_step(loss="likelihood") == one_step()
    assert one_step(loss="squared") == pytest.approx(rate * y)
    assert one_step(likelihood=likelihoods.SquaredError()) == one_step(loss="squared")
    assert one_step(model=dict(R=None)) == one_step(loss="squared")


def test_error_bars_are_there_where_they_can_be_had(growth):
    def bars(model=growth, optimizer=None, **settings):
        return optfilter.ImplicitMAP(model, optimizer, 5, **settings).P is not None

    assert bars() and bars(optimizer=optfilter.Preconditioned([[0.1]])) and bars(loss="squared")
    assert not bars(error_bars=False) and not bars(carry=True)
    assert not bars(growth.replace(Q=None)) and not bars(growth.replace(R=None))
    assert not bars(optimizer=lambda x, g, state: (x - 0.1 * g, state))
    large = optfilter.models.RandomWalk(101)
    assert not bars(large) and bars(large, error_bars=True)


def test_the_variational_filter_has_prior_Q_and_fifty_steps(growth, growth_data):
    ys = growth_data.observations[0]
    equal(optfilter.VariationalKalmanFilter(growth).filter(ys), optfilter.VariationalKalmanFilter(growth, growth.Q, steps=50).filter(ys))
    timed = optfilter.models.Lorenz63(Q=2.0, dt=0.02)
    assert timed.Q_per_time
    data = optfilter.simulate(timed, 20, seed=1).observations
    by_hand = optfilter.VariationalKalmanFilter(timed, 2.0 * 0.02).filter(data)
    np.testing.assert_allclose(optfilter.VariationalKalmanFilter(timed).filter(data).means, by_hand.means, rtol=1e-12)


def test_the_iterated_filter_linearises_five_times(growth, growth_data):
    ys = growth_data.observations[0]
    equal(optfilter.IteratedKalmanFilter(growth).filter(ys), optfilter.IteratedKalmanFilter(growth, steps=5).filter(ys))
    equal(optfilter.IteratedKalmanFilter(growth, 1).filter(ys), optfilter.ExtendedKalmanFilter(growth).filter(ys))


def test_an_explicit_Q_is_per_time_where_the_models_is():
    model = optfilter.models.Lorenz63(Q=1.0, dt=0.02)
    f, g = optfilter.ExtendedKalmanFilter(model, Q=3.0), optfilter.ExtendedKalmanFilter(model.replace(Q=3.0))
    ys = optfilter.simulate(model, 20, seed=0).observations
    equal(f.filter(ys), g.filter(ys))
    equal(f.filter(ys), optfilter.ExtendedKalmanFilter(model, process_scale=3.0).filter(ys))
    assert np.array_equal(optfilter.simulate(model, 9, Q=3.0).states, optfilter.simulate(model.replace(Q=3.0), 9).states)


def test_simulation_starts_at_the_initial_belief():
    model = optfilter.models.Linear(F=2.0, H=1.0, Q=1e-18, R=1e-18, x0=1.0, P0=1e-18, dt=0.5)
    data = optfilter.simulate(model, 4)
    np.testing.assert_allclose(data.states[:, 0], [1, 2, 4, 8], rtol=1e-6)
    np.testing.assert_array_equal(data.ts, [0, 0.5, 1, 1.5])
    late = optfilter.simulate(model, 4, predict_first=True)
    np.testing.assert_allclose(late.states[:, 0], [2, 4, 8, 16], rtol=1e-6)
    np.testing.assert_array_equal(late.ts, [0.5, 1, 1.5, 2])
    # The filter has the same convention, so that the truth and the estimates belong to the same times.
    for data, first in ((data, False), (late, True)):
        result = optfilter.KalmanFilter(model, predict_first=first).filter(data.observations)
        np.testing.assert_allclose(result.means, data.states, rtol=1e-6)
        np.testing.assert_array_equal(result.ts, data.ts)


def test_times_that_callables_see_are_those_of_the_result():
    seen = []

    def h(x, t, k):
        seen.append((k, t))
        return x

    model = optfilter.Model(lambda x: x, h, n=1, m=1, h_jacobian=lambda x: [[1.0]], Q=1.0, R=1.0, dt=0.5)
    f = optfilter.ExtendedKalmanFilter(model, irregular="per_row")
    for settings in ({}, {"predict_first": True}, {"t0": -3.0}, {"ts": np.array([2.0, 2.5, 7.0])}):
        seen.clear()
        result = f.filter(np.zeros(3), **settings)
        assert sorted(set(seen)) == list(zip((1, 2, 3), result.ts))


# ---- lost covariances and divergence


def test_lost_error_bars_are_given_up_unless_strict():
    # An unseen state that doubles: its variance grows past all numbers while the estimates stay.
    model = optfilter.Model.from_expressions({"x": "0.9*x", "z": "2*z"}, {"y": "x"}, Q=0.1, R=1.0)
    ys = np.ones((800, 1))
    with pytest.warns(RuntimeWarning) as caught:
        result = optfilter.ImplicitMAP(model, optfilter.SGD(0.1), 2).filter(ys)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = optfilter.ImplicitMAP(model, optfilter.SGD(0.1), 2, error_bars=False).filter(ys)
        optfilter.ImplicitMAP(model, optfilter.SGD(0.1), 2).filter(ys[:100])
    assert np.all(np.isfinite(result.means)) and np.array_equal(result.means, plain.means)
    lost = np.isnan(result.covariances[:, 0, 0])
    assert lost[-1] and not lost[0] and np.all(np.diff(lost.astype(int)) >= 0), "given up once, for good"
    row = int(np.argmax(lost))
    assert len(caught) == 1 and f"from row {row + 1} on (index {row})" in str(caught[0].message)
    for settings in (dict(covariances=False), dict(only=["log_likelihoods"])):
        with pytest.warns(RuntimeWarning, match=f"index {row}"):
            optfilter.ImplicitMAP(model, optfilter.SGD(0.1), 2).filter(ys, **settings)
    with pytest.warns(RuntimeWarning, match=f"index {row}"):
        optfilter.ImplicitMAP(model, optfilter.SGD(0.1), 2).filter(np.stack([ys, 2 * ys]))
    with pytest.raises(optfilter.DivergenceError) as caught:
        optfilter.ImplicitMAP(model, optfilter.SGD(0.1), 2, strict=True).filter(ys)
    assert abs(caught.value.index - np.argmax(lost)) <= 1


def test_estimates_beyond_1e100_have_diverged():
    model = optfilter.Model.from_expressions({"x": "1e10*x"}, {"y": "x"}, Q=1e-9, R=1.0, x0=0.5)
    f = optfilter.ImplicitMAP(model, optfilter.SGD(1e-12), 1, error_bars=False)
    with pytest.raises(optfilter.DivergenceError) as caught:
        f.filter(np.full((30, 1), np.nan))
    assert caught.value.index == 11 and caught.value.last_good[0] == pytest.approx(0.5e100)


# ---- what can be asked and changed on the way


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.method)
def test_noise_can_be_assigned(kind):
    model, ys = random_system(2, 3, 2)
    Q, R = 2.0 * model.Q, np.diag([3.0, 0.5])
    f, g = kind(model), kind(model, Q=Q, R=R)
    assert np.array_equal(f.Q, model.Q) and np.array_equal(f.R, model.R)
    f.Q, f.R = Q, R
    assert np.array_equal(f.Q, Q) and np.array_equal(f.R, R)
    equal(f.filter(ys), g.filter(ys))
    copied = pickle.loads(pickle.dumps(f))
    for y in ys[:10]:
        for one in (f, g, copied):
            one.predict()
            one.update(y)
        assert np.array_equal(f.x, g.x) and np.array_equal(copied.x, g.x)
    # In the middle of a series the belief stays as it is.
    before = f.x
    f.R = 1.0
    assert np.array_equal(f.x, before) and np.array_equal(f.R, np.eye(2)) and f.k == 10
    assert np.array_equal(model.R, random_system(2, 3, 2)[0].R), "the model is left alone"
    for name, wrong in (("Q", -1.0), ("Q", [1.0, 2.0]), ("R", -1.0), ("R", "big")):
        with pytest.raises(ValueError, match=f"^{name}: "):
            setattr(f, name, wrong)
    assert np.array_equal(f.R, np.eye(2)) and np.array_equal(f.x, before)


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_one_measurement_equals_filterpy(seed):
    kalman = pytest.importorskip("filterpy.kalman")
    model, ys = random_system(seed, 3, 2)
    theirs = kalman.KalmanFilter(dim_x=3, dim_z=2)
    theirs.x, theirs.P = np.array(model.x0), np.array(model.P0)
    theirs.F, theirs.H, theirs.Q, theirs.R = model.F, model.H, model.Q, model.R
    ours = optfilter.KalmanFilter(model)
    for k, y in enumerate(ys):
        R = None if k % 3 else np.diag([0.1 + k, 2.0])
        theirs.predict()
        ours.predict()
        np.testing.assert_allclose(ours.x_prior, theirs.x_prior, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(ours.P_prior, theirs.P_prior, rtol=1e-10, atol=1e-10)
        theirs.update(y, R=R)
        ours.update(y, R=R)
        for name in ("x", "P", "K", "S", "y", "z"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-10, err_msg=name)
    assert np.array_equal(ours.R, model.R), "only for that measurement"


def test_noise_of_one_measurement_in_other_filters(growth):
    for kind in ALL:
        if kind is optfilter.KalmanFilter:
            continue
        f, g = kind(growth), kind(growth, R=7.0)
        for one in (f, g):
            one.predict()
        f.update(3.0, R=7.0)
        g.update(3.0)
        assert np.array_equal(f.x, g.x), kind
        with pytest.raises(ValueError, match="^R: "):
            f.update(3.0, R=-1.0)
        assert np.array_equal(f.x, g.x)


def test_the_gain_of_a_measurement_that_was_not_predicted():
    model, ys = random_system(1, 3, 2)
    f = optfilter.KalmanFilter(model)
    f.update(ys[0])
    H, R, P = model.H, model.R, model.P0
    np.testing.assert_allclose(f.K, P @ H.T @ np.linalg.inv(H @ P @ H.T + R), rtol=1e-10)
    # Two measurements of one time: the second gain is of the belief between them.
    f.predict()
    f.update(ys[1])
    P = f.P
    f.update(ys[2])
    np.testing.assert_allclose(f.K, P @ H.T @ np.linalg.inv(H @ P @ H.T + R), rtol=1e-10)


def test_gains_with_a_missing_component_and_of_other_filters(growth):
    model, ys = random_system(1, 3, 2)
    f = optfilter.KalmanFilter(model)
    assert f.K is None and f.x_prior is None and f.P_prior is None and f.z is None
    f.predict()
    f.update([ys[0, 0], np.nan])
    P, H, R = f.P_prior, model.H[:1], model.R[:1, :1]
    gain = P @ H.T @ np.linalg.inv(H @ P @ H.T + R)
    np.testing.assert_allclose(f.K, np.hstack([gain, np.zeros((3, 1))]), rtol=1e-10)
    np.testing.assert_allclose(f.x, f.x_prior + gain @ f.y[:1], rtol=1e-10)
    g = optfilter.ExtendedKalmanFilter(growth)
    g.predict()
    g.update(4.0)
    np.testing.assert_allclose(g.x, g.x_prior + g.K @ g.y, rtol=1e-9)
    assert np.array_equal(g.z, [4.0])
    p = optfilter.ParticleFilter(growth, 10)
    p.predict()
    p.update(4.0)
    assert p.K is None and p.x_prior.shape == (1,)


def test_the_gain_stays_until_the_next_measurement():
    model, ys = random_system(1, 3, 2)
    f = optfilter.KalmanFilter(model)
    f.predict()
    f.update(ys[0])
    gain = f.K
    P, H = f.P_prior, model.H
    np.testing.assert_allclose(gain, P @ H.T @ np.linalg.inv(H @ P @ H.T + model.R), rtol=1e-10)
    for _ in range(2):
        f.predict()
        assert np.array_equal(f.K, gain) and not np.array_equal(f.P_prior, P)
    f.R = 9.0
    assert np.array_equal(f.K, gain)
    f.update(ys[1])
    assert not np.array_equal(f.K, gain)
    # A model that reads inputs, in a step of its own length.
    pushed = optfilter.Model.from_expressions({"x": "x + u*dt"}, {"y": "x*u"}, inputs=["u"], Q=1.0, R=1.0)
    g = optfilter.ExtendedKalmanFilter(pushed)
    g.predict([3.0], dt=0.5)
    g.update([1.0])
    np.testing.assert_allclose(g.x, g.x_prior + g.K @ g.y, rtol=1e-12)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.method)
@pytest.mark.parametrize("predicted", [True, False])
def test_a_measurement_that_is_refused_leaves_no_trace(kind, predicted):
    model, ys = random_system(1, 3, 2)
    f = kind(model)
    f.predict()
    f.update(ys[0])
    if predicted:
        f.predict()
    names = ("x", "P", "z", "K", "x_prior", "P_prior", "y", "S", "log_likelihood", "nis", "k", "t")
    before = {name: getattr(f, name) for name in names}
    for wrong in (dict(y=[np.inf, 0.0]), dict(y=[1.0]), dict(y=ys[1], R=-1.0), dict(y=[np.inf, 0.0], R=2.0)):
        with pytest.raises(ValueError):
            f.update(**wrong)
        for name, value in before.items():
            np.testing.assert_array_equal(getattr(f, name), value, err_msg=name)
    g = kind(model)
    g.predict()
    g.update(ys[0])
    if predicted:
        g.predict()
    for one in (f, g):
        one.update(ys[1])
    assert np.array_equal(f.x, g.x) and np.array_equal(f.x_prior, g.x_prior)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.method)
def test_copies_know_the_last_measurement(kind):
    model, ys = random_system(1, 3, 2)
    f = kind(model)
    names = ("x", "P", "z", "K", "x_prior", "P_prior", "y", "S", "log_likelihood", "nis", "k", "t")
    for step in (lambda: None, f.predict, lambda: f.update([ys[0, 0], np.nan]), f.predict, lambda: f.update(ys[1])):
        step()
        for again in (copy.copy(f), pickle.loads(pickle.dumps(f))):
            for name in names:
                mine, other = getattr(f, name), getattr(again, name)
                assert (mine is None) == (other is None), name
                if mine is not None:
                    np.testing.assert_array_equal(other, mine, err_msg=name)
    # An input that was given to predict holds for the update of a copy, too.
    pushed = optfilter.Model.from_expressions({"x": "x + u"}, {"y": "x*u"}, inputs=["u"], Q=1.0, R=1.0)
    g = optfilter.ExtendedKalmanFilter(pushed)
    g.predict([3.0])
    again = copy.copy(g)
    for one in (g, again):
        one.update([1.0])
    assert np.array_equal(again.x, g.x)
    with pytest.raises(ValueError, match="damaged"):
        saved, clock = f.save()
        f.load((saved[:20], clock))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.method)
def test_entries_of_copies_cannot_be_assigned(kind):
    f = kind(walk())
    for name in ("x", "P", "Q", "R") if f.P is not None else ("x", "Q", "R"):
        array = getattr(f, name)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7.0
        setattr(f, name, np.full_like(array, 7.0))
    assert f.Q[0, 0] == f.R[0, 0] == 7.0
    with pytest.raises(AttributeError):
        f.model = optfilter.models.Growth()
    mine = np.eye(1)
    f.R = mine
    mine[0, 0] = 3.0
    assert f.R[0, 0] == 1.0


@pytest.mark.parametrize("likelihood", [likelihoods.StudentT(4.0, 1.0), likelihoods.Poisson("log")])
def test_noise_that_is_not_read_is_refused(likelihood):
    model = walk(likelihood=likelihood)
    makes = [
        lambda **more: optfilter.ParticleFilter(model, 50, **more),
        lambda **more: optfilter.ImplicitMAP(model, steps=3, error_bars=False, **more),
        lambda **more: optfilter.VariationalKalmanFilter(model, **more),
    ]
    for make in makes:
        f = make()
        with pytest.raises(ValueError, match="^R: .*its own scale"):
            f.R = 5.0
        with pytest.raises(ValueError, match="^R: .*its own scale"):
            f.update(1.0, R=5.0)
        with pytest.raises(ValueError, match="^R: .*its own scale"):
            make(R=5.0)
        assert f.R[0, 0] == 1.0 and f.k == 0 and f.z is None
        f.Q = 2.0
        f.update(1.0)
    # Error bars are those of R.
    f, g = optfilter.ImplicitMAP(model, steps=3), optfilter.ImplicitMAP(model, steps=3, R=5.0)
    for one in (f, g):
        one.update(3.0)
    assert not np.array_equal(f.P, g.P)
    f.R = 5.0


def test_a_prior_of_its_own_makes_Q_unread():
    f = optfilter.VariationalKalmanFilter(walk(), prior_cov=1.0)
    with pytest.raises(ValueError, match="^Q: .*prior_cov"):
        f.Q = 100.0
    with pytest.raises(ValueError, match="^Q: .*prior_cov"):
        optfilter.VariationalKalmanFilter(walk(), prior_cov=1.0, Q=100.0)
    f.R = 2.0
    g = optfilter.VariationalKalmanFilter(walk())
    g.Q = 100.0
    assert g.Q[0, 0] == 100.0


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.method)
def test_unknown_attributes_are_errors(kind):
    f = kind(walk())
    for name in ("F", "H", "B", "q", "noise"):
        with pytest.raises(AttributeError, match=name):
            setattr(f, name, 1.0)
        with pytest.raises(AttributeError, match=name):
            getattr(f, name)
    for name in ("K", "S", "y", "k", "t", "z", "x_prior", "log_likelihood"):
        with pytest.raises(AttributeError):
            setattr(f, name, 1.0)


@pytest.mark.parametrize("batch", [None, 3])
def test_covariances_can_be_left_out(growth, make_filter, batch):
    data = optfilter.simulate(growth, 30, batch=batch, seed=3)
    f = make_filter(growth)
    full, lean = f.filter(data.observations), f.filter(data.observations, covariances=False)
    assert lean.covariances is None and lean.innovation_covariances is None and lean.stds is None
    for name in ("means", "innovations", "log_likelihoods", "nis"):
        mine, theirs = getattr(lean, name), getattr(full, name)
        assert mine is theirs is None or np.array_equal(mine, theirs)
    assert "covariances" not in repr(lean)
    with pytest.raises(ValueError, match="^covariances: "):
        lean.nees(data.states)
    assert not any(name.endswith("_std") for name in lean.to_dataframe().columns)


def test_angles_are_compared_on_the_circle():
    model = optfilter.Model.from_expressions(
        {"phi": "phi + 1", "r": "r"}, {"c": "cos(phi)", "s": "sin(phi)"}, Q=1e-4, R=0.01, P0=0.01, state_angles=["phi"]
    )
    data = optfilter.simulate(model, 50, seed=0)
    result = optfilter.ExtendedKalmanFilter(model).filter(data.observations)
    assert np.abs(result.means[:, 0]).max() <= np.pi
    turns = data.states + [2 * np.pi, 0.0] * np.arange(50)[:, None]
    assert result.rmse(data.states) < 0.3
    assert result.rmse(turns) == pytest.approx(result.rmse(data.states))
    np.testing.assert_allclose(result.nees(turns), result.nees(data.states), rtol=1e-6, atol=1e-9)
    # A state that is no angle is compared as it is.
    away = data.states + [0.0, 2 * np.pi]
    assert result.rmse(away) > 4.0
    by_hand = optfilter.Model(
        lambda x: x + [1.0, 0.0], lambda x: np.array([np.cos(x[0]), np.sin(x[0])]), n=2, m=2, state_angles=[0], Q=1e-4, R=0.01, P0=0.01
    )
    same = optfilter.ExtendedKalmanFilter(by_hand).filter(data.observations)
    assert same.rmse(turns) == pytest.approx(result.rmse(data.states), rel=1e-6)


def test_consistency_with_half_of_the_data_missing():
    stats = pytest.importorskip("scipy.stats")
    model, _ = random_system(4, 3, 2)
    ys = optfilter.simulate(model, 4000, seed=9).observations
    rng = np.random.default_rng(0)
    ys[rng.random(4000) < 0.5] = np.nan
    result = optfilter.KalmanFilter(model).filter(ys)
    rows = int(np.sum(~np.isnan(ys[:, 0])))
    assert rows < 2200 and np.sum(~np.isnan(result.nis)) == rows
    assert result.mean_nis == np.nanmean(result.nis)
    low, high = result.nis_band()
    np.testing.assert_allclose([low, high], stats.chi2(2 * rows).ppf([0.025, 0.975]) / rows, rtol=1e-3)
    assert low < result.mean_nis < high and low < 2.0 < high
    # A filter that is told the wrong noise falls out of it.
    wrong = optfilter.KalmanFilter(model, R=4 * model.R, Q=4 * model.Q).filter(ys)
    assert wrong.mean_nis < wrong.nis_band()[0]
    # Components that are missing on their own count as such.
    ys[:, 1] = np.nan
    low, high = optfilter.KalmanFilter(model).filter(ys).nis_band()
    np.testing.assert_allclose([low, high], stats.chi2(rows).ppf([0.025, 0.975]) / rows, rtol=1e-3)
    with pytest.raises(ValueError, match="^nis: "):
        optfilter.ImplicitMAP(model, error_bars=False).filter(ys).mean_nis


def test_results_in_a_notebook(growth, growth_data):
    result = optfilter.ExtendedKalmanFilter(growth).filter(growth_data.observations[0])
    html = result._repr_html_()
    assert "<table>" in html and "x0" in html and f"{result.means[-1, 0]:.6g}" in html and "±" in html
    plain = optfilter.ExtendedKalmanFilter(growth).filter(growth_data.observations, covariances=False)
    assert "±" not in plain._repr_html_()
    f, ys = optfilter.ExtendedKalmanFilter(growth), growth_data.observations
    smoothed, ahead = f.smooth(ys[0]), f.forecast(ys[0], 3)
    assert f"{smoothed.means[0, 0]:.6g} ± {smoothed.stds[0, 0]:.4g}" in smoothed._repr_html_()
    assert f"{ahead.means[-1, 0]:.6g} ± {ahead.stds[-1, 0]:.4g}" in ahead._repr_html_()
    many = f.smooth(ys), f.forecast(ys, 3)
    assert f"{many[0].means[0, 0, 0]:.6g}" in many[0]._repr_html_()
    assert f"{many[1].means[0, -1, 0]:.6g}" in many[1]._repr_html_()
    level = optfilter.Model.from_toml('system = "local-level"')
    fitted = level.fit(optfilter.simulate(level, 100, seed=1).observations)
    for name, value in fitted.params.items():
        assert f"<th>{name}</th><td>{value:.6g}" in fitted._repr_html_()
    odd = optfilter.Model(lambda x: x, lambda x: x, n=1, Q=1.0, R=1.0, state_names=["<b>"])
    assert "&lt;b&gt;" in optfilter.UnscentedKalmanFilter(odd).filter([1.0])._repr_html_()


def test_settings_read_as_flags_of_the_command_line(growth):
    assert optfilter.ExtendedKalmanFilter(growth).flags == "--method ekf"
    f = optfilter.ImplicitMAP(growth, optfilter.SGD(0.2), 7, carry=True)
    assert f.flags == "--method imap --optimizer gd --steps 7 --lr 0.2 --carry"
    assert optfilter.ImplicitMAP(growth, "sgd").flags.startswith("--method imap --optimizer gd")
