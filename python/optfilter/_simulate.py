"""Trajectories and measurements of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from . import _core
from ._arrays import Array, covariance, vector, whole
from ._model import Model


@dataclass(frozen=True)
class Simulation:
    """What :func:`simulate` returns: ``ts`` (T,), ``states`` (T, n) and ``observations`` (T, m), with a
    leading axis B for a batch."""

    ts: Array
    states: Array
    observations: Array

    def __repr__(self) -> str:
        return f"Simulation(states {self.states.shape}, observations {self.observations.shape})"


def simulate(
    model: Model,
    steps: int,
    *,
    batch: Optional[int] = None,
    seed: int = 0,
    first_run: int = 0,
    Q: Any = None,
    R: Any = None,
    x0: Any = None,
    P0: Any = None,
    dt: Optional[float] = None,
) -> Simulation:
    """Simulates ``steps`` steps with Gaussian noise, from a draw of N(x0, P0).

    Trajectory ``b`` is named by ``(seed, first_run + b)``: it is the same whether it is simulated alone,
    in a batch, or on another machine.

    >>> import numpy as np
    >>> import optfilter
    >>> model = optfilter.models.Lorenz63(dt=0.02)
    >>> many = optfilter.simulate(model, 50, batch=4, seed=7)
    >>> one = optfilter.simulate(model, 50, seed=7, first_run=2)
    >>> bool(np.array_equal(many.states[2], one.states))
    True
    """
    if not isinstance(model, Model):
        raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
    if model.likelihood is not None:
        raise ValueError("model: only models with Gaussian measurement noise can be simulated")
    steps = whole("steps", steps)
    count = 1 if batch is None else whole("batch", batch)
    for name, value in (("Q", Q if Q is not None else model.Q), ("R", R if R is not None else model.R)):
        if value is None:
            raise ValueError(f"{name}: simulation needs it")
    dt = model.dt if dt is None else float(dt)
    states, observations = _core.simulate(
        model._core,
        (
            covariance("Q", model.Q if Q is None else Q, model.n),
            covariance("R", model.R if R is None else R, model.m),
            model.Q_per_time and Q is None,
        ),
        vector("x0", model.x0 if x0 is None else x0, model.n),
        covariance("P0", model.P0 if P0 is None else P0, model.n),
        dt,
        steps,
        count,
        whole("seed", seed, 0),
        whole("first_run", first_run, 0),
    )
    ts = np.arange(1, steps + 1, dtype=np.float64) * dt
    if batch is None:
        return Simulation(ts, states[0], observations[0])
    return Simulation(ts, states, observations)
