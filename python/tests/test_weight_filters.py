"""Filters over weights by name: what each reads, error bars, and the command line's numbers."""

from __future__ import annotations

import json
import os
import pickle
import subprocess

import numpy as np
import pytest

import optfilter
from optfilter._weights import METHODS
from optfilter.nn import Follower, follow

#: A setting or two for each.
CHOSEN = {
    "imap": dict(optimizer=optfilter.Adam(0.03), steps=5, window=2, discount=0.9, carry=True),
    "vkf": dict(optimizer=optfilter.Adam(0.03), steps=5, drift_var=0.1, window=1),
    "direct": dict(optimizer=optfilter.Adam(0.003)),
    "pf": dict(particles=50, drift_var=0.02),
    "static": dict(),
    "ekf": dict(drift_var=1e-3, prior_var=0.5),
    "vdekf": dict(drift_var=1e-3, robust=3.0),
    "bong": dict(drift_var=1e-3, noise_var=0.2),
    "lofi": dict(rank=2, drift_var=1e-3),
    "ivon": dict(lr=0.5, steps=2),
    "auto": dict(),
}
FLAGS = {
    "vkf": ["--lr", "0.03", "--steps", "5", "--sigma2", "0.1", "--window", "1"],
    "ekf": ["--sigma2", "1e-3", "--prior", "0.5"],
    "vdekf": ["--sigma2", "1e-3", "--robust", "3"],
    "bong": ["--sigma2", "1e-3", "--noise", "0.2"],
    "lofi": ["--rank", "2", "--sigma2", "1e-3"],
    "ivon": ["--lr", "0.5", "--steps", "2"],
    "pf": ["--particles", "50", "--sigma2", "0.02"],
    "direct": ["--lr", "0.003"],
}


