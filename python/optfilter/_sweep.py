"""Many configurations on given data (:func:`tune`), many runs of given filters (:func:`monte_carlo`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np

from ._arrays import Array, to_float_array, whole
from ._executors import run_shards
from ._model import Model
from ._result import _frame
from ._simulate import simulate
from .filters import Filter, ImplicitMAP, VariationalKalmanFilter
from .optimizers import SGD, Adadelta, Adagrad, Adam, Optimizer, RMSProp

_STEPS = (1, 3, 5, 10, 25, 50, 100)
_RATES = (1.0, 0.5, 0.1, 0.05, 0.01)
_DECAYS = (0.9, 0.5, 0.1)
_LOWER_IS_BETTER = {"rmse": 1.0, "prediction": 1.0, "log_likelihood": -1.0}


def default_grid() -> list[dict[str, Any]]:
    """The paper's 287 optimizers and step counts for :class:`optfilter.ImplicitMAP`.

    >>> import optfilter
    >>> len(optfilter.default_grid())
    287
    """
    rules: list[Optimizer] = [Adam(lr, b, b) for lr in _RATES for b in _DECAYS]
    rules += [RMSProp(lr, decay) for lr in _RATES for decay in _DECAYS]
    rules += [SGD(lr) for lr in _RATES]
    rules += [Adagrad(lr) for lr in _RATES]
    rules += [Adadelta()]
    return [dict(optimizer=rule, steps=steps, loss="squared", error_bars=False) for rule in rules for steps in _STEPS]


def expand(grid: Union[Mapping[str, Sequence[Any]], Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A list of configurations: given as one, or as the product of lists by name.

    >>> from optfilter._sweep import expand
    >>> expand({"steps": [1, 2], "carry": [True]})
    [{'steps': 1, 'carry': True}, {'steps': 2, 'carry': True}]
    """
    if isinstance(grid, Mapping):
        keys = list(grid)
        for key in keys:
            if isinstance(grid[key], str) or not isinstance(grid[key], Iterable):
                raise ValueError(f"grid: {key!r} must be a list of values")
        return [dict(zip(keys, values)) for values in itertools.product(*(grid[k] for k in keys))]
    configurations = [dict(entry) for entry in grid]
    if not configurations:
        raise ValueError("grid: is empty")
    return configurations


@dataclass(frozen=True)
class TuneRow:
    """A configuration and what came of it."""

    configuration: Mapping[str, Any]
    #: Mean score over the trajectories; NaN if one diverged.
    score: float
    #: Half-width of its 95 % interval over trajectories.
    ci: float
    #: Trajectories that diverged.
    diverged: int


class TuneResult:
    """What :func:`tune` returns: rows from best to worst, and the best filter made anew."""

    def __init__(self, model: Model, kind: type[Filter], metric: str, rows: list[TuneRow]) -> None:
        sign = _LOWER_IS_BETTER[metric]
        self.model = model
        self.kind = kind
        self.metric = metric
        self.rows = sorted(rows, key=lambda row: (row.score != row.score, sign * row.score))

    @property
    def best(self) -> TuneRow:
        """The best row."""
        if self.rows[0].score != self.rows[0].score:
            raise ValueError("every configuration diverged; try smaller learning rates")
        return self.rows[0]

    def best_filter(self, **changes: Any) -> Any:
        """A fresh filter with the best configuration.

        ``changes`` are further arguments, for instance ``error_bars=False``.
        """
        make: Any = self.kind
        return make(self.model, **{**self.best.configuration, **changes})

    def to_dataframe(self, library: Optional[str] = None) -> Any:
        """One row per configuration, from best to worst; pandas if it is installed, else polars."""
        names = list(dict.fromkeys(key for row in self.rows for key in row.configuration))
        columns: dict[str, Any] = {
            name: [_plain(row.configuration.get(name)) for row in self.rows] for name in names
        }
        columns[self.metric] = [row.score for row in self.rows]
        columns["ci"] = [row.ci for row in self.rows]
        columns["diverged"] = [row.diverged for row in self.rows]
        return _frame(columns, library)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        best = self.rows[0]
        shown = ", ".join(f"{key}={value!r}" for key, value in best.configuration.items())
        return (
            f"TuneResult({len(self.rows)} configurations of {self.kind.__name__}; best {self.metric} "
            f"{best.score:.4g} +- {best.ci:.2g} with {shown})"
        )


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool)) or value is None else repr(value)


