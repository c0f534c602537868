"""Arguments to arrays, with errors that name the argument."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def to_float_array(name: str, value: Any) -> Array:
    """``value`` as a C-contiguous float64 array; the array itself where it already is one.

    >>> to_float_array("x", [1, 2])
    array([1., 2.])
    >>> to_float_array("x", "one")
    Traceback (most recent call last):
    ValueError: x: must be real numbers, not str
    """
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.c_contiguous:
        return value
    if isinstance(value, np.ma.MaskedArray):
        value = np.ma.filled(value.astype(float), np.nan)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: must be an array of numbers ({error})") from None
    if array.dtype.kind not in "fiub":
        if array.dtype.kind == "O":  # None or pandas.NA for missing numbers, decimals, fractions
            try:
                numbers = [_number(item) for item in array.ravel().tolist()]
                return np.array(numbers, dtype=np.float64).reshape(array.shape)
            except (TypeError, ValueError):
                pass
        kind = type(value).__name__ if array.ndim == 0 else f"an array of {array.dtype}"
        hint = "; give seconds, say" if array.dtype.kind in "mM" else ""
        raise ValueError(f"{name}: must be real numbers, not {kind}{hint}")
    # np.ascontiguousarray would turn a single number into a vector.
    return np.asarray(array, dtype=np.float64, order="C")


def _number(item: Any) -> float:
    """A number of an array of objects; NaN where it is missing."""
    if item is None or type(item).__name__ == "NAType":
        return np.nan
    if isinstance(item, (str, bytes)):
        raise TypeError("text")
    return float(item)


def vector(name: str, value: Any, n: int) -> Array:
    """``n`` numbers; a single number stands for ``n`` equal ones."""
    array = to_float_array(name, value)
    if array.ndim == 0:
        return np.full(n, float(array))
    if array.shape != (n,):
        raise ValueError(f"{name}: must have shape ({n},), not {array.shape}")
    return array.copy()


def compact(name: str, value: Any, n: int) -> Array:
    """A covariance as it was given: a matrix (n, n), a vector of variances, or one variance for all components."""
    array = to_float_array(name, value)
    if array.shape not in ((), (n,), (n, n)):
        raise ValueError(f"{name}: must have shape ({n}, {n}), ({n},) or (), not {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name}: has an entry that is not a finite number")
    array = array.copy()
    array.flags.writeable = False
    return array


def covariance(name: str, value: Any, n: int) -> Array:
    """A covariance (n, n): a matrix, a vector of variances, or one variance for all components.

    >>> covariance("Q", 2.0, 2)
    array([[2., 0.],
           [0., 2.]])
    """
    array = compact(name, value, n)
    if array.ndim == 2:
        return array
    return np.diag(np.broadcast_to(array, n))


def optional_covariance(name: str, value: Any, n: int) -> Optional[Array]:
    """A covariance, or None."""
    return None if value is None else covariance(name, value, n)


def whole(name: str, value: Any, least: int = 1, most: int = 2**63 - 1) -> int:
    """A whole number from ``least`` to ``most``."""
    try:
        number = value.__index__()
    except AttributeError:
        raise ValueError(f"{name}: must be a whole number, not {value!r}") from None
    if number < least:
        raise ValueError(f"{name}: must be at least {least}, not {number}")
    if number > most:
        raise ValueError(f"{name}: must be at most {most}, not {number}")
    return int(number)


def duration(name: str, value: Any) -> float:
    """A positive length of time."""
    array = to_float_array(name, value)
    if array.ndim or not (np.isfinite(array) and array > 0):
        raise ValueError(f"{name}: must be positive and finite, not {value}")
    return float(array)


def box(value: Any, n: int) -> Optional[tuple[Array, Array]]:
    """Lower and upper bounds of ``n`` numbers, or None."""
    if value is None:
        return None
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise ValueError(f"bounds: must be a pair (lower, upper), not {value!r}") from None
    return vector("bounds", lower, n), vector("bounds", upper, n)
