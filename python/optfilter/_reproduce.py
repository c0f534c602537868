"""The paper's tables, computed anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional, Union

from . import _core
from ._arrays import whole
from ._executors import run_shards
from ._progress import Progress
from ._result import _frame


class Reproduction:
    """What :func:`reproduce` returns.

    Attributes
    ----------
    grid : list of dict
        Every configuration of every system: system, method, steps, lr, decay, q, rmse, ci, diverged.
    cells : list of dict
        Every printed cell with our number and a verdict: "exact", "misprint" (the paper's program gives
        ours), "fragile" (numerically chaotic) or "differs".
    """

    def __init__(self, grid: list[dict[str, Any]], cells: list[dict[str, Any]]) -> None:
        self.grid = grid
        self.cells = cells

    def verdicts(self) -> dict[str, int]:
        """How many cells have each verdict."""
        counts: dict[str, int] = {}
        for cell in self.cells:
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
        return f"Reproduction({len(self.grid)} configurations; cells: {counts})"


def paper_systems() -> list[str]:
    """The systems of the paper, as :func:`reproduce` names them.

    >>> import optfilter
    >>> optfilter.paper_systems()[4]
    'toy Q=3 R=2'
    """
    return [name for name, _, _ in _core.paper_systems()]


def _reproduce_shard(shard: tuple[int, int, int, bool]) -> tuple[list[Any], list[Any]]:
    index, runs, seed, particles = shard
    return _core.reproduce_system(index, runs, seed, particles, None)


def reproduce(
    systems: Union[str, Iterable[str]] = "all",
    *,
    runs: int = 100,
    seed: int = 0,
    particles: bool = True,
    executor: Any = None,
    progress: Optional[bool] = None,
) -> Reproduction:
    """Runs the paper's experiments under the published protocol: what its program really did.

    The tables print ``runs=100, seed=0``; cells are judged only then. All 21 systems take some minutes.

    Parameters
    ----------
    systems : str or iterable of str
        "all", "toy", "lorenz", or names from :func:`paper_systems`.

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
        found = [i for i, (s, family, _) in enumerate(known) if name in ("all", family, s)]
        if not found:
            raise ValueError(f"systems: there is no {name!r}; see optfilter.paper_systems()")
        chosen += [i for i in found if i not in chosen]
    runs, seed = whole("runs", runs), whole("seed", seed, 0)
    parts: list[Any] = []
    if executor is not None:
        shards = [(i, runs, seed, particles) for i in chosen]
        parts = run_shards(_reproduce_shard, shards, executor, progress, "reproduce")
    else:
        with Progress(sum(known[i][2] for i in chosen), "reproduce", progress, unit="s") as bar:
            for i in chosen:
                parts.append(_core.reproduce_system(i, runs, seed, particles, bar.advance))
    grid: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    for i, (rows, judged) in zip(chosen, parts):
        grid += [{"system": known[i][0], **row} for row in rows]
        if runs == 100 and seed == 0:
            cells += [{"system": known[i][0], **row} for row in judged]
    return Reproduction(grid, cells)
