"""The paper's tables, computed anew."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import Any, Optional, Union

from . import _core
from ._arrays import whole
from ._executors import run_shards
from ._progress import Progress
from ._result import _frame

_PROTOCOLS = ("published", "specified")


class Reproduction:
    """What :func:`reproduce` returns.

    Attributes
    ----------
    grid : list of dict
        Every configuration of every system: protocol, system, method, steps, lr, decay, q, rmse, ci, diverged
        and, under the specified protocol, tuning_rmse and tuning_prediction on the runs set aside for tuning.
    cells : list of dict
        Every printed cell with our number and a verdict: "exact", "misprint" (the paper's program gives
        ours), "fragile" (numerically chaotic) or "differs".
    """

    def __init__(self, grid: list[dict[str, Any]], cells: list[dict[str, Any]]) -> None:
        self.grid = grid
        self.cells = cells

    def verdicts(self, protocol: Optional[str] = None) -> dict[str, int]:
        """How many cells have each verdict, of one protocol or of both."""
        counts: dict[str, int] = {}
        for cell in self.cells:
            if protocol in (None, cell["protocol"]):
                counts[cell["verdict"]] = counts.get(cell["verdict"], 0) + 1
        return counts

    def to_dataframe(self, what: str = "cells", library: Optional[str] = None) -> Any:
        """``"cells"`` or ``"grid"`` as a data frame."""
        if what not in ("cells", "grid"):
            raise ValueError(f"what: must be 'cells' or 'grid', not {what!r}")
        rows = self.cells if what == "cells" else self.grid
        names = list(rows[0]) if rows else []
        return _frame({name: [row[name] for row in rows] for name in names}, library)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.verdicts().items()))
        return f"Reproduction({len(self.grid)} configurations; cells: {counts or 'none judged'})"


class YearbookReproduction:
    """What :func:`reproduce_yearbook` returns.

    Attributes
    ----------
    table : list of dict
        One entry per configuration: protocol, method, steps, sigma2, mean accuracy in percent to 1970 and from
        1971 on with half-widths, the paper's numbers, and whether the validation images chose it.
    data : str
        Which images; ``generated`` says whether they were made up.
    """

    def __init__(self, table: list[dict[str, Any]], about: tuple[str, int, bool]) -> None:
        self.table = table
        self.data, self.images, self.generated = about

    def to_dataframe(self, library: Optional[str] = None) -> Any:
        """The table as a data frame."""
        names = list(self.table[0]) if self.table else []
        return _frame({name: [row[name] for row in self.table] for name in names}, library)

    def __repr__(self) -> str:
        return f"YearbookReproduction({len(self.table)} configurations; {self.data}, {self.images} images)"


def paper_systems() -> list[str]:
    """The systems of the paper, as :func:`reproduce` names them.

    >>> import optfilter
    >>> optfilter.paper_systems()[4]
    'toy Q=3 R=2'
    """
    return [row[0] for row in _core.paper_systems()]


def _protocols(protocol: str) -> tuple[str, ...]:
    if protocol == "both":
        return _PROTOCOLS
    if protocol not in _PROTOCOLS:
        raise ValueError(f"protocol: must be 'published', 'specified' or 'both', not {protocol!r}")
    return (protocol,)


Shard = tuple[list[int], str, int, int, bool]


def _reproduce_shard(shard: Shard, tell: Any = None) -> list[tuple[list[Any], list[Any]]]:
    indices, protocol, runs, seed, particles = shard
    return _core.reproduce_systems(indices, protocol == "specified", runs, seed, particles, tell)


def reproduce(
    systems: Union[str, Iterable[str]] = "all",
    *,
    protocol: str = "published",
    runs: int = 100,
    seed: int = 0,
    particles: bool = True,
    executor: Any = None,
    progress: Optional[bool] = None,
) -> Reproduction:
    """Runs the paper's experiments on the toy and Lorenz systems.

    The tables print ``runs=100, seed=0``; cells are judged only then. All 21 systems take a minute or so under
    the published protocol and some minutes under the specified one. Ctrl-C ends it.

    Parameters
    ----------
    systems : str or iterable of str
        "all", "toy", "lorenz", or names from :func:`paper_systems`. The portraits have a function of their own,
        :func:`reproduce_yearbook`.
    protocol : {"published", "specified", "both"}
        What the paper's program really did, what its text says, or first the one and then the other.
    particles : bool
        Whether to run the particle filters of the published protocol.
    executor : concurrent.futures.Executor, dask.distributed.Client or ray, optional
        Where to run. The result is the same anywhere.

    Examples
    --------
    >>> import optfilter
    >>> result = optfilter.reproduce("toy Q=3 R=2", particles=False)
    >>> result.verdicts()["exact"] > 5
    True
    """
    known = _core.paper_systems()
    if isinstance(systems, str):
        systems = [systems]
    chosen: list[int] = []
    for name in systems:
        found = [i for i, row in enumerate(known) if name in ("all", row[1], row[0])]
        if not found:
            hint = "; see optfilter.reproduce_yearbook" if name == "yearbook" else ""
            raise ValueError(f"systems: there is no {name!r}{hint}; see optfilter.paper_systems()")
        chosen += [i for i in found if i not in chosen]
    protocols = _protocols(protocol)
    runs, seed = whole("runs", runs), whole("seed", seed, 0, 2**32 - 1)
    # Systems that share their data go together: here all of a family, elsewhere those of one noise.
    groups: dict[Any, list[int]] = {}
    for i in chosen:
        groups.setdefault(known[i][1 if executor is None else 2], []).append(i)
    shards: list[Shard] = [
        (indices, protocol, runs, seed, particles) for protocol in protocols for indices in groups.values()
    ]
    if executor is not None:
        parts = run_shards(_reproduce_shard, shards, executor, progress, "reproduce")
    else:
        seconds = {"published": [row[3] for row in known], "specified": [row[4] for row in known]}
        work = sum(seconds[name][i] for name in protocols for i in chosen)
        with Progress(work, "reproduce", progress, unit="s") as bar:
            parts = [_reproduce_shard(shard, bar.advance) for shard in shards]
    grid: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    for (indices, name, *_), part in zip(shards, parts):
        for i, (rows, judged) in zip(indices, part):
            about = {"protocol": name, "system": known[i][0]}
            grid += [{**about, **row} for row in rows]
            if runs == 100 and seed == 0:
                cells += [{**about, **row} for row in judged]
    return Reproduction(grid, cells)


def reproduce_yearbook(
    data: Union[str, "os.PathLike[str]", None] = None,
    *,
    size: str = "short",
    protocol: str = "published",
    seeds: Optional[int] = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    progress: Optional[bool] = None,
) -> YearbookReproduction:
    """Runs the paper's Yearbook experiment: the 28,193 weights of a network followed through 80 years of portraits.

    This trains networks on all cores and takes long: "quick" some seconds, "short" many minutes, "full" hours. Ctrl-C
    ends it; with ``out`` the finished chains are kept, and the same call goes on from there. (The command line's
    ``optfilter-reproduce yearbook`` does the same and can use a graphics card.)

    Parameters
    ----------
    data : path, optional
        The photographs: the original archive's folder (F/, M/) or an npz file; generated images otherwise.
    size : {"quick", "short", "full"}
        Three methods over four years, the paper's best configurations, or all of them.
    protocol : {"published", "specified", "both"}
    seeds : int, optional
        Repetitions: 1, 3 or 10 by size.
    out : path, optional
        A folder for the results of every chain.

    Examples
    --------
    >>> import optfilter
    >>> result = optfilter.reproduce_yearbook(size="quick")          # doctest: +SKIP
    >>> result.to_dataframe()                                         # doctest: +SKIP
    """
    if size not in ("quick", "short", "full"):
        raise ValueError(f"size: must be 'quick', 'short' or 'full', not {size!r}")
    protocols = list(_protocols(protocol))
    count = None if seeds is None else whole("seeds", seeds)
    path = None if data is None else os.fspath(data)
    with tempfile.TemporaryDirectory() as scratch, Progress(1.0, "yearbook", progress, unit="s") as bar:
        folder = scratch if out is None else os.fspath(out)
        table, about = _core.reproduce_yearbook(protocols, size, path, count, folder, bar.advance)
    return YearbookReproduction(table, about)
