"""The element-wise rules of :mod:`optfilter.optimizers` in plain arithmetic, for arrays of any framework.

The rules run in Rust wherever the engine runs. PyTorch and JAX keep their weights elsewhere, on a card perhaps, so the same
formulas stand here once more, on whatever has ``+ - * /`` and ``** 0.5``; the tests hold them against the Rust ones.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from .optimizers import SGD, Adadelta, Adagrad, Adam, Optimizer, RMSProp


class Rule(NamedTuple):
    """``state = start(x)`` and ``change, state = step(g, state, k)``: x becomes ``x - change`` at step k = 1, 2, ..."""

    start: Callable[[Any], "tuple[Any, ...]"]
    step: Callable[[Any, "tuple[Any, ...]", Any], "tuple[Any, tuple[Any, ...]]"]


def _zeros(count: int, value: float = 0.0) -> Callable[[Any], tuple[Any, ...]]:
    return lambda x: tuple(x * 0 + value for _ in range(count))


def _sgd(o: SGD) -> Rule:
    if o.momentum is None:
        return Rule(_zeros(0), lambda g, state, k: (o.lr * g, ()))

    decay: float = o.momentum

    def step(g: Any, state: tuple[Any, ...], k: Any) -> tuple[Any, tuple[Any, ...]]:
        total = g + decay * state[0]
        return o.lr * ((g + decay * total) if o.nesterov else total), (total,)

    return Rule(_zeros(1), step)


def _adam(o: Adam) -> Rule:
    def step(g: Any, state: tuple[Any, ...], k: Any) -> tuple[Any, tuple[Any, ...]]:
        mean = o.b1 * state[0] + (1 - o.b1) * g
        square = o.b2 * state[1] + (1 - o.b2) * g * g
        root = (square * (1 / (1 - o.b2**k))) ** 0.5
        return o.lr / (1 - o.b1**k) * mean / (root + o.eps), (mean, square)

    return Rule(_zeros(2), step)


def _rmsprop(o: RMSProp) -> Rule:
    def step(g: Any, state: tuple[Any, ...], k: Any) -> tuple[Any, tuple[Any, ...]]:
        square = o.decay * state[0] + (1 - o.decay) * g * g
        root = (square + o.eps) ** 0.5 if o.eps_in_sqrt else square**0.5 + o.eps
        return o.lr * g / root, (square,)

    return Rule(_zeros(1), step)


def _adagrad(o: Adagrad) -> Rule:
    def step(g: Any, state: tuple[Any, ...], k: Any) -> tuple[Any, tuple[Any, ...]]:
        total = state[0] + g * g
        # Without a gradient so far the step is zero: g is.
        return o.lr * g / (total + o.eps) ** 0.5, (total,)

    return Rule(_zeros(1, o.initial_accumulator_value), step)


def _adadelta(o: Adadelta) -> Rule:
    def step(g: Any, state: tuple[Any, ...], k: Any) -> tuple[Any, tuple[Any, ...]]:
        square = o.rho * state[0] + (1 - o.rho) * g * g
        change = ((state[1] + o.eps) ** 0.5 / (square + o.eps) ** 0.5) * g
        return o.lr * change, (square, o.rho * state[1] + (1 - o.rho) * change * change)

    return Rule(_zeros(2), step)


_RULES: dict[type[Any], Callable[[Any], Rule]] = {
    SGD: _sgd,
    Adam: _adam,
    RMSProp: _rmsprop,
    Adagrad: _adagrad,
    Adadelta: _adadelta,
}


def rule(optimizer: Optimizer) -> Rule:
    """The formulas of an optimizer.

    >>> from optfilter import CG, SGD
    >>> r = rule(SGD(0.5))
    >>> r.step(2.0, r.start(1.0), 1)
    (1.0, ())
    >>> rule(CG())
    Traceback (most recent call last):
    ValueError: optimizer: CG(probes=0) does not go through weights one by one; use SGD, Adam, RMSProp, Adagrad or Adadelta
    """
    for kind, make in _RULES.items():
        if isinstance(optimizer, kind):
            return make(optimizer)
    raise ValueError(
        f"optimizer: {optimizer!r} does not go through weights one by one; "
        "use SGD, Adam, RMSProp, Adagrad or Adadelta"
    )