def turning(steps=30, n=10, seed=0):
    """Points on either side of a line that turns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(steps * n, 2))
    time = np.repeat(np.arange(float(steps)), n)
    return X, (X[:, 0] * np.cos(time / 10) + X[:, 1] * np.sin(time / 10) > 0).astype(int), time


#: Methods in other forms: name, settings and flags.
FORMS = {
    "bong by draws": ("bong", dict(samples=3, drift_var=1e-3, seed=5), ["--samples", "3", "--sigma2", "1e-3", "--seed", "5"]),
    "bong of low rank": ("bong", dict(rank=2, drift_var=1e-3), ["--rank", "2", "--sigma2", "1e-3"]),
    "ivon with all": (
        "ivon",
        dict(lr=0.5, ivon_size=500.0, ivon_curvature=0.3, ivon_betas=(0.8, 0.99), ivon_decay=0.01),
        ["--lr", "0.5", "--ivon-size", "500", "--ivon-curvature", "0.3", "--ivon-betas", "0.8,0.99", "--ivon-decay", "0.01"],
    ),
}
BOTH = {**{name: (name, CHOSEN[name]) for name in CHOSEN}, **{name: form[:2] for name, form in FORMS.items()}}


def test_every_method_is_tried_here():
    assert set(CHOSEN) == set(METHODS)


@pytest.mark.parametrize("form", sorted(BOTH))
def test_it_follows_is_cloned_pickled_and_saved(tmp_path, form):
    X, y, time = turning()
    names = np.where(y == 1, "up", "down")
    method, chosen = BOTH[form]
    follower = Follower("linear", method=method, **chosen)
    result = follower.follow(X, names, time)
    assert result.accuracy > (0.65 if method != "static" else 0.0)  # a coin has half
    assert 0.0 <= result.calibration_error < (0.2 if method not in ("static", "direct") else 1.0)
    twin = Follower(**follower.get_params())
    np.testing.assert_array_equal(twin.follow(X, names, time).loss, result.loss)
    again = pickle.loads(pickle.dumps(follower))
    for one in (follower, again):
        one.partial_fit(X[:10], names[:10])
    assert again._engine.save() == follower._engine.save()
    probabilities = follower.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(follower.predict(X), follower.classes_[probabilities.argmax(axis=1)])
    if method == "auto":  # whose weights begin a new bank
        return
    follower.save(tmp_path / "w.safetensors")
    loaded = Follower.load(tmp_path / "w.safetensors")
    assert loaded.method == method and loaded._settings == follower._settings
    for name, value in chosen.items():
        assert name == "optimizer" or getattr(loaded, name) == value


def test_low_rank_bong_is_lofi():
    """On the linearised network they are the same equations; the diagonal form and that of draws are others."""
    X, y, time = turning()
    loss = {
        name: follow(X, y, time, network="linear", drift_var=1e-3, **settings).loss
        for name, settings in {
            "lofi": dict(method="lofi", rank=2),
            "low": dict(method="bong", rank=2),
            "diagonal": dict(method="bong"),
            "drawn": dict(method="bong", samples=2),
        }.items()
    }
    np.testing.assert_array_equal(loss["lofi"], loss["low"])
    assert np.abs(loss["diagonal"] - loss["low"]).max() > 1e-6 and np.abs(loss["diagonal"] - loss["drawn"]).max() > 1e-6


def test_each_setting_of_ivon_counts_and_none_is_its_default():
    X, y, time = turning()

    def loss(**settings):
        return follow(X, y, time, network="linear", method="ivon", **settings).loss

    plain = loss()
    usual = dict(lr=0.1, steps=1, ivon_size=1e4, ivon_curvature=0.1, ivon_betas=(0.9, 0.999), ivon_decay=1e-4)
    np.testing.assert_array_equal(loss(**usual), plain)
    others = dict(lr=0.2, steps=2, ivon_size=100, ivon_curvature=0.4, ivon_betas=(0.5, 0.9), ivon_decay=0.1)
    for name, other in others.items():
        assert np.abs(loss(**{name: other}) - plain).max() > 1e-9, name


def test_probabilities_are_averaged_over_the_belief():
    """Far from all samples the weights say much and know little: the less a filter is sure of them, the nearer to even."""
    X, y, _ = turning(steps=1, n=20)
    far = [[30.0, 30.0]]

    def sure(prior_var):
        follower = Follower("linear", method="ekf", prior_var=prior_var, drift_var=0.0, scale=False)
        return float(follower.partial_fit(X, y).predict_proba(far).max()), follower

    for prior_var in (0.1, 1.0):
        p, follower = sure(prior_var)
        w = follower._engine.weights.astype(float)  # bias, then slopes
        plain = 1 / (1 + np.exp(-abs(w[0] + 30 * w[1] + 30 * w[2])))
        assert 0.5 < p < plain - 1e-4
    # A point estimate is what its weights say.
    plain = Follower("linear", optfilter.SGD(0.1), steps=3, scale=False).partial_fit(X, y)
    w = plain._engine.weights.astype(float)
    z = w[0] + 30 * w[1] + 30 * w[2]
    assert plain.predict_proba(far)[0, 1] == pytest.approx(1 / (1 + np.exp(-z)), rel=1e-5)


def test_what_a_method_does_not_read_is_refused():
    X, y, _ = turning(steps=1)
    for change, text in [
        (dict(method="ekf", rank=3), "rank: is nothing to method='ekf'; it is for lofi, bong"),
        (dict(method="lofi", samples=3), "samples: is nothing to method='lofi'; it is for bong"),
        (dict(method="bong", samples=3, rank=3), "samples: rank and samples are two forms of bong; give one of them"),
        (dict(method="bong", samples=3, robust=3.0), "samples: robust and samples do not go together"),
        (dict(method="bong", samples=0), "samples: must be at least 1"),
        (dict(method="bong", ivon_size=3.0), "ivon_size: is nothing to method='bong'; it is for ivon"),
        (dict(ivon_betas=(0.9, 0.99)), "ivon_betas: is nothing to method='imap'; it is for ivon"),
        (dict(method="ivon", ivon_betas=(0.9, 1.0)), "ivon_betas: must be two numbers, at least 0 and below 1"),
        (dict(method="ivon", ivon_betas=0.9), "ivon_betas: must be two numbers"),
        (dict(method="ivon", ivon_size=0.0), "ivon_size: must be positive and finite"),
        (dict(method="ivon", ivon_decay=-1.0), "ivon_decay: must be at least 0 and finite"),
        (dict(method="ekf", steps=3), "steps: is nothing to method='ekf'; it is for imap, vkf, ivon"),
        (dict(method="lofi", carry=True), "carry: is nothing to method='lofi'; it is for imap, vkf, direct"),
        (dict(method="ivon", optimizer=optfilter.Adam(0.1)), "optimizer: is nothing to method='ivon'"),
        (dict(method="imap", lr=0.1), "lr: is nothing to method='imap'; it is for ivon; the rate of a rule belongs to it"),
        (dict(drift_var=0.1), "drift_var: is nothing to method='imap'; it is for vkf, pf, ekf, vdekf, bong, lofi"),
        (dict(method="direct", robust=3.0), "robust: is nothing to method='direct'; it is for ekf, vdekf, bong, lofi"),
        (dict(method="auto", steps=3), "steps: is chosen by the bank itself"),
        (dict(method="lofi", rank=0), "rank: must be at least 1"),
        (dict(method="pf", particles=0), "particles: must be at least 1"),
        (dict(method="ekf", prior_var=0.0), "prior_var: must be positive and finite, not 0.0"),
        (dict(method="ekf", noise_var=-1.0), "noise_var: must be positive"),
        (dict(method="ekf", robust=np.nan), "robust: must be positive"),
        (dict(method="ekf", drift_var=-1e-9), "drift_var: must be at least 0"),
        (dict(method="ivon", lr="fast"), "lr: must be positive"),
        (dict(method="KF"), "method: there is no 'KF'; there are imap, vkf"),
    ]:
        follower = Follower("linear", **change)
        with pytest.raises(ValueError, match=text):
            follower.partial_fit(X, y)
        assert not hasattr(follower, "_engine")
    Follower("linear", method="ekf", window=0).partial_fit(X, y)  # no window is what it has


def test_scikit_learn_clones_and_sets():
    base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed")
    X, y, _ = turning()
    follower = base.clone(Follower("linear", method="lofi", rank=3))
    assert follower.rank == 3 and follower.method == "lofi"
    follower.partial_fit(X, y)
    kept = follower._engine.weights.copy()
    follower.set_params(rank=None, method="bong").partial_fit(X[:1], y[:1])
    assert 0 < np.abs(follower._engine.weights - kept).max() < 1.0  # from the weights it had


def test_the_calibration_error_is_the_formula():
    """15 bins of the largest probability: the distances between it and the share that was right, by how many are in each."""
    X, y, time = turning(steps=40)
    follower = Follower("linear", method="ekf", drift_var=1e-3, scale=False)
    sure, right = [], []
    for t in range(40):
        rows = time == t
        if t:
            p = follower.predict_proba(X[rows])
            sure += p.max(axis=1).tolist()
            right += (p.argmax(axis=1) == y[rows]).tolist()
        follower.partial_fit(X[rows], y[rows], classes=[0, 1])
    bins = np.minimum((np.array(sure) * 15).astype(int), 14)
    off = sum(abs(np.array(sure)[bins == b].sum() - np.array(right)[bins == b].sum()) for b in range(15))
    start = Follower("linear", method="ekf", drift_var=1e-3, scale=False).partial_fit(X[:10], y[:10], classes=[0, 1])
    assert start.follow(X[10:], y[10:], time[10:]).calibration_error == pytest.approx(off / len(sure), abs=1e-6)


def test_numbers_too():
    X, _, time = turning()
    for method in ("ekf", "vdekf", "bong", "lofi", "ivon", "vkf"):
        result = follow(X, 3 * X[:, 0] - X[:, 1], time, network="linear", method=method, **CHOSEN[method])
        assert result.rmse < 2.5 and np.isnan(result.calibration_error), method


def test_three_classes_and_one_more():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.array(["a", "b", "c"])[np.argmax(np.c_[X, -X.sum(axis=1)], axis=1)]
    follower = Follower("linear", method="lofi", rank=3, drift_var=1e-4)
    assert follower.follow(X, y).accuracy > 0.8
    for row in X[:20]:
        follower.learn_one({"u": row[0], "v": row[1] + 9}, "d")
    assert follower.predict_one({"u": 0.0, "v": 9.0}) == "d" and follower.predict_proba(X).shape == (200, 4)


@pytest.mark.skipif("OPTFILTER_BINARY" not in os.environ, reason="OPTFILTER_BINARY does not name the program")
@pytest.mark.parametrize("form", sorted([*FLAGS, *FORMS]))
def test_it_is_what_the_command_line_does(tmp_path, form):
    X, y, time = turning()
    method, chosen, flags = FORMS[form] if form in FORMS else (form, CHOSEN[form], FLAGS[form])
    rows = "".join(f"{a!r},{b!r},{t},{label}\n" for (a, b), t, label in zip(X.tolist(), time.tolist(), y))
    (tmp_path / "data.csv").write_text("a,b,time,label\n" + rows)
    command = [os.environ["OPTFILTER_BINARY"], "adapt", "data.csv", "--label", "label", "--time", "time"]
    command += ["--network", "linear", "--stream", "--json", "--method", method, *flags]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    theirs = json.loads(ran.stdout)[0]
    # The program numbers classes as it meets them, and the sign of a log-odds is of its rounding.
    names = np.where(y == y[0], "first", "second")
    ours = follow(X, names, time, network="linear", method=method, **chosen)
    assert theirs["accuracy"] == pytest.approx(100 * ours.accuracy, abs=1e-9)
    assert theirs["mean_loss"] == pytest.approx(ours.mean_loss, rel=1e-6)
    assert theirs["calibration_error"] == pytest.approx(100 * ours.calibration_error, rel=1e-6)