def _score(result: Any, truth: Optional[Array], metric: str) -> Array:
    if metric == "rmse":
        return result.rmse(truth)
    if metric == "log_likelihood":
        if result.log_likelihood is None:
            raise ValueError("metric: this filter has no log-likelihood")
        return result.log_likelihood
    with np.errstate(invalid="ignore"):
        squares = result.innovations**2
        return np.sqrt(np.nansum(squares, axis=(-2, -1)) / np.sum(~np.isnan(squares), axis=(-2, -1)))


def _tune_shard(shard: dict[str, Any]) -> list[tuple[float, float, int]]:
    """Scores of some configurations. Self-contained: all it needs is in the shard."""
    out = []
    kind, metric = shard["kind"], shard["metric"]
    # Error bars change no estimate and cost more than all estimates; only the likelihood asks for them.
    lean = {"error_bars": False} if kind is ImplicitMAP and metric != "log_likelihood" else {}
    for configuration in shard["configurations"]:
        filter = kind(shard["model"], **{**lean, **configuration})
        result = filter.filter(
            shard["ys"], shard["ts"], shard["us"], errors="nan", covariances=False, **shard["start"]
        )
        scores = _score(result, shard["truth"], metric)
        scores[[trajectory for trajectory, _ in result.failures]] = np.nan
        half = 1.96 * float(np.std(scores)) / float(np.sqrt(len(scores)))
        out.append((float(np.mean(scores)), half, len(result.failures)))
    return out


def tune(
    model: Model,
    ys: Any,
    *,
    truth: Any = None,
    filter: type[Filter] = ImplicitMAP,
    grid: Union[Mapping[str, Sequence[Any]], Iterable[Mapping[str, Any]], None] = None,
    metric: Optional[str] = None,
    ts: Any = None,
    us: Any = None,
    x0: Any = None,
    P0: Any = None,
    executor: Any = None,
    shard_size: int = 16,
    progress: Optional[bool] = None,
) -> TuneResult:
    """Tries every configuration of a filter on data and ranks them.

    Parameters
    ----------
    model : Model
    ys : array_like
        Measurements ``(T, m)`` or ``(B, T, m)``.
    truth : array_like, optional
        True states of the same length, if known.
    filter : class
        Which filter to configure.
    grid : mapping of lists, or list of mappings, optional
        Arguments of the filter; the paper's 287 optimizers by default.
    metric : {"rmse", "prediction", "log_likelihood"}, optional
        RMSE against the truth (the default if there is one), the root mean square of one-step-ahead
        prediction errors, or the log-likelihood (the default without truth where the filter has one of its own).
    executor : concurrent.futures.Executor, dask.distributed.Client or ray, optional
        Where to run. The result is the same anywhere.
    progress : bool, optional
        Whether to show a progress bar (tqdm); by default in terminals and notebooks.

    Examples
    --------
    >>> import optfilter
    >>> model = optfilter.models.Growth(Q=3.0, R=2.0)
    >>> data = optfilter.simulate(model, 100, batch=4, seed=0)
    >>> grid = {"optimizer": [optfilter.Adam(lr) for lr in (0.01, 0.1, 1.0)], "steps": [5, 50]}
    >>> tuned = optfilter.tune(model, data.observations, truth=data.states, grid=grid)
    >>> len(tuned)
    6
    >>> f = tuned.best_filter()
    """
    if not isinstance(model, Model):
        raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
    if not (isinstance(filter, type) and issubclass(filter, Filter)):
        raise ValueError(f"filter: must be a class of filters, such as optfilter.ImplicitMAP, not {filter!r}")
    if metric is None:
        # A likelihood judges the error bars too, where a prediction error looks at means only.
        own = "prediction" if issubclass(filter, (ImplicitMAP, VariationalKalmanFilter)) else "log_likelihood"
        metric = own if truth is None else "rmse"
    if metric not in _LOWER_IS_BETTER:
        raise ValueError(f"metric: must be one of {', '.join(_LOWER_IS_BETTER)}, not {metric!r}")
    if metric == "rmse" and truth is None:
        raise ValueError("truth: the metric rmse needs it")
    ys = to_float_array("ys", ys)
    if ys.ndim == 1 and model.m == 1:
        ys = ys[:, None]
    if ys.ndim == 2:
        ys = ys[None]
    if truth is not None:
        truth = to_float_array("truth", truth)
        truth = truth[None] if truth.ndim == 2 else truth
        if truth.shape != (*ys.shape[:2], model.n):
            raise ValueError(f"truth: must have shape {(*ys.shape[:2], model.n)}, not {truth.shape}")
    if grid is None and filter is not ImplicitMAP:
        raise ValueError(f"grid: there is no default for {filter.__name__}")
    configurations = default_grid() if grid is None else expand(grid)
    size = whole("shard_size", shard_size)
    shared = dict(
        kind=filter,
        model=model,
        ys=ys,
        truth=truth,
        ts=ts,
        us=us,
        start={key: value for key, value in (("x0", x0), ("P0", P0)) if value is not None},
        metric=metric,
    )
    shards = [
        {**shared, "configurations": configurations[i : i + size]}
        for i in range(0, len(configurations), size)
    ]
    parts = run_shards(_tune_shard, shards, executor, progress, "tune")
    scores = [score for part in parts for score in part]
    rows = [TuneRow(c, *score) for c, score in zip(configurations, scores)]
    return TuneResult(model, filter, metric, rows)


