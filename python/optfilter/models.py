"""Built-in systems, which run entirely in Rust.

>>> from optfilter import models
>>> models.Lorenz63(dt=0.02)
Lorenz63(n=3, m=3, dt=0.02)
>>> models.system("bearings").m
2
"""

from __future__ import annotations

from typing import Any, Optional

from . import _core
from ._arrays import to_float_array, whole
from ._model import Model, TextModel

__all__ = [
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
    """``x_t = F x_{t-1} + B u_t`` seen as ``H x_t``.

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
