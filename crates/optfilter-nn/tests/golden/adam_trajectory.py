"""Twenty Adam steps of the paper's network in JAX (flax, optax), double precision.

    pip install jax==0.10.2 flax==0.12.8 optax==0.2.8
    python adam_trajectory.py > adam_trajectory.json

Images and weights come from formulas that the Rust test repeats, so that only results are stored. The flat weight
vector is the one of `ravel_pytree`, which shows that both sides order the weights alike.
"""
import json

import jax

jax.config.update("jax_enable_x64", True)
import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(4):
            x = nn.max_pool(nn.relu(nn.Conv(32, (3, 3), param_dtype=jnp.float64)(x)), (2, 2), strides=(2, 2))
        return nn.Dense(1, param_dtype=jnp.float64)(x.reshape((x.shape[0], -1)))[:, 0]


n = 32
sample, row, column = np.meshgrid(np.arange(n), np.arange(32), np.arange(32), indexing="ij")
y = (np.arange(n) * 5 // 3) % 2
# Waves whose steepness tells the class: a task with something to learn, so that single precision can follow too.
x = (0.5 + 0.5 * np.sin(0.3 * row * (1 + y[sample]) + 0.2 * column + sample))[..., None]

model = Cnn()
params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 32, 32, 1)))
flat, unravel = ravel_pytree(params)
w = jnp.asarray(0.1 * np.sin(12.9898 * np.arange(1, flat.size + 1)))


def loss(w):
    return optax.sigmoid_binary_cross_entropy(model.apply(unravel(w), x), y).sum()


adam = optax.adam(1e-3)
state = adam.init(w)
step = jax.jit(jax.value_and_grad(loss))
rows = []
for _ in range(20):
    value, g = step(w)
    rows.append({"loss": float(value), "gradient_norm": float(jnp.linalg.norm(g))})
    update, state = adam.update(g, state, w)
    w = optax.apply_updates(w, update)
final = [float(v) for v in w[::701]]
print(json.dumps({"weights": int(flat.size), "steps": rows, "every": 701, "final": final}, indent=1))
