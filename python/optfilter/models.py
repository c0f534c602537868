"""Built-in systems, which run entirely in Rust.

>>> from optfilter import models
>>> models.Lorenz63(dt=0.02)
Lorenz63(n=3, m=3, dt=0.02)
>>> models.system("bearings").m
2
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from . import _core
from ._arrays import covariance, duration, to_float_array, whole
from ._model import Model, TextModel

__all__ = [
    "ContinuousLinear",
    "Growth",
    "Linear",
    "Lorenz63",
    "Lorenz96",
    "Model",
    "RandomWalk",
    "TextModel",
    "system",
    "systems",
]


class _BuiltIn(Model):
    def _set(self, core: _core.CoreModel, recipe: dict[str, Any], defaults: dict[str, Any], given: dict[str, Any]) -> None:
        settings: dict[str, Any] = {
            "dt": 1.0,
            "Q": 1.0,
            "R": 1.0,
            "Q_per_time": False,
            "x0": 0.0,
            "P0": 1.0,
            "diffuse": (),
            "likelihood": None,
            "bounds": None,
            "name": type(self).__name__,
            **defaults,
        }
        for key, value in given.items():
            if key not in settings:
                raise ValueError(f"{key}: not a setting of {type(self).__name__}")
            settings[key] = value
        self._recipe = recipe
        self._finish(core, **settings)


class Growth(_BuiltIn):
    """The univariate growth system: ``x/2 + 25 x/(1 + x^2) + 8 cos(1.2 t)``, seen as ``x^2/20``.

    >>> import optfilter
    >>> optfilter.models.Growth(Q=3.0, R=2.0)
    Growth(n=1, m=1, dt=0.1)
    """

    def __init__(self, *, dt: float = 0.1, Q: Any = 3.0, R: Any = 2.0, **settings: Any) -> None:
        self._set(_core.CoreModel.growth(), {}, {}, {"dt": dt, "Q": Q, "R": R, **settings})


class Lorenz63(_BuiltIn):
    """Lorenz's three equations of 1963, seen in full; ``Q`` is per unit of time by default."""

    def __init__(
        self,
        *,
        dt: float = 0.02,
        sigma: float = 10.0,
        rho: float = 28.0,
        beta: float = 8.0 / 3.0,
        method: str = "rk4",
        substeps: int = 1,
        Q: Any = 1.0,
        R: Any = 4.0,
        **settings: Any,
    ) -> None:
        recipe = dict(sigma=sigma, rho=rho, beta=beta, method=method, substeps=substeps)
        core = _core.CoreModel.lorenz63(sigma, rho, beta, method, whole("substeps", substeps))
        defaults = {"x0": [1.0, 1.0, 20.0], "P0": 9.0, "Q_per_time": True}
        self._set(core, recipe, defaults, {"dt": dt, "Q": Q, "R": R, **settings})


class Lorenz96(_BuiltIn):
    """Lorenz's equations of 1996 on a circle of ``n`` points, seen in full."""

    def __init__(
        self,
        n: int = 40,
        *,
        dt: float = 0.05,
        forcing: float = 8.0,
        method: str = "rk4",
        substeps: int = 1,
        Q: Any = 0.25,
        R: Any = 1.0,
        **settings: Any,
    ) -> None:
        recipe = dict(n=n, forcing=forcing, method=method, substeps=substeps)
        core = _core.CoreModel.lorenz96(whole("n", n), forcing, method, whole("substeps", substeps))
        defaults = {"x0": 2.0, "P0": 4.0, "Q_per_time": True}
        self._set(core, recipe, defaults, {"dt": dt, "Q": Q, "R": R, **settings})


class RandomWalk(_BuiltIn):
    """A Gaussian random walk in ``n`` dimensions seen directly."""

    def __init__(self, n: int = 1, *, dt: float = 1.0, Q: Any = 1.0, R: Any = 1.0, **settings: Any) -> None:
        core = _core.CoreModel.random_walk(whole("n", n))
        self._set(core, dict(n=n), {}, {"dt": dt, "Q": Q, "R": R, **settings})


