"""optfilter.jax: the formula of the window, restarts and memory, and failures that leave the weights."""

from __future__ import annotations

import inspect
import pickle
import sys
import textwrap

import numpy as np
import pytest

import optfilter

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
optax = pytest.importorskip("optax", reason="optax is not installed: pip install optax")

import jax.numpy as jnp  # noqa: E402

import optfilter.jax as of_jax  # noqa: E402

Follower = of_jax.Follower


def apply(params, X):
    return jnp.tanh(X @ params["A"] + params["a"]) @ params["B"]


def square(z, y):
    return 0.5 * ((z - y) ** 2).sum()


def params():
    rng = np.random.default_rng(5)
    return {"A": rng.normal(size=(3, 4)) / 2, "a": np.zeros(4), "B": rng.normal(size=(4, 1)) / 2}


def stream(steps=6, sizes=(4,)):
    rng = np.random.default_rng(3)
    n = [sizes[t % len(sizes)] for t in range(steps)]
    return [(rng.normal(size=(k, 3)), rng.normal(size=(k, 1))) for k in n]


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize("sizes", [(4,), (4, 2, 5)], ids=["equal batches", "ragged batches"])
@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("window, discount", [(0, 1.0), (2, 1.0), (3, 0.7)])
def test_it_is_the_formula(window, discount, carry, sizes):
    """K steps on the discounted sum over the last L + 1 batches, written out; single precision, hence the tolerance."""
    rule = optax.adam(0.01)
    follower = Follower(apply, params(), square, rule, steps=4, window=window, discount=discount, carry=carry)
    by_hand = jax.tree.map(jnp.asarray, params())
    memory, seen = rule.init(by_hand), []
    for X, y in stream(sizes=sizes):
        seen.append((X, y))
        recent = seen[-(window + 1) :]

        def loss(p):
            return sum(discount ** (len(recent) - 1 - j) * square(apply(p, a), b) for j, (a, b) in enumerate(recent))

        memory = memory if carry else rule.init(by_hand)
        for _ in range(4):
            updates, memory = rule.update(jax.grad(loss)(by_hand), memory, by_hand)
            by_hand = optax.apply_updates(by_hand, updates)
        follower.partial_fit(X, y)
        np.testing.assert_allclose(flat(follower.params), flat(by_hand), atol=2e-6)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (optfilter.SGD(0.01), optax.sgd(0.01)),
        (optfilter.SGD(0.01, 0.9, True), optax.sgd(0.01, 0.9, True)),
        (optfilter.Adam(0.01), optax.adam(0.01)),
        (optfilter.RMSProp(0.01), optax.rmsprop(0.01)),
        (optfilter.Adagrad(0.01), optax.adagrad(0.01)),
        (optfilter.Adadelta(1.0), optax.adadelta(1.0)),
    ],
    ids=lambda v: repr(v) if isinstance(v, optfilter.optimizers.Optimizer) else "",
)
def test_our_rules_are_optaxs(ours, theirs):
    settings = dict(steps=5, window=1, carry=True)
    a, b = (Follower(apply, params(), square, rule, **settings) for rule in (ours, theirs))
    for X, y in stream():
        a.partial_fit(X, y)
        b.partial_fit(X, y)
    assert np.abs(flat(a.params) - flat(params())).max() > 1e-3
    np.testing.assert_allclose(flat(a.params), flat(b.params), atol=3e-6)


def test_compiled_or_not():
    a, b = (Follower(apply, params(), square, steps=3, window=2, jit=jit) for jit in (True, False))
    for X, y in stream():
        a.partial_fit(X, y)
        b.partial_fit(X, y)
    np.testing.assert_allclose(flat(a.params), flat(b.params), atol=1e-6)


