"""Measurements as people have them: arrays, series and data frames, with times of a calendar."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple, Optional

import numpy as np

from . import _core
from ._arrays import Array, to_float_array
from ._model import Model


class Data(NamedTuple):
    """What a filter reads: arrays, and what the result should show again."""

    ys: Array
    ts: Optional[Array]
    us: Any
    #: The times as they were given, if they are not ``ts`` itself.
    shown: Any
    #: The index of a pandas frame.
    index: Any


def _names(data: Any) -> Optional[list[str]]:
    """The columns of a frame (pandas, polars, Arrow); None for anything else."""
    if isinstance(data, np.ndarray):
        return None
    names = getattr(data, "column_names", None)
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or callable(names):
        return None
    return [str(name) for name in names]


def _column(data: Any, names: list[str], name: str) -> Any:
    """A column of a frame, as something NumPy reads."""
    if hasattr(data, "iloc"):
        return data.iloc[:, names.index(name)]
    return data[name]


def _numpy(column: Any) -> Any:
    """A column as an array of NumPy's, or as it is."""
    if not hasattr(column, "to_numpy"):
        return column
    if hasattr(column, "null_count") and hasattr(column, "buffers"):  # Arrow refuses to copy unless told to
        return column.to_numpy(zero_copy_only=False)
    return column.to_numpy()


def _utc(time: Any) -> Any:
    """A time without its zone, which NumPy does not know."""
    zone = getattr(time, "tzinfo", None)
    return time if zone is None else time.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def times(
    name: str,
    values: Any,
    seconds_per_unit: float = 1.0,
    pattern: Optional[str] = None,
    epoch: Optional[float] = None,
) -> tuple[Array, Any]:
    """Times as numbers, and as they should be shown again.

    Plain numbers stay as they are. Calendar times (datetime64 or text) are counted from the first, in units of the
    model, as the command line does. ``pattern`` is how texts are written, where not by ISO 8601; numbers count ``epoch``
    seconds each since 1970, where it is given.

    >>> import numpy as np
    >>> times("ts", np.array(["2026-01-01", "2026-01-03"], dtype="datetime64[D]"), 86400.0)[0]
    array([0., 2.])
    """
    units, given = moments(name, values, seconds_per_unit, pattern, epoch)
    return (units, None) if given is None else (units - units[..., :1], given)


def moments(
    name: str,
    values: Any,
    seconds_per_unit: float = 1.0,
    pattern: Optional[str] = None,
    epoch: Optional[float] = None,
) -> tuple[Array, Any]:
    """The same with calendar times counted from 1970, as a stream needs them whose first row is long gone.

    >>> import numpy as np
    >>> moments("ts", np.array(["1970-01-03", "1970-01-05"], dtype="datetime64[D]"), 86400.0)[0]
    array([2., 4.])
    """
    given = array = np.asarray(_numpy(values))
    if array.dtype.kind == "O" and array.size and hasattr(array.flat[0], "isoformat"):
        try:
            array = np.array([_utc(item) for item in array.flat], dtype="datetime64[ns]").reshape(array.shape)
        except (TypeError, ValueError):
            raise ValueError(f"{name}: has an entry that is not a time") from None
    if array.dtype.kind == "M":
        if np.any(np.isnat(array)):
            raise ValueError(f"{name}: has an entry that is not a time")
        whole = array.astype("datetime64[s]")  # years beyond 1677 and 2262 have no nanoseconds
        rest = (array - whole).astype("timedelta64[ns]").astype(np.int64)
        seconds = whole.astype(np.int64).astype(np.float64) + rest * 1e-9
    elif array.dtype.kind in "UO" and array.size and all(isinstance(text, str) for text in array.flat):
        seconds = np.array(_core.parse_times([str(text) for text in array.flat], pattern)).reshape(array.shape)
    elif epoch is not None:
        seconds = to_float_array(name, array) * epoch
    else:
        return to_float_array(name, array), None
    return seconds / seconds_per_unit, given


def style(model: Model) -> tuple[float, Optional[str], Optional[float]]:
    """How a model's times are written: seconds per unit, and the pattern and the epoch of its file, as :func:`times` takes them."""
    unit: float = getattr(model, "seconds_per_unit", 1.0)
    return unit, getattr(model, "time_pattern", None), getattr(model, "time_epoch", None)


def acting(model: Model, ys: Array, ts: Optional[Array], us: Optional[Array]) -> Optional[Array]:
    """The inputs ``(T, p)`` or ``(B, T, p)`` that act on the step to each row, by the rules of the model file's ``[inputs]``."""
    rules = getattr(model, "input_rules", None)
    if rules is None or us is None:
        return us

    def one(array: Optional[Array], b: int, depth: int) -> Any:
        return None if array is None else np.ascontiguousarray(array if array.ndim == depth else array[b])

    def of(b: int) -> Array:
        found: Array = rules.acting(one(ys, b, 2), one(ts, b, 1), one(us, b, 2), None)[0]
        return found

    if ys.ndim == 2 and us.ndim == 2:
        return of(0)
    return np.stack([of(b) for b in range(len(ys) if ys.ndim == 3 else len(us))])


def read(model: Model, ys: Any, ts: Any, us: Any) -> Data:
    """Measurements, times and inputs from whatever the user has.

    The columns of a frame are taken by name: those of the model's measurements, inputs and time.
    """
    names = _names(ys)
    index = getattr(ys, "index", None) if hasattr(ys, "iloc") else None
    shown = None
    if names is not None:
        frame = ys
        if not model.has_names and not set(model.observation_names) <= set(names):
            raise ValueError(
                "ys: the model has no names for its measurements, so the columns of a frame cannot be told apart; "
                "give an array, or a model with observation_names"
            )

        def gather(label: str, wanted: Any) -> Array:
            missing = [name for name in wanted if name not in names]
            if missing:
                known = ", ".join(names)
                raise ValueError(f"{label}: the frame has no column {missing[0]!r}; it has {known}")
            columns = [_numpy(_column(frame, names, name)) for name in wanted]
            return np.stack(
                [to_float_array(f"{label}: column {name!r}", c) for name, c in zip(wanted, columns)], axis=-1
            )

        ys = gather("ys", [model.column(name) for name in model.observation_names])
        if us is None and model.inputs:
            us = gather("us", [model.column(name) for name in model.input_names])
        time = getattr(model, "time_column", None)
        if ts is None and time is not None:
            if time not in names:
                raise ValueError(f"ts: the frame has no column {time!r}, which the model names as its time")
            ts = _column(frame, names, time)
    else:
        ys = to_float_array("ys", _numpy(ys))
    if ts is not None:
        ts, shown = times("ts", ts, *style(model))
    return Data(ys, ts, us, shown, index)
