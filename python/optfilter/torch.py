"""Anyone's PyTorch network as the state of a filter: K optimizer steps for each batch of a drifting stream.

A :class:`Follower` holds a ``torch.nn.Module`` and keeps it up to date. Each time step is *predicted first*; then its labels
arrive, and K steps of an optimizer from the present weights go down the discounted sum of the losses of the last L + 1 batches:

    l(w) = sum over j = t-L..t of g^(t-j) loss(module(X_j), y_j)

K, the rule and its learning rate take the place of process and measurement noise; L = 0 is the paper's filter. Memory: the
weights, the optimizer's state, one more copy of both while learning, and L + 1 batches. The equations and the same
semantics: ``docs/explanation/filter-banks.md``.

Example::

    import torch
    from optfilter.torch import Follower

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    follower = Follower(module, torch.nn.functional.cross_entropy, torch.optim.Adam, lr=0.02, steps=10, window=3, carry=True)
    for t in range(40):                               # a boundary that turns
        X = torch.randn(32, 2)
        angle = torch.tensor(0.05 * t)
        y = (X[:, 0] * angle.cos() + X[:, 1] * angle.sin() > 0).long()
        right = follower.score(X, y)                  # before learning
        follower.partial_fit(X, y)
    assert right > 0.85

PyTorch is imported when the first follower is made, not before.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Optional

import numpy as np
from numpy.typing import NDArray

from ._foreign import ForeignFollower
from ._rules import rule
from ._stream import FollowResult, WeightDivergenceError
from .optimizers import Optimizer

__all__ = ["FollowResult", "Follower", "WeightDivergenceError"]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("optfilter.torch needs PyTorch: pip install torch") from error
    return torch


class _OurRule:
    """A rule of :mod:`optfilter.optimizers` with the manners of a ``torch.optim`` one."""

    def __init__(self, parameters: list[Any], optimizer: Optimizer) -> None:
        self.parameters, self.rule, self.k = parameters, rule(optimizer), 0
        with _torch().no_grad():
            self.memory = [self.rule.start(p.detach()) for p in parameters]

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def step(self, closure: Callable[[], Any]) -> None:
        closure()
        self.k += 1
        with _torch().no_grad():
            for i, p in enumerate(self.parameters):
                if p.grad is not None:
                    change, self.memory[i] = self.rule.step(p.grad, self.memory[i], self.k)
                    p.sub_(change)

    def state_dict(self) -> dict[str, Any]:
        return {"k": self.k, "memory": [tuple(m) for m in self.memory]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.k = state["k"]
        self.memory = [
            tuple(part.to(p.device) for part in memory) for p, memory in zip(self.parameters, state["memory"])
        ]


class Follower(ForeignFollower):
    """A module with a filter.

    Parameters
    ----------
    module : torch.nn.Module
        Called as ``module(X)``, ``module(*X)`` for a tuple or ``module(**X)`` for a dictionary of tensors. It learns in
        place; parameters that ask for no gradient stay.
    loss : callable
        ``loss(module(X), y)``, a scalar tensor; a sum over the batch is what the paper uses, a mean works as well (other rate).
    optimizer : class of ``torch.optim``, callable or rule of ``optfilter.optimizers``
        A class (its settings as keywords: ``torch.optim.Adam, lr=1e-3``), any callable that takes the parameters and returns
        a ``torch.optim.Optimizer``, or ``optfilter.RMSProp(1e-3)``. Adam with a rate of 1e-3 where nothing is given.
    steps : int
        K, for each batch.
    window : int
        L, the number of past batches that are looked at again.
    discount : float
        g, how much a batch counts for each time step of its age.
    carry : bool
        Whether the optimizer's memory goes on from batch to batch; else it begins anew with each.
    task : {"classification", "regression"}, optional
        For scores. By default whole-number labels are classes and others are numbers. One output is the log-odds
        of class 1; else classes are axis 1, as PyTorch has them.
    reduction : {"mean", "sum"}
        What ``loss`` does over the samples of a batch. Scores report it per sample; learning takes it as it is.
    """

    def __init__(
        self,
        module: Any,
        loss: Callable[[Any, Any], Any],
        optimizer: Any = None,
        *,
        steps: int = 50,
        window: int = 0,
        discount: float = 1.0,
        carry: bool = False,
        task: Optional[str] = None,
        reduction: str = "mean",
        **options: Any,
    ) -> None:
        torch = _torch()
        if not isinstance(module, torch.nn.Module):
            raise ValueError(f"module: must be a torch.nn.Module, not {type(module).__name__}")
        super().__init__(loss, optimizer, steps, window, discount, carry, task, reduction)
        self.module, self.options = module, options
        self._memory = self._new_memory()  # a wrong setting is heard here, not at the first batch

    def _new_memory(self) -> Any:
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        if not parameters:
            raise ValueError("module: has no parameter that asks for a gradient")
        if isinstance(self.optimizer, Optimizer):
            if self.options:
                raise ValueError(f"{next(iter(self.options))}: a rule of optfilter has its settings inside")
            return _OurRule(parameters, self.optimizer)
        if not callable(self.optimizer):
            raise ValueError(f"optimizer: must be a class of torch.optim or a rule of optfilter, not {self.optimizer!r}")
        made = self.optimizer(parameters, **self.options)
        if not (hasattr(made, "step") and hasattr(made, "zero_grad")):
            raise ValueError(f"optimizer: must make a torch.optim.Optimizer, not {type(made).__name__}")
        return made

    def _placed(self, name: str, value: Any) -> Any:
        """As tensors where the module is; what is a floating number must be finite."""
        torch = _torch()
        if isinstance(value, dict):
            return {key: self._placed(name, item) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(self._placed(name, item) for item in value)
        weight = next(self.module.parameters())
        try:
            tensor = torch.as_tensor(value, device=weight.device)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: must be numbers: {error}") from None
        if tensor.is_floating_point():
            if not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"{name}: has an entry that is not a finite number")
            tensor = tensor.to(weight.dtype)
        return tensor

    def _output(self, X: Any) -> Any:
        if isinstance(X, dict):
            return self.module(**X)
        return self.module(*X) if isinstance(X, tuple) else self.module(X)

    def _looking(self, X: Any) -> Any:
        """Outputs without gradients, in the module's evaluation mode."""
        before = self.module.training
        self.module.eval()
        try:
            with _torch().no_grad():
                return self._output(X)
        finally:
            self.module.train(before)

    def predict(self, X: Any) -> Any:
        """What the module says, as a tensor."""
        return self._looking(self._placed("X", X))

    def _learn(self, batches: list[Any]) -> None:
        weights = copy.deepcopy(self.module.state_dict())
        memory = copy.deepcopy(self._memory.state_dict()) if self.carry else None
        training = self.module.training
        try:
            self.module.train()
            self._descend(batches)
        except BaseException:
            self.module.load_state_dict(weights)
            self._memory = self._new_memory()
            if memory is not None:
                self._memory.load_state_dict(memory)
            raise
        finally:
            self.module.train(training)
            for p in self.module.parameters():
                p.grad = None

    def _descend(self, batches: list[Any]) -> None:
        torch = _torch()
        if not self.carry:
            self._memory = self._new_memory()
        counted = self._weighed(batches)

        def closure() -> Any:
            self._memory.zero_grad()
            total = 0.0
            for weight, (X, y) in counted:
                loss = weight * self.loss(self._output(X), y)
                if loss.ndim:
                    raise ValueError(f"loss: must be one number, not a tensor of shape {tuple(loss.shape)}")
                if not bool(torch.isfinite(loss)):
                    raise WeightDivergenceError(self._updates, "the loss")
                loss.backward()  # one batch at a time: the graph of one is all that is kept
                total += float(loss.detach())
            return total

        for _ in range(self.steps):
            self._memory.step(closure)
        if not all(bool(torch.isfinite(p).all()) for p in self.module.parameters()):
            raise WeightDivergenceError(self._updates, "a weight")

    def _numbers(self, z: Any) -> NDArray[Any]:
        if not hasattr(z, "detach"):
            raise ValueError("module: scores need one tensor as output; judge other outputs with predict")
        array: NDArray[Any] = z.detach().cpu().numpy()
        return np.moveaxis(array, 1, -1) if array.ndim > 2 else array

    def _labels(self, placed: Any) -> NDArray[Any]:
        return np.asarray(placed.cpu().numpy())

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer's memory and window, for ``torch.save``; :meth:`load_state_dict` goes on from there."""
        return {
            "module": self.module.state_dict(),
            "memory": self._memory.state_dict(),
            "window": list(self._batches),
            "updates": self._updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a :meth:`state_dict` of a follower with the same module and settings."""
        self._complete(state, "module", "memory", "window", "updates")
        self.module.load_state_dict(state["module"])
        self._memory = self._new_memory()
        self._memory.load_state_dict(state["memory"])
        self._batches, self._updates = list(state["window"]), int(state["updates"])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_memory": self._memory.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        memory = state["_memory"]
        self.__dict__.update(state)
        self._memory = self._new_memory()
        self._memory.load_state_dict(memory)

    def __repr__(self) -> str:
        return f"Follower({type(self.module).__name__}, {self._named()}, {self._shown()})"
