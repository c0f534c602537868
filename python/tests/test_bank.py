"""`Follower()` without settings: a bank that is judged before it learns, predicts without changing, and is what `adapt` does."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import warnings

import numpy as np
import pytest
from test_nn import turning

import optfilter
from optfilter.nn import Follower, WeightDivergenceError, follow


def in_steps(follower, X, y, time, classes=None):
    for t in np.unique(time):
        follower.partial_fit(X[time == t], y[time == t], **({} if classes is None else {"classes": classes}))
    return follower


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_scikit_learns_own_checks_of_a_single_filter(task):
    """Those of the bank are in test_nn.py."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks", reason="scikit-learn is not installed")
    if not hasattr(checks, "estimator_checks_generator"):
        pytest.skip("this scikit-learn is older than its generator of checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in checks.estimator_checks_generator(Follower("mlp:8", task=task, steps=10, epochs=300)):
            try:
                check(estimator)
            except Exception as error:
                if type(error).__name__ != "SkipTest":
                    raise AssertionError(f"{getattr(check, 'func', check).__name__}: {error}") from error


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_following_is_partial_fit_after_partial_fit(task):
    """The same bank in the end, to the bit, whichever way the samples came."""
    X, y, time = turning(steps=60)
    y = y if task == "classification" else X[:, 0] * 3 + 100
    a = Follower("mlp:4", task=task)
    result = a.follow(X, y, time)
    b = in_steps(Follower("mlp:4", task=task), X, y, time, [0, 1] if task == "classification" else None)
    assert a._engine.save() == b._engine.save()
    assert a.shares_ == b.shares_ == result.shares and len(a.shares_) == 8
    assert sum(share for _, share in a.shares_) == pytest.approx(1.0)
    shares = [share for _, share in a.shares_]
    assert shares == sorted(shares, reverse=True) and shares[0] > 1 / 8
    again = follow(X, y, time, network="mlp:4", task=task)
    np.testing.assert_array_equal(result.loss, again.loss)


def test_predicting_changes_nothing():
    X, y, time = turning(steps=40)
    follower = in_steps(Follower("mlp:4"), X, y, time, [0, 1])
    before = follower._engine.save()
    p = follower.predict_proba(X)
    assert follower._engine.save() == before
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(follower.predict(X), p.argmax(axis=1))
    np.testing.assert_allclose(p[::-1][:7], follower.predict_proba(X[::-1][:7]), rtol=1e-12)  # sample by sample
    # What comes next is not changed by having looked.
    other = pickle.loads(pickle.dumps(follower))
    other.predict(X * 100)
    for one in (follower, other):
        one.partial_fit(X[:10], y[:10])
    assert follower._engine.save() == other._engine.save()


def test_it_listens_to_those_who_predict_well():
    """A line that turns quickly: those who learn quickly lead, and the bank is about as good as the best of a grid."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 2))
    angle = np.arange(3000) / 100
    y = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0
    bank = follow(X, y, network="linear")
    single = [follow(X, y, network="linear", optimizer=optfilter.SGD(lr), steps=1).accuracy for lr in (0.01, 0.1, 1.0)]
    assert max(single) - min(single) > 0.1  # the choice matters
    assert bank.accuracy > max(single) - 0.01


def test_a_setting_makes_a_single_filter():
    X, y, _ = turning()
    for settings in [dict(steps=10), dict(window=0), dict(discount=1.0), dict(carry=False), dict(optimizer=optfilter.Adam(1e-3))]:
        one = Follower("mlp:4", **settings).fit(X, y)
        assert not hasattr(one, "shares_")
        np.testing.assert_array_equal(one.predict_proba(X), Follower("mlp:4", steps=10).fit(X, y).predict_proba(X))
    assert hasattr(Follower("mlp:4").fit(X, y), "shares_") and not hasattr(Follower("mlp:4"), "shares_")
    assert follow(X, y, network="mlp:4", auto=False).shares == ()
    with pytest.raises(ValueError, match="steps: is chosen by the bank itself"):
        follow(X, y, steps=3, auto=True)
    with pytest.raises(ValueError, match="predicts one number for each sample"):
        follow(X, X, auto=True)
    assert not hasattr(Follower("linear").fit(X, X), "shares_")  # several numbers: a single filter


def test_from_a_bank_to_a_single_filter_and_back():
    X, y, time = turning(steps=40)
    follower = in_steps(Follower("mlp:4"), X, y, time, [0, 1])
    leader = follower._engine.weights
    follower.set_params(optimizer=optfilter.SGD(1e-20), steps=1).partial_fit(X[-5:], y[-5:])
    np.testing.assert_array_equal(follower._engine.weights, leader)
    assert follower.score(X[-100:], y[-100:]) > 0.7
    follower.set_params(optimizer=None, steps=None).partial_fit(X[-5:], y[-5:])
    assert len(follower.shares_) == 8 and follower.score(X[-100:], y[-100:]) > 0.7


@pytest.mark.parametrize("kind", ["text", "number", "three"])
def test_pickled_copied_and_saved(tmp_path, kind):
    X, y, time = turning(steps=60)
    labels = {"text": np.where(y == 1, "up", "down"), "number": X[:, 0] * 100 + 5, "three": np.arange(600) % 3}[kind]
    follower = Follower("mlp:4", seed=3)
    follower.follow(X, labels, time)
    twins = [pickle.loads(pickle.dumps(follower)), copy.deepcopy(follower)]
    for one in [follower, *twins]:
        in_steps(one, X + 1, labels, time)
    for twin in twins:
        assert twin._engine.save() == follower._engine.save() and twin.shares_ == follower.shares_
    # A file has the leading weights, scaling and classes: a bank begins at them.
    follower = Follower("mlp:4").fit(X, labels)
    follower.save(tmp_path / "w.safetensors")
    loaded = Follower.load(tmp_path / "w.safetensors")
    assert loaded.get_params()["steps"] is None and len(loaded.shares_) == 8
    np.testing.assert_array_equal(loaded._engine.weights, follower._engine.weights)
    assert loaded._engine.scaling == follower._engine.scaling
    if kind == "number":
        assert follower.score(X, labels) > loaded.score(X, labels) > 0.95  # the linear members, who lead here, are not in it
    else:
        assert np.mean(loaded.predict(X) == follower.predict(X)) > 0.95
        assert loaded.classes_.tolist() == follower.classes_.tolist()
    in_steps(loaded, X, labels, time)


def test_what_fails_leaves_everything():
    X, y, time = turning()
    follower = in_steps(Follower("mlp:4"), X, y, time, [0, 1])
    before = follower._engine.save()
    for bad, labels, text in [
        (X[:2] * np.nan, y[:2], "X: sample 0 contains NaN"),
        (X[:2], [0, 7], "unknown class"),
        (X[:2], [0], "1 labels for 2 samples"),
        (X[:2, :1], y[:2], "expecting 2 features"),
    ]:
        with pytest.raises(ValueError, match=text):
            follower.partial_fit(bad, labels)
        assert follower._engine.save() == before
    # A label that is infinite in single precision takes every member along, and all are put back.
    numbers = Follower("mlp:4", task="regression", scale=False)
    numbers.partial_fit(X[:5], X[:5, 0])
    before = numbers._engine.save()
    with pytest.raises(WeightDivergenceError, match="every member of the bank left the finite numbers at update 1"):
        numbers.partial_fit(X[:5], np.full(5, 1e100))
    assert numbers._engine.save() == before
    numbers.partial_fit(X[:5], X[:5, 0])


def test_time_passes_without_labels():
    X, y, time = turning()
    follower = in_steps(Follower("mlp:4"), X, y, time, [0, 1])
    p = follower.predict_proba(X)
    follower.partial_fit(X[:3])
    np.testing.assert_array_equal(follower.predict_proba(X), p)


def test_one_at_a_time_with_classes_nobody_announced():
    X, y, _ = turning()
    follower = Follower("mlp:4")
    right = 0
    for (a, b), label in zip(X, y):
        right += follower.predict_one({"a": a, "b": b}) == ("up" if label else "down")
        follower.learn_one({"a": a, "b": b}, "up" if label else "down")
    assert right > 0.7 * len(y)
    for _ in range(100):
        follower.learn_one({"a": 0.5, "b": 0.5}, "sideways")
    assert follower.predict_one({"a": 0.5, "b": 0.5}) == "sideways" and len(follower.classes_) == 3
    assert sum(follower.predict_proba_one({"a": 0.5, "b": 0.5}).values()) == pytest.approx(1.0)


def test_images():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6, 6))
    y = X.mean(axis=(1, 2)) > 0
    follower = Follower("conv:2 relu maxpool dense:4 tanh")
    assert follower.follow(X, y).accuracy > 0.6 and len(follower.shares_) == 8
    assert follower._engine.scaling[0][0] == (0.0, 1.0)


@pytest.mark.skipif("OPTFILTER_BINARY" not in os.environ, reason="OPTFILTER_BINARY does not name the program")
@pytest.mark.parametrize("network", ["linear", "mlp:4"])
def test_it_is_what_the_command_line_does(tmp_path, network):
    X, y, time = turning(steps=80)
    rows = "".join(f"{a!r},{b!r},{t},{label}\n" for (a, b), t, label in zip(X.tolist(), time.tolist(), y))
    (tmp_path / "data.csv").write_text("a,b,time,label\n" + rows)
    command = [os.environ["OPTFILTER_BINARY"], "adapt", "data.csv", "--label", "label", "--time", "time"]
    command += ["--network", network, "--json", "--csv", "scores.csv"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    theirs = json.loads(ran.stdout)[0]
    ours = Follower(network).follow(X, y, time)
    # The program numbers classes as it meets them.
    assert theirs["accuracy"] == pytest.approx(100 * ours.accuracy, abs=1e-9)
    assert theirs["mean_loss"] == pytest.approx(ours.mean_loss, rel=1e-9)
