"""A stream of labelled samples, time step after time step, and what a follower is worth on it.

Every time step is predicted *before* its labels are used (*prequential*), so every score is one of foresight. The three
followers (:mod:`optfilter.nn`, :mod:`optfilter.torch`, :mod:`optfilter.jax`) share this file and nothing else of it
knows which one it serves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from ._arrays import Array, to_float_array, whole
from ._errors import DivergenceError
from ._progress import Progress
from ._result import _frame


class WeightDivergenceError(DivergenceError):
    """Learning led out of the finite numbers; the weights are as they were before.

    ``index`` counts the updates before this one, ``quantity`` says what became infinite or NaN.
    """

    def __init__(
        self, index: int, quantity: str, last_good: Any = (), trajectory: Optional[int] = None
    ) -> None:
        super().__init__(index, quantity, last_good, trajectory)
        self.args = (
            f"{quantity} left the finite numbers at update {index}; the weights are as they were before it. "
            "Use a smaller learning rate or fewer steps",
        )


def settings(steps: Any, window: Any, discount: Any) -> tuple[int, int, float]:
    """K, L and g, checked."""
    g = float(to_float_array("discount", discount))
    if not 0 < g <= 1:
        raise ValueError(f"discount: must be above 0 and at most 1, not {discount}")
    most = 2**32 - 1
    return whole("steps", steps, least=0, most=most), whole("window", window, least=0, most=most), g


def _pieces(value: Any) -> list[Any]:
    """The arrays of a sample set: itself, or those of a tuple, list or dictionary of them."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, tuple):
        return list(value)
    return [value]


def _cut(value: Any, rows: slice) -> Any:
    if isinstance(value, dict):
        return {key: _cut(item, rows) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_cut(item, rows) for item in value)
    return value[rows]


def count(X: Any, y: Any = None) -> int:
    """Number of samples; X and y must agree.

    >>> count([[1, 2], [3, 4]], [0, 1])
    2
    >>> count([[1, 2], [3, 4]], [0, 1, 1])
    Traceback (most recent call last):
    ValueError: y: 3 labels for 2 samples
    """
    try:
        lengths = {len(piece) for piece in _pieces(X)}
        labels = None if y is None else {len(piece) for piece in _pieces(y)}
    except TypeError:
        raise ValueError("X, y: must have an axis of samples, the first one") from None
    if len(lengths) != 1:
        raise ValueError(f"X: its parts have different numbers of samples: {sorted(lengths)}")
    n = lengths.pop()
    if labels is not None and labels != {n}:
        raise ValueError(f"y: {max(labels)} labels for {n} samples")
    return int(n)


def time_steps(n: int, time: Any = None, every: int = 1) -> tuple[list[slice], NDArray[Any]]:
    """Samples of equal time are one time step; without times, ``every`` samples are.

    >>> time_steps(5, [0.0, 0.0, 1.0, 1.0, 4.0])
    ([slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)], array([0., 1., 4.]))
    >>> time_steps(5, every=2)[0]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> time_steps(2, [1.0, 0.0])
    Traceback (most recent call last):
    ValueError: time: runs backwards at sample 1: 0.0 after 1.0
    """
    if n == 0:
        raise ValueError("X: there are no samples")
    if time is None:
        starts = np.arange(0, n, whole("every", every))
        times: NDArray[Any] = np.arange(len(starts), dtype=float)
    else:
        values = np.asarray(time)
        if values.shape != (n,):
            raise ValueError(f"time: must have shape ({n},), not {values.shape}")
        if values.dtype.kind not in "mM":
            values = to_float_array("time", time)
        missing = np.isnat(values) if values.dtype.kind in "mM" else ~np.isfinite(values)
        if missing.any():
            raise ValueError(f"time: sample {int(np.argmax(missing))} has no finite time")
        backwards = values[1:] < values[:-1]
        if backwards.any():
            i = int(np.argmax(backwards)) + 1
            raise ValueError(f"time: runs backwards at sample {i}: {values[i]} after {values[i - 1]}")
        starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
        times = values[starts]
    ends = [*starts[1:].tolist(), n]
    return [slice(a, b) for a, b in zip(starts.tolist(), ends)], times


@dataclass(frozen=True)
class Judged:
    """How some samples were predicted: the loss is a mean over the samples."""

    n: int
    loss: float
    right: int = 0
    squared_error: float = 0.0


class Follows(Protocol):
    """What :func:`follow` asks of a follower."""

    def _judge(self, X: Any, y: Any) -> Judged: ...
    def partial_fit(self, X: Any, y: Any) -> Any: ...


