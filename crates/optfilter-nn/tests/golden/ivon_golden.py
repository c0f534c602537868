"""Makes ivon.json: twelve steps of the authors' program on linear regression, with the normal numbers it drew.

In a throw-away environment, for `ivon-opt` is GPL and no dependency of anything here:

    python -m venv /some/where && /some/where/bin/pip install torch ivon-opt==0.1.3 numpy
    /some/where/bin/python ivon_golden.py > ivon.json
"""

import json

import ivon
import numpy
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(4)
generator = numpy.random.default_rng(5)
x = generator.normal(size=(10, 3))
y = 0.3 + x @ [-1.0, 2.0, 0.5] + 0.2 * generator.normal(size=10)
start = [0.1, 0.2, -0.3, 0.4]  # bias first, as the network lays its weights out
w = torch.nn.Parameter(torch.tensor(start))
optimizer = ivon.IVON([w], lr=0.2, ess=50.0, hess_init=0.7, beta1=0.9, beta2=0.98, weight_decay=0.01)
inputs = torch.tensor(numpy.column_stack([numpy.ones(10), x]))
steps = []
for _ in range(12):
    group = optimizer.param_groups[0]
    std = 1 / (group["ess"] * (group["hess"] + group["weight_decay"])).sqrt()
    before = w.data.clone()
    with optimizer.sampled_params(train=True):
        normal = ((w.data - before) / std).tolist()
        optimizer.zero_grad()
        (0.5 * (inputs @ w - torch.tensor(y)).square().mean()).backward()
    optimizer.step()
    group = optimizer.param_groups[0]
    std = 1 / (group["ess"] * (group["hess"] + group["weight_decay"])).sqrt()
    steps.append({"normal": normal, "mean": w.tolist(), "std": std.tolist()})
print(json.dumps({"x": x.ravel().tolist(), "y": y.tolist(), "start": start, "steps": steps}))
