"""Optimizers with optax's definitions and defaults.

Each class is a small immutable description; the steps run in Rust. Next to each stands a function of
optax's name and parameters: ``adam(learning_rate=0.1)`` is ``Adam(lr=0.1)``.

An optimizer may also be any Python callable ``rule(x, gradient, state) -> (x, state)``, where ``state`` is
``None`` before the first step, or an optax ``GradientTransformation``. Those run at Python's speed.

>>> from optfilter.optimizers import Adam, SGD
>>> Adam(lr=0.1)
Adam(lr=0.1, b1=0.9, b2=0.999, eps=1e-08)
>>> SGD(lr=-1.0)
Traceback (most recent call last):
ValueError: lr: -1 is not allowed; it must be positive and finite
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

import numpy as np

from . import _core
from ._arrays import Array, to_float_array

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "Preconditioned",
    "RMSProp",
    "adadelta",
    "adagrad",
    "adam",
    "rmsprop",
    "sgd",
]


class Optimizer:
    """An optimizer whose steps run in Rust."""

    def _spec(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __post_init__(self) -> None:
        try:
            _core.check_optimizer(self._spec())
        except TypeError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None


OptimizerLike = Union[Optimizer, Callable[[Array, Array, Any], "tuple[Array, Any]"], Any]


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent, with heavy-ball or Nesterov momentum if asked for."""

    lr: float
    momentum: Optional[float] = None
    nesterov: bool = False

    def _spec(self) -> tuple[Any, ...]:
        if self.momentum is None:
            return ("sgd", self.lr)
        return ("nesterov" if self.nesterov else "momentum", self.lr, self.momentum)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba 2014)."""

    lr: float
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def _spec(self) -> tuple[Any, ...]:
        return ("adam", self.lr, self.b1, self.b2, self.eps)


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """RMSprop; ``eps`` goes under the root as in optax, or beside it as in PyTorch."""

    lr: float
    decay: float = 0.9
    eps: float = 1e-8
    eps_in_sqrt: bool = True

    def _spec(self) -> tuple[Any, ...]:
        return ("rmsprop", self.lr, self.decay, self.eps, self.eps_in_sqrt)


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011)."""

    lr: float
    initial_accumulator_value: float = 0.1
    eps: float = 1e-7

    def _spec(self) -> tuple[Any, ...]:
        return ("adagrad", self.lr, self.initial_accumulator_value, self.eps)


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012); the original has ``lr = 1``."""

    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6

    def _spec(self) -> tuple[Any, ...]:
        return ("adadelta", self.lr, self.rho, self.eps)


class Preconditioned(Optimizer):
    """Gradient descent with a learning-rate matrix M: ``x <- x - M g``.

    With M from :func:`optfilter.learning_rate_matrix` the implicit filter is a Kalman filter.
    """

    def __init__(self, M: Any) -> None:
        matrix = to_float_array("M", M)
        if matrix.ndim == 0:
            matrix = matrix.reshape(1, 1)
        self.M: Array = matrix.copy()
        self.M.flags.writeable = False
        self.__post_init__()

    def _spec(self) -> tuple[Any, ...]:
        return ("matrix", self.M)

    def __repr__(self) -> str:
        return f"Preconditioned(M={self.M.tolist()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Preconditioned) and np.array_equal(self.M, other.M)

    def __hash__(self) -> int:
        return hash(self.M.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return Preconditioned, (np.array(self.M),)


def sgd(learning_rate: float, momentum: Optional[float] = None, nesterov: bool = False) -> SGD:
    """optax's name and parameters for :class:`SGD`."""
    return SGD(learning_rate, momentum, nesterov)


def adam(learning_rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Adam:
    """optax's name and parameters for :class:`Adam`."""
    return Adam(learning_rate, b1, b2, eps)


def rmsprop(
    learning_rate: float, decay: float = 0.9, eps: float = 1e-8, eps_in_sqrt: bool = True
) -> RMSProp:
    """optax's name and parameters for :class:`RMSProp`."""
    return RMSProp(learning_rate, decay, eps, eps_in_sqrt)


def adagrad(
    learning_rate: float, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> Adagrad:
    """optax's name and parameters for :class:`Adagrad`."""
    return Adagrad(learning_rate, initial_accumulator_value, eps)


def adadelta(learning_rate: float = 1.0, rho: float = 0.9, eps: float = 1e-6) -> Adadelta:
    """optax's name and parameters for :class:`Adadelta`."""
    return Adadelta(learning_rate, rho, eps)


class _Optax:
    """An optax transformation as a rule."""

    def __init__(self, transformation: Any) -> None:
        self.transformation = transformation

    def __call__(self, x: Array, gradient: Array, state: Any) -> tuple[Array, Any]:
        if state is None:
            state = self.transformation.init(x)
        updates, state = self.transformation.update(gradient, state, x)
        return x + np.asarray(updates, dtype=float), state


_NAMES: dict[str, Callable[..., Optimizer]] = {
    "gd": SGD,
    "sgd": SGD,
    "adam": Adam,
    "rmsprop": RMSProp,
    "adagrad": Adagrad,
    "adadelta": Adadelta,
}


def spec(optimizer: OptimizerLike) -> tuple[Any, ...]:
    """What the Rust side reads."""
    if isinstance(optimizer, Optimizer):
        return optimizer._spec()
    if isinstance(optimizer, type):
        raise ValueError(f"optimizer: give an instance, such as {optimizer.__name__}(lr=0.1)")
    if hasattr(optimizer, "init") and hasattr(optimizer, "update"):
        return ("python", _Optax(optimizer))
    if callable(optimizer):
        return ("python", optimizer)
    raise ValueError(
        f"optimizer: must be one of optfilter.optimizers or a callable, not {optimizer!r}"
    )
