"""The native, the PyTorch and the JAX follower are one filter: equal over 20 steps of the paper's network, windows included."""

from __future__ import annotations

import numpy as np
import pytest

import optfilter
from optfilter.nn import Conv, Follower, MaxPool, ReLU

RULES = {
    "adam": optfilter.Adam(1e-4),
    # As in the paper's program: eps beside the root.
    "rmsprop": optfilter.RMSProp(1e-4, eps=1e-8, eps_in_sqrt=False),
}
WINDOWS = {
    "the paper's filter": dict(steps=20),
    "window, carried": dict(steps=2, window=2, discount=0.8, carry=True),
}
UPDATES = 20


def portraits(side=32):
    """Noise with labels by chance, in time steps of 4 images: gradients stay far from zero.

    Where a network is sure of its labels, `sigmoid(z) - 1` is rounding alone, and Adam and RMSprop divide gradients by their size:
    after that no two programs agree. Hence the small rates: a rate of 1e-3 learns four images by heart within 20 steps.
    """
    rng = np.random.default_rng(0)
    return rng.normal(size=(UPDATES, 4, side, side)), rng.integers(0, 2, (UPDATES, 4))


def updates_of(settings):
    """The tolerance is for 20 optimizer steps; a filter of K steps takes 20 / K time steps."""
    return UPDATES // settings["steps"]


def native(X, y, rule, settings, network="cnn"):
    follower = Follower(network, rule, task="classification", scale=False, seed=3, **settings)
    follower.partial_fit(X[0], y[0], classes=[0, 1])
    start = Follower(network, optfilter.SGD(1e-30), steps=1, task="classification", scale=False, seed=3)
    start.partial_fit(X[0], y[0], classes=[0, 1])
    for t in range(1, updates_of(settings)):
        follower.partial_fit(X[t], y[t])
    return start._engine, follower._engine


def tensors(engine):
    flat = engine.weights
    return {name: flat[at : at + int(np.prod(shape))].reshape(shape) for name, shape, at in engine.parameters}


def close(there, engine, z, X):
    """Sums are taken in another order: single precision, 20 steps on."""
    here = tensors(engine)
    off = max(float(np.abs(there[name] - here[name]).max()) for name in here)
    assert off <= 1e-5, off
    np.testing.assert_allclose(z, engine.outputs(X), atol=5e-5)  # each sums the deviations of many weights


