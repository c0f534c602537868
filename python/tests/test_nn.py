"""optfilter.nn: manners of scikit-learn and river, what is saved, and failures that leave the weights."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time as clock
import warnings

import numpy as np
import pytest

import optfilter
from optfilter.nn import Conv, Dense, Follower, MaxPool, MeanPool, ReLU, Tanh, WeightDivergenceError, follow

TINY = dict(network="mlp:8", optimizer=optfilter.Adam(0.03), steps=5)


def turning(steps=30, n=10, seed=0):
    """Points on either side of a line that turns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(steps * n, 2))
    time = np.repeat(np.arange(float(steps)), n)
    return X, (X[:, 0] * np.cos(time / 10) + X[:, 1] * np.sin(time / 10) > 0).astype(int), time


def weights(follower):
    return follower._engine.weights


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_scikit_learns_own_checks(task):
    checks = pytest.importorskip("sklearn.utils.estimator_checks", reason="scikit-learn is not installed")
    if not hasattr(checks, "estimator_checks_generator"):
        pytest.skip("this scikit-learn is older than its generator of checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in checks.estimator_checks_generator(Follower("mlp:8", task=task, epochs=300)):
            try:
                check(estimator)
            except Exception as error:
                if type(error).__name__ != "SkipTest":  # scikit-learn leaves out what the platform lacks
                    raise AssertionError(f"{getattr(check, 'func', check).__name__}: {error}") from error


def test_it_is_the_formula():
    """A line by gradient descent on a discounted window, written out; single precision, hence the tolerance."""
    rng = np.random.default_rng(1)
    settings = dict(steps=3, window=2, discount=0.5, scale=False)
    follower = Follower("linear", optfilter.SGD(0.01), task="regression", **settings)
    w, past = None, []
    for _ in range(6):
        X, y = rng.normal(size=(4, 2)), rng.normal(size=4)
        if w is None:
            other = Follower("linear", optfilter.SGD(1e-30), task="regression", **settings).partial_fit(X, y)
            w = weights(other).astype(float)  # bias, then slopes
        past.append((np.c_[np.ones(4), X], y))
        for _ in range(3):
            recent = past[-3:]
            w = w - 0.01 * sum(0.5 ** (len(recent) - 1 - j) * A.T @ (A @ w - b) for j, (A, b) in enumerate(recent))
        follower.partial_fit(X, y)
        np.testing.assert_allclose(weights(follower), w, atol=2e-6)
        if len(past) == 3:  # time passes without labels: it takes a place in the window
            follower.partial_fit(X)
            past.append((np.zeros((1, 3)), np.zeros(1)))


@pytest.mark.parametrize("scale", [False, True])
def test_following_is_partial_fit_after_predicting(scale):
    X, y, time = turning()
    a = Follower(**TINY, window=2, carry=True, scale=scale)
    result = a.follow(X, y, time)
    b = Follower(**TINY, window=2, carry=True, scale=scale)
    right = []
    for t in range(30):
        rows = time == t
        if t:
            right.append(np.sum(b.predict(X[rows]) == y[rows]))
        b.partial_fit(X[rows], y[rows], classes=[0, 1])
    np.testing.assert_array_equal(weights(a), weights(b))
    assert result.accuracy > 0.8 and len(result) == 30
    if scale:  # what follows a stream has seen a time step's features before it predicts it: other predictions
        return
    np.testing.assert_array_equal(result.right[1:], right)
    with_start = Follower(**TINY).follow(X, y, time, pretrain=5)
    assert len(with_start) == 25 and with_start.time[0] == 5.0
    loss = -np.log(b.predict_proba(X[-10:])[np.arange(10), y[-10:]]).mean()
    assert a.follow(X[-10:], y[-10:], every=10).loss[0] == pytest.approx(loss, rel=1e-5)


def test_what_a_result_is():
    X, y, time = turning()
    result = follow(X, y, time, **TINY)
    assert "accuracy=" in repr(result) and result.level(5).shape == (30,)
    assert result.level(30)[-1] == pytest.approx(result.accuracy)
    frame = pytest.importorskip("pandas") and result.to_dataframe("pandas")
    assert list(frame.columns) == ["time", "n", "loss", "right"] and len(frame) == 30
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    axes = result.plot(over=5)
    assert "Accuracy" in axes.get_ylabel() and len(axes.lines[0].get_xdata()) == 30
    plt.close("all")
    numbers = follow(X, X[:, 0], time, **TINY)
    assert numbers.shares == ()
    assert numbers.rmse < 2 and np.isnan(numbers.accuracy) and np.isnan(numbers.calibration_error)
    days = np.datetime64("2024-01-01") + time.astype(int)
    assert follow(X, y, days, **TINY).time[1] == np.datetime64("2024-01-02")


@pytest.mark.parametrize(
    "X, y, text",
    [
        ([[np.nan, 0.0]], [0], "X: sample 0 contains NaN or infinity"),
        ([[0.0, np.inf]], [0], "X: sample 0 contains NaN or infinity"),
        ([[0.0, 0.0, 0.0]], [0], "3 features, but Follower is expecting 2"),
        ([[0.0, 0.0]], [0, 1], "y: 2 labels for 1 samples"),
        ([[0.0, 0.0]], [7], "y: unknown class np.int64.7. of sample 0; the classes are .0, 1."),
        ([[0.0, 0.0]], ["a"], "y: the labels are texts, but the classes are numbers"),
        ([[0.0, 0.0]], [0.5], "numbers that are not whole are no classes"),
        ([["a", "b"]], [0], "X: must be real numbers"),
        ([0.0, 0.0], [0], "X: Expected 2D array"),
        (np.zeros((1, 2, 2)), [0], "X: samples of shape"),
        (np.zeros((0, 2)), [], "0 sample"),
    ],
)
def test_bad_input_leaves_everything(X, y, text):
    follower = Follower(**TINY, window=2, carry=True).partial_fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    before = follower._engine.save()
    with pytest.raises(ValueError, match=text):
        follower.partial_fit(X, y)
    assert follower._engine.save() == before
    follower.set_params(steps=3)  # what the optimizer remembers begins anew with the next batch, not with one that is refused
    with pytest.raises(ValueError, match=text):
        follower.partial_fit(X, y)
    assert follower._engine.save() == before and follower.classes_.tolist() == [0, 1]


GOOD = {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize("kind", ["single", "bank", "error bars"])
@pytest.mark.parametrize(
    "x, y, text",
    [
        ({"a": np.nan, "b": 0.0}, "sideways", "X: sample 0 contains NaN"),
        ({"a": 0.0, "b": np.inf}, "up", "X: sample 0 contains NaN or infinity"),
        ({"a": 0.0, "b": "high"}, "sideways", "must be real numbers"),
        ({"a": 0.0}, "sideways", "x: its features differ from those before: b"),
        ({"a": 0.0, "b": 0.0, "c": 0.0}, "sideways", "x: its features differ from those before: c"),
        ([0.0, 0.0], "sideways", "x: must be a dictionary"),
        (GOOD, 3, "labels are numbers, but the classes are texts"),
        (GOOD, None, "a label is None"),
        (GOOD, np.nan, "contains NaN or infinity, which is no class"),
        (GOOD, ["up", "down"], "one class for each sample"),
    ],
)
def test_one_bad_sample_leaves_everything(kind, x, y, text):
    """A class that was never met makes room only if its sample is sound."""
    settings = {"single": TINY, "bank": dict(network="mlp:4"), "error bars": dict(network="linear", method="ekf")}[kind]
    follower = Follower(**settings)
    for i in range(6):
        follower.learn_one({"a": i / 6, "b": -i / 6}, "up" if i % 2 else "down")
    before, classes = follower._engine.save(), follower.classes_.tolist()
    with pytest.raises(ValueError, match=text):
        follower.learn_one(x, y)
    assert follower._engine.save() == before and follower.classes_.tolist() == classes == ["down", "up"]
    follower.learn_one(GOOD, "sideways")
    assert follower.classes_.tolist() == ["down", "up", "sideways"] and len(follower.predict_proba_one(GOOD)) == 3


def test_a_new_class_that_diverges_is_forgotten():
    follower = Follower("linear", optfilter.SGD(1e3), steps=1, scale=False)
    for i in range(4):
        follower.learn_one(GOOD, "up" if i % 2 else "down")
    before = follower._engine.save()
    with pytest.raises(WeightDivergenceError):
        follower.learn_one({"a": 1e38, "b": 1e38}, "sideways")
    assert follower._engine.save() == before and follower.classes_.tolist() == ["down", "up"]


def test_a_stream_that_is_refused_leaves_everything():
    X, y, time = turning()
    follower = Follower(**TINY).partial_fit(X, y)
    before = follower._engine.save()
    late = np.where(time < 20, y, 7)
    for pretrain in (0, 5):
        with pytest.raises(ValueError, match="unknown class"):
            follower.follow(X, late, time, pretrain=pretrain)
        assert follower._engine.save() == before
    fresh = Follower(**TINY)
    with pytest.raises(ValueError, match="unknown class"):
        fresh.follow(X, late, time, pretrain=5)
    assert not hasattr(fresh, "_engine") and not hasattr(fresh, "classes_")


@pytest.mark.parametrize("y, text", [([np.nan], "not a finite"), (["a"], "not texts"), ([[1.0, 2.0]], "2 numbers")])
def test_bad_numbers_leave_everything(y, text):
    follower = Follower(**TINY, task="regression").partial_fit([[0.0, 1.0]], [0.5])
    before = follower._engine.save()
    with pytest.raises(ValueError, match=text):
        follower.partial_fit([[1.0, 1.0]], y)
    assert follower._engine.save() == before


def test_diverging_leaves_everything():
    first = Follower("linear", optfilter.SGD(1e-9), steps=1, task="regression", scale=False, window=1)
    first.partial_fit([[1.0]], [1.0])
    follower = pickle.loads(pickle.dumps(first)).set_params(optimizer=optfilter.SGD(1e30), steps=3)
    with pytest.raises(WeightDivergenceError, match="a weight left the finite numbers at update 1") as caught:
        follower.partial_fit([[2.0]], [5.0])
    assert isinstance(caught.value, optfilter.DivergenceError)
    np.testing.assert_array_equal(weights(follower), weights(first))
    with pytest.raises(ValueError, match="not fitted"):
        Follower().predict([[1.0]])


def test_settings_are_checked():
    for change, text in [
        (dict(network="mlp:a"), "network: "),
        (dict(network="lstm:3"), "there is no layer"),
        (dict(network="conv:3"), "a convolution needs an image"),
        (dict(steps=0), "steps: must be at least 1"),
        (dict(window=-1), "window: must be at least 0"),
        (dict(discount=2.0), "discount"),
        (dict(optimizer=optfilter.CG()), "optimizer: must be SGD"),
        (dict(optimizer="adam"), "optimizer: must be SGD"),
        (dict(task="ranking"), "task: must be"),
        (dict(seed=-1), "seed: must be at least 0"),
        (dict(method="ukf"), "method: there is no 'ukf'; there are imap, vkf, direct"),
    ]:
        with pytest.raises(ValueError, match=text):
            Follower(**change).partial_fit([[0.0, 1.0]], [0])
    with pytest.raises(ValueError, match="speed: is not a setting"):
        Follower().set_params(speed=1)
    assert repr(Follower(window=3)) == "Follower(window=3)"
    fitted = Follower(**TINY).partial_fit([[0.0], [1.0]], ["a", "b"])
    with pytest.raises(ValueError, match="network: cannot change"):
        fitted.set_params(network="linear").partial_fit([[0.0]], ["a"])


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_pickled_followers_go_on(task):
    X, y, _ = turning()
    follower = Follower(**TINY, window=3, discount=0.9, carry=True, task=task)
    for i in range(5):
        follower.partial_fit(X[10 * i : 10 * i + 10], y[10 * i : 10 * i + 10])
    twins = [pickle.loads(pickle.dumps(follower)), copy.deepcopy(follower)]
    for one in [follower, *twins]:
        one.partial_fit(X[50:60], y[50:60])
    for twin in twins:
        assert twin._engine.save() == follower._engine.save()
        np.testing.assert_array_equal(twin.predict(X), follower.predict(X))


@pytest.mark.parametrize("kind", ["text", "int", "bool", "number", "three"])
def test_saved_weights_bring_everything(tmp_path, kind):
    X, y, _ = turning()
    labels = {
        "text": np.where(y == 1, "up and away", "down"),
        "int": 3 + y,
        "bool": y == 1,
        "number": X[:, 0] * 100 + 5,
        "three": np.arange(300) % 3,
    }[kind]
    rule = optfilter.RMSProp(1e-3, decay=0.8, eps_in_sqrt=False)
    follower = Follower("mlp:4", rule, steps=2, window=1, discount=0.9).fit(X, labels)
    path = tmp_path / "weights.safetensors"
    follower.save(path)
    loaded = Follower.load(path)
    np.testing.assert_array_equal(loaded.predict(X), follower.predict(X))
    assert loaded.predict(X).dtype == follower.predict(X).dtype
    assert loaded.optimizer == rule and loaded.window == 1 and loaded.steps == 2
    for one in (follower, loaded):
        one.partial_fit(X[:7] + 1, labels[:7])
    np.testing.assert_allclose(loaded._engine.outputs(X), follower._engine.outputs(X), rtol=1e-6, atol=1e-6)
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="is not a safetensors file"):
        Follower.load(path)


def test_one_at_a_time_as_river_does():
    X, y, _ = turning()
    follower = Follower(**TINY)
    sample = {"a": 0.1, "b": -0.2}
    assert follower.predict_one(sample) is None and follower.predict_proba_one(sample) == {}
    right = 0
    for (a, b), label in zip(X, y):
        sample = {"b": b, "a": a} if a > 0 else {"a": a, "b": b}  # the order does not matter
        right += follower.predict_one(sample) == bool(label)
        follower.learn_one(sample, bool(label))
    assert right > 0.75 * len(y)
    assert set(follower.predict_proba_one(sample)) == {True, False}
    with pytest.raises(ValueError, match="x: its features differ from those before: c"):
        follower.learn_one({"a": 1.0, "b": 2.0, "c": 3.0}, True)
    with pytest.raises(ValueError, match="x: must be a dictionary"):
        follower.learn_one([1.0, 2.0], True)
    assert Follower(task="regression").predict_one(sample) == 0.0


def test_beside_a_model_of_rivers_on_a_stream_of_rivers():
    """1,250 web pages, nothing chosen; the margin is four times the difference that other runs have between these two (0.1 points)."""
    pytest.importorskip("river", reason="river is not installed: pip install river")
    from river import datasets, linear_model, metrics, optim, preprocessing

    ours, theirs = Follower("linear"), preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.05))
    scores = metrics.Accuracy(), metrics.Accuracy()
    for x, y in datasets.Phishing():
        for model, score in zip((ours, theirs), scores):
            named = model.predict_one(x)
            score.update(y, False if named is None else named)
            model.learn_one(x, y)
    assert scores[0].get() > scores[1].get() - 0.004, scores


