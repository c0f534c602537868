"""Priors and learning rates: Section 3 of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._arrays import Array, covariance, to_float_array, whole


def _matrices(H: Any, R: Any) -> tuple[Array, Array]:
    H = np.atleast_2d(to_float_array("H", H))
    return H, covariance("R", R, H.shape[0])


def implied_prior(learning_rate: Any, H: Any, R: Any = 1.0, *, steps: int) -> Array:
    """The predictive covariance that ``steps`` gradient steps imply.

    ``learning_rate`` is a number (plain gradient descent) or a matrix (n, n). The measurement is
    ``y = H x + r`` with ``r ~ N(0, R)``.

    >>> import optfilter
    >>> optfilter.implied_prior(0.1, H=1.0, R=1.0, steps=3).round(4)
    array([[0.3717]])
    >>> optfilter.implied_prior(1.5, H=1.0, R=1.0, steps=3)
    Traceback (most recent call last):
    ValueError: learning_rate: no prior implies this learning rate: ...
    """
    H, R = _matrices(H, R)
    rate = to_float_array("learning_rate", learning_rate)
    return _core.implied_prior(float(rate) if rate.ndim == 0 else rate, H, R, whole("steps", steps))


def learning_rate_matrix(prior_cov: Any, H: Any, R: Any = 1.0, *, steps: int) -> Array:
    """The learning-rate matrix with which ``steps`` gradient steps give the Kalman mean.

    >>> import optfilter
    >>> M = optfilter.learning_rate_matrix([[0.3717]], H=1.0, R=1.0, steps=3)
    >>> M.round(3)
    array([[0.1]])
    """
    H, R = _matrices(H, R)
    prior = covariance("prior_cov", prior_cov, H.shape[1])
    return _core.learning_rate_matrix(prior, H, R, whole("steps", steps))


def largest_learning_rate(H: Any, R: Any = 1.0) -> float:
    """The learning rate (exclusive) above which no prior is implied: gradient descent would overshoot.

    >>> import optfilter
    >>> optfilter.largest_learning_rate(H=2.0, R=1.0)
    0.25
    """
    return _core.largest_learning_rate(*_matrices(H, R))
