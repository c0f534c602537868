"""One Adam step of the paper's network at batch 32: optfilter-nn, PyTorch and JAX in one run, on one core each.

    pip install torch jax flax optax
    cargo build --release -p optfilter-nn --example speed
    python bench/nn_peers.py target/release/examples/speed

Prints a table of milliseconds per step (median of ten rounds) and the ratios to optfilter-nn.
"""
import os
import statistics
import subprocess
import sys
import time

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")
import numpy as np

rng = np.random.default_rng(0)
x = rng.random((32, 32, 32, 1), np.float32)
y = (np.arange(32) % 2).astype(np.float32)


def median(step, count=10):
    times = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(count):
            step()
        times.append((time.perf_counter() - start) / count * 1e3)
    return statistics.median(times)


def with_torch():
    import torch
    from torch import nn

    torch.set_num_threads(1)
    layers = []
    for i in range(4):
        layers += [nn.Conv2d(1 if i == 0 else 32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 1)).to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    images = torch.tensor(x.transpose(0, 3, 1, 2)).contiguous(memory_format=torch.channels_last)
    labels = torch.tensor(y)

    def step():
        adam.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(net(images)[:, 0], labels, reduction="sum").backward()
        adam.step()

    step()
    return torch.__version__, median(step)


def with_jax():
    import flax.linen as nn
    import jax
    import optax

    class Cnn(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(4):
                x = nn.max_pool(nn.relu(nn.Conv(32, (3, 3))(x)), (2, 2), strides=(2, 2))
            return nn.Dense(1)(x.reshape((x.shape[0], -1)))[:, 0]

    model, adam = Cnn(), optax.adam(1e-3)
    params = model.init(jax.random.PRNGKey(0), x)
    state = [params, adam.init(params)]

    @jax.jit
    def update(params, opt):
        loss = lambda p: optax.sigmoid_binary_cross_entropy(model.apply(p, x), y).sum()
        change, opt = adam.update(jax.grad(loss)(params), opt, params)
        return optax.apply_updates(params, change), opt

    def step():
        state[0], state[1] = update(*state)
        jax.block_until_ready(state[0])

    step()
    return jax.__version__, median(step, 3)


def ours(program):
    out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return out, [float(line.split("Adam step ")[1].split()[0]) for line in out.splitlines() if "Adam step" in line][-1]


text, own = ours(sys.argv[1])
print(text)
rows = [("optfilter-nn", "", own)]
for name, run in (("PyTorch, channels_last", with_torch), ("JAX (flax, optax)", with_jax)):
    try:
        version, ms = run()
        rows.append((name, version, ms))
    except ImportError as e:
        print(f"{name}: {e}")
# Ours once more at the end: a machine that changed its speed in between shows here.
rows.append(("optfilter-nn, again", "", ours(sys.argv[1])[1]))
print("| engine | version | ms per step, one core | ratio |\n|---|---|---|---|")
for name, version, ms in rows:
    print(f"| {name} | {version} | {ms:.2f} | {ms / own:.1f} |")