class MonteCarloResult:
    """RMSE of every filter in every run."""

    def __init__(self, rmse: dict[str, Array]) -> None:
        #: RMSE by filter, one number per run; NaN where it diverged.
        self.rmse = rmse

    def summary(self) -> dict[str, tuple[float, float, int]]:
        """Mean, half-width of its 95 % interval and number of diverged runs, by filter."""
        out = {}
        for name, values in self.rmse.items():
            half = 1.96 * float(np.std(values)) / float(np.sqrt(len(values)))
            out[name] = (float(np.mean(values)), half, int(np.sum(~np.isfinite(values))))
        return out

    def to_dataframe(self, library: Optional[str] = None) -> Any:
        """One row per run, one column per filter; pandas if it is installed, else polars."""
        runs = len(next(iter(self.rmse.values())))
        return _frame({"run": np.arange(runs), **self.rmse}, library)

    def __repr__(self) -> str:
        parts = [f"{name} {mean:.3f} +- {half:.3f}" for name, (mean, half, _) in self.summary().items()]
        return f"MonteCarloResult({'; '.join(parts)})"


def _monte_carlo_shard(shard: dict[str, Any]) -> list[Array]:
    """Some runs of all filters. Self-contained: its random streams are named by seed and run."""
    first, count = shard["first_run"], shard["count"]
    data = simulate(
        shard["model"], shard["steps"], us=shard["us"], batch=count, seed=shard["seed"], first_run=first
    )
    out = []
    for filter in shard["filters"]:
        result = filter.filter(data.observations, us=shard["us"], errors="nan", first_run=first, covariances=False)
        out.append(result.rmse(data.states))
    return out


def _named(filters: Union[Mapping[str, Filter], Sequence[Filter]]) -> dict[str, Filter]:
    """Filters by name: their class, numbered where several are of one."""
    if not isinstance(filters, Mapping):
        if isinstance(filters, Filter):
            filters = [filters]
        named: dict[str, Filter] = {}
        for f in filters:
            name, count = type(f).__name__, 2
            while name in named:
                name, count = f"{type(f).__name__} {count}", count + 1
            named[name] = f
        filters = named
    if not filters:
        raise ValueError("filters: is empty")
    for name, f in filters.items():
        if not isinstance(f, Filter):
            raise ValueError(f"filters: {name!r} must be a filter, not {f!r}")
    return dict(filters)


def monte_carlo(
    model: Model,
    filters: Union[Mapping[str, Filter], Sequence[Filter]],
    *,
    runs: int = 100,
    steps: int = 200,
    us: Any = None,
    seed: int = 0,
    executor: Any = None,
    shard_size: int = 32,
    progress: Optional[bool] = None,
) -> MonteCarloResult:
    """Simulates ``model`` ``runs`` times and compares filters by their error.

    Run r is named by ``(seed, r)``, so the result depends neither on the executor nor on the size of the
    shards. ``us`` are control inputs ``(steps, p)`` for all runs.

    >>> import optfilter
    >>> model = optfilter.models.Growth(Q=3.0, R=2.0)
    >>> result = optfilter.monte_carlo(
    ...     model,
    ...     {"EKF": optfilter.ExtendedKalmanFilter(model), "PF": optfilter.ParticleFilter(model, 200)},
    ...     runs=10, steps=50)
    >>> result.rmse["PF"].shape
    (10,)
    """
    filters = _named(filters)
    runs, size = whole("runs", runs), whole("shard_size", shard_size)
    shared = dict(
        model=model, filters=list(filters.values()), steps=whole("steps", steps), us=us, seed=whole("seed", seed, 0)
    )
    shards = [
        {**shared, "first_run": first, "count": min(size, runs - first)}
        for first in range(0, runs, size)
    ]
    parts = run_shards(_monte_carlo_shard, shards, executor, progress, "monte carlo")
    columns = [np.concatenate(column) for column in zip(*parts)]
    return MonteCarloResult(dict(zip(filters, columns)))
