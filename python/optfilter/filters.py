"""Filters: step by step (``predict``, ``update``, ``x``, ``P``) or over whole series (``filter``).

>>> import optfilter
>>> model = optfilter.models.Growth(Q=3.0, R=2.0)
>>> f = optfilter.ImplicitMAP(model, optimizer=optfilter.Adam(lr=0.1), steps=50)
>>> f.predict()
>>> f.update(4.0)
>>> f.x.shape
(1,)
>>> f.update(None)   # a missing measurement changes nothing
"""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy as np

from . import _core, likelihoods, optimizers
from ._arrays import Array, covariance, optional_covariance, to_float_array, vector, whole
from ._model import Model
from ._result import FilterResult

__all__ = [
    "ExtendedKalmanFilter",
    "Filter",
    "ImplicitMAP",
    "IteratedEKF",
    "KalmanFilter",
    "ParticleFilter",
    "UnscentedKF",
    "VariationalKF",
]

_DEFAULT_OPTIMIZER = optimizers.Adam(lr=0.1)


class Filter(_core.CoreFilter):
    """What all filters share. ``Q``, ``R``, ``x0``, ``P0`` and ``dt`` are the model's unless given.

    ``f.x`` and ``f.P`` are fresh arrays; assigning to them starts the belief anew there.
    """

    model: Model
    _arguments: dict[str, Any]

    @classmethod
    def _make(cls, model: Any, arguments: dict[str, Any], settings: dict[str, Any]) -> Any:
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        given = {key: value for key, value in arguments.items() if value is not None}
        dt = given.get("dt", model.dt)
        x0 = vector("x0", given.get("x0", model.x0), model.n)
        P0 = covariance("P0", given.get("P0", model.P0), model.n)
        settings = {
            "Q": optional_covariance("Q", given.get("Q", model.Q), model.n),
            "R": optional_covariance("R", given.get("R", model.R), model.m),
            "Q_per_time": model.Q_per_time and "Q" not in given,
            **settings,
        }
        kind = next(c.__name__ for c in cls.__mro__ if c.__module__ == __name__)
        self = super().__new__(cls, kind, model._core, float(dt), x0, P0, settings)
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
        n, m, p = self.model.n, self.model.m, self.model.inputs
        ys = to_float_array("ys", ys)
        if m == 1 and ys.ndim == 1:
            ys = ys[:, None]
        if ys.ndim not in (2, 3) or ys.shape[-1] != m:
            raise ValueError(f"ys: must have shape (T, {m}) or (B, T, {m}), not {ys.shape}")
        single = ys.ndim == 2
        if single:
            ys = ys[None]
        count, length = ys.shape[:2]
        if length == 0 or count == 0:
            raise ValueError("ys: is empty")
        if ts is not None:
            ts = to_float_array("ts", ts)
            _check_shape("ts", ts, [(length,)] if single else [(length,), (count, length)])
            if not np.all(np.isfinite(ts)):
                raise ValueError("ts: has an entry that is not a finite number")
        if us is not None:
            us = to_float_array("us", us)
            if p == 1 and us.ndim == 1:
                us = us[:, None]
            _check_shape("us", us, [(length, p)] if single else [(length, p), (count, length, p)])
        if x0 is not None:
            x0 = to_float_array("x0", x0)
            x0 = np.full(n, float(x0)) if x0.ndim == 0 else x0
            _check_shape("x0", x0, [(n,)] if single else [(n,), (count, n)])
        if P0 is not None:
            P0 = to_float_array("P0", P0)
            if P0.ndim < 2:
                P0 = covariance("P0", P0, n)
            _check_shape("P0", P0, [(n, n)] if single else [(n, n), (count, n, n)])
        if not predict_first and ts is None:
            ts = np.arange(length, dtype=np.float64) * self._arguments.get("dt", self.model.dt)
        lenient, first_run = errors == "nan", whole("first_run", first_run, 0)
        arrays = self.run(ys, ts, us, x0, P0, t0, lenient, first_run, not predict_first)
        later = None
        if "innovations" not in arrays:
            means = arrays["means"]

            def later() -> Array:
                return self.innovations_of(means, ys, ts, us, x0, t0)

        return FilterResult(self.model, arrays, single, ts, self._arguments.get("dt", self.model.dt), later)

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


