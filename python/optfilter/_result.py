"""What a filter returns for a whole series."""

from __future__ import annotations

from html import escape
from typing import Any, Callable, Optional

import numpy as np

from . import _core
from ._arrays import Array, to_float_array
from ._errors import DivergenceError
from ._model import Model


class FilterResult:
    """Estimates of a series, or of a batch of them (then every array has a leading axis B).

    Attributes
    ----------
    means : (T, n) array
        Estimates after each measurement.
    covariances : (T, n, n) array or None
        Their error covariances, if the filter has them; infinite while a ``diffuse`` state is unknown.
    innovations : (T, m) array
        Measurements less predictions, NaN where missing, or where a ``diffuse`` start predicts nothing.
    innovation_covariances : (T, m, m) array or None
    log_likelihoods : (T,) array or None
        Of each measurement given those before; 0 where it is missing.
    log_likelihood : float, (B,) array or None
        Of the whole series.
    nis : (T,) array or None
        Normalised innovations squared, NaN where missing; ``mean_nis`` leaves those out. NaN for counts and binary
        measurements, whose squares are not chi-square.
    flags : (T,) array of str or None
        What the command line says of each row: ok, missing, partial, outlier, bound, lost (a gate lost the track) or
        runaway (the measurement expected of the estimate is far from all measurements so far). None for batches of
        implicit filters.
    ahead : RollingForecast or None
        Forecasts from every row, if ``horizon`` asked for them.
    lagged : (T, n) array or None
        Of a filter with a window: row k as the up to L rows after it show it.
    ts : (T,) array
        Times of the measurements, as they were given.
    failures : list of (trajectory, DivergenceError)
        Trajectories that diverged, if the filter was asked not to raise.
    """

    def __init__(
        self,
        model: Model,
        arrays: dict[str, Any],
        failures: list[tuple[int, DivergenceError]],
        ts: Optional[Array],
        clock: tuple[float, float],
        later: Optional[Callable[[], Array]] = None,
        shown: Any = None,
        index: Any = None,
        ys: Optional[Array] = None,
    ) -> None:
        self.failures = failures
        self.model = model
        self.means: Array = arrays["means"]
        self.covariances: Optional[Array] = arrays.get("covariances")
        self.innovation_covariances: Optional[Array] = arrays.get("innovation_covariances")
        self.log_likelihoods: Optional[Array] = arrays.get("log_likelihoods")
        self.nis: Optional[Array] = arrays.get("nis")
        self._flags: Optional[Array] = arrays.get("flags")
        self.lagged: Optional[Array] = arrays.get("lagged")
        self._innovations: Optional[Array] = arrays.get("innovations")
        self._later = later
        self._ts = ts if shown is None else shown
        self._clock = clock
        #: The index of the pandas frame that was filtered, if it was one.
        self.index = index
        self._measured = None if ys is None else _measured(ys)

    @property
    def _bars_lost(self) -> Optional[int]:
        """The first row from which a trajectory that goes on has no covariances any more; None if all have them."""
        # Of the arrays that may be left out, the log-likelihood tells as well; a row that is missing has one.
        spread = self.covariances[..., 0, 0] if self.covariances is not None else self.log_likelihoods
        # They are lost for good, so the last row tells.
        if spread is None or not np.any(np.isnan(spread[..., -1])):
            return None
        lost = np.atleast_2d(np.isnan(spread) & ~np.isnan(self.means[..., 0]))
        lost = lost[lost[:, -1]]
        return int(np.min(np.argmax(lost, axis=-1))) if len(lost) else None

    @property
    def ts(self) -> Array:
        """The times of the measurements."""
        if self._ts is None:
            start, dt = self._clock
            self._ts = np.arange(len(self), dtype=np.float64) * dt + start
        return self._ts

    @property
    def innovations(self) -> Any:
        """Measurements less predictions; None if they were left out. (Batches of implicit filters compute them when first asked.)"""
        if self._innovations is None and self._later is not None:
            self._innovations, self._later = self._later(), None
        return self._innovations

    @property
    def flags(self) -> Optional[Array]:
        """A word for each row; empty where the filter failed before it. None for batches of implicit filters."""
        if self._flags is None:
            return None
        return np.array([*_core.FLAGS, ""])[np.nan_to_num(self._flags, nan=-1.0).astype(int)]

    @property
    def log_likelihood(self) -> Any:
        """The log-likelihood of the whole series; None if the filter has none."""
        if self.log_likelihoods is None:
            return None
        total = self.log_likelihoods.sum(axis=-1)
        return float(total) if total.ndim == 0 else total

    @property
    def stds(self) -> Optional[Array]:
        """Standard deviations of the estimates, (T, n); None if the filter has none."""
        if self.covariances is None:
            return None
        variances = np.diagonal(self.covariances, axis1=-2, axis2=-1)
        # A variance of minus rounding error is zero; any other negative one is none.
        largest = np.max(np.abs(variances), axis=-1, keepdims=True)
        rounding = (variances < 0) & (-variances <= 1e-12 * largest)
        with np.errstate(invalid="ignore"):
            return np.sqrt(np.where(rounding, 0.0, variances))

    def _errors(self, truth: Any) -> Array:
        """Estimates less the truth, on the circle where a state is an angle."""
        truth = to_float_array("truth", truth)
        if truth.shape != self.means.shape:
            raise ValueError(f"truth: must have shape {self.means.shape}, not {truth.shape}")
        errors = self.means - truth
        for i, (angle, turn) in enumerate(zip(self.model.state_angles, self.model.state_turns)):
            if angle:
                errors[..., i] -= turn * np.round(errors[..., i] / turn)
        return errors

    def rmse(self, truth: Any) -> Any:
        """Root mean squared error against the true states; one number per trajectory. Angles are compared on the circle."""
        value = np.sqrt(np.mean(self._errors(truth) ** 2, axis=(-2, -1)))
        return float(value) if value.ndim == 0 else value

    def nees(self, truth: Any) -> Array:
        """Normalised estimation errors squared, chi-square with n degrees of freedom if P is honest."""
        if self.covariances is None:
            raise ValueError("covariances: this result has none, so its errors cannot be normalised")
        error = self._errors(truth)[..., None]
        return (np.swapaxes(error, -1, -2) @ np.linalg.solve(self.covariances, error))[..., 0, 0]

    @property
    def mean_nis(self) -> float:
        """The mean of ``nis`` over the rows that were measured; m if the filter is consistent and no component missing."""
        if self.nis is None:
            raise ValueError("nis: this filter has none")
        return float(np.nanmean(self.nis))

    def nis_band(self) -> tuple[float, float]:
        """The interval that holds ``mean_nis`` with 95 % probability if the filter is consistent."""
        total, rows = self._measured or (self.model.m * len(self), len(self))
        low, high = _core.chi_square_band(total, 1)
        return low / rows, high / rows

    def __len__(self) -> int:
        return int(self.means.shape[-2])

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.means.shape))
        parts = [f"means {shape}"]
        if self.covariances is not None:
            parts.append("covariances")
        if self.log_likelihoods is not None:
            total = self.log_likelihoods.sum()
            parts.append(f"log_likelihood {total:.6g}")
        if self.failures:
            parts.append(f"{len(self.failures)} diverged")
        return f"FilterResult({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """A small table for notebooks: where the series ends, state by state."""
        stds = self.stds
        last = (0,) * (self.means.ndim - 2) + (-1,)
        return _html(self, "last row", self.model.state_names, self.means[last], None if stds is None else stds[last])

    #: Forecasts from every row, if they were asked for: an :class:`optfilter._ahead.RollingForecast`.
    ahead: Any = None

    #: The filter and what it was given, for forecasts; a pickle leaves them out.
    _source: Any = None

    def forecast(self, steps: int = 1, *, us_ahead: Any = None, dt: Optional[float] = None) -> Any:
        """What comes after the last row, as :meth:`optfilter.Filter.forecast` says it.

        >>> import optfilter
        >>> model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
        >>> result = optfilter.KalmanFilter(model).filter([1.0, None, 2.0])
        >>> result.forecast(2).stds[:, 0].round(4)
        array([1.4491, 1.6125])
        """
        if self._source is None:
            raise ValueError("forecast: a result that was pickled does not hold its filter; filter again")
        made, given, t0, first = self._source
        return made._forecast(given, steps, us_ahead, dt, t0, first)

    def __getstate__(self) -> dict[str, Any]:
        self.innovations  # a pickle cannot compute them later
        return {key: value for key, value in self.__dict__.items() if key != "_source"}

    def to_dataframe(self, library: Optional[str] = None) -> Any:
        """One row per time (and trajectory): pandas if it is installed, else polars.

        >>> import optfilter
        >>> model = optfilter.models.Growth()
        >>> data = optfilter.simulate(model, 5, seed=0)
        >>> frame = optfilter.ExtendedKalmanFilter(model).filter(data.observations).to_dataframe()
        >>> list(frame.columns)
        ['t', 'x0', 'x0_std', 'y0_innovation', 'log_likelihood', 'nis']
        """
        frame = _frame(self._columns(), library)
        if self.index is not None and self.means.ndim == 2 and hasattr(frame, "set_axis"):
            frame = frame.set_axis(self.index, axis=0)
        return frame

    def _columns(self) -> dict[str, Array]:
        """What a frame of it has, by name."""
        columns: dict[str, Array] = {}
        if self.means.ndim == 3:
            count, length = self.means.shape[:2]
            columns["trajectory"] = np.repeat(np.arange(count), length)
            columns["t"] = np.broadcast_to(self.ts, (count, length)).reshape(-1)
        else:
            columns["t"] = self.ts
        stds = self.stds
        for i, name in enumerate(self.model.state_names):
            columns[name] = self.means[..., i].reshape(-1)
            if stds is not None:
                columns[f"{name}_std"] = stds[..., i].reshape(-1)
        for i, name in enumerate(self.model.observation_names):
            if self.innovations is not None:
                columns[f"{name}_innovation"] = self.innovations[..., i].reshape(-1)
        if self.log_likelihoods is not None:
            columns["log_likelihood"] = self.log_likelihoods.reshape(-1)
        if self.nis is not None:
            columns["nis"] = self.nis.reshape(-1)
        if self.ahead is not None:
            columns.update(self.ahead._columns())
        return columns

    def plot(self, truth: Any = None, ax: Any = None, trajectory: int = 0) -> Any:
        """Draws every state with its 95 % band; returns the matplotlib axes, one per state."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install matplotlib") from None
        batch = self.means.ndim == 3
        means = self.means[trajectory] if batch else self.means
        stds = self.stds
        if stds is not None and batch:
            stds = stds[trajectory]
        ts = self.ts[trajectory] if self.ts.ndim == 2 else self.ts
        if truth is not None:
            truth = to_float_array("truth", truth)
            truth = truth[trajectory] if truth.ndim == 3 else truth
        n = means.shape[1]
        if ax is None:
            _, ax = plt.subplots(n, 1, sharex=True, squeeze=False, figsize=(8, 1.2 + 1.8 * n))
        axes = np.atleast_1d(np.asarray(ax)).reshape(-1)
        if len(axes) < n:
            raise ValueError(f"ax: {n} axes are needed, {len(axes)} were given")
        for i, name in enumerate(self.model.state_names):
            if stds is not None:
                low, high = means[:, i] - 1.96 * stds[:, i], means[:, i] + 1.96 * stds[:, i]
                axes[i].fill_between(ts, low, high, alpha=0.25, label="95 %")
            axes[i].plot(ts, means[:, i], label="estimate")
            if truth is not None:
                axes[i].plot(ts, truth[:, i], "k--", lw=1, label="truth")
            axes[i].set_ylabel(name)
        axes[n - 1].set_xlabel("t")
        axes[0].legend(loc="best", fontsize="small")
        return axes[:n]


