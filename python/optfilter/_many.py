"""Frames with the rows of many series: taken apart by a column, filtered, and put together again.

Every series is filtered as if it were alone, to the bit. Series of one length go through the engine together where that
changes nothing: on all cores, without the interpreter's lock.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from ._arrays import Array, to_float_array
from ._errors import DivergenceError
from ._frames import _column, _names, _numpy, style, times
from ._model import Model

#: Filters whose trajectories in a batch have neither random streams of their own nor anything left out.
_TOGETHER = ("kf", "ekf", "iekf", "ukf")


class Groups(NamedTuple):
    """A frame taken apart."""

    #: The column that names the series.
    by: str
    #: The names, in the order in which they are first met.
    keys: list[Any]
    #: The rows of each, in the order of the frame.
    rows: list[Array]
    ys: Array
    us: Optional[Array]
    #: The times as they are in the frame; None without any.
    ts: Any
    #: The library of the frame, and its index if it has one.
    library: str
    index: Any

    def same_length(self, together: bool) -> Iterator[tuple[list[int], Array]]:
        """Numbers of series and their rows (B, T): all of one length at once, or one by one."""
        if not together:
            yield from (([i], rows[None, :]) for i, rows in enumerate(self.rows))
            return
        lengths: dict[int, list[int]] = {}
        for i, rows in enumerate(self.rows):
            lengths.setdefault(len(rows), []).append(i)
        yield from ((which, np.stack([self.rows[i] for i in which])) for which in lengths.values())


def _library(frame: Any) -> str:
    name = type(frame).__module__.split(".")[0]
    if name not in ("pandas", "polars", "pyarrow"):
        raise ValueError(f"by: needs a frame of pandas, polars or pyarrow, not {type(frame).__name__}")
    return name


def split(model: Model, frame: Any, ts: Any, us: Any, by: Any) -> Groups:
    """Takes a frame apart by the column ``by``."""
    names = _names(frame)
    if names is None:
        raise ValueError("by: names a column, so the measurements must be a frame (pandas, polars or pyarrow)")
    library = _library(frame)
    if by not in names:
        raise ValueError(f"by: the frame has no column {by!r}; it has {', '.join(names)}")
    if by == "t" or by in model.state_names:
        raise ValueError(f"by: the results have a column {by!r} of their own; rename that of the frame")

    def gather(label: str, wanted: list[str]) -> Array:
        for name in wanted:
            if name not in names:
                raise ValueError(f"{label}: the frame has no column {name!r}; it has {', '.join(names)}")
        columns = ((name, _numpy(_column(frame, names, name))) for name in wanted)
        return np.stack([to_float_array(f"{label}: column {name!r}", c) for name, c in columns], axis=-1)

    ys = gather("ys", [model.column(name) for name in model.observation_names])
    if us is None and model.inputs:
        us = gather("us", [model.column(name) for name in model.input_names])
    elif us is not None:
        us = to_float_array("us", _numpy(us)).reshape(len(ys), model.inputs)
    time = getattr(model, "time_column", None)
    if ts is None and time is not None:
        if time not in names:
            raise ValueError(f"ts: the frame has no column {time!r}, which the model names as its time")
        ts = _column(frame, names, time)
    if ts is not None:
        ts = np.asarray(_numpy(ts))
        if ts.shape != (len(ys),):
            raise ValueError(f"ts: must have shape ({len(ys)},), not {ts.shape}")
    if len(ys) == 0:
        raise ValueError("ys: is empty")
    keys, rows = _taken_apart(_numpy(_column(frame, names, by)), by)
    return Groups(by, keys, rows, ys, us, ts, library, getattr(frame, "index", None) if library == "pandas" else None)


def _taken_apart(column: Any, by: str) -> tuple[list[Any], list[Array]]:
    """The names in the order in which they are met, and the rows of each."""
    numbers: dict[Any, int] = {}
    which = np.empty(len(column), dtype=np.int64)
    array = np.asarray(column)
    # Dates are compared as dates; as items of a list they would be numbers.
    for row, key in enumerate(array if array.dtype.kind == "M" else array.tolist()):
        if _is_missing(key):
            raise ValueError(f"by: row {row} has no name in column {by!r}")
        which[row] = numbers.setdefault(key, len(numbers))
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which))
    return list(numbers), np.split(order, ends[:-1])


def _is_missing(key: Any) -> bool:
    try:
        return key is None or bool(key != key)
    except TypeError:  # what pandas has for a missing name is equal to nothing, and not different from it either
        return True


class _Named:
    """Says which series failed."""

    def __init__(self, groups: Groups, which: list[int]) -> None:
        self.groups, self.which = groups, which

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, DivergenceError):
            i = self.which[error.trajectory or 0]
            error.args = (f"series {self.groups.keys[i]!r}: {error}",)
        elif isinstance(error, ValueError) and len(self.which) == 1:
            raise ValueError(f"series {self.groups.keys[self.which[0]]!r}: {error}") from None


def along_rows(made: Any, groups: Groups, run: Callable[..., Any]) -> Any:
    """A frame with the rows of the one that was taken apart: what ``run`` says of each series, which keeps its rows."""
    model, together = made.model, made.method in _TOGETHER
    out: dict[str, Array] = {}
    for which, rows in groups.same_length(together):
        single = len(which) == 1
        take = rows[0] if single else rows
        # Numbers stay as they are: whoever runs counts them by the model's epoch.
        ts = None if groups.ts is None else times("ts", groups.ts[take], *style(model)[:2])[0]
        us = None if groups.us is None else groups.us[take]
        with _Named(groups, which):
            frame = run(groups.ys[take], ts, us)._columns()
        for name, values in frame.items():
            if name == "trajectory":
                continue
            if name not in out:
                out[name] = np.empty(len(groups.ys), dtype=values.dtype)
            out[name][rows.reshape(-1)] = values
    shown = out.pop("t") if groups.ts is None else groups.ts
    out.pop("t", None)
    named = np.empty(len(groups.ys), dtype=np.int64)
    for i, rows in enumerate(groups.rows):
        named[rows] = i
    return build(groups, {"t": shown}, named, out)


def one_by_one(groups: Groups, run: Callable[..., Any]) -> Any:
    """A frame with what ``run`` says of each series, one after the other."""
    out: dict[str, list[Any]] = {}
    named: list[Array] = []
    for i, rows in enumerate(groups.rows):
        ts = None if groups.ts is None else groups.ts[rows]
        us = None if groups.us is None else groups.us[rows]
        with _Named(groups, [i]):
            found = run(groups.ys[rows], ts, us)
        for name, values in found._columns().items():
            out.setdefault(name, []).append(values)
        named.append(np.full(len(found), i))
    joined = {name: np.concatenate(parts) for name, parts in out.items()}
    return build(groups, {"t": joined.pop("t")}, np.concatenate(named), joined, index=False)


def build(
    groups: Groups, first: dict[str, Any], named: Any, rest: dict[str, Any], index: bool = True
) -> Any:
    """A frame of the library that the rows came in: the time, the name of the series, and the rest."""
    keys = [groups.keys[i] for i in named]
    columns = {**first, groups.by: keys, **rest}
    # Times with a zone come as objects; every library knows them when it looks.
    columns = {key: list(v) if getattr(v, "dtype", None) == object else v for key, v in columns.items()}
    library = importlib.import_module(groups.library)
    if groups.library == "pyarrow":
        return library.table(columns)
    if groups.library == "polars":
        return library.DataFrame(columns)
    return library.DataFrame(columns, index=groups.index if index else None)
