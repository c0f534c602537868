"""What all filters share: steps, whole series, copies."""

from __future__ import annotations

from typing import Any, ClassVar, Optional

import numpy as np

from . import _core
from ._arrays import (
    Array,
    compact,
    covariance,
    duration,
    optional_covariance,
    to_float_array,
    vector,
    whole,
)
from ._model import Model
from ._result import FilterResult


class Filter(_core.CoreFilter):
    """What all filters share. ``Q``, ``R``, ``x0``, ``P0`` and ``dt`` are the model's unless given.

    ``f.x`` and ``f.P`` are fresh arrays; assigning to them starts the belief anew there.
    """

    model: Model
    _arguments: dict[str, Any]
    #: Which filter of the extension it is.
    _kind: ClassVar[str] = ""

    @classmethod
    def _make(
        cls, model: Any, arguments: dict[str, Any], settings: dict[str, Any], point: bool = False
    ) -> Any:
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        given = {key: value for key, value in arguments.items() if value is not None}
        dt = duration("dt", given.get("dt", model.dt))
        x0 = vector("x0", given.get("x0", model.x0), model.n)
        noise = {key: given.get(key, value) for key, value in model._compact.items()}
        for key, size in (("Q", model.n), ("R", model.m), ("P0", model.n)):
            if noise[key] is not None:
                compact(key, noise[key], size)
        P0 = None
        if not point:  # a point estimate needs neither, and may have no room for them
            P0 = covariance("P0", noise["P0"], model.n)
            settings = {
                "Q": optional_covariance("Q", noise["Q"], model.n),
                "R": optional_covariance("R", noise["R"], model.m),
                "Q_per_time": model.Q_per_time and "Q" not in given,
                **settings,
            }
        self = super().__new__(cls, cls._kind, model._core, dt, x0, P0, settings)
        self.model = model
        self._arguments = given
        return self

    # ---- step by step

    @property
    def x(self) -> Array:
        """The estimate, an array of n numbers."""
        return _core.CoreFilter.x.__get__(self)

    @x.setter
    def x(self, value: Any) -> None:
        self.set_belief(vector("x", value, self.model.n), None)

    @property
    def P(self) -> Optional[Array]:
        """The error covariance (n, n); None for filters that have none."""
        return _core.CoreFilter.P.__get__(self)

    @P.setter
    def P(self, value: Any) -> None:
        self.set_belief(None, covariance("P", value, self.model.n))

    @property
    def t(self) -> float:
        """The time reached by ``predict``."""
        return self.clock[1]

    @property
    def k(self) -> int:
        """The number of steps taken by ``predict``."""
        return self.clock[0]

    @property
    def y(self) -> Optional[Array]:
        """The last innovation, measurement less prediction, under filterpy's name."""
        return self.innovation

    # ---- whole series

    def filter(
        self,
        ys: Any,
        ts: Any = None,
        us: Any = None,
        *,
        x0: Any = None,
        P0: Any = None,
        t0: Optional[float] = None,
        errors: str = "raise",
        first_run: int = 0,
        predict_first: bool = True,
    ) -> FilterResult:
        """Filters a whole series ``(T, m)`` or a batch ``(B, T, m)`` from ``x0``, ``P0``.

        Each measurement is preceded by a prediction. The state that ``predict`` and ``update`` move is
        neither read nor changed, so any number of threads may call this at once. A batch runs on all
        cores without holding the interpreter's lock.

        Parameters
        ----------
        ys : array_like
            Measurements; NaN or None is a missing number. With m = 1, ``(T,)`` will do.
        ts : array_like, optional
            Times ``(T,)`` or ``(B, T)``, not decreasing; steps of ``dt`` otherwise.
        us : array_like, optional
            Control inputs ``(T, p)`` or ``(B, T, p)``.
        x0, P0 : array_like, optional
            Where to start: one for all, or one per trajectory.
        t0 : float, optional
            The time of ``x0``; one step of ``dt`` before the first measurement otherwise.
        errors : {"raise", "nan"}
            Whether a trajectory that diverges raises :class:`optfilter.Divergence`, or has NaN from there
            on and is listed in ``result.failures``.
        first_run : int
            The number of the first trajectory, which names the random streams of a particle filter.
        predict_first : bool
            Whether a prediction precedes the first measurement too. With False, ``x0`` and ``P0`` are of the
            first measurement's own time (0 without ``ts``), as in the command line's ``filter``.

        Examples
        --------
        >>> import optfilter
        >>> model = optfilter.models.Growth()
        >>> data = optfilter.simulate(model, 100, batch=8, seed=1)
        >>> result = optfilter.ExtendedKalmanFilter(model).filter(data.observations)
        >>> result.means.shape, result.covariances.shape, result.log_likelihood.shape
        ((8, 100, 1), (8, 100, 1, 1), (8,))
        """
        if errors not in ("raise", "nan"):
            raise ValueError(f"errors: must be 'raise' or 'nan', not {errors!r}")
        model = self.model
        n, m = model.n, model.m
        ys = to_float_array("ys", ys)
        if m == 1 and ys.ndim == 1:
            ys = ys[:, None]
        if ys.ndim not in (2, 3) or ys.shape[-1] != m:
            raise ValueError(f"ys: must have shape (T, {m}) or (B, T, {m}), not {ys.shape}")
        *lead, length, _ = ys.shape
        if ys.size == 0:
            raise ValueError("ys: is empty")
        if ts is not None:
            ts = _fitting("ts", ts, lead, (length,))
            if not np.all(np.isfinite(ts)):
                raise ValueError("ts: has an entry that is not a finite number")
        if us is not None:
            us = to_float_array("us", us)
            if model.inputs == 1 and us.ndim == 1:
                us = us[:, None]
            us = _fitting("us", us, lead, (length, model.inputs))
        if x0 is not None:
            x0 = to_float_array("x0", x0)
            x0 = np.full(n, float(x0)) if x0.ndim == 0 else x0
            x0 = _fitting("x0", x0, lead, (n,))
        if P0 is not None:
            P0 = to_float_array("P0", P0)
            P0 = covariance("P0", P0, n) if P0.ndim < 2 else P0
            P0 = _fitting("P0", P0, lead, (n, n))
        dt = self._arguments.get("dt", model.dt)
        if not predict_first and ts is None:
            ts = np.arange(length, dtype=np.float64) * dt
        first_run = whole("first_run", first_run, 0)
        arrays, failures = self.run(
            ys, ts, us, x0, P0, t0, errors == "nan", first_run, not predict_first
        )
        later = None
        if "innovations" not in arrays:
            means = arrays["means"]

            def later() -> Array:
                return self.innovations_of(means, ys, ts, us, x0, t0)

        return FilterResult(model, arrays, failures, ts, dt, later)

    # ---- pickling, copying, showing

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.model, self._arguments, self.save())

    def __copy__(self) -> Any:
        return _rebuild(type(self), self.model, self._arguments, self.save())

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def copy(self) -> Any:
        """A filter with a belief of its own, equal to this one's."""
        return self.__copy__()

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={_short(v)}" for k, v in self._arguments.items())
        state = np.array2string(self.x, precision=4, threshold=6, separator=", ")
        return f"{type(self).__name__}({self.model!r}{', ' if shown else ''}{shown}) at k={self.k}, x={state}"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, threshold=6, separator=", ").replace("\n", "")
    return getattr(value, "__name__", None) or repr(value)


def _rebuild(kind: Any, model: Model, arguments: dict[str, Any], saved: Any) -> Any:
    made = kind(model, **arguments)
    made.load(saved)
    return made


def _fitting(name: str, value: Any, lead: list[int], shape: tuple[int, ...]) -> Array:
    """An array for every trajectory, or one for all."""
    array = to_float_array(name, value)
    if array.shape == shape or array.shape == (*lead, *shape):
        return array
    shapes = [shape] if not lead else [shape, (*lead, *shape)]
    raise ValueError(f"{name}: must have shape {' or '.join(map(str, shapes))}, not {array.shape}")
