"""Maximum likelihood, windows and predictions (:meth:`optfilter.Model.fit`)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from . import _core, _many
from ._arrays import Array, to_float_array, whole
from ._errors import DivergenceError
from ._frames import _names, read, times
from ._model import Model, TextModel
from ._result import _html


class FitResult:
    """What :meth:`optfilter.Model.fit` returns: estimates, how well they are known, and the model with them."""

    #: Estimates by name; noise as variances.
    params: Mapping[str, float]
    #: Their standard errors; NaN at a bound, or where the likelihood is flat.
    std_errors: Mapping[str, float]
    #: Those that lie at a bound, with the bound.
    at_bounds: Mapping[str, float]
    #: Correlations of the estimates, in the order of ``params``.
    correlations: Array
    #: The log-likelihood of all measurements.
    log_likelihood: float
    #: Akaike's criterion; a diffuse state counts as an estimate, and so does the first state of a window.
    aic: float
    #: The Bayesian criterion, with the number of rows in which something was measured.
    bic: float
    #: The filter.
    method: str
    #: What it was fitted by: its ``"likelihood"``, that of its ``"window"``, or its ``"prediction"`` errors.
    criterion: str
    #: The number of windows, where it was fitted by those.
    windows: Optional[int]
    #: Rows of all series.
    rows: int
    #: Rows in which something was measured.
    measured: int
    #: Whether nothing rises at the estimates: gradient, curvature and bounds say so.
    converged: bool
    #: What to know before relying on it; also raised as warnings.
    warnings: Sequence[str]
    #: The model with the estimates in it.
    model: TextModel

    def __init__(self, found: dict[str, Any], model: TextModel) -> None:
        self._summary: str = found["summary"]
        self.params = found["params"]
        self.std_errors = found["std_errors"]
        self.at_bounds = found["at_bounds"]
        self.correlations = found["correlations"]
        self.log_likelihood = found["log_likelihood"]
        self.aic = found["aic"]
        self.bic = found["bic"]
        self.method = found["method"]
        self.criterion = found["criterion"]
        self.windows = found["windows"]
        self.rows = found["rows"]
        self.measured = found["measured"]
        self.converged = found["converged"]
        self.warnings = found["warnings"]
        self.model = model

    def summary(self) -> str:
        """The table that ``optfilter fit`` prints."""
        return self._summary

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value:.5g}" for name, value in self.params.items())
        return f"FitResult({shown}, log_likelihood={self.log_likelihood:.6g})"

    def _repr_html_(self) -> str:
        """A small table for notebooks: estimates and their standard errors."""
        names = list(self.params)
        errors = [self.std_errors[name] for name in names]
        return _html(self, "estimates and standard errors", names, [self.params[name] for name in names], errors)


def _rows(name: str, values: Any, width: int) -> Array:
    """An array (T, width) of what may be (T,)."""
    array = to_float_array(name, values)
    if array.ndim == 1 and width == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name}: must have shape (T, {width}), not {array.shape}")
    return np.ascontiguousarray(array)


def fit(
    model: Model,
    ys: Any,
    ts: Any = None,
    us: Any = None,
    *,
    free: Union[str, Sequence[str]] = (),
    method: Optional[str] = None,
    criterion: Optional[str] = None,
    window: Optional[int] = None,
    starts: int = 4,
    seed: int = 0,
    max_rows: Optional[int] = None,
    by: Optional[str] = None,
    each: bool = False,
) -> Any:
    """See :meth:`optfilter.Model.fit`."""
    if not isinstance(model, TextModel):
        raise ValueError(
            f"{type(model).__name__} cannot be fitted: its parameters have no names that a search could move; "
            "write it as text (Model.from_expressions, Model.from_toml)"
        )
    if model.likelihood is not None and model.likelihood != TextModel(model.text).likelihood:
        raise ValueError(
            "likelihood: a fit reads how measurements scatter from the model's text; "
            "write it there ([observation.OUTPUT] likelihood = ...) instead of passing likelihood="
        )
    if each and by is None:
        raise ValueError("each: needs by, the column that names the series of each row")
    if by is not None:
        groups = _many.split(model, ys, ts, us, by)
        search: dict[str, Any] = dict(
            free=free, method=method, criterion=criterion, window=window, starts=starts, seed=seed, max_rows=max_rows
        )
        if each:
            return _each(model, groups, search)
        unit = model.seconds_per_unit
        parts = []
        for rows in groups.rows:
            ts_of = None if groups.ts is None else times("ts", groups.ts[rows], unit)[0]
            parts.append((groups.ys[rows], ts_of, None if groups.us is None else groups.us[rows]))
        return _found(model, parts, **search)
    many = isinstance(ys, (list, tuple)) and len(ys) > 0 and all(_names(item) is not None for item in ys)
    if many and (ts is not None or us is not None):
        raise ValueError("ts, us: frames of several series bring their own times and inputs")
    series = []
    for part in ys if many else [ys]:
        data = read(model, part, ts, us)
        blocks = data.ys if data.ys.ndim == 3 else [data.ys]
        for b, block in enumerate(blocks):
            ts_of = data.ts[b] if data.ts is not None and data.ts.ndim == 2 else data.ts
            us_of = data.us[b] if data.us is not None and data.us.ndim == 3 else data.us
            inputs = None if us_of is None else _rows("us", us_of, model.inputs)
            series.append((_rows("ys", block, model.m), ts_of, inputs))
    return _found(model, series, free, method, criterion, window, starts, seed, max_rows)


def _found(
    model: TextModel,
    series: list[Any],
    free: Union[str, Sequence[str]],
    method: Optional[str],
    criterion: Optional[str],
    window: Optional[int],
    starts: int,
    seed: int,
    max_rows: Optional[int],
) -> FitResult:
    """The fit of one model to series of measurements, times and inputs."""
    settings: dict[str, Any] = {"dt": model.dt, "Q_per_time": model.Q_per_time, "Q": model.Q, "R": model.R, "x0": model.x0, "P0": model.P0}
    settings["diffuse"] = model.diffuse
    names = [free] if isinstance(free, str) else list(free)
    past = None if window is None else whole("window", window, 0)
    search = (whole("starts", starts), whole("seed", seed, 0))
    most = None if max_rows is None else whole("max_rows", max_rows)
    found = _core.fit_text(model.name, model.text, settings, series, names, method, *search, criterion, past, most)
    for warning in found["warnings"]:
        warnings.warn(warning, stacklevel=4)
    recipe: dict[str, Any] = {**model._settings(), "text": found["text"]}
    recipe.update({key: found[key] for key in ("Q", "R", "x0") if key in found})
    fitted = TextModel(**recipe)
    return FitResult(found, fitted)


def _each(model: TextModel, groups: _many.Groups, search: dict[str, Any]) -> Any:
    """A frame with the estimates of each series by itself; NaN, and a warning, where there are none."""
    found: list[Any] = []
    for key, rows in zip(groups.keys, groups.rows):
        ts = None if groups.ts is None else groups.ts[rows]
        us = None if groups.us is None else groups.us[rows]
        try:
            found.append(_row(fit(model, groups.ys[rows], ts, us, **search)))
        except (ValueError, DivergenceError) as error:
            found.append(type(error)(f"series {key!r}: {error}") if isinstance(error, ValueError) else error)
    known = next((row for row in found if isinstance(row, dict)), None)
    if known is None:
        raise found[0]
    for i, row in enumerate(found):
        if not isinstance(row, dict):
            warnings.warn(f"not fitted: {row}", stacklevel=4)
            found[i] = {**dict.fromkeys(known, np.nan), "rows": len(groups.rows[i]), "measured": 0, "converged": False}
    columns = {name: np.array([row[name] for row in found]) for name in known}
    return _many.build(groups, {}, np.arange(len(found)), columns, index=False)


def _row(found: FitResult) -> dict[str, Any]:
    """A fit as a row of a table."""
    row: dict[str, Any] = {}
    for name, value in found.params.items():
        row[name] = value
        row[f"{name}_std_error"] = found.std_errors[name]
    for name in ("log_likelihood", "aic", "bic", "rows", "measured", "converged"):
        row[name] = getattr(found, name)
    return row