@dataclass(frozen=True)
class FollowResult:
    """Scores of foresight, one per time step.

    Attributes
    ----------
    time, n : numpy.ndarray
        Time and number of samples of each time step.
    loss : numpy.ndarray
        Mean loss of its samples before they were learnt from.
    right : numpy.ndarray
        Samples whose class was named; zeros where numbers are predicted.
    squared_error : numpy.ndarray
        Sum of squared errors; zeros where classes are predicted.
    classification : bool
        Whether classes are predicted.
    shares : tuple of (str, float)
        Of a bank of settings: each with its share in the last prediction, the largest first.
    calibration_error : float
        Expected calibration error: how far the largest probability is from how often it is right, over 15 bins, as a share. NaN where
        numbers are predicted, and of networks of PyTorch and JAX, whose outputs need not be probabilities.
    """

    time: NDArray[Any]
    n: NDArray[np.int64]
    loss: Array
    right: NDArray[np.int64]
    squared_error: Array
    classification: bool
    shares: tuple[tuple[str, float], ...] = ()
    calibration_error: float = float("nan")

    @property
    def accuracy(self) -> float:
        """Share of samples whose class was named; NaN where numbers are predicted."""
        return float(self.right.sum() / self.n.sum()) if self.classification else float("nan")

    @property
    def rmse(self) -> float:
        """Root mean squared error; NaN where classes are predicted."""
        if self.classification:
            return float("nan")
        return float(np.sqrt(self.squared_error.sum() / self.n.sum()))

    @property
    def mean_loss(self) -> float:
        """Mean loss per sample."""
        return float((self.loss * self.n).sum() / self.n.sum())

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        level = f"accuracy={self.accuracy:.4f}" if self.classification else f"rmse={self.rmse:.4g}"
        return f"FollowResult(time steps={len(self)}, samples={int(self.n.sum())}, {level}, mean_loss={self.mean_loss:.4g})"

    def level(self, over: int = 1) -> Array:
        """Accuracy (or root mean squared error) over the last ``over`` time steps, for each of them."""
        over = whole("over", over)
        what = self.right.astype(float) if self.classification else self.squared_error

        def sums(values: Array) -> Array:
            total = np.concatenate([[0.0], np.cumsum(values)])
            first = np.maximum(np.arange(1, len(values) + 1) - over, 0)
            return np.asarray(total[1:] - total[first])

        ratio = sums(what) / sums(self.n.astype(float))
        return ratio if self.classification else np.sqrt(np.maximum(ratio, 0.0))

    def to_dataframe(self, library: Optional[str] = None) -> Any:
        """A row for each time step: pandas if it is installed, else polars."""
        shown = {"right": self.right} if self.classification else {"squared_error": self.squared_error}
        return _frame({"time": self.time, "n": self.n, "loss": self.loss, **shown}, library)

    def plot(self, ax: Any = None, over: Optional[int] = None, **line: Any) -> Any:
        """Draws accuracy (or error) over time with matplotlib, as a moving mean over ``over`` time steps."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install matplotlib") from None
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
        over = max(1, len(self) // 50) if over is None else over
        values = self.level(over) * (100 if self.classification else 1)
        ax.plot(self.time, values, **line)
        what = "Accuracy before learning (%)" if self.classification else "Root mean squared error before learning"
        ax.set_ylabel(what if over == 1 else f"{what},\nlast {over} time steps")
        ax.set_xlabel("Time")
        return ax


def _walk(
    follower: Follows, X: Any, y: Any, slices: list[slice], progress: Optional[bool]
) -> Iterator[Judged]:
    with Progress(len(slices), "following", progress, unit="step") as bar:
        for rows in slices:
            part, labels = _cut(X, rows), _cut(y, rows)
            judged = follower._judge(part, labels)
            follower.partial_fit(part, labels)
            yield judged
            bar.advance()


def result_of(times: NDArray[Any], judged: list[Judged], classification: bool) -> FollowResult:
    """Scores as arrays."""
    return FollowResult(
        time=times,
        n=np.array([j.n for j in judged], dtype=np.int64),
        loss=np.array([j.loss for j in judged], dtype=float),
        right=np.array([j.right for j in judged], dtype=np.int64),
        squared_error=np.array([j.squared_error for j in judged], dtype=float),
        classification=classification,
    )


def follow(
    follower: Follows,
    X: Any,
    y: Any,
    time: Any,
    every: int,
    classification: bool,
    progress: Optional[bool],
) -> FollowResult:
    """Predicts, scores and learns, time step after time step."""
    slices, times = time_steps(count(X, y), time, every)
    return result_of(times, list(_walk(follower, X, y, slices, progress)), classification)


def judge(z: Array, y: NDArray[Any], loss: float, classification: bool) -> Judged:
    """Scores outputs (samples first) against labels: one output is the log-odds of class 1, several are one per class."""
    n = len(y)
    if not classification:
        error = z.reshape(n, -1).astype(float) - y.reshape(n, -1).astype(float)
        return Judged(n, loss, squared_error=float((error**2).sum()))
    z = z.reshape(n, -1) if z.ndim < 2 or z.shape[-1] == 1 else z
    said = (z[:, 0] > 0) if z.shape[-1] == 1 else z.argmax(axis=-1)
    return Judged(n, loss, right=int((said.reshape(n, -1) == y.reshape(n, -1)).all(axis=1).sum()))


def level(z: Array, y: NDArray[Any], classification: bool) -> float:
    """scikit-learn's score: the share of right classes, or R squared."""
    judged = judge(z, y, 0.0, classification)
    if classification:
        return judged.right / max(judged.n, 1)
    y = y.astype(float)
    around = float(((y - y.mean(axis=0)) ** 2).sum())
    return 1.0 - judged.squared_error / around if around > 0 else float(judged.squared_error == 0)
