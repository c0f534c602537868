"""What a user may also try: Ctrl-C, other containers, huge requests, odd numbers, every class through pickle."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import optfilter
from optfilter import likelihoods


def interrupt(code: str, after: float = 0.5, within: float = 60.0) -> None:
    """Runs ``code`` in a new interpreter, which says "ready", presses Ctrl-C, and checks that it ends by it soon.

    A second is promised; the others are for a machine that is busy.
    """
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + textwrap.dedent(code)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().strip() == "ready", process.stderr.read()
        time.sleep(after)
        assert process.poll() is None, "it was over before it could be interrupted"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=within)
        assert "KeyboardInterrupt" in errors, errors
    finally:
        process.kill()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    "work",
    [
        # One series, a batch on threads, a batch of lanes, steps of a callable, a simulation.
        "optfilter.IteratedKalmanFilter(m, 1000).filter(np.ones((2_000_000, 1)))",
        "optfilter.IteratedKalmanFilter(m, 1000).filter(np.ones((64, 50_000, 1)))",
        "optfilter.ImplicitMAP(m, steps=100).filter(np.ones((20_000, 2000, 1)))",
        "optfilter.UnscentedKalmanFilter(c).filter(np.ones((3_000_000, 1)))",
        "optfilter.simulate(optfilter.models.Lorenz63(substeps=500), 20_000, batch=64)",
        "optfilter.reproduce('lorenz', protocol='specified')",
        "optfilter.tune(m, np.ones((40, 20_000, 1)))",
        # In the middle of one measurement: of a series, of a batch, of a single step, through Python's own code.
        "optfilter.ImplicitMAP(m, steps=10**9).filter(np.ones((3, 1)))",
        "optfilter.ImplicitMAP(m, steps=10**9, error_bars=False).filter(np.ones((64, 3, 1)))",
        "optfilter.ImplicitMAP(optfilter.models.Lorenz96(40), steps=10**9).filter(np.ones((64, 3, 40)))",
        "optfilter.ImplicitMAP(m, steps=10**9).update(3.0)",
        "optfilter.ImplicitMAP(c, steps=10**9).filter(np.ones((3, 1)))",
        "optfilter.ImplicitMAP(c, steps=10**9).update(3.0)",
        "optfilter.ImplicitMAP(m, lambda x, g, s: (x, s), steps=10**9).update(3.0)",
        "optfilter.VariationalKalmanFilter(m, steps=10**9).update(3.0)",
        "optfilter.IteratedKalmanFilter(m, steps=10**9).update(3.0)",
        # Beyond the series, and back.
        "optfilter.ImplicitMAP(m, steps=10**9).forecast(np.ones((50, 1)), steps=5)",
        "optfilter.VariationalKalmanFilter(m, steps=10**9).forecast(np.ones((50, 1)), steps=5)",
        "optfilter.ImplicitMAP(m, steps=10**9).filter(np.ones((50, 1)), horizon=2)",
        "optfilter.IteratedKalmanFilter(m, steps=10**9).smooth(np.ones((50, 1)))",
        "optfilter.ImplicitMAP(c, steps=10**9).forecast(np.ones((50, 1)), steps=5)",
        "optfilter.models.system('local-level').fit(np.sin(np.arange(200_000.0)))",
        # A step of so many cannot be ended in its middle.
        "optfilter.ParticleFilter(m, 10**7).filter(np.ones((1000, 1)))",
    ],
)
def test_ctrl_c(work):
    within = 10.0  # a second on an idle machine; these tests run beside others
    interrupt(
        f"""
        import numpy as np, optfilter
        m = optfilter.models.Growth()
        c = optfilter.Model(lambda x: x, lambda x: x, n=1, m=1, Q=1.0, R=1.0)
        print("ready", flush=True)
        {work}
        """,
        within=within,
    )


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_what_comes_after_ctrl_c():
    # What was left behind must not hold up, or change, what comes next.
    interrupt(
        """
        import numpy as np, optfilter
        m, level = optfilter.models.Growth(), optfilter.models.system("local-level")
        ys = optfilter.simulate(level, 200, seed=1).observations
        before = level.fit(ys).params
        print("ready", flush=True)
        try:
            level.fit(np.sin(np.arange(200_000.0)))
        except KeyboardInterrupt:
            assert level.fit(ys).params == before
        f = optfilter.ExtendedKalmanFilter(m)
        assert np.array_equal(f.smooth(np.ones(9)).means, f.smooth(np.ones(9)).means)
        raise KeyboardInterrupt
        """,
        within=20.0,
    )


def test_another_thread_may_filter_while_the_main_one_waits():
    # Signals belong to the main thread; work elsewhere must not trip over that.
    model = optfilter.models.Growth()
    out = []
    thread = threading.Thread(
        target=lambda: out.append(optfilter.ExtendedKalmanFilter(model).filter(np.ones((300_000, 1))))
    )
    thread.start()
    thread.join()
    assert np.isfinite(out[0].means).all()


@pytest.mark.parametrize(
    "build, argument",
    [
        (lambda m: optfilter.ParticleFilter(m, 2**40), "particles"),
        (lambda m: optfilter.ParticleFilter(m, seed=2**70), "seed"),
        (lambda m: optfilter.ImplicitMAP(m, steps=2**40), "steps"),
        (lambda m: optfilter.ImplicitMAP(m, steps="50"), "steps"),
        (lambda m: optfilter.IteratedKalmanFilter(m, 2**40), "steps"),
        (lambda m: optfilter.simulate(m, 5, seed=2**70), "seed"),
        (lambda m: optfilter.simulate(m, 5.0), "steps"),
        (lambda m: optfilter.simulate("growth", 5), "model"),
        (lambda m: optfilter.monte_carlo(m, [1]), "filters"),
        (lambda m: optfilter.monte_carlo(m, []), "filters"),
        (lambda m: optfilter.tune(m, [1.0], grid=[]), "grid"),
        (lambda m: optfilter.tune(m, [1.0], grid={"steps": 3}), "grid"),
        (lambda m: optfilter.tune(m, [1.0], metric="mse"), "metric"),
        (lambda m: optfilter.tune(m, [1.0], executor=3, progress=False), "executor"),
        (lambda m: optfilter.tune("model", [1.0]), "model"),
        (lambda m: optfilter.tune(m, [1.0], filter="EKF", grid=[{}]), "filter"),
        (lambda m: optfilter.reproduce("moon"), "systems"),
        (lambda m: optfilter.reproduce("toy", protocol="both of them"), "protocol"),
        (lambda m: optfilter.reproduce("toy", runs=0), "runs"),
        (lambda m: optfilter.reproduce_yearbook(size="tiny"), "size"),
        (lambda m: optfilter.reproduce_yearbook("nowhere.npz", size="quick"), "data"),
        (lambda m: optfilter.ExtendedKalmanFilter(m).filter([[[]]]), "ys"),
        (lambda m: optfilter.ExtendedKalmanFilter(m).filter([]), "ys"),
        (lambda m: optfilter.ExtendedKalmanFilter(m).filter(None), "ys"),
        (lambda m: optfilter.ExtendedKalmanFilter(m).filter([[1.0], [2.0, 3.0]]), "ys"),
        (lambda m: optfilter.ExtendedKalmanFilter(m).filter([1.0], first_run=-1), "first_run"),
        (lambda m: optfilter.ExtendedKalmanFilter(m, Q=[[1.0, 2.0]]), "Q"),
        (lambda m: optfilter.ExtendedKalmanFilter(m, Q="big"), "Q"),
        (lambda m: optfilter.ExtendedKalmanFilter(m, dt="long"), "dt"),
        (lambda m: optfilter.models.Growth(dt="long"), "dt"),
        (lambda m: optfilter.models.Growth(bounds=3.0), "bounds"),
        (lambda m: optfilter.ImplicitMAP(m, bounds=(1.0, 2.0, 3.0)), "bounds"),
    ],
)
def test_odd_requests_name_the_argument(build, argument):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        build(optfilter.models.Growth())


def run_alone(code: str) -> str:
    """What ``code`` prints in an interpreter of its own with 16 GB of addresses, which must end in order."""
    program = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize(
    "request_",
    [
        "optfilter.ExtendedKalmanFilter(many)",
        "optfilter.IteratedKalmanFilter(many)",
        "optfilter.UnscentedKalmanFilter(many)",
        "optfilter.VariationalKalmanFilter(many)",
        "optfilter.ParticleFilter(many, 10)",
        "optfilter.ImplicitMAP(many, error_bars=True)",
        "optfilter.ParticleFilter(optfilter.models.Growth(), 2**32 - 1)",
        "optfilter.ParticleFilter(optfilter.models.Growth(), 5 * 10**8)",
        "optfilter.ParticleFilter(optfilter.models.Growth(), 3 * 10**8).filter(np.ones(2))",
        "optfilter.ParticleFilter(optfilter.models.Growth(), 10**7).smooth(np.ones(200))",
        "optfilter.simulate(many, 2)",
        "optfilter.ImplicitMAP(many).Q",
        # The estimates of a batch could be held, their covariances not.
        "optfilter.ExtendedKalmanFilter(large).filter(np.zeros((10, 20_000, 1)))",
    ],
)
def test_what_does_not_fit_into_memory(request_):
    printed = run_alone(
        f"""
        import numpy as np, optfilter
        many = optfilter.Model(lambda x: x, lambda x: x[:1], n=200_000, m=1, Q=1.0, R=1.0)
        large = optfilter.models.Linear(np.eye(500), np.ones((1, 500)), Q=1.0, R=1.0)
        try:
            {request_}
        except MemoryError as error:
            print("refused:", error)
        """
    )
    assert printed.startswith("refused: ") and ("fit into memory" in printed or "allocate" in printed)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_large_state_needs_no_matrix():
    printed = run_alone(
        """
        import numpy as np, optfilter
        many = optfilter.Model(lambda x: x / 2, lambda x: x[:1], n=200_000, m=1, Q=1.0, R=1.0)
        print(many.f(np.ones(200_000))[-1], many.h(np.ones(200_000)))
        """
    )
    assert printed == "0.5 [1.]"


def test_every_class_pickles_copies_and_shows():
    model = optfilter.models.Growth(Q=3.0, R=2.0)
    data = optfilter.simulate(model, 20, batch=2, seed=0)
    f = optfilter.ExtendedKalmanFilter(model)
    grid = {"optimizer": [optfilter.Adam(0.1)], "steps": [1, 2]}
    objects = [
        model,
        optfilter.Adam(0.1),
        optfilter.SGD(0.1, 0.9, True),
        optfilter.RMSProp(0.1),
        optfilter.Adagrad(0.1),
        optfilter.Adadelta(),
        optfilter.Preconditioned(np.eye(2)),
        likelihoods.SquaredError(),
        likelihoods.Gaussian(np.eye(2)),
        likelihoods.StudentT(4.0, 1.0),
        likelihoods.Huber(),
        likelihoods.Poisson("log"),
        likelihoods.Bernoulli("logit"),
        likelihoods.Independent(likelihoods.Poisson(), likelihoods.Independent.normal(2.0)),
        optfilter.models.system("pendulum"),
    ]
    for thing in objects:
        for again in (pickle.loads(pickle.dumps(thing)), copy.copy(thing), copy.deepcopy(thing)):
            assert again == thing and repr(again) == repr(thing)
        assert type(thing).__name__.lstrip("_") in repr(thing)
    others = [
        f,
        data,
        f.filter(data.observations),
        optfilter.tune(model, data.observations, grid=grid, progress=False),
        optfilter.monte_carlo(model, [f], runs=3, steps=5, progress=False),
        optfilter.reproduce("toy Q=1 R=1", runs=2, particles=False, progress=False),
    ]
    for thing in others:
        for again in (pickle.loads(pickle.dumps(thing)), copy.copy(thing), copy.deepcopy(thing)):
            assert repr(again) == repr(thing) and type(again) is type(thing)
        assert type(thing).__name__ in repr(thing)


def test_a_state_of_many_components():
    # As many as the weights of a small network; a covariance of them would take 6 GB.
    n = 28_193
    target = np.sin(np.arange(n))
    model = optfilter.models.RandomWalk(n)
    f = optfilter.ImplicitMAP(model, optfilter.SGD(0.5), steps=20)
    f.predict()
    f.update(target)
    np.testing.assert_allclose(f.x, target * (1 - 0.5**20), rtol=1e-12, atol=1e-12)
    assert f.P is None and f.filter(np.stack([target, target])).means.shape == (2, n)
    assert pickle.loads(pickle.dumps(model)).n == n and model.replace(dt=2.0).n == n
    assert np.array_equal(copy.copy(f).x, f.x)


def test_kalman_filters_of_other_linear_models():
    ys = optfilter.simulate(optfilter.models.RandomWalk(2, Q=0.5), 40, seed=1).observations
    linear = optfilter.KalmanFilter(optfilter.models.Linear(np.eye(2), np.eye(2), Q=0.5)).filter(ys)
    walk = optfilter.KalmanFilter(optfilter.models.RandomWalk(2, Q=0.5)).filter(ys)
    text = optfilter.Model.from_expressions({"a": "a", "b": "b"}, {"y": "a", "z": "b"}, Q=0.5)
    np.testing.assert_allclose(walk.means, linear.means, rtol=1e-12)
    np.testing.assert_allclose(optfilter.KalmanFilter(text).filter(ys).means, linear.means, rtol=1e-12)
    nonlinear = optfilter.Model.from_expressions({"a": "sin(a)"}, {"y": "a"})
    with pytest.raises(ValueError, match="^model: "):
        optfilter.KalmanFilter(nonlinear)


def test_subclasses_of_filters():
    class Mine(optfilter.ExtendedKalmanFilter):
        def twice(self):
            return 2 * self.x

    f = Mine(optfilter.models.Growth())
    f.predict()
    assert np.array_equal(f.twice(), 2 * f.x)
    assert type(copy.copy(f)) is Mine


def test_results_of_a_batch_name_the_trajectory():
    model = optfilter.Model.from_expressions({"x": "x^2"}, {"y": "x"}, Q=1e-9, R=1e12)
    with pytest.raises(optfilter.DivergenceError, match="of trajectory 0"):
        optfilter.ExtendedKalmanFilter(model, P0=1e-12).filter(np.full((2, 40, 1), np.nan), x0=[[3.0], [0.1]])
    with pytest.raises(optfilter.DivergenceError) as caught:
        optfilter.ExtendedKalmanFilter(model, P0=1e-12).filter(np.full((40, 1), np.nan), x0=3.0)
    assert caught.value.trajectory is None and "trajectory" not in str(caught.value)


def test_views_are_not_copied():
    ys = optfilter.simulate(optfilter.models.Growth(), 50, batch=3, seed=0).observations
    assert optfilter._arrays.to_float_array("ys", ys) is ys
    result = optfilter.ExtendedKalmanFilter(optfilter.models.Growth()).filter(ys)
    for name in ("means", "covariances", "innovations", "log_likelihoods", "nis"):
        array = getattr(result, name)
        assert array.base is None and array.flags.c_contiguous and array.flags.writeable, name