def _measured(ys: Array) -> tuple[int, int]:
    """How many numbers were measured, and in how many rows any."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(ys.sum()):  # so nothing is missing, which is quicker to find out
            return ys.size, ys.size // max(1, ys.shape[-1])
    seen = np.sum(~np.isnan(ys), axis=-1)
    return int(seen.sum()), int(np.sum(seen > 0))


def _html(shown: Any, caption: str, names: Any, values: Any, spreads: Any) -> str:
    """A small table for notebooks: numbers by name, with what they may be off by where that is known."""
    rows = []
    for i, name in enumerate(names[:20]):
        spread = "" if spreads is None or np.isnan(spreads[i]) else f" ± {spreads[i]:.4g}"
        rows.append(f"<tr><th>{escape(name)}</th><td>{values[i]:.6g}{spread}</td></tr>")
    return f"<p>{escape(repr(shown))}</p><table><caption>{caption}</caption>{''.join(rows)}</table>"


def _frame(columns: dict[str, Any], library: Optional[str]) -> Any:
    """A data frame of whichever library is there."""
    if library not in (None, "pandas", "polars"):
        raise ValueError(f"library: must be 'pandas' or 'polars', not {library!r}")
    for name in ("pandas", "polars") if library is None else (library,):
        try:
            module = __import__(name)
        except ImportError:
            continue
        # Times with a zone come as objects; either library knows them when it looks.
        lists = {key: list(v) if getattr(v, "dtype", None) == object else v for key, v in columns.items()}
        return module.DataFrame(lists)
    raise ImportError("to_dataframe() needs pandas or polars: pip install pandas")