def test_a_new_class_gives_one_more_output():
    """What was known of the others stays as it was, up to the share of the new one."""
    X, y, _ = turning()
    follower = Follower("mlp:8", optfilter.Adam(0.003), steps=2)
    for (a, b), label in zip(X[:100], y):
        follower.learn_one({"a": a, "b": b}, "up" if label else "down")
    sample = {"a": 0.5, "b": 0.5}
    before = follower.predict_proba_one(sample)
    grown = copy.deepcopy(follower)
    grown._grow(np.array(["sideways"]))
    after = grown.predict_proba_one(sample)
    assert after["up"] / after["down"] == pytest.approx(before["up"] / before["down"], rel=1e-4)
    for _ in range(100):
        grown.learn_one(sample, "sideways")
    assert grown.predict_one(sample) == "sideways" and len(grown.classes_) == 3
    with pytest.raises(ValueError, match="labels are numbers, but the classes are texts"):
        grown.learn_one(sample, 3)


def test_columns_by_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    follower = Follower(**TINY).partial_fit(frame, ["x", "y"])
    assert follower.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names should match"):
        follower.predict(frame[["b", "a"]])


def test_images_and_layers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 9, 8, 2))
    y = (X.mean(axis=(1, 2, 3)) > 0).astype(int)
    layers = [Conv(3, size=5, stride=2), ReLU(), MeanPool(2), Dense(4), Tanh()]
    follower = Follower(layers, optfilter.Adam(0.01), steps=5).partial_fit(X, y)
    shapes = {name: tuple(shape) for name, shape, _ in follower._engine.parameters}
    assert shapes["Conv_0.kernel"] == (5, 5, 2, 3) and shapes["Dense_0.kernel"] == (2 * 2 * 3, 4)
    assert follower.predict_proba(X).shape == (20, 2)
    grey = Follower([Conv(2), MaxPool(), "relu"], steps=1).partial_fit(X[..., 0], y)
    assert grey.predict(X[..., 0]).shape == (20,) and grey._engine.scaling[0][0] == (0.0, 1.0)
    with pytest.raises(ValueError, match="larger than the image"):
        Follower([Conv(2, size=30, border=0)]).partial_fit(X, y)


