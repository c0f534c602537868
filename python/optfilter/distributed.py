"""Many series past one machine: the same function for every key, on Dask, Ray or Spark.

The engines move the rows of a key to one worker and call :meth:`optfilter.Model.filter` with ``by`` there; what they do about
lost workers, memory and scheduling is theirs. The numbers are those of the local run, to the bit. Nothing is imported that is not
given: a frame of Dask brings Dask.

>>> import optfilter.distributed
>>> optfilter.distributed.filter_frame([1.0, 2.0], None, by="sensor")
Traceback (most recent call last):
ValueError: frame: must be a Dask DataFrame, a Ray Dataset or a Spark DataFrame, not list
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Optional

from ._frames import times
from ._model import Model

__all__ = ["filter_frame"]


def filter_frame(frame: Any, model: Model, *, by: str, order: Optional[str] = None, **settings: Any) -> Any:
    """Filters a distributed frame with the rows of many series.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame, ray.data.Dataset or pyspark.sql.DataFrame
        Rows of all series, in any order.
    model : Model
        What is filtered; it travels to the workers, so it must be one that can be pickled (models of text always are).
    by : str
        The column that names the series of each row.
    order : str, optional
        The column that the rows of a series are put in order by, since none of the engines keeps rows in order: the model's time
        column unless given. Rows of one series at one time come in no particular order.
    **settings
        Those of :meth:`optfilter.Model.filter`: ``method``, ``steps``, ``lr``, ...

    Returns
    -------
    A lazy frame of the same engine: the columns of ``model.filter(frame, by=by)``, one series after the other.

    Examples
    --------
    .. code-block:: python

        estimates = optfilter.distributed.filter_frame(dask.dataframe.read_parquet("rows/"), model, by="sensor")
        estimates.to_parquet("estimates/")
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
        # By their numbers, since text is not always in the order of time.
        number = times("order", rows[self.order], getattr(self.model, "seconds_per_unit", 1.0))[0]
        done = self.model.filter(rows.iloc[number.argsort(kind="stable")], by=self.by, **self.settings)
        # One series after the other: a worker has other keys beside each other than one machine.
        return done.sort_values(self.by, kind="stable").reset_index(drop=True)

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
    """``groupby(by).applyInPandas``: a group is a key."""
    per_key.check(frame.columns)
    frame = frame.select(*per_key.columns)
    rows = frame.limit(1).toPandas()
    if not len(rows):
        raise ValueError("frame: is empty")
    types = importlib.import_module("pyspark.sql.types")
    given = {field.name: field.dataType for field in frame.schema.fields}
    time = getattr(per_key.model, "time_column", None)
    fields = []
    for name in per_key.example(rows).columns:
        kind = given[per_key.by] if name == per_key.by else types.DoubleType()
        if name == "t" and time is not None:
            kind = given[time]
        fields.append(types.StructField(name, kind))
    return frame.groupby(per_key.by).applyInPandas(per_key.function(), types.StructType(fields))