def test_failures_leave_everything():
    follower = Follower(apply, params(), square, optax.adam(0.01), steps=3, window=1, carry=True)
    batches = stream()
    follower.partial_fit(*batches[0])
    before = pickle.dumps(follower.state_dict())
    for X, y, kind, text in [
        (np.full((2, 3), np.nan), np.zeros((2, 1)), ValueError, "X: has an entry that is not a finite"),
        (np.zeros((2, 3)), np.zeros((3, 1)), ValueError, "y: 3 labels for 2 samples"),
        (np.zeros((2, 3)), np.array([["a"], ["b"]]), ValueError, "y: must be numbers"),
        (np.zeros((2, 4)), np.zeros((2, 1)), TypeError, "shape"),
        (np.zeros((2, 3)), np.full((2, 1), 1e30), of_jax.WeightDivergenceError, "the loss left the finite numbers at update 1"),
    ]:
        with pytest.raises(kind, match=text):
            follower.partial_fit(X, y)
    assert pickle.dumps(follower.state_dict()) == before
    follower.partial_fit(batches[1][0])  # time without labels
    assert follower.updates == 1 and len(follower._batches) == 2
    with pytest.raises(ValueError, match="loss: must be one number"):
        Follower(apply, params(), lambda z, y: (z - y) ** 2).partial_fit(*batches[0])


@pytest.mark.parametrize("rule", [optfilter.RMSProp(1e-3), None])
def test_saved_and_pickled_followers_go_on(rule):
    settings = dict(optimizer=rule, steps=3, window=2, discount=0.8, carry=True)
    follower = Follower(apply, params(), square, **settings)
    for X, y in stream()[:3]:
        follower.partial_fit(X, y)
    pickled = pickle.loads(pickle.dumps(follower))
    loaded = Follower(apply, params(), square, **settings)
    loaded.load_state_dict(follower.state_dict())
    for X, y in stream()[3:]:
        for one in (follower, pickled, loaded):
            one.partial_fit(X, y)
    np.testing.assert_array_equal(flat(follower.params), flat(pickled.params))
    np.testing.assert_array_equal(flat(follower.params), flat(loaded.params))
    with pytest.raises(ValueError, match="state: its weights are"):
        loaded.load_state_dict({**follower.state_dict(), "params": {"A": np.zeros(2)}})


def test_following_is_foresight():
    rng = np.random.default_rng(0)
    X, time = rng.normal(size=(300, 3)), np.repeat(np.arange(30.0), 10)
    y = X @ [1.0, -1.0, 0.5] + time / 10
    linear = {"w": np.zeros(3), "b": np.zeros(())}
    rule = optfilter.SGD(0.02)
    follower = Follower(lambda p, X: X @ p["w"] + p["b"], linear, square, rule, steps=10, reduction="sum")
    result = follower.follow(X, y, time, progress=False)
    assert result.loss[0] == pytest.approx(0.5 * (y[:10] ** 2).mean(), rel=1e-5)
    assert result.rmse < 0.5 * np.sqrt((y**2).mean()) and np.isnan(result.accuracy)
    assert follower.score(X[-50:], y[-50:]) > 0.8
    assert "time steps=30" in repr(result)


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(steps=-1), "steps: must be at least 0"),
        (dict(discount=1.5), "discount: must be above 0"),
        (dict(task="ranking"), "task: must be"),
        (dict(reduction="max"), "reduction: must be"),
        (dict(optimizer=optfilter.CG()), "optimizer: CG"),
        (dict(optimizer=3), "optimizer: must be an optax rule"),
    ],
)
def test_wrong_settings(change, text):
    with pytest.raises(ValueError, match=text):
        Follower(apply, params(), square, **change)


def test_the_example_of_the_docstring_runs():
    text = inspect.getdoc(of_jax).partition("Example::\n")[2].rpartition("\nThe K steps are")[0]
    exec(textwrap.dedent(text), {})


def test_the_name_shadows_nothing():
    assert sys.modules["jax"] is jax and of_jax.__name__ == "optfilter.jax"