def _check_shape(name: str, array: Array, shapes: list[tuple[int, ...]]) -> None:
    if array.shape not in shapes:
        raise ValueError(f"{name}: must have shape {' or '.join(map(str, shapes))}, not {array.shape}")


class KalmanFilter(Filter):
    """The Kalman filter of :class:`optfilter.models.Linear`, exact there.

    >>> import optfilter
    >>> model = optfilter.models.Linear(F=1.0, H=1.0, Q=0.1, R=1.0)
    >>> f = optfilter.KalmanFilter(model)
    >>> f.predict(); f.update(2.0)
    >>> f.x.round(3), f.P.round(3)
    (array([1.048]), array([[0.524]]))
    """

    def __new__(
        cls,
        model: Model,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        return cls._make(model, dict(Q=Q, R=R, x0=x0, P0=P0, dt=dt), {})


class ExtendedKalmanFilter(Filter):
    """The extended Kalman filter: the model linearised at the estimate, by exact derivatives."""

    def __new__(
        cls,
        model: Model,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        return cls._make(model, dict(Q=Q, R=R, x0=x0, P0=P0, dt=dt), {})


class IteratedEKF(Filter):
    """The iterated extended Kalman filter: ``iterations`` linearisations per measurement."""

    def __new__(
        cls,
        model: Model,
        iterations: int = 5,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        arguments = dict(iterations=whole("iterations", iterations), Q=Q, R=R, x0=x0, P0=P0, dt=dt)
        return cls._make(model, arguments, {"iterations": arguments["iterations"]})


class UnscentedKF(Filter):
    """The unscented Kalman filter, with van der Merwe's ``alpha``, ``beta``, ``kappa``.

    The defaults are Julier's points, ``alpha = 1``, ``beta = 0``, ``kappa = 3 - n``.
    """

    def __new__(
        cls,
        model: Model,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        kappa: Optional[float] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        n = getattr(model, "n", 1)
        spread = 3.0 - n if kappa is None else float(kappa)
        arguments = dict(alpha=alpha, beta=beta, kappa=kappa, Q=Q, R=R, x0=x0, P0=P0, dt=dt)
        return cls._make(model, arguments, {"points": (float(alpha), float(beta), spread)})


class ParticleFilter(Filter):
    """The bootstrap particle filter.

    ``resampling`` is "systematic", "stratified", "residual" or "multinomial", after every measurement or,
    with ``threshold``, when the effective sample size falls below that fraction of the particles. The
    result depends on ``seed`` and on nothing else.
    """

    def __new__(
        cls,
        model: Model,
        particles: int = 1000,
        *,
        seed: int = 0,
        resampling: str = "systematic",
        threshold: Optional[float] = None,
        likelihood: Union[likelihoods.Likelihood, str, None] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        arguments = dict(
            particles=whole("particles", particles),
            seed=whole("seed", seed, 0),
            resampling=resampling,
            threshold=threshold,
            likelihood=likelihood,
            Q=Q,
            R=R,
            x0=x0,
            P0=P0,
            dt=dt,
        )
        seen = likelihood or model.likelihood or "gaussian"
        settings = dict(
            particles=arguments["particles"],
            seed=arguments["seed"],
            resampling=resampling,
            threshold=threshold,
            likelihood=likelihoods.coerce(seen, model.R if R is None else R, model.m),
        )
        return cls._make(model, arguments, settings)

    @property
    def particles(self) -> Array:
        """The particles, (count, n)."""
        arrays = self.particle_arrays()
        assert arrays is not None
        return arrays[0]

    @property
    def weights(self) -> Array:
        """Their weights, which sum to one."""
        arrays = self.particle_arrays()
        assert arrays is not None
        return arrays[1]


class ImplicitMAP(Filter):
    """The implicit MAP filter: an optimizer and a number of steps are the filter.

    Each measurement is followed by ``steps`` steps of ``optimizer`` on its negative log-likelihood, started
    at the prediction. Neither Q nor R is read, unless ``error_bars`` asks for a covariance.

    Parameters
    ----------
    model : Model
    optimizer : optfilter.optimizers.Optimizer or callable
        A callable is ``rule(x, gradient, state) -> (x, state)``; an optax transformation works too.
    steps : int
        Steps per measurement.
    likelihood : optfilter.likelihoods.Likelihood, "squared" or "gaussian", optional
        The model's own, or else the squared error of the paper (R = I).
    carry : bool
        Whether the optimizer's state is carried from one measurement to the next; the paper restarts it.
    bounds : (lower, upper), optional
        A box that the state is kept in.
    error_bars : bool
        Also carry an error covariance, by differentiating through the optimizer's steps.

    Examples
    --------
    >>> import optfilter
    >>> model = optfilter.models.Lorenz63(dt=0.02)
    >>> data = optfilter.simulate(model, 200, seed=3)
    >>> f = optfilter.ImplicitMAP(model, optimizer=optfilter.SGD(lr=0.05), steps=5, error_bars=True)
    >>> result = f.filter(data.observations)
    >>> bool(result.rmse(data.states) < 2.0)
    True
    >>> result.covariances.shape
    (200, 3, 3)
    """

    def __new__(
        cls,
        model: Model,
        optimizer: optimizers.OptimizerLike = _DEFAULT_OPTIMIZER,
        steps: int = 50,
        *,
        likelihood: Union[likelihoods.Likelihood, str, None] = None,
        carry: bool = False,
        bounds: Any = None,
        error_bars: bool = False,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        arguments = dict(
            optimizer=optimizer,
            steps=whole("steps", steps),
            likelihood=likelihood,
            carry=carry or None,
            bounds=bounds,
            error_bars=error_bars or None,
            Q=Q,
            R=R,
            x0=x0,
            P0=P0,
            dt=dt,
        )
        box = model.bounds if bounds is None else bounds
        if box is not None:
            lower, upper = box
            box = (vector("bounds", lower, model.n).tolist(), vector("bounds", upper, model.n).tolist())
        settings = dict(
            optimizer=optimizers.spec(optimizer),
            steps=arguments["steps"],
            likelihood=likelihoods.coerce(
                likelihood or model.likelihood, model.R if R is None else R, model.m
            ),
            carry=bool(carry),
            bounds=box,
            error_bars=bool(error_bars),
        )
        return cls._make(model, arguments, settings)


class VariationalKF(Filter):
    """The variational Kalman filter: like the implicit one, with an explicit prior around each prediction.

    ``prior_cov`` is that prior's covariance: a matrix, a vector of variances or one variance.
    """

    def __new__(
        cls,
        model: Model,
        prior_cov: Any = 1.0,
        optimizer: optimizers.OptimizerLike = _DEFAULT_OPTIMIZER,
        steps: int = 200,
        *,
        likelihood: Union[likelihoods.Likelihood, str, None] = None,
        R: Any = None,
        x0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        arguments = dict(
            prior_cov=prior_cov,
            optimizer=optimizer,
            steps=whole("steps", steps),
            likelihood=likelihood,
            R=R,
            x0=x0,
            dt=dt,
        )
        settings = dict(
            prior_cov=covariance("prior_cov", prior_cov, model.n),
            optimizer=optimizers.spec(optimizer),
            steps=arguments["steps"],
            likelihood=likelihoods.coerce(
                likelihood or model.likelihood or ("squared" if R is None and model.R is None else "gaussian"),
                model.R if R is None else R,
                model.m,
            ),
        )
        return cls._make(model, arguments, settings)
