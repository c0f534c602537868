"""optfilter.torch: the formula of the window, restarts and memory, and failures that leave the weights."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
import textwrap

import numpy as np
import pytest

import optfilter

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

import optfilter.torch as of_torch  # noqa: E402

Follower = of_torch.Follower


def square(z, y):
    return 0.5 * ((z - y) ** 2).sum()


def net(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)).double()


def stream(steps=6, n=4):
    rng = np.random.default_rng(3)
    return [(rng.normal(size=(n, 3)), rng.normal(size=(n, 1))) for _ in range(steps)]


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()]).numpy().copy()


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("window, discount", [(0, 1.0), (2, 1.0), (3, 0.7)])
def test_it_is_the_formula(window, discount, carry):
    """K steps on the discounted sum over the last L + 1 batches, written out with one graph."""
    module, by_hand = net(), net()
    follower = Follower(
        module, square, torch.optim.Adam, lr=0.01, steps=4, window=window, discount=discount, carry=carry
    )
    seen, adam = [], torch.optim.Adam(by_hand.parameters(), lr=0.01)
    for X, y in stream():
        seen.append((torch.tensor(X), torch.tensor(y)))
        if not carry:
            adam = torch.optim.Adam(by_hand.parameters(), lr=0.01)
        for _ in range(4):
            adam.zero_grad()
            recent = seen[-(window + 1) :]
            loss = sum(discount ** (len(recent) - 1 - j) * square(by_hand(a), b) for j, (a, b) in enumerate(recent))
            loss.backward()
            adam.step()
        follower.partial_fit(X, y)
        np.testing.assert_allclose(weights(module), weights(by_hand), atol=1e-13)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (optfilter.SGD(0.01), lambda p: torch.optim.SGD(p, lr=0.01)),
        (optfilter.SGD(0.01, 0.9), lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9)),
        (optfilter.SGD(0.01, 0.9, True), lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True)),
        (optfilter.Adam(0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
        (optfilter.RMSProp(0.01, eps_in_sqrt=False), lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9)),
        (optfilter.Adadelta(1.0), lambda p: torch.optim.Adadelta(p, lr=1.0)),
        (
            optfilter.Adagrad(0.01, eps=0.0),
            lambda p: torch.optim.Adagrad(p, lr=0.01, initial_accumulator_value=0.1, eps=0.0),
        ),
    ],
    ids=lambda v: repr(v) if isinstance(v, optfilter.optimizers.Optimizer) else "",
)
def test_our_rules_are_pytorchs(ours, theirs):
    settings = dict(steps=5, window=1, carry=True)
    a, b = Follower(net(), square, ours, **settings), Follower(net(), square, theirs, **settings)
    start = weights(a.module)
    for X, y in stream():
        a.partial_fit(X, y)
        b.partial_fit(X, y)
    # PyTorch's Adadelta has another eps.
    tolerance = 1e-3 if isinstance(ours, optfilter.Adadelta) else 1e-12
    assert np.abs(weights(a.module) - start).max() > 10 * tolerance
    np.testing.assert_allclose(weights(a.module), weights(b.module), atol=tolerance)


def test_a_rule_that_needs_a_closure():
    follower = Follower(net(), square, torch.optim.LBFGS, lr=0.5, steps=3, window=2)
    X, y = stream()[0]
    before = float(square(follower.predict(X), torch.tensor(y)))
    follower.partial_fit(X, y)
    assert float(square(follower.predict(X), torch.tensor(y))) < before


def test_time_without_labels_ages_the_window():
    X, y = stream()[0]
    a = Follower(net(), square, optfilter.SGD(0.01), steps=1, window=2, discount=0.5)
    a.partial_fit(X, y)
    before = weights(a.module)
    a.partial_fit(X)  # nothing was labelled
    np.testing.assert_array_equal(weights(a.module), before)
    assert a.updates == 1
    X2, y2 = stream()[1]
    a.partial_fit(X2, y2)
    b = net()
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(torch.tensor(before), b.parameters())
    loss = 0.25 * square(b(torch.tensor(X)), torch.tensor(y)) + square(b(torch.tensor(X2)), torch.tensor(y2))
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(b.parameters()))]).numpy()
    np.testing.assert_allclose(weights(a.module), before - 0.01 * gradient, atol=1e-14)


@pytest.mark.parametrize(
    "X, y, text",
    [
        (np.full((2, 3), np.nan), np.zeros((2, 1)), "X: has an entry that is not a finite number"),
        (np.zeros((2, 3)), np.full((2, 1), np.inf), "y: has an entry that is not a finite number"),
        (np.zeros((2, 3)), np.zeros((3, 1)), "y: 3 labels for 2 samples"),
        (np.zeros((2, 3)), np.array([["a"], ["b"]]), "y: must be numbers"),
    ],
)
def test_bad_input_leaves_everything(X, y, text):
    follower = Follower(net(), square, optfilter.Adam(0.01), steps=2, window=2, carry=True)
    follower.partial_fit(*stream()[0])
    before = pickle.dumps([weights(follower.module), follower.updates, len(follower._batches)])
    with pytest.raises(ValueError, match=text):
        follower.partial_fit(X, y)
    assert pickle.dumps([weights(follower.module), follower.updates, len(follower._batches)]) == before


@pytest.mark.parametrize("carry", [False, True])
def test_a_failure_in_the_middle_leaves_everything(carry):
    """A wrong width and a loss that overflows are only noticed while learning."""
    batches = stream()
    module = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 1)).double()
    follower = Follower(module, square, torch.optim.Adam, lr=0.01, steps=3, window=1, carry=carry)
    follower.partial_fit(*batches[0])
    untouched = copy.deepcopy(follower)
    with pytest.raises(RuntimeError, match="shapes"):
        follower.partial_fit(np.zeros((2, 4)), np.zeros((2, 1)))
    with pytest.raises(of_torch.WeightDivergenceError, match="the loss left the finite numbers at update 1") as caught:
        follower.partial_fit(batches[1][0], np.full((4, 1), 1e200))
    assert isinstance(caught.value, optfilter.DivergenceError) and pickle.loads(pickle.dumps(caught.value)).index == 1
    for name, value in untouched.module.state_dict().items():  # running means of the normalisation included
        assert torch.equal(value, follower.module.state_dict()[name]), name
    for other in (follower, untouched):
        other.partial_fit(*batches[1])
    np.testing.assert_array_equal(weights(follower.module), weights(untouched.module))


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, optfilter.RMSProp(1e-3)])
def test_saved_and_pickled_followers_go_on(optimizer):
    follower = Follower(net(), square, optimizer, steps=3, window=2, discount=0.8, carry=True)
    for X, y in stream()[:3]:
        follower.partial_fit(X, y)
    pickled = pickle.loads(pickle.dumps(follower))
    loaded = Follower(net(7), square, optimizer, steps=3, window=2, discount=0.8, carry=True)
    loaded.load_state_dict(copy.deepcopy(follower.state_dict()))
    for X, y in stream()[3:]:
        for one in (follower, pickled, loaded):
            one.partial_fit(X, y)
    np.testing.assert_array_equal(weights(follower.module), weights(pickled.module))
    np.testing.assert_array_equal(weights(follower.module), weights(loaded.module))
    assert loaded.updates == 6
    with pytest.raises(ValueError, match="state: lacks memory"):
        loaded.load_state_dict({"module": {}, "window": [], "updates": 0})


def test_following_is_foresight():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)).astype("float32")
    time = np.repeat(np.arange(30.0), 20)
    y = (X[:, 0] * np.cos(time / 8) + X[:, 1] * np.sin(time / 8) > 0).astype("int64")
    torch.manual_seed(0)
    module = torch.nn.Linear(2, 2)
    settings = dict(steps=10, window=1, carry=True, lr=0.05)
    follower = Follower(module, torch.nn.functional.cross_entropy, torch.optim.Adam, **settings)
    first = torch.nn.functional.cross_entropy(module(torch.tensor(X[:20])), torch.tensor(y[:20])).item()
    result = follower.follow(X, y, time)
    assert result.loss[0] == pytest.approx(first) and len(result) == 30 and result.n.tolist() == [20] * 30
    assert result.accuracy > 0.8 and result.mean_loss < 0.5 and np.isnan(result.rmse)
    static = Follower(copy.deepcopy(module), torch.nn.functional.cross_entropy, torch.optim.Adam, steps=0)
    late = static.follow(X[:300], y[:300], time[:300])
    assert result.level(5).shape == (30,) and late.accuracy < result.accuracy
    np.testing.assert_array_equal(follower.score(X, y), (follower.predict(X).argmax(1).numpy() == y).mean())


def test_several_inputs_and_frozen_parameters():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(2, 1), torch.nn.Linear(3, 1)

        def forward(self, u, v):
            return self.a(u) + self.b(v)

    module = Two()
    module.a.weight.requires_grad_(False)
    frozen = module.a.weight.clone()
    follower = Follower(module, square, steps=2)
    X = (np.ones((4, 2)), np.ones((4, 3)))
    follower.partial_fit(X, np.zeros((4, 1)))
    assert torch.equal(module.a.weight, frozen) and follower.predict({"u": X[0], "v": X[1]}).shape == (4, 1)
    result = follower.follow(X, np.zeros((4, 1)), every=2)
    assert len(result) == 2 and np.isfinite(result.rmse)
    with pytest.raises(ValueError, match="different numbers of samples"):
        follower.partial_fit((np.ones((4, 2)), np.ones((3, 3))), np.zeros((4, 1)))


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(steps=-1), "steps: must be at least 0"),
        (dict(window=1.5), "window: must be a whole number"),
        (dict(discount=0.0), "discount: must be above 0"),
        (dict(task="ranking"), "task: must be"),
        (dict(reduction="max"), "reduction: must be"),
        (dict(optimizer=optfilter.CG()), "optimizer: CG"),
        (dict(optimizer=3), "optimizer: must be a class"),
        (dict(optimizer=optfilter.Adam(0.1), lr=0.1), "lr: a rule of optfilter"),
    ],
)
def test_wrong_settings(change, text):
    with pytest.raises(ValueError, match=text):
        Follower(net(), square, **change)
    with pytest.raises(ValueError, match="module: must be"):
        Follower(lambda x: x, square)


def test_a_loss_that_is_no_number():
    follower = Follower(net(), lambda z, y: (z - y) ** 2)
    with pytest.raises(ValueError, match="loss: must be one number"):
        follower.partial_fit(*stream()[0])


def test_the_example_of_the_docstring_runs():
    text = inspect.getdoc(of_torch).partition("Example::\n")[2].rpartition("\nPyTorch is imported")[0]
    exec(textwrap.dedent(text), {})


def test_the_name_shadows_nothing():
    assert sys.modules["torch"] is torch and of_torch.__name__ == "optfilter.torch"