def test_many_numbers_at_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    Y = X @ rng.normal(size=(3, 2)) * 50 + [1000.0, 0.0]
    follower = Follower("linear", task="regression", epochs=2000).fit(X, Y)
    assert follower.predict(X).shape == (200, 2) and follower.score(X, Y) > 0.99


def test_following_without_tuning():
    X, y, time = turning(steps=60)
    result = follow(X, y, time, network="mlp:4")
    assert result.accuracy > 0.7 and len(result) == 60 and len(result.shares) == 8
    assert sum(share for _, share in result.shares) == pytest.approx(1.0)
    again = follow(X, y, time, network="mlp:4", auto=True)
    np.testing.assert_array_equal(result.loss, again.loss)
    assert follow(X, X[:, 0], time, network="linear").rmse < 1.0
    with pytest.raises(ValueError, match="steps: is chosen by the bank itself"):
        follow(X, y, time, steps=3, auto=True)
    with pytest.raises(ValueError, match="X: sample 0 contains NaN"):
        follow(X * np.nan, y, time)


def test_nothing_else_is_imported():
    text = (
        "import sys, optfilter, optfilter.nn, optfilter.torch, optfilter.jax\n"
        "heavy = {'torch', 'jax', 'optax', 'sklearn', 'river', 'matplotlib', 'pandas', 'tqdm'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", text], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def test_other_threads_run_meanwhile_and_ctrl_c_is_heard():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 20)), rng.integers(0, 2, 400)
    follower = Follower("mlp:64", steps=1).partial_fit(X, y)
    follower.set_params(steps=10**6)  # hours
    ticks = []

    def tick():
        for _ in range(5):
            clock.sleep(0.02)
            ticks.append(clock.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    before = weights(follower).copy()
    thread = threading.Thread(target=tick)
    # A shell that runs the tests in the background has them ignore Ctrl-C.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            follower.partial_fit(X, y)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert len(ticks) == 5
    np.testing.assert_array_equal(weights(follower), before)


@pytest.mark.skipif("OPTFILTER_BINARY" not in os.environ, reason="OPTFILTER_BINARY does not name the program")
def test_the_command_line_goes_on_from_saved_weights(tmp_path):
    """The same scaling, classes and settings there: the first time step is judged by the same predictions."""
    X, y, _ = turning(steps=10)
    names = np.where(y == 1, "up", "down")
    follower = Follower("mlp:4", optfilter.SGD(1e-9), steps=1).fit(X, names)
    follower.save(tmp_path / "w.safetensors")
    rows = "".join(f"{a!r},{b!r},{label},{i // 10}\n" for i, ((a, b), label) in enumerate(zip(X.tolist(), names)))
    (tmp_path / "data.csv").write_text("a,b,label,time\n" + rows)
    command = [os.environ["OPTFILTER_BINARY"], "adapt", "data.csv", "--label", "label", "--time", "time", "--pretrain", "0"]
    command += ["--weights", "w.safetensors", "--json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    score = json.loads(ran.stdout)[0]
    assert score["accuracy"] == pytest.approx(100 * follower.score(X, names), abs=1e-6)