class Linear(_BuiltIn):
    """``x_t = F x_{t-1} + B u_t`` seen as ``H x_t``: every row is one step; for irregular times there is
    :class:`ContinuousLinear`.

    >>> import optfilter
    >>> optfilter.models.Linear(F=[[1.0, 0.1], [0.0, 1.0]], H=[[1.0, 0.0]], Q=0.01, R=0.5)
    Linear(n=2, m=1, dt=1)
    """

    def __init__(
        self,
        F: Any,
        H: Any,
        B: Optional[Any] = None,
        *,
        dt: float = 1.0,
        Q: Any = 1.0,
        R: Any = 1.0,
        **settings: Any,
    ) -> None:
        F, H = to_float_array("F", F), to_float_array("H", H)
        F, H = (a.reshape(1, 1) if a.ndim == 0 else a.copy() for a in (F, H))
        B = None if B is None else to_float_array("B", B).copy()
        self.F, self.H, self.B = F, H, B
        core = _core.CoreModel.linear(F, H, B)
        self._set(core, dict(F=F, H=H, B=B), {}, {"dt": dt, "Q": Q, "R": R, **settings})


class ContinuousLinear(_BuiltIn):
    """``dx = (A x + B u) dt + L dw`` seen as ``H x``, discretised exactly over a step of any length.

    ``Qc`` is the spectral density of the white noise ``w`` (a matrix, variances, or one for all), ``L`` says where it enters
    (everywhere unless given). ``Q``, per unit of time, is ``L Qc L'``, and can be given in their place. Inputs are held over
    a step. Rows at irregular times, and several at one time, are what this is for.

    >>> import optfilter
    >>> model = optfilter.models.ContinuousLinear(
    ...     A=[[0.0, 1.0], [-4.0, -0.6]], H=[[1.0, 0.0]], L=[[0.0], [1.0]], Qc=0.5, R=0.04, x0=[1.0, 0.0], P0=0.5, dt=0.3)
    >>> f = optfilter.KalmanFilter(model)
    >>> f.filter([1.1, 0.7, 0.9, -0.4, 0.05], ts=[0.0, 0.3, 0.3, 1.1, 4.0]).means[-1].round(9)
    array([ 0.03460167, -0.62964517])
    """

    def __init__(
        self,
        A: Any,
        H: Any,
        B: Optional[Any] = None,
        *,
        L: Optional[Any] = None,
        Qc: Any = None,
        dt: float = 1.0,
        Q: Any = None,
        R: Any = 1.0,
        **settings: Any,
    ) -> None:
        A, H = to_float_array("A", A), to_float_array("H", H)
        A, H = (a.reshape(1, 1) if a.ndim == 0 else a.copy() for a in (A, H))
        B = None if B is None else to_float_array("B", B).copy()
        self.A, self.H, self.B = A, H, B
        core = _core.CoreModel.linear(A, H, B, duration("dt", dt))
        if Q is None:
            n = core.dims[0]
            L = np.eye(n) if L is None else to_float_array("L", L)
            if L.ndim != 2 or L.shape[0] != n:
                raise ValueError(f"L: must have {n} rows like A, not shape {L.shape}")
            Q = L @ covariance("Qc", 1.0 if Qc is None else Qc, L.shape[1]) @ L.T
        elif L is not None or Qc is not None:
            raise ValueError("Q: is L Qc L'; give either Q or L and Qc")
        self._set(core, dict(A=A, H=H, B=B), {"Q_per_time": True}, {"dt": dt, "Q": Q, "R": R, **settings})


def systems() -> list[str]:
    """The names that :func:`system` knows.

    >>> import optfilter
    >>> "pendulum" in optfilter.models.systems()
    True
    """
    return [name for name, _ in _core.built_in_systems()]


def system(name: str, **changes: Any) -> TextModel:
    """A built-in system of the model language by its name."""
    for known, text in _core.built_in_systems():
        if known == name:
            return TextModel(text, f"{name}.toml", **changes)
    raise ValueError(f"name: there is no system {name!r}; there are {', '.join(systems())}")
