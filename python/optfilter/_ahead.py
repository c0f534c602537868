"""What comes back from smoothing and forecasting a whole series."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Optional

import numpy as np

from ._arrays import Array
from ._model import Model
from ._result import _frame, _html


class Given(NamedTuple):
    """What a whole series was given as."""

    #: ys, ts, us, x0, P0
    arrays: tuple[Array, Optional[Array], Optional[Array], Optional[Array], Optional[Array]]
    #: The times as they were given, if they are not ``ts`` itself.
    shown: Any
    #: The index of a pandas frame.
    index: Any


def regular(ts: Array, usual: float) -> float:
    """The step of times if nine of ten are alike, else the usual one.

    >>> import numpy as np
    >>> regular(np.array([0.0, 0.5, 1.0, 1.0, 1.5]), 1.0), regular(np.array([0.0, 0.1, 5.0]), 1.0)
    (0.5, 1.0)
    """
    steps = np.sort(np.diff(ts, axis=-1).reshape(-1))
    steps = steps[steps > 0]
    if not len(steps):
        return usual
    middle = float(steps[len(steps) // 2])
    alike = np.sum(np.abs(steps - middle) <= 1e-6 * middle)
    return middle if 10 * alike >= 9 * len(steps) else usual


def _stds(covariances: Optional[Array]) -> Optional[Array]:
    if covariances is None:
        return None
    return np.sqrt(np.maximum(np.diagonal(covariances, axis1=-2, axis2=-1), 0.0))


class SmoothResult:
    """Estimates of a series by all of its rows, or of a batch of them (then every array has a leading axis B).

    Attributes
    ----------
    means : (T, n) array
        Smoothed estimates.
    covariances : (T, n, n) array or None
        Their error covariances, if the smoother has them.
    filtered_means, filtered_covariances : arrays or None
        What the filter had said, by the rows up to each.
    search : list of (passes, loss, is_global), or None
        For each series, how the path of the highest posterior density was found, where measurements do not scatter by a
        Gaussian: passes over the series, minus the log posterior density of the path (less what does not depend on it), and
        whether it is known to be the best of all paths, or only better than its neighbours.
    ts : (T,) array
        Times of the measurements, as they were given.
    """

    def __init__(self, model: Model, arrays: dict[str, Any], given: Given, clock: tuple[float, float]) -> None:
        single = given.arrays[0].ndim == 2

        def get(name: str) -> Any:
            array = arrays.get(name)
            return array[0] if single and array is not None else array

        self.model = model
        self.means: Array = get("means")
        self.covariances: Optional[Array] = get("covariances")
        self.filtered_means: Array = get("filtered_means")
        self.filtered_covariances: Optional[Array] = get("filtered_covariances")
        self.search: Optional[list[tuple[int, float, bool]]] = arrays.get("search")
        #: The index of the pandas frame that was smoothed, if it was one.
        self.index = given.index
        ts = given.arrays[1] if given.shown is None else given.shown
        start, dt = clock
        self.ts: Any = np.arange(len(self), dtype=np.float64) * dt + start if ts is None else ts

    @property
    def stds(self) -> Optional[Array]:
        """Standard deviations of the smoothed estimates, (T, n); None if there are none."""
        return _stds(self.covariances)

    @property
    def filtered_stds(self) -> Optional[Array]:
        """Standard deviations of the filter, (T, n); None if there are none."""
        return _stds(self.filtered_covariances)

    def __len__(self) -> int:
        return int(self.means.shape[-2])

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.means.shape))
        return f"SmoothResult(means {shape}{'' if self.covariances is None else ', covariances'})"

    def _repr_html_(self) -> str:
        """A small table for notebooks: where the series begins, which later rows have told most of."""
        stds = self.stds
        first = (0,) * (self.means.ndim - 1)
        return _html(self, "first row", self.model.state_names, self.means[first], None if stds is None else stds[first])

    def to_dataframe(self, library: Optional[str] = None) -> Any:
        """One row per time (and trajectory) with the columns of ``optfilter smooth --both``.

        >>> import optfilter
        >>> model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
        >>> list(optfilter.KalmanFilter(model).smooth([1.0, 2.0]).to_dataframe().columns)
        ['t', 'x0', 'x0_std', 'x0_filtered', 'x0_filtered_std']
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
        both = (("", self.means, self.stds), ("_filtered", self.filtered_means, self.filtered_stds))
        for ending, means, stds in both:
            for i, name in enumerate(self.model.state_names):
                columns[f"{name}{ending}"] = means[..., i].reshape(-1)
            for i, name in enumerate(self.model.state_names):
                if stds is not None:
                    columns[f"{name}{ending}_std"] = stds[..., i].reshape(-1)
        return columns


