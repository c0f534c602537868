"""Exceptions of the package; everything else is one of Python's own kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np
from numpy.typing import NDArray


class DivergenceError(ArithmeticError):
    """A filter left the finite numbers.

    Attributes
    ----------
    index : int
        The time index, from 0: ``ys[index]`` is the measurement at which it happened.
    quantity : str
        What became infinite, NaN or not positive definite.
    last_good : numpy.ndarray
        The last finite estimate.
    trajectory : int or None
        Which trajectory of a batch, if it was one.
    """

    def __init__(
        self,
        index: int,
        quantity: str,
        last_good: Sequence[float],
        trajectory: Optional[int] = None,
    ) -> None:
        self.index = int(index)
        self.quantity = str(quantity)
        self.last_good: NDArray[np.float64] = np.array(last_good, dtype=float)
        self.trajectory = trajectory
        where = f" of trajectory {trajectory}" if trajectory is not None else ""
        state = np.array2string(self.last_good, threshold=6, precision=6)
        super().__init__(
            f"the filter diverged at time index {index}{where}: {quantity} is not finite or not "
            f"positive definite; last good state {state}"
        )

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (self.index, self.quantity, self.last_good.tolist(), self.trajectory)
