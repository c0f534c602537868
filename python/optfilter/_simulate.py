"""Trajectories and measurements of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from . import _core
from ._arrays import Array, to_float_array, whole
from ._filter import _problem
from ._frames import acting
from ._model import Model


@dataclass(frozen=True, eq=False)
class Simulation:
    """What :func:`simulate` returns: ``ts`` (T,), ``states`` (T, n) and ``observations`` (T, m), with a
    leading axis B for a batch. ``us`` are the inputs that were given, if any."""

    ts: Array
    states: Array
    observations: Array
    us: Optional[Array] = None

    def __repr__(self) -> str:
        return f"Simulation(states {self.states.shape}, observations {self.observations.shape})"


def simulate(
    model: Model,
    steps: int,
    *,
    us: Any = None,
    batch: Optional[int] = None,
    seed: int = 0,
    first_run: int = 0,
    Q: Any = None,
    R: Any = None,
    x0: Any = None,
    P0: Any = None,
    dt: Optional[float] = None,
    predict_first: bool = False,
) -> Simulation:
    """Simulates ``steps`` rows; the first is a draw of N(x0, P0), moved by a step if ``predict_first``.

    The state scatters by Q and stays within the model's bounds, if it has any. Measurements are drawn from
    the model's likelihood: N(h(x), R) unless it has another. ``StudentT`` and ``Huber`` add noise of their
    scale (for ``Huber`` the density whose negative logarithm is Huber's loss: normal in the middle,
    exponential beyond); ``Poisson`` and ``Bernoulli`` give counts, and zeros and ones, whose mean is h(x) or,
    with a link, its exponential or logistic function.

    Trajectory ``b`` is named by ``(seed, first_run + b)``: it is the same whether it is simulated alone,
    in a batch, or on another machine.

    Parameters
    ----------
    model : Model
    steps : int
    us : array_like, optional
        Control inputs ``(steps, p)`` or ``(batch, steps, p)`` of a model that reads them.
    batch : int, optional
        How many trajectories; one without a leading axis otherwise.
    seed, first_run : int
        The names of the random streams.
    Q, R, x0, P0, dt : optional
        In place of the model's.
    predict_first : bool
        Whether the initial belief is of one step before the first row; ``ts`` then starts at ``dt``, else at 0.

    Examples
    --------
    >>> import numpy as np
    >>> import optfilter
    >>> model = optfilter.models.Lorenz63(dt=0.02)
    >>> many = optfilter.simulate(model, 50, batch=4, seed=7)
    >>> one = optfilter.simulate(model, 50, seed=7, first_run=2)
    >>> bool(np.array_equal(many.states[2], one.states))
    True

    Counts whose logarithmic rate wanders:

    >>> counts = optfilter.Model.from_expressions(
    ...     {"r": "0.9*r"}, {"c": {"equation": "r", "likelihood": "poisson", "link": "log"}}, Q=0.3)
    >>> optfilter.simulate(counts, 6, seed=1).observations[:, 0]
    array([0., 1., 1., 2., 4., 1.])
    """
    if not isinstance(model, Model):
        raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
    steps = whole("steps", steps)
    count = 1 if batch is None else whole("batch", batch)
    lead = () if batch is None else (count,)
    p = model.inputs
    if R is not None and model.likelihood is not None:
        raise ValueError(f"R: the model's likelihood {model.likelihood!r} says how measurements scatter")
    if us is None:
        if p:
            raise ValueError(f"us: the model reads {p} inputs")
    elif not p:
        raise ValueError("us: the model reads no inputs")
    else:
        us = to_float_array("us", us)
        if p == 1 and us.ndim == 1:
            us = us[:, None]
        if us.shape not in ((steps, p), (*lead, steps, p)):
            shapes = " or ".join(str(s) for s in dict.fromkeys([(steps, p), (*lead, steps, p)]))
            raise ValueError(f"us: must have shape {shapes}, not {us.shape}")
        if not np.all(np.isfinite(us)):
            raise ValueError("us: has an entry that is not a finite number")
    given = {key: value for key, value in (("Q", Q), ("R", R), ("x0", x0), ("P0", P0), ("dt", dt)) if value is not None}
    problem = _problem(model, given)
    # Nothing is measured yet, so that inputs without a value are not those of noise alone.
    moving = acting(model, np.zeros((*us.shape[:-1], model.m)), None, us) if us is not None else None
    states, observations = _core.simulate(
        model._core,
        problem,
        moving,
        bool(predict_first),
        steps,
        count,
        whole("seed", seed, 0),
        whole("first_run", first_run, 0),
    )
    ts = (np.arange(steps, dtype=np.float64) + bool(predict_first)) * problem["dt"]
    if batch is None:
        return Simulation(ts, states[0], observations[0], us)
    return Simulation(ts, states, observations, us)
