"""Anyone's JAX network as the state of a filter: K optimizer steps for each batch of a drifting stream.

A :class:`Follower` holds ``params`` (any pytree) and keeps them up to date. Each time step is *predicted first*; then its
labels arrive, and K steps of an optax rule from the present weights go down the discounted sum of the losses of the last
L + 1 batches:

    l(w) = sum over j = t-L..t of g^(t-j) loss(apply(w, X_j), y_j)

The semantics are those of :mod:`optfilter.torch` and :mod:`optfilter.nn`; ``docs/explanation/filter-banks.md`` has the equations.

Example::

    import jax, jax.numpy as jnp, numpy as np, optax
    from optfilter.jax import Follower

    def apply(params, X):
        return jnp.tanh(X @ params["A"]) @ params["b"]

    def loss(z, y):
        return optax.sigmoid_binary_cross_entropy(z, y).mean()

    keys = jax.random.split(jax.random.key(0))
    params = {"A": jax.random.normal(keys[0], (2, 16)), "b": 0.1 * jax.random.normal(keys[1], (16,))}
    follower = Follower(apply, params, loss, optax.adam(0.02), steps=10, window=3, carry=True, task="classification")
    rng = np.random.default_rng(0)
    for t in range(40):                               # a boundary that turns
        X = rng.normal(size=(32, 2))
        y = (X @ [np.cos(0.05 * t), np.sin(0.05 * t)] > 0).astype(int)
        right = follower.score(X, y)                  # before learning
        follower.partial_fit(X, y)
    assert right > 0.85

The K steps are compiled once for each shape of batch; JAX is imported when the first follower is made, not before.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np
from numpy.typing import NDArray

from ._foreign import ForeignFollower
from ._rules import rule
from ._stream import FollowResult, WeightDivergenceError
from .optimizers import Optimizer

__all__ = ["FollowResult", "Follower", "WeightDivergenceError"]


def _jax() -> Any:
    try:
        import jax
    except ImportError as error:
        raise ImportError("optfilter.jax needs JAX: pip install jax") from error
    return jax


class _OurRule:
    """A rule of :mod:`optfilter.optimizers` with the manners of an optax one."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.rule = rule(optimizer)

    def init(self, params: Any) -> Any:
        leaves = _jax().tree.leaves(params)
        return _jax().numpy.zeros((), "int32"), [self.rule.start(leaf) for leaf in leaves]

    def update(self, gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
        k = state[0] + 1
        leaves, tree = _jax().tree.flatten(gradient)
        both = [self.rule.step(leaf, memory, k) for leaf, memory in zip(leaves, state[1])]
        return tree.unflatten([-change for change, _ in both]), (k, [memory for _, memory in both])


class Follower(ForeignFollower):
    """Parameters with a filter.

    Parameters
    ----------
    apply : callable
        ``apply(params, X)``, the outputs for some samples; with Flax, ``module.apply``.
    params : pytree
        The weights to begin with; they are not changed, the follower's are in :attr:`params`.
    loss : callable
        ``loss(apply(params, X), y)``, a scalar.
    optimizer : optax.GradientTransformation or rule of ``optfilter.optimizers``
        Anything with ``init`` and ``update``. Adam with a rate of 1e-3 where nothing is given.
    steps, window, discount, carry
        K, L, g, and whether the optimizer's memory goes on from batch to batch: see :class:`optfilter.torch.Follower`.
    task : {"classification", "regression"}, optional
        For scores. By default whole-number labels are classes and others are numbers. One output is the log-odds of
        class 1; else classes are the last axis.
    reduction : {"mean", "sum"}
        What ``loss`` does over the samples of a batch. Scores report it per sample; learning takes it as it is.
    jit : bool
        Whether JAX compiles the steps; off for functions that it cannot trace twice, and to debug.
    """

    def __init__(
        self,
        apply: Callable[[Any, Any], Any],
        params: Any,
        loss: Callable[[Any, Any], Any],
        optimizer: Any = None,
        *,
        steps: int = 50,
        window: int = 0,
        discount: float = 1.0,
        carry: bool = False,
        task: Optional[str] = None,
        reduction: str = "mean",
        jit: bool = True,
    ) -> None:
        jax = _jax()
        if not callable(apply):
            raise ValueError(f"apply: must be a callable, not {apply!r}")
        super().__init__(loss, optimizer, steps, window, discount, carry, task, reduction)
        rule_like = hasattr(self.optimizer, "init") and hasattr(self.optimizer, "update")
        if not isinstance(self.optimizer, Optimizer) and not rule_like:
            raise ValueError(f"optimizer: must be an optax rule or one of optfilter, not {optimizer!r}")
        self.apply, self.jit = apply, bool(jit)
        #: The weights as they are.
        self.params = jax.tree.map(jax.numpy.asarray, params)
        if not jax.tree.leaves(self.params):
            raise ValueError("params: there are no weights")
        self._prepare()
        self._memory = self._rule.init(self.params)

    def _prepare(self) -> None:
        """What is made of the settings and not saved: the rule and the compiled functions."""
        jax = _jax()
        self._rule: Any = _OurRule(self.optimizer) if isinstance(self.optimizer, Optimizer) else self.optimizer

        def one(params: Any, weight: Any, X: Any, y: Any) -> Any:
            return weight * self.loss(self.apply(params, X), y)

        def move(params: Any, memory: Any, gradient: Any) -> tuple[Any, Any]:
            change, memory = self._rule.update(gradient, memory, params)
            return jax.tree.map(lambda p, c: (p + c).astype(p.dtype), params, change), memory

        def fused(params: Any, memory: Any, weights: Any, batches: Any) -> tuple[Any, Any]:
            """K steps in one compiled loop; batches of equal shape lie behind one another."""

            def gradient(params: Any) -> Any:
                def add(total: Any, item: Any) -> tuple[Any, None]:
                    g = jax.grad(one)(params, item[0], *item[1])
                    return jax.tree.map(jax.numpy.add, total, g), None

                zero = jax.tree.map(jax.numpy.zeros_like, params)
                return jax.lax.scan(add, zero, (weights, batches))[0]

            def body(_: Any, both: Any) -> Any:
                return move(both[0], both[1], gradient(both[0]))

            return jax.lax.fori_loop(0, self.steps, body, (params, memory))  # type: ignore[no-any-return]

        compiled = jax.jit if self.jit else (lambda function: function)
        self._fused, self._move = compiled(fused), compiled(move)
        self._gradient, self._one = compiled(jax.grad(one)), compiled(one)
        self._apply = compiled(self.apply)

    def _placed(self, name: str, value: Any) -> Any:
        jax = _jax()

        def leaf(item: Any) -> Any:
            try:
                array = jax.numpy.asarray(item)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name}: must be numbers: {error}") from None
            if jax.numpy.issubdtype(array.dtype, jax.numpy.floating) and not bool(
                jax.numpy.isfinite(array).all()
            ):
                raise ValueError(f"{name}: has an entry that is not a finite number")
            return array

        return jax.tree.map(leaf, value, is_leaf=lambda item: isinstance(item, list))

    def predict(self, X: Any) -> Any:
        """What the network says."""
        return self._apply(self.params, self._placed("X", X))

    def _learn(self, batches: list[Any]) -> None:
        self.params, memory = self._descend(batches)
        if self.carry:
            self._memory = memory

    def _descend(self, batches: list[Any]) -> tuple[Any, Any]:
        jax = _jax()
        memory = self._memory if self.carry else self._rule.init(self.params)
        counted = self._weighed(batches)
        params = self.params
        newest = self._one(params, 1.0, *counted[-1][1])
        if newest.ndim:
            raise ValueError(f"loss: must be one number, not an array of shape {newest.shape}")
        if not bool(jax.numpy.isfinite(newest)):
            raise WeightDivergenceError(self._updates, "the loss")
        kind = newest.dtype
        weights = [jax.numpy.asarray(weight, kind) for weight, _ in counted]
        shapes = {str(jax.tree.map(lambda a: (a.shape, str(a.dtype)), b)) for _, b in counted}
        if len(shapes) == 1 and self.jit:
            stacked = jax.tree.map(lambda *parts: jax.numpy.stack(parts), *(b for _, b in counted))
            params, memory = self._fused(params, memory, jax.numpy.stack(weights), stacked)
        else:
            for _ in range(self.steps):
                total: Any = None
                for weight, (_, b) in zip(weights, counted):
                    g = self._gradient(params, weight, *b)
                    total = g if total is None else jax.tree.map(jax.numpy.add, total, g)
                params, memory = self._move(params, memory, total)
        if not all(bool(jax.numpy.isfinite(leaf).all()) for leaf in jax.tree.leaves(params)):
            raise WeightDivergenceError(self._updates, "a weight")
        return params, memory

    def _numbers(self, z: Any) -> NDArray[Any]:
        return np.asarray(z)

    def _labels(self, placed: Any) -> NDArray[Any]:
        return np.asarray(placed)

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer's memory and window as NumPy arrays; :meth:`load_state_dict` goes on from there."""
        saved = _jax().tree.map(np.asarray, (self.params, self._memory, self._batches))
        return {"params": saved[0], "memory": saved[1], "window": saved[2], "updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a :meth:`state_dict` of a follower with the same network and settings."""
        jax = _jax()
        self._complete(state, "params", "memory", "window", "updates")
        here, there = (jax.tree.map(np.shape, p) for p in (self.params, state["params"]))
        if here != there:
            raise ValueError(f"state: its weights are {there}, those of this follower {here}")
        loaded = jax.tree.map(jax.numpy.asarray, (state["params"], state["memory"], state["window"]))
        self.params, self._memory, self._batches = loaded
        self._updates = int(state["updates"])

    def __getstate__(self) -> dict[str, Any]:
        made = ("_rule", "_fused", "_move", "_gradient", "_one", "_apply", "params", "_memory", "_batches")
        return {**{k: v for k, v in self.__dict__.items() if k not in made}, "state": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("state")
        self.__dict__.update(state)
        self.params = saved["params"]
        self._prepare()
        self.load_state_dict(saved)

    def __repr__(self) -> str:
        return f"Follower({self._named()}, {self._shown()})"
