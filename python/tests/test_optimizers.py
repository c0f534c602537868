"""Optimizers: optax's names, and rules written in Python."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import optfilter
from optfilter import optimizers

ALL = [
    optimizers.SGD(0.1),
    optimizers.SGD(0.1, momentum=0.8),
    optimizers.SGD(0.1, momentum=0.8, nesterov=True),
    optimizers.Adam(0.1, b1=0.8),
    optimizers.RMSProp(0.1, decay=0.5),
    optimizers.RMSProp(0.1, eps_in_sqrt=False),
    optimizers.Adagrad(0.1),
    optimizers.Adadelta(1.0),
    optimizers.Preconditioned([[0.2]]),
]


@pytest.mark.parametrize("rule", ALL, ids=repr)
def test_optimizers_are_values(rule):
    assert pickle.loads(pickle.dumps(rule)) == rule == copy.deepcopy(rule)
    assert hash(copy.copy(rule)) == hash(rule)
    assert eval(repr(rule), vars(optimizers)) == rule


def test_names_of_optax():
    assert optimizers.adam(learning_rate=0.2) == optimizers.Adam(0.2)
    assert optimizers.sgd(learning_rate=0.2, momentum=0.9) == optimizers.SGD(0.2, 0.9)
    assert optimizers.rmsprop(learning_rate=0.2) == optimizers.RMSProp(0.2)
    assert optimizers.adagrad(learning_rate=0.2) == optimizers.Adagrad(0.2)
    assert optimizers.adadelta() == optimizers.Adadelta()


def python_adam(lr, b1=0.9, b2=0.999, eps=1e-8):
    """Adam by its definition, in NumPy."""

    def rule(x, g, state):
        k, m, v = state if state is not None else (0, np.zeros_like(x), np.zeros_like(x))
        k, m, v = k + 1, b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        step = lr * (m / (1 - b1**k)) / (np.sqrt(v / (1 - b2**k)) + eps)
        return x - step, (k, m, v)

    return rule


@pytest.mark.parametrize("carry", [False, True])
def test_a_python_rule_equals_the_rust_one(carry):
    model = optfilter.models.Lorenz63()
    ys = optfilter.simulate(model, 30, batch=3, seed=0).observations
    ours = optfilter.ImplicitMAP(model, optfilter.Adam(0.1), 10, carry=carry, error_bars=False).filter(ys)
    theirs = optfilter.ImplicitMAP(model, python_adam(0.1), 10, carry=carry).filter(ys)
    # The same sums in another order, over 30 steps of a chaotic system.
    np.testing.assert_allclose(theirs.means, ours.means, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(theirs.innovations, ours.innovations, rtol=1e-7, atol=1e-7)


def test_a_transformation_in_the_manner_of_optax():
    class Descent:
        def init(self, params):
            return 0

        def update(self, gradient, state, params):
            return -0.1 * gradient, state + 1

    model = optfilter.models.Growth()
    ys = optfilter.simulate(model, 20, seed=0).observations
    ours = optfilter.ImplicitMAP(model, optfilter.SGD(0.1), 5).filter(ys)
    theirs = optfilter.ImplicitMAP(model, Descent(), 5).filter(ys)
    np.testing.assert_allclose(theirs.means, ours.means, rtol=1e-12)


def test_python_rules_that_fail():
    model = optfilter.models.Growth()

    def raising(x, g, state):
        raise LookupError("no step today")

    with pytest.raises(LookupError, match="no step today"):
        optfilter.ImplicitMAP(model, raising, 5).filter(np.ones((3, 1)))
    with pytest.raises(ValueError, match="^optimizer: must return the pair"):
        optfilter.ImplicitMAP(model, lambda x, g, s: x, 5).filter(np.ones((3, 1)))
    with pytest.raises(ValueError, match="^optimizer: x has 1 numbers and became 2"):
        optfilter.ImplicitMAP(model, lambda x, g, s: (np.ones(2), s), 5).filter(np.ones((3, 1)))
    with pytest.raises(ValueError, match="^error_bars: .*optimizer that can be differentiated"):
        optfilter.ImplicitMAP(model, raising, 5, error_bars=True)


def test_a_python_rule_serves_the_variational_filter():
    model = optfilter.models.Growth()
    ys = optfilter.simulate(model, 10, seed=0).observations
    ours = optfilter.VariationalKalmanFilter(model, 1.0, optfilter.Adam(0.1), 20).filter(ys)
    theirs = optfilter.VariationalKalmanFilter(model, 1.0, python_adam(0.1), 20).filter(ys)
    np.testing.assert_allclose(theirs.means, ours.means, rtol=1e-8, atol=1e-8)


def test_a_python_rule_carried_in_the_middle_of_a_series_pickles():
    model = optfilter.models.Growth()
    ys = optfilter.simulate(model, 20, seed=0).observations
    f = optfilter.ImplicitMAP(model, SlowAdam(), 5, carry=True)
    for y in ys[:10]:
        f.predict()
        f.update(y)
    others = [pickle.loads(pickle.dumps(f)), copy.deepcopy(f)]
    for g in (f, *others):
        for y in ys[10:]:
            g.predict()
            g.update(y)
    for g in others:
        assert np.array_equal(g.x, f.x)


class SlowAdam:
    """A rule that pickle can name."""

    def __call__(self, x, g, state):
        return python_adam(0.1)(x, g, state)
