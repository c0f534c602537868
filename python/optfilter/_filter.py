"""What all filters share: steps, whole series, copies."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Optional

import numpy as np

from . import _core, _many, likelihoods, optimizers
from ._ahead import Forecast, Given, RollingForecast, SmoothResult, regular
from ._arrays import Array, box, compact, covariance, duration, to_float_array, vector, whole
from ._frames import acting, read
from ._model import Model
from ._result import FilterResult
from ._settings import to_json

#: The arrays of a result that may be left out.
_ARRAYS = ("covariances", "innovations", "innovation_covariances", "log_likelihoods", "nis", "flags")

#: Arguments that say of what, not which filter.
_PROBLEM = ("Q", "R", "x0", "P0", "dt", "likelihood", "bounds", "prior_cov")


class Filter(_core.CoreFilter):
    """What all filters share. ``Q``, ``R``, ``x0``, ``P0`` and ``dt`` are the model's unless given.

    ``f.x`` and ``f.P`` are fresh arrays; assigning to them starts the belief anew there. Assigning to ``f.Q`` or
    ``f.R`` changes the noise from then on. Assign whole arrays: those that are read are copies, and read-only. Any other
    name that a filter does not have is an error. Copies and pickles keep the belief, the clock and what the last
    measurement left (``z``, ``y``, ``S``, ``K``, ``x_prior``, ``P_prior``).
    """

    __slots__ = ("__weakref__", "_arguments", "_model")

    _model: Model
    _arguments: dict[str, Any]
    #: Mean and covariance before the last measurement, its inputs, and the step it was taken in; the engine's.
    _met: Any
    #: The name of the filter in model files and on the command line.
    method: ClassVar[str] = ""

    @classmethod
    def _make(cls, model: Any, arguments: dict[str, Any]) -> Any:
        """A filter from its arguments: settings of the engine, and the parts of the problem."""
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        given, settings, rule = _split(arguments)
        if cls.method:
            settings["method"] = cls.method
        text = to_json(settings)
        try:
            stated = ("Q" in given, "R" in given)
            self = super().__new__(cls, model._core, text, {**_problem(model, given), "given": stated}, rule)
        except ValueError as error:
            # The engine names the method where filter and model do not fit; here the model is the argument.
            raise ValueError(re.sub("^method: ", "model: ", str(error))) from None
        self._model = model
        self._arguments = given
        return self

    @property
    def model(self) -> Model:
        """The model; a filter of another one is another filter."""
        return self._model

    @staticmethod
    def _fitted(model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the filter named: the one that fits, by the engine's own choice."""
        given, settings, rule = _split(arguments)
        if rule is not None or not isinstance(model, Model):
            return {**arguments, "method": "imap"}
        named = _core.fit_spec(model._core, to_json(settings), _problem(model, given))
        return {**json.loads(named), **arguments}

    # ---- step by step

    @property
    def x(self) -> Array:
        """The estimate, a read-only array of n numbers; assign a whole one to start anew there."""
        return _core.CoreFilter.x.__get__(self)

    @x.setter
    def x(self, value: Any) -> None:
        self.set_belief(vector("x", value, self.model.n), None)

    @property
    def P(self) -> Optional[Array]:
        """The error covariance (n, n), read-only; None for filters that have none. Assign a whole one to start anew with it."""
        return _core.CoreFilter.P.__get__(self)

    @P.setter
    def P(self, value: Any) -> None:
        self.set_belief(None, covariance("P", value, self.model.n))

    @property
    def Q(self) -> Optional[Array]:
        """The process noise (n, n) in use, read-only; None if there is none. Assign a whole one to change it."""
        value = self._arguments.get("Q", self.model._compact["Q"])
        return None if value is None else _fixed(covariance("Q", value, self.model.n))

    @Q.setter
    def Q(self, value: Any) -> None:
        value = compact("Q", value, self.model.n)
        self.set_noise(value, None)
        self._arguments = {**self._arguments, "Q": value}

    @property
    def R(self) -> Optional[Array]:
        """The measurement noise (m, m) in use, read-only; None if there is none. Assign a whole one to change it.

        Under a likelihood with its own scale (Student's t, counts) most filters do not read it, and refuse to take one.
        """
        value = self._arguments.get("R", self.model._compact["R"])
        return None if value is None else _fixed(covariance("R", value, self.model.m))

    @R.setter
    def R(self, value: Any) -> None:
        value = compact("R", value, self.model.m)
        self.set_noise(None, value)
        self._arguments = {**self._arguments, "R": value}

    def update(self, y: Any = None, u: Any = None, R: Any = None) -> None:
        """Improves the belief by a measurement; None or NaN is a missing one. ``R`` is this measurement's own."""
        _core.CoreFilter.update(self, y, u, None if R is None else compact("R", R, self.model.m))

    @property
    def t(self) -> float:
        """The time reached by ``predict``."""
        return self.clock[1]

    @property
    def k(self) -> int:
        """The number of the row reached, from 1; 0 before the first."""
        return self.clock[0]

    @property
    def y(self) -> Optional[Array]:
        """The last innovation, measurement less prediction, under filterpy's name."""
        return self.innovation

    @property
    def x_prior(self) -> Optional[Array]:
        """The estimate after the last ``predict``; None before the first."""
        prior = self.prior
        return None if prior is None else prior[0]

    @property
    def P_prior(self) -> Optional[Array]:
        """The covariance after the last ``predict``; None before the first, or if there is none."""
        prior = self.prior
        return None if prior is None else prior[1]

    @property
    def K(self) -> Optional[Array]:
        """The gain (n, m) of the last update, P H' S^-1 with the belief before it, of filters that linearise; None for
        others. A component that was missing has zeros. It stays until the next update."""
        S, met = self.S, self._met
        if self.method not in ("kf", "ekf", "iekf") or self.form or S is None or met is None:
            return None
        x, P, u, step = met
        seen = ~np.isnan(np.diagonal(S))
        H = self.model._core.evaluate("h", x, u if self.model.inputs else None, step, True)
        gain = np.zeros((self.model.n, self.model.m))
        gain[:, seen] = np.linalg.solve(S[np.ix_(seen, seen)], H[seen] @ P).T
        return gain

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
        predict_first: Optional[bool] = None,
        covariances: bool = True,
        only: Optional[Sequence[str]] = None,
        horizon: Optional[int] = None,
        by: Optional[str] = None,
    ) -> Any:
        """Filters a whole series ``(T, m)`` or a batch ``(B, T, m)`` from ``x0``, ``P0``.

        The initial belief is of the first measurement's own time, so nothing is predicted before it, unless
        ``predict_first`` or ``t0`` says otherwise. The state that ``predict`` and ``update`` move is neither read nor
        changed, so any number of threads may call this at once. A batch runs on all cores without holding the
        interpreter's lock.

        Parameters
        ----------
        ys : array_like or data frame
            Measurements; NaN or None is a missing number. With m = 1, ``(T,)`` will do. The columns of a frame (pandas,
            polars, Arrow) are found by the model's names.
        ts : array_like, optional
            Times ``(T,)`` or ``(B, T)``, not decreasing: numbers, or times of a calendar; steps of ``dt`` otherwise.
        us : array_like, optional
            Control inputs ``(T, p)`` or ``(B, T, p)``: those of a row act on the step that ends at it, unless ``[inputs]`` of the
            model file says otherwise (``hold = "previous"`` or ``"mean"``).
        x0, P0 : array_like, optional
            Where to start: one for all, or one per trajectory.
        t0 : float, optional
            The time of ``x0``, not after the first measurement, which is then predicted.
        errors : {"raise", "nan"}
            Whether a trajectory that diverges raises :class:`optfilter.DivergenceError`, or has NaN from there
            on and is listed in ``result.failures``.
        first_run : int
            The number of the first trajectory, which names the random streams of a particle filter.
        predict_first : bool, optional
            Whether a prediction precedes the first measurement too; the filter's own setting unless given.
        covariances : bool
            Whether the result holds covariances, which take most of its memory.
        only : sequence of str, optional
            The arrays that the result holds besides ``means``, of ``covariances``, ``innovations``,
            ``innovation_covariances``, ``log_likelihoods``, ``nis`` and ``flags``; all unless given. The others are None,
            and take neither time nor memory.
        horizon : int, optional
            Forecasts from every row, so many rows ahead, as ``result.ahead``: a :class:`RollingForecast`. Each is, to the bit, what
            :meth:`forecast` says of the series up to its row (with inputs as they were at the row).
        by : str, optional
            The column of a frame that names the series of each row. Every series is filtered by itself, rows may come in any
            order, and the result is a frame of the same library with the same rows: that of
            :meth:`FilterResult.to_dataframe` with the name after the time.

        Returns
        -------
        FilterResult, or a frame with ``by``

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
        wanted = _wanted(only)
        if by is not None:
            if wanted is not None:
                raise ValueError("only: is for arrays; the columns of a frame are chosen from the result")
            call: dict[str, Any] = dict(x0=x0, P0=P0, t0=t0, errors=errors, first_run=first_run)
            call.update(predict_first=predict_first, covariances=covariances, horizon=horizon)
            groups = _many.split(self.model, ys, ts, us, by)
            return _many.along_rows(self, groups, lambda *rows: self.filter(*rows, **call))
        model = self.model
        given = self._read(ys, ts, us, x0, P0)
        ys, ts, us, x0, P0 = given.arrays
        first_run = whole("first_run", first_run, 0)
        first = self.predicts_first if predict_first is None else bool(predict_first)
        arrays, failures = self.run(
            ys, ts, us, x0, P0, t0, errors == "nan", first_run, first, bool(covariances), wanted
        )
        later = None
        if "innovations" not in arrays and (wanted is None or "innovations" in wanted):
            means = arrays["means"]

            def later() -> Array:
                return self.innovations_of(means, ys, ts, us, x0, t0, first)

        dt = self._arguments.get("dt", model.dt)
        start = dt if first and t0 is None else 0.0
        result = FilterResult(model, arrays, failures, ts, (start, dt), later, given.shown, given.index, ys)
        result._source = (self, given, t0, first)
        row = result._bars_lost if self.method == "imap" else None
        if row is not None:
            message = (
                f"no standard deviations from row {row + 1} on (index {row}): these steps enlarge errors; "
                "try a smaller learning rate"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        if horizon is not None:
            rows = whole("horizon", horizon, 1)
            ahead = self.horizon_arrays(rows, ys, ts, us, x0, P0, t0, first_run, first)
            result.ahead = RollingForecast(model, ahead, ys.ndim == 2)
        return result

    def _read(self, ys: Any, ts: Any, us: Any, x0: Any, P0: Any) -> Given:
        """The arguments of a whole series as arrays of the right shapes."""
        model = self.model
        n, m = model.n, model.m
        ys, ts, us, shown, index = read(model, ys, ts, us)
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
            us = acting(model, ys, ts, _fitting("us", us, lead, (length, model.inputs)))
        if x0 is not None:
            x0 = to_float_array("x0", x0)
            x0 = np.full(n, float(x0)) if x0.ndim == 0 else x0
            x0 = _fitting("x0", x0, lead, (n,))
        if P0 is not None:
            P0 = to_float_array("P0", P0)
            P0 = covariance("P0", P0, n) if P0.ndim < 2 else P0
            P0 = _fitting("P0", P0, lead, (n, n))
        return Given((ys, ts, us, x0, P0), shown, index)

    def smooth(
        self,
        ys: Any,
        ts: Any = None,
        us: Any = None,
        *,
        x0: Any = None,
        P0: Any = None,
        t0: Optional[float] = None,
        first_run: int = 0,
        predict_first: Optional[bool] = None,
        by: Optional[str] = None,
    ) -> Any:
        """Estimates by all rows, also those after each: a :class:`SmoothResult`; arguments as for :meth:`filter`.

        Kalman, extended, iterated and unscented filters are smoothed by Rauch, Tung and Striebel; particles by as many
        trajectories drawn backwards; an implicit filter takes the whole series as one window, by conjugate gradients
        unless it was given an optimizer, and lets the path bend as far as ``Q`` says. Where measurements do not scatter by a
        Gaussian, all of them but particles look for the path of the highest posterior density by weighing the measurements over
        and over (``search`` of the result). The others have no smoother.

        Examples
        --------
        >>> import optfilter
        >>> model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
        >>> smoothed = optfilter.KalmanFilter(model).smooth([1.0, None, 2.0])
        >>> smoothed.means[:, 0].round(4), smoothed.stds[:, 0].round(4)
        (array([0.8, 1.1, 1.4]), array([0.6325, 0.7746, 0.7746]))
        """
        if by is not None:
            call: dict[str, Any] = dict(x0=x0, P0=P0, t0=t0, first_run=first_run, predict_first=predict_first)
            groups = _many.split(self.model, ys, ts, us, by)
            return _many.along_rows(self, groups, lambda *rows: self.smooth(*rows, **call))
        given = self._read(ys, ts, us, x0, P0)
        first = self.predicts_first if predict_first is None else bool(predict_first)
        run = whole("first_run", first_run, 0)
        arrays = self.smooth_arrays(*given.arrays, t0, run, first)
        return SmoothResult(self.model, arrays, given, self._clock_of(first, t0))

    def forecast(
        self,
        ys: Any,
        steps: int = 1,
        ts: Any = None,
        us: Any = None,
        *,
        us_ahead: Any = None,
        dt: Optional[float] = None,
        x0: Any = None,
        P0: Any = None,
        t0: Optional[float] = None,
        predict_first: Optional[bool] = None,
        by: Optional[str] = None,
    ) -> Any:
        """Filters a series and predicts ``steps`` rows beyond it: a :class:`Forecast`; arguments as for :meth:`filter`.

        Parameters
        ----------
        steps : int
            Rows to predict.
        us_ahead : array_like, optional
            Their inputs ``(steps, p)``, for a model that reads any.
        dt : float, optional
            The time between them: that of ``ts`` if it is regular, else the model's.
        by : str, optional
            The column of a frame that names the series of each row; the result is then a frame with ``steps`` rows for each
            series, one series after the other.

        Examples
        --------
        >>> import optfilter
        >>> model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
        >>> ahead = optfilter.KalmanFilter(model).forecast([1.0, None, 2.0], steps=2)
        >>> ahead.means[:, 0].round(4), ahead.intervals[1, 0, 2].round(4)
        (array([1.4, 1.4]), array([-1.7603,  4.5603]))
        """
        if by is not None:
            call: dict[str, Any] = dict(us_ahead=us_ahead, dt=dt, x0=x0, P0=P0, t0=t0, predict_first=predict_first)
            groups = _many.split(self.model, ys, ts, us, by)
            return _many.one_by_one(groups, lambda ys, ts, us: self.forecast(ys, steps, ts, us, **call))
        given = self._read(ys, ts, us, x0, P0)
        first = self.predicts_first if predict_first is None else bool(predict_first)
        return self._forecast(given, steps, us_ahead, dt, t0, first)

    def _forecast(
        self, given: Given, steps: int, us_ahead: Any, dt: Optional[float], t0: Optional[float], first: bool
    ) -> Forecast:
        steps = whole("steps", steps)
        start, usual = self._clock_of(first, t0)
        ts = given.arrays[1]
        if dt is None:
            dt = usual if ts is None else regular(ts, usual)
        dt = duration("dt", dt)
        if us_ahead is not None:
            us_ahead = to_float_array("us_ahead", us_ahead)
            us_ahead = us_ahead[:, None] if us_ahead.ndim == 1 else us_ahead
        arrays = self.forecast_arrays(steps, dt, us_ahead, *given.arrays, t0, first)
        last = start + (given.arrays[0].shape[-2] - 1) * usual
        return Forecast(self.model, arrays, given, (last, dt))

    def _clock_of(self, first: bool, t0: Optional[float]) -> tuple[float, float]:
        """The time of the first row where rows have none, and the step."""
        dt = self._arguments.get("dt", self.model.dt)
        return (dt if first and t0 is None else 0.0), dt

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
        form = f" ({self.form})" if self.form else ""
        state = np.array2string(self.x, precision=4, threshold=6, separator=", ")
        return f"{type(self).__name__}({self.model!r}{', ' if shown else ''}{shown}){form} at k={self.k}, x={state}"


def _wanted(only: Any) -> Optional[list[str]]:
    """The names of the arrays that a result is to hold; None for all."""
    if only is None:
        return None
    names = [only] if isinstance(only, str) else list(only)
    for name in names:
        if name not in ("means", "lagged", *_ARRAYS):
            raise ValueError(f"only: there is no {name!r}; known: means, {', '.join(_ARRAYS)}")
    return [*names, "lagged"]


def _split(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """What is given; the settings among it, as the engine names them; an optimizer that has no name."""
    given = {key: value for key, value in arguments.items() if value is not None}
    settings = {key: value for key, value in given.items() if key not in _PROBLEM}
    rule = None
    if "optimizer" in settings:
        named, rule = optimizers.spec(settings.pop("optimizer"))
        settings.update(named)
    return given, settings, rule


def _problem(model: Model, given: dict[str, Any]) -> dict[str, Any]:
    """What is to be filtered: the model's own noise and start, unless given."""
    parts = {key: given.get(key, value) for key, value in model._compact.items()}
    for key, size in (("Q", model.n), ("R", model.m), ("P0", model.n)):
        if parts[key] is not None:
            parts[key] = compact(key, parts[key], size)
    likelihood = given.get("likelihood", model.likelihood)
    if callable(likelihood) and not isinstance(likelihood, likelihoods.Likelihood):
        likelihood = likelihoods.LogProb(likelihood)
    if likelihood is not None and not isinstance(likelihood, likelihoods.Likelihood):
        raise ValueError(f"likelihood: must be one of optfilter.likelihoods or a function, not {likelihood!r}")
    sides = box(given.get("bounds", model.bounds), model.n)
    prior = given.get("prior_cov")
    return {
        **parts,
        "Q_per_time": model.Q_per_time,
        "dt": duration("dt", given.get("dt", model.dt)),
        "x0": vector("x0", given.get("x0", model.x0), model.n),
        # A covariance that is given is meant.
        "diffuse": () if "P0" in given else model.diffuse,
        "likelihood": None if likelihood is None else likelihood._spec(model.m),
        "bounds": sides and tuple(side.tolist() for side in sides),
        "prior_cov": None if prior is None else compact("prior_cov", prior, model.n),
    }


def _fixed(array: Array) -> Array:
    """A copy that cannot be written to: an entry that is assigned in it would be lost without a word."""
    array = array.copy()
    array.flags.writeable = False
    return array


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, threshold=6, separator=", ").replace("\n", "")
    return getattr(value, "__name__", None) or repr(value)


def _rebuild(kind: Any, model: Model, arguments: dict[str, Any], saved: Any) -> Any:
    made = kind._make(model, arguments)
    made.load(saved)
    return made


def _fitting(name: str, value: Any, lead: list[int], shape: tuple[int, ...]) -> Array:
    """An array for every trajectory, or one for all."""
    array = to_float_array(name, value)
    if array.shape == shape or array.shape == (*lead, *shape):
        return array
    shapes = [shape] if not lead else [shape, (*lead, *shape)]
    raise ValueError(f"{name}: must have shape {' or '.join(map(str, shapes))}, not {array.shape}")