@pytest.mark.parametrize("settings", list(WINDOWS.values()), ids=list(WINDOWS))
@pytest.mark.parametrize("rule", list(RULES.values()), ids=list(RULES))
def test_pytorch(rule, settings):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    import optfilter.torch

    X, y = portraits()
    start, end = native(X, y, rule, settings)
    layers, width = [], 1
    for _ in range(4):
        layers += [torch.nn.Conv2d(width, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        width = 32
    module = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(128, 1))
    weights = tensors(start)
    with torch.no_grad():
        for i in range(4):
            module[3 * i].weight.copy_(torch.tensor(weights[f"Conv_{i}.kernel"].transpose(3, 2, 0, 1).copy()))
            module[3 * i].bias.copy_(torch.tensor(weights[f"Conv_{i}.bias"]))
        dense = weights["Dense_0.kernel"].reshape(2, 2, 32).transpose(2, 0, 1).reshape(1, 128)
        module[13].weight.copy_(torch.tensor(dense.copy()))
        module[13].bias.copy_(torch.tensor(weights["Dense_0.bias"]))

    def loss(z, y):
        return torch.nn.functional.binary_cross_entropy_with_logits(z[:, 0], y.to(z.dtype), reduction="sum")

    follower = optfilter.torch.Follower(module, loss, rule, **settings)
    for t in range(updates_of(settings)):
        follower.partial_fit(X[t][:, None].astype("float32"), y[t])
    there = {}
    for i in range(4):
        there[f"Conv_{i}.kernel"] = module[3 * i].weight.detach().numpy().transpose(2, 3, 1, 0)
        there[f"Conv_{i}.bias"] = module[3 * i].bias.detach().numpy()
    dense = module[13].weight.detach().numpy().reshape(32, 2, 2).transpose(1, 2, 0)
    there["Dense_0.kernel"], there["Dense_0.bias"] = dense.reshape(128, 1), module[13].bias.detach().numpy()
    moved = max(float(np.abs(there[name] - weights[name]).max()) for name in weights)
    assert moved > 1e-3  # so that 1e-5 says something
    close(there, end, follower.predict(X[-1][:, None].astype("float32")).numpy(), X[-1])


@pytest.mark.parametrize("settings", list(WINDOWS.values()), ids=list(WINDOWS))
@pytest.mark.parametrize("rule", list(RULES.values()), ids=list(RULES))
def test_jax(rule, settings):
    jax = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
    optax = pytest.importorskip("optax", reason="optax is not installed: pip install optax")
    import jax.numpy as jnp

    import optfilter.jax

    X, y = portraits()
    start, end = native(X, y, rule, settings)

    def apply(params, X):
        x = X[..., None]
        for i in range(4):
            layout = jax.lax.conv_dimension_numbers(x.shape, params[f"Conv_{i}.kernel"].shape, ("NHWC", "HWIO", "NHWC"))
            x = jax.lax.conv_general_dilated(x, params[f"Conv_{i}.kernel"], (1, 1), "SAME", dimension_numbers=layout)
            x = jax.nn.relu(x + params[f"Conv_{i}.bias"])
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(len(x), -1) @ params["Dense_0.kernel"] + params["Dense_0.bias"]

    def loss(z, y):
        return optax.sigmoid_binary_cross_entropy(z[:, 0], y).sum()

    theirs = optax.adam(1e-4) if isinstance(rule, optfilter.Adam) else optax.rmsprop(1e-4, eps=1e-8, eps_in_sqrt=False)
    # In double, so that what is compared is the rounding of one program alone.
    if hasattr(jax, "enable_x64"):
        double = jax.enable_x64
    else:
        from jax.experimental import enable_x64 as double
    with double(True):
        params = {name: value.astype(float) for name, value in tensors(start).items()}
        follower = optfilter.jax.Follower(apply, params, loss, theirs, **settings)
        for t in range(updates_of(settings)):
            follower.partial_fit(X[t], y[t])
        z = np.asarray(follower.predict(X[-1]))
        close({name: np.asarray(value) for name, value in follower.params.items()}, end, z, X[-1])


def test_layers_of_any_size_are_pytorchs(tmp_path):
    """Outputs and learnt weights of convolutions with strides and borders, poolings and activations, through safetensors."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    save = pytest.importorskip("safetensors.torch", reason="safetensors is not installed").save_file
    import optfilter.torch

    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(
        nn.Conv2d(2, 5, 5, stride=2, padding=2),
        nn.ELU(),
        nn.Conv2d(5, 4, 2, padding=0),
        nn.LeakyReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6, 7),
        nn.Tanh(),
        nn.Linear(7, 3),
    )
    save(module.state_dict(), tmp_path / "torch.safetensors")
    layers = [Conv(5, 5, 2), "elu", Conv(4, 2, 1, 0), "leakyrelu", "meanpool:2", Conv(6, 3, 2), ReLU(), MaxPool(), "dense:7 tanh"]
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 6, 17, 19, 2)), rng.integers(0, 3, (5, 6))
    rule = optfilter.SGD(0.05)
    settings = dict(steps=3, window=2)
    mine = Follower(layers, rule, weights=tmp_path / "torch.safetensors", **settings)
    theirs = optfilter.torch.Follower(
        module, nn.CrossEntropyLoss(reduction="sum"), rule, reduction="sum", **settings
    )
    for t in range(5):
        mine.partial_fit(X[t], y[t], classes=[0, 1, 2] if t == 0 else None)
        theirs.partial_fit(X[t].transpose(0, 3, 1, 2).astype("float32"), y[t])
    z = theirs.predict(X[0].transpose(0, 3, 1, 2).astype("float32")).numpy()
    np.testing.assert_allclose(mine._engine.outputs(X[0]), z, atol=1e-5)


def test_weights_travel_to_flax_and_back(tmp_path):
    """Files have Flax's names: safetensors in, flax.linen computes the same, and out again."""
    nn = pytest.importorskip("flax.linen", reason="Flax is not installed: pip install flax")
    files = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    X = np.random.default_rng(0).normal(size=(8, 8, 8, 1))
    follower = Follower("conv:3 relu maxpool dense:5 tanh", steps=2).partial_fit(X, [0, 1, 2, 0, 1, 2, 0, 1])
    follower.save(tmp_path / "ours.safetensors")
    flat = files.load_file(tmp_path / "ours.safetensors")
    params: dict = {}
    for name, value in flat.items():
        layer, kind = name.split(".")
        params.setdefault(layer, {})[kind] = value

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.max_pool(nn.relu(nn.Conv(3, (3, 3))(x)), (2, 2), (2, 2))
            x = nn.tanh(nn.Dense(5)(x.reshape(len(x), -1)))
            return nn.Dense(3)(x)

    np.testing.assert_allclose(Net().apply({"params": params}, X.astype("float32")), follower._engine.outputs(X), atol=1e-5)
    again = Follower("conv:3 relu maxpool dense:5 tanh", weights=tmp_path / "ours.safetensors", steps=1, optimizer=optfilter.SGD(1e-30))
    again.partial_fit(X, [0, 1, 2, 0, 1, 2, 0, 1])
    np.testing.assert_array_equal(again._engine.weights, follower._engine.weights)
