"""What the followers of other programs' networks share: :mod:`optfilter.torch` and :mod:`optfilter.jax` fill in the rest.

A follower of a foreign network keeps the last L + 1 batches, lets time pass, and is judged before it learns. How arrays are placed,
what the network says and how K steps are taken is the other program's, and left to the subclass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, Optional, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _stream
from ._stream import FollowResult, Judged
from .optimizers import Adam, Optimizer

_F = TypeVar("_F", bound="ForeignFollower")


class ForeignFollower(ABC):
    """The settings of a filter over weights, its window, and its scores."""

    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        optimizer: Any,
        steps: int,
        window: int,
        discount: float,
        carry: bool,
        task: Optional[str],
        reduction: str,
    ) -> None:
        if not callable(loss):
            raise ValueError(f"loss: must be a callable loss(output, y), not {loss!r}")
        if task not in (None, "classification", "regression"):
            raise ValueError(f"task: must be 'classification' or 'regression', not {task!r}")
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction: must be 'mean' or 'sum', not {reduction!r}")
        self.loss, self.task, self.reduction, self.carry = loss, task, reduction, bool(carry)
        self.steps, self.window, self.discount = _stream.settings(steps, window, discount)
        self.optimizer = Adam(1e-3) if optimizer is None else optimizer
        self._batches: list[Any] = []
        self._updates = 0

    # ---------------------------------------------------------------- what the other program does

    @abstractmethod
    def _placed(self, name: str, value: Any) -> Any:
        """Arrays of the other program; what is a floating number must be finite."""

    @abstractmethod
    def _learn(self, batches: list[Any]) -> None:
        """K steps on these batches (None: a time step without labels), the newest last; on an error everything is as before."""

    @abstractmethod
    def predict(self, X: Any) -> Any:
        """What the network says."""

    @abstractmethod
    def _numbers(self, z: Any) -> NDArray[Any]:
        """Outputs as NumPy has them, samples first and classes last."""

    @abstractmethod
    def _labels(self, placed: Any) -> NDArray[Any]:
        """Labels as NumPy has them."""

    # ---------------------------------------------------------------- what is the same for all

    @property
    def updates(self) -> int:
        """Number of batches that were learnt from."""
        return self._updates

    def partial_fit(self: _F, X: Any, y: Any = None) -> _F:
        """Time passes by one step, and the labels of its samples arrive; ``y=None``: none did, and nothing is learnt.

        A batch that does not fit, a loss or a weight that leaves the finite numbers raises, and everything is as before.
        """
        if y is None or _stream.count(X, y) == 0:
            self._batches = [*self._batches, None][-(self.window + 1) :]
            return self
        batches = [*self._batches, (self._placed("X", X), self._placed("y", y))][-(self.window + 1) :]
        self._learn(batches)
        self._batches = batches
        self._updates += 1
        return self

    def _weighed(self, batches: list[Any]) -> list[tuple[float, Any]]:
        """Batches that have labels, each with its factor g^age; the newest last."""
        ages = range(len(batches) - 1, -1, -1)
        return [(self.discount**age, batch) for age, batch in zip(ages, batches) if batch is not None]

    def _classification(self, y: Any) -> bool:
        if self.task is not None:
            return self.task == "classification"
        return self._labels(self._placed("y", y)).dtype.kind in "iub"

    def _judge(self, X: Any, y: Any) -> Judged:
        z, placed = self.predict(X), self._placed("y", y)
        array = self._numbers(z)
        loss = float(self.loss(z, placed)) / (len(placed) if self.reduction == "sum" else 1)
        return _stream.judge(array, self._labels(placed), loss, self._classification(y))

    def score(self, X: Any, y: Any) -> float:
        """Share of right classes, or R squared of numbers, at the present weights."""
        _stream.count(X, y)
        array = self._numbers(self.predict(X))
        return _stream.level(array, self._labels(self._placed("y", y)), self._classification(y))

    def follow(
        self, X: Any, y: Any, time: Any = None, *, every: int = 1, progress: Optional[bool] = None
    ) -> FollowResult:
        """Predicts, scores and then learns, time step after time step: samples of equal ``time``, or ``every`` rows."""
        return _stream.follow(self, X, y, time, every, self._classification(y), progress)

    @staticmethod
    def _complete(state: dict[str, Any], *names: str) -> None:
        """Whether a saved state has all its parts."""
        missing = set(names) - set(state)
        if missing:
            raise ValueError(f"state: lacks {', '.join(sorted(missing))}")

    def _named(self) -> Any:
        """The optimizer, in a word."""
        named = isinstance(self.optimizer, Optimizer)
        return self.optimizer if named else getattr(self.optimizer, "__name__", type(self.optimizer).__name__)

    def _shown(self) -> str:
        return (
            f"steps={self.steps}, window={self.window}, discount={self.discount:g}, "
            f"carry={self.carry}, updates={self._updates}"
        )
