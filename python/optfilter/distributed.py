"""Many series past one machine: the same function for every key, on Dask, Ray or Spark.

The engines move the rows of a key to one worker and call :meth:`optfilter.Model.filter` with ``by`` there; what they do about
lost workers, memory and scheduling is theirs. The numbers are those of the local run, to the bit. Nothing is imported that is not
given: a frame of Dask brings Dask.

A stream of Spark (``spark.readStream``) is filtered as its rows come: what is known of a series is the state that Spark keeps for its
key between two batches, and gives back to a query that was stopped, or to another machine.

>>> import optfilter.distributed
>>> optfilter.distributed.filter_frame([1.0, 2.0], None, by="sensor")
Traceback (most recent call last):
ValueError: frame: must be a Dask DataFrame, a Ray Dataset or a Spark DataFrame, not list
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Optional

import numpy as np

from ._arrays import Array, to_float_array
from ._frames import moments, style
from ._model import Model
from ._result import FilterResult

__all__ = ["filter_frame"]


def filter_frame(frame: Any, model: Model, *, by: str, order: Optional[str] = None, **settings: Any) -> Any:
    """Filters a distributed frame with the rows of many series.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame, ray.data.Dataset or pyspark.sql.DataFrame
        Rows of all series, in any order. Of a stream of Spark (``frame.isStreaming``) in any order within a batch: a row whose
        series has gone past its time in an earlier batch ends the query.
    model : Model
        What is filtered; it travels to the workers, so it must be one that can be pickled (models of text always are).
    by : str
        The column that names the series of each row.
    order : str, optional
        The column that the rows of a series are put in order by, since none of the engines keeps rows in order: the model's time
        column unless given. Rows of one series at one time come in no particular order.
    **settings
        Those of :meth:`optfilter.Model.filter`: ``method``, ``steps``, ``lr``, ... (of a stream: those of a filter only).

    Returns
    -------
    A lazy frame of the same engine: the columns of ``model.filter(frame, by=by)``, one series after the other. Of a stream it is
    one, too, to be written in append mode.

    Examples
    --------
    .. code-block:: python

        estimates = optfilter.distributed.filter_frame(dask.dataframe.read_parquet("rows/"), model, by="sensor")
        estimates.to_parquet("estimates/")

        rows = spark.readStream.schema("sensor string, t timestamp, y double").parquet("arriving/")
        estimates = optfilter.distributed.filter_frame(rows, model, by="sensor")
        query = estimates.writeStream.option("checkpointLocation", "state/").start("estimates/", format="parquet")
    """
    engine = type(frame).__module__.split(".")[0]
    run = {"dask": _on_dask, "dask_expr": _on_dask, "ray": _on_ray, "pyspark": _on_spark}.get(engine)
    if run is None:
        kind = type(frame).__name__
        raise ValueError(f"frame: must be a Dask DataFrame, a Ray Dataset or a Spark DataFrame, not {kind}")
    if not isinstance(model, Model):
        raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
    order = order or getattr(model, "time_column", None)
    if order is None:
        raise ValueError("order: the model names no time column, so say by which column the rows of a series are ordered")
    return run(frame, _PerKey(model, by, order, settings))


class _PerKey:
    """What a worker does with a pandas frame that holds all rows of the series in it."""

    def __init__(self, model: Model, by: str, order: str, settings: dict[str, Any]) -> None:
        self.model, self.by, self.order, self.settings = model, by, order, settings

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        model = self.model
        time = getattr(model, "time_column", None)
        names = [model.column(name) for name in (*model.observation_names, *model.input_names)]
        return list(dict.fromkeys([self.by, self.order, *([time] if time else []), *names]))

    def check(self, names: Any) -> None:
        """Whether a frame has the columns that are read."""
        for name in self.columns:
            if name not in names:
                raise ValueError(f"frame: has no column {name!r}; it has {', '.join(names)}")

    def __call__(self, rows: Any) -> Any:
        if not len(rows):
            return self.example(rows).iloc[:0]
        done = self.model.filter(self.in_order(rows), by=self.by, **self.settings)
        # One series after the other: a worker has other keys beside each other than one machine.
        return done.sort_values(self.by, kind="stable").reset_index(drop=True)

    def in_order(self, rows: Any) -> Any:
        """The rows by the numbers of their times, since text is not always in the order of time."""
        own = self.order == getattr(self.model, "time_column", None)
        number = moments("order", rows[self.order], *(style(self.model) if own else ()))[0]
        return rows.iloc[number.argsort(kind="stable")]

    def function(self) -> Callable[[Any], Any]:
        """The same as a function, which has a name and a number of arguments that engines look at."""

        def filter_rows(rows: Any) -> Any:
            return self(rows)

        return filter_rows

    def example(self, rows: Any) -> Any:
        """A result of one row, with the types of the columns of ``rows``."""
        pandas = importlib.import_module("pandas")
        made = pandas.DataFrame({name: _some(rows[name].dtype) for name in self.columns}).astype(
            {name: rows[name].dtype for name in self.columns}
        )
        return self.model.filter(made, by=self.by, **self.settings)


def _some(dtype: Any) -> list[Any]:
    """A value of a type."""
    kind = getattr(dtype, "kind", "O")
    if kind == "M":
        return ["2000-01-01"]
    return [0] if kind in "iufb" else ["0"]


def _on_dask(frame: Any, per_key: _PerKey) -> Any:
    """A shuffle that brings every key into one partition, then each partition by itself."""
    per_key.check(frame.columns)
    frame = frame[per_key.columns]
    meta = per_key.example(frame._meta).iloc[:0]
    return frame.shuffle(on=per_key.by).map_partitions(per_key, meta=meta)


def _on_ray(frame: Any, per_key: _PerKey) -> Any:
    """``groupby(by).map_groups``: a group is a key."""
    per_key.check(frame.columns())
    return frame.groupby(per_key.by).map_groups(per_key.function(), batch_format="pandas")


def _on_spark(frame: Any, per_key: _PerKey) -> Any:
    """``groupby(by).applyInPandas``: a group is a key. Of a stream ``applyInPandasWithState``."""
    per_key.check(frame.columns)
    frame = frame.select(*per_key.columns)
    if frame.isStreaming:
        stream = _PerKeyOfStream(per_key)
        # A stream has no rows to look at yet, but their types.
        empty = frame.sparkSession.createDataFrame([], frame.schema).toPandas()
        result = _spark_schema(frame, per_key, empty)
        stream.names = result.names
        return frame.groupBy(per_key.by).applyInPandasWithState(
            stream.function(), result, "session binary, inputs binary", "append", "NoTimeout"
        )
    rows = frame.limit(1).toPandas()
    if not len(rows):
        raise ValueError("frame: is empty")
    result = _spark_schema(frame, per_key, rows)
    return frame.groupby(per_key.by).applyInPandas(per_key.function(), result)


def _spark_schema(frame: Any, per_key: _PerKey, rows: Any) -> Any:
    """The columns of the result; ``rows`` is a pandas frame with the types of the rows."""
    types = importlib.import_module("pyspark.sql.types")
    given = {field.name: field.dataType for field in frame.schema.fields}
    time = getattr(per_key.model, "time_column", None)
    fields = []
    for name in per_key.example(rows).columns:
        kind = given[per_key.by] if name == per_key.by else types.DoubleType()
        if name == "t" and time is not None:
            kind = given[time]
        fields.append(types.StructField(name, kind))
    return types.StructType(fields)


class _PerKeyOfStream:
    """What a worker does with new rows of one series: it goes on from the state that the engine has kept for the series.

    The state is what the filter saves (its belief and its clock, as in a checkpoint of the command line) and the last inputs, which
    hold where a row does not state them.
    """

    def __init__(self, per_key: _PerKey) -> None:
        model, settings = per_key.model, per_key.settings
        for name in ("x0", "P0", "t0", "errors", "first_run", "covariances", "only", "horizon"):
            if name in settings:
                raise ValueError(f"{name}: is not for a stream, whose series go on from what was saved of them")
        rules = getattr(model, "input_rules", None)
        if rules is not None and rules.waits is not None:
            raise ValueError(
                f"model: rows may have to wait for the next value of input {rules.waits!r}, and a stream does not know the rows "
                'to come; hold = "previous" in [inputs] is for streams'
            )
        self.per_key = per_key
        #: The columns of the result, in order.
        self.names: list[str] = []
        self._filter: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_filter": None}

    def __call__(self, rows: Any, saved: Optional[bytes], last: Optional[Array]) -> tuple[Any, bytes, Array]:
        """The results of a pandas frame of new rows of one series, and its state after them."""
        model, by = self.per_key.model, self.per_key.by
        if self._filter is None:
            # One for all series of this worker.
            self._filter = model._own_filter(dict(self.per_key.settings))
        rows = self.per_key.in_order(rows)
        ys = _numbers(rows, [model.column(name) for name in model.observation_names])
        us = _numbers(rows, [model.column(name) for name in model.input_names]) if model.inputs else None
        held = np.full(model.inputs, np.nan) if last is None else np.asarray(last, dtype=float)
        rules = getattr(model, "input_rules", None)
        if us is not None and rules is not None:
            us, held = rules.acting(ys, None, us, None if last is None else held)
        time = getattr(model, "time_column", None)
        at, shown = (None, None) if time is None else moments("ts", rows[time], *style(model))
        try:
            arrays, saved, before = self._filter.take(saved, ys, at, shown is not None, us)
        except ValueError as error:
            error.args = (f"series {rows[by].iloc[0]!r}: {error}", *error.args[1:])
            raise
        if at is None:
            start, dt = self._filter._clock_of(self._filter.predicts_first, None)
            at = np.arange(before, before + len(ys), dtype=np.float64) * dt + start
        result = FilterResult(model, arrays, [], at, (0.0, 0.0), shown=shown)
        frame = importlib.import_module("pandas").DataFrame({**result._columns(), by: rows[by].to_numpy()})
        return frame[self.names], saved, held

    def function(self) -> Callable[[Any, Iterator[Any], Any], Iterator[Any]]:
        """The same as Spark calls it."""

        def filter_rows(_: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
            # Spark may hand over the rows of a key in several parts.
            rows = importlib.import_module("pandas").concat(list(frames), ignore_index=True)
            # Both as bytes: Spark does not give back an array of numbers that it was given to keep.
            saved, last = map(bytes, state.get) if state.exists else (None, None)
            done, saved, inputs = self(rows, saved, None if last is None else np.frombuffer(last))
            state.update((saved, inputs.tobytes()))
            yield done

        return filter_rows


def _numbers(rows: Any, names: list[str]) -> Array:
    """Columns of a pandas frame as the columns of an array."""
    return np.stack([to_float_array(f"column {name!r}", rows[name].to_numpy()) for name in names], axis=-1)
