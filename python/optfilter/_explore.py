"""A live page for a model and its measurements, in a notebook or in the browser."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import webbrowser
from html import escape
from typing import Any, Optional, Union

import numpy as np

from . import _core
from ._frames import _column, _names, _numpy
from ._model import Model, TextModel


class Explorer:
    """A page that is served on this machine until it is closed or forgotten.

    In a notebook it shows itself; elsewhere :attr:`address` is where it is.
    """

    def __init__(self, core: "_core.CorePage", height: int) -> None:
        self._core = core
        self._height = height

    @property
    def address(self) -> Optional[str]:
        """Where the page is: this machine only, with a token that nobody can guess. None once it is closed."""
        return self._core.address()

    def close(self) -> None:
        """Ends the page."""
        self._core.close()

    def __enter__(self) -> "Explorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Explorer({self.address or 'closed'})"

    def _repr_html_(self) -> str:
        address = self.address
        if address is None:
            return "<p>closed</p>"
        shown = escape(address)
        return f'<iframe src="{shown}" width="100%" height="{self._height}" style="border:0" title="optfilter explore"></iframe>'


def explore(
    model: Union[TextModel, str, "os.PathLike[str]", None] = None,
    ys: Any = None,
    ts: Any = None,
    us: Any = None,
    *,
    open: Optional[bool] = None,
    port: int = 0,
    height: int = 900,
    **settings: Any,
) -> Explorer:
    """Opens a page on which every setting of the filter is a slider: the same as ``optfilter explore``.

    ``model`` is written as text (:meth:`Model.from_toml`, :meth:`Model.from_expressions`, a model file); ``ys``, ``ts`` and
    ``us`` are what :meth:`Model.filter` takes, for one series. Columns of a frame that are called like states hold their true
    values. Without a model the page opens a gallery. ``settings`` are those of a ``[filter]`` table. In a notebook the page is
    shown below the cell, elsewhere the browser opens unless ``open`` is False. The page ends with :meth:`Explorer.close` or
    with Python.

    >>> import optfilter
    >>> page = optfilter.explore('system = "local-level"', [1.0, 1.4, None, 0.9], method="kf", open=False)
    >>> page.address.startswith("http://127.0.0.1:")
    True
    >>> page.close()
    """
    if model is None:
        if ys is not None:
            raise ValueError("model: is missing; a page with measurements needs one")
        given = None
    else:
        if not isinstance(model, Model):
            model = Model.from_toml(model)
        if not isinstance(model, TextModel):
            raise TypeError("model: the page shows models written as text (Model.from_toml, Model.from_expressions, a file)")
        if ys is None:
            raise ValueError("ys: are missing; a page of a model needs measurements")
        chosen = {**model.filter_settings, **settings}
        name = f"{model.name or 'model'}.toml".replace("/", " ")
        given = (model.text, name, json.dumps(chosen), _table(model, ys, ts, us).encode())
    page = Explorer(_core.CorePage(given, port), height)
    if open if open is not None else not _in_notebook():
        webbrowser.open(page.address or "")
    return page


def _in_notebook() -> bool:
    """Whether what a cell returns is shown as a page."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _table(model: TextModel, ys: Any, ts: Any, us: Any) -> str:
    """One series as the table that the model file asks for."""
    columns: dict[str, Any] = {}
    names = _names(ys)
    time = model.time_column
    if names is not None:
        columns = {name: _numpy(_column(ys, names, name)) for name in names}
    else:
        array = np.asarray(_numpy(ys), dtype=float)
        array = array.reshape(len(array), -1)
        wanted = [model.column(name) for name in model.observation_names]
        if array.shape[1] != len(wanted):
            raise ValueError(f"ys: has {array.shape[1]} columns; the model measures {', '.join(wanted)}")
        columns.update(zip(wanted, array.T))
    if us is not None:
        inputs = np.asarray(_numpy(us), dtype=float)
        inputs = inputs.reshape(len(inputs), -1)
        columns.update(zip((model.column(name) for name in model.input_names), inputs.T))
    if ts is not None:
        if time is None:
            raise ValueError('ts: the model file names no time; add [time] column = "t" to it')
        columns[time] = np.asarray(_numpy(ts))
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns are not equally long: {lengths}")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values()):
        writer.writerow(_cell(value) for value in row)
    return out.getvalue()


def _cell(value: Any) -> str:
    """A cell that reads back as the same number; nothing for what is missing."""
    if value is None:
        return ""
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else repr(float(value))
    return str(value)