class Forecast:
    """States and measurements beyond a series, or beyond a batch of them (then every array has a leading axis B).

    Attributes
    ----------
    means, stds : (H, m) arrays
        Expected measurements, and their standard deviations; NaN where the filter has none.
    intervals : (H, m, 3, 2) array
        For each of ``levels`` the lower and the upper end: quantiles of a Gaussian, or of draws for particles and for
        measurements that are not Gaussian.
    state_means, state_stds : (H, n) arrays
    state_intervals : (H, n, 3, 2) array
        The same of the states.
    ts : (H,) array
        The times ahead; dates where the series had ``datetime64``.
    """

    #: How much of the probability the intervals hold.
    levels: ClassVar[tuple[float, float, float]] = (0.5, 0.8, 0.95)

    def __init__(self, model: Model, arrays: dict[str, Any], given: Given, clock: tuple[float, float]) -> None:
        single = given.arrays[0].ndim == 2
        found = {name: array[0] if single else array for name, array in arrays.items()}
        self.model = model
        self.means: Array = found["means"]
        self.stds: Array = found["stds"]
        self.intervals: Array = found["intervals"]
        self.state_means: Array = found["state_means"]
        self.state_stds: Array = found["state_stds"]
        self.state_intervals: Array = found["state_intervals"]
        self.ts: Any = _times(model, given, clock, len(self))

    def __len__(self) -> int:
        return int(self.means.shape[-2])

    def __repr__(self) -> str:
        return f"Forecast(means {'x'.join(map(str, self.means.shape))})"

    def _repr_html_(self) -> str:
        """A small table for notebooks: the measurements of the last row ahead."""
        last = (0,) * (self.means.ndim - 2) + (-1,)
        return _html(self, "last row ahead", self.model.observation_names, self.means[last], self.stds[last])

    def to_dataframe(self, library: Optional[str] = None) -> Any:
        """One row per time (and trajectory) with the columns of ``optfilter forecast``.

        >>> import optfilter
        >>> model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
        >>> ahead = optfilter.KalmanFilter(model).forecast([1.0, 2.0], steps=3)
        >>> list(ahead.to_dataframe().columns)[9:]
        ['y0', 'y0_std', 'y0_lo95', 'y0_lo80', 'y0_lo50', 'y0_hi50', 'y0_hi80', 'y0_hi95']
        """
        return _frame(self._columns(), library)

    def _columns(self) -> dict[str, Array]:
        """What a frame of it has, by name."""
        columns: dict[str, Array] = {}
        if self.means.ndim == 3:
            count, length = self.means.shape[:2]
            columns["trajectory"] = np.repeat(np.arange(count), length)
            columns["t"] = np.broadcast_to(self.ts, (count, length)).reshape(-1)
        else:
            columns["t"] = self.ts
        names = self.model.state_names
        observed = [f"{name}_measured" if name in names else name for name in self.model.observation_names]
        for names, means, stds, intervals in (
            (names, self.state_means, self.state_stds, self.state_intervals),
            (tuple(observed), self.means, self.stds, self.intervals),
        ):
            for i, name in enumerate(names):
                columns[name] = means[..., i].reshape(-1)
                columns[f"{name}_std"] = stds[..., i].reshape(-1)
                for side, order in (("lo", (2, 1, 0)), ("hi", (0, 1, 2))):
                    for level in order:
                        label = f"{name}_{side}{round(100 * self.levels[level])}"
                        columns[label] = intervals[..., i, level, int(side == "hi")].reshape(-1)
        return columns


class RollingForecast:
    """What every row of a series expects of the next ones: forecasts from each row, ``H`` rows ahead.

    Attributes are those of :class:`Forecast` with an axis of rows in front, ``means`` ``(T, H, m)`` and so on, and one of
    trajectories before that for a batch. Steps ahead are ``dt`` long, and inputs stay as they were at the row.
    """

    #: How much of the probability the intervals hold.
    levels: ClassVar[tuple[float, float, float]] = Forecast.levels

    def __init__(self, model: Model, arrays: dict[str, Any], single: bool) -> None:
        found = {name: array[0] if single else array for name, array in arrays.items()}
        self.model = model
        self.means: Array = found["means"]
        self.stds: Array = found["stds"]
        self.intervals: Array = found["intervals"]
        self.state_means: Array = found["state_means"]
        self.state_stds: Array = found["state_stds"]
        self.state_intervals: Array = found["state_intervals"]

    def __repr__(self) -> str:
        return f"RollingForecast(means {'x'.join(map(str, self.means.shape))})"

    def _columns(self) -> dict[str, Array]:
        """Columns as ``optfilter filter --horizon`` writes them."""
        columns: dict[str, Array] = {}
        states = self.model.state_names
        observed = [f"{name}_measured" if name in states else name for name in self.model.observation_names]
        for row in range(self.means.shape[-2]):
            for names, means, stds, intervals in (
                (states, self.state_means, self.state_stds, self.state_intervals),
                (observed, self.means, self.stds, self.intervals),
            ):
                for i, name in enumerate(names):
                    label = f"{name}_ahead_{row + 1}"
                    columns[label] = means[..., row, i].reshape(-1)
                    columns[f"{label}_std"] = stds[..., row, i].reshape(-1)
                    columns[f"{label}_lo95"] = intervals[..., row, i, 2, 0].reshape(-1)
                    columns[f"{label}_hi95"] = intervals[..., row, i, 2, 1].reshape(-1)
        return columns


def _times(model: Model, given: Given, clock: tuple[float, float], rows: int) -> Any:
    """The times of the rows ahead; `clock` is the time of the last row where rows have none, and the step."""
    ts = given.arrays[1]
    last, dt = clock
    ahead = np.arange(1, rows + 1, dtype=np.float64) * dt
    if ts is None:
        return last + ahead
    shown = np.asarray(given.shown) if given.shown is not None else None
    if shown is not None and shown.dtype.kind == "M":
        seconds = ahead * getattr(model, "seconds_per_unit", 1.0)
        micros = np.round(seconds * 1e6).astype("timedelta64[us]")
        return shown[..., -1:].astype("datetime64[us]") + micros
    return ts[..., -1:] + ahead
