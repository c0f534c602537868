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
from typing import Any, Callable, ClassVar, Optional, Union

import numpy as np

from ._arrays import Array, to_float_array
from ._settings import to_json

__all__ = [
    "CG",
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

    #: The engine's names of parameters that have another one here.
    _named: ClassVar[dict[str, str]] = {}

    def _spec(self) -> dict[str, Any]:
        """The settings of the engine that name it."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        try:
            to_json(self._spec())
        except ValueError as error:
            key, colon, text = str(error).partition(": ")
            raise ValueError(self._named.get(key, key) + colon + text) from None


OptimizerLike = Union[Optimizer, Callable[[Array, Array, Any], "tuple[Array, Any]"], Any]


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent, with heavy-ball or Nesterov momentum if asked for."""

    lr: float
    momentum: Optional[float] = None
    nesterov: bool = False
    _named: ClassVar[dict[str, str]] = {"decay": "momentum"}

    def _spec(self) -> dict[str, Any]:
        if self.momentum is None:
            return {"optimizer": "gd", "lr": self.lr}
        name = "nesterov" if self.nesterov else "momentum"
        return {"optimizer": name, "lr": self.lr, "decay": self.momentum}


@dataclass(frozen=True)
class CG(Optimizer):
    """Gauss-Newton conjugate gradients: no learning rate at all; the number of steps is the prior.

    With ``probes`` their directions are scaled by the curvature's diagonal, as far as that many random backward passes per measurement
    tell it: for states by the ten thousand, where 4 probes save more than half of the steps.
    """

    probes: int = 0

    def _spec(self) -> dict[str, Any]:
        return {"optimizer": "cg", "probes": self.probes} if self.probes else {"optimizer": "cg"}


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba 2014)."""

    lr: float
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    _named: ClassVar[dict[str, str]] = {"beta1": "b1", "beta2": "b2"}

    def _spec(self) -> dict[str, Any]:
        return {"optimizer": "adam", "lr": self.lr, "beta1": self.b1, "beta2": self.b2, "eps": self.eps}


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """RMSprop; ``eps`` goes under the root as in optax, or beside it as in PyTorch."""

    lr: float
    decay: float = 0.9
    eps: float = 1e-8
    eps_in_sqrt: bool = True

    def _spec(self) -> dict[str, Any]:
        return {
            "optimizer": "rmsprop",
            "lr": self.lr,
            "decay": self.decay,
            "eps": self.eps,
            "eps_in_sqrt": self.eps_in_sqrt,
        }


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011)."""

    lr: float
    initial_accumulator_value: float = 0.1
    eps: float = 1e-7
    _named: ClassVar[dict[str, str]] = {"accumulator": "initial_accumulator_value"}

    def _spec(self) -> dict[str, Any]:
        return {
            "optimizer": "adagrad",
            "lr": self.lr,
            "accumulator": self.initial_accumulator_value,
            "eps": self.eps,
        }


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012); the original has ``lr = 1``."""

    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    _named: ClassVar[dict[str, str]] = {"decay": "rho"}

    def _spec(self) -> dict[str, Any]:
        return {"optimizer": "adadelta", "lr": self.lr, "decay": self.rho, "eps": self.eps}


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
        symmetric = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and np.allclose(matrix, matrix.T)
        if not (symmetric and np.all(np.isfinite(matrix)) and np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.abs(matrix).max()):
            raise ValueError("M: must be square, finite, symmetric and positive semi-definite")

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


def spec(optimizer: OptimizerLike) -> tuple[dict[str, Any], Any]:
    """What the Rust side reads: settings that name a rule, or the rule itself."""
    if isinstance(optimizer, Preconditioned):
        return {}, ("matrix", optimizer.M)
    if isinstance(optimizer, Optimizer):
        return optimizer._spec(), None
    if isinstance(optimizer, str):
        return {"optimizer": "gd" if optimizer == "sgd" else optimizer}, None
    if isinstance(optimizer, type):
        raise ValueError(f"optimizer: give an instance, such as {optimizer.__name__}(lr=0.1)")
    if hasattr(optimizer, "init") and hasattr(optimizer, "update"):
        return {}, ("python", _Optax(optimizer))
    if callable(optimizer):
        return {}, ("python", optimizer)
    raise ValueError(
        f"optimizer: must be one of optfilter.optimizers or a callable, not {optimizer!r}"
    )
