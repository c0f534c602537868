"""The manners of a river model: one sample at a time, as a dictionary of features, with classes that nobody announced."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Callable, Optional

import numpy as np
from numpy.typing import NDArray

from . import _network
from ._arrays import Array, to_float_array


class OneByOne(ABC):
    """What is needed is scikit-learn's manner, and room for one more class."""

    task: Optional[str]
    classes_: NDArray[Any]
    predict_proba: Any

    @property
    @abstractmethod
    def _classifies(self) -> bool: ...
    @abstractmethod
    def _grow(self, new: NDArray[Any]) -> None: ...
    @abstractmethod
    def _undone(self) -> AbstractContextManager[None]: ...
    @abstractmethod
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Any: ...
    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]: ...

    def _vector(self, x: Mapping[Any, Any]) -> Array:
        if not isinstance(x, Mapping):
            raise ValueError(f"x: must be a dictionary of features, not {type(x).__name__}")
        names = getattr(self, "_keys", None) or list(x)
        if set(names) != set(x):
            odd = sorted(map(str, set(names) ^ set(x)))
            raise ValueError(f"x: its features differ from those before: {', '.join(odd)}")
        return to_float_array("x", [[x[name] for name in names]])

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """One sample as a dictionary of features. A class that was never met gives the network one more output."""
        X = self._vector(x)
        label = np.asarray([y])
        # The features are looked at by partial_fit, after the network has grown: what fails there undoes that, too.
        with self._undone():
            if hasattr(self, "_engine") and self._classifies:
                seen = _network.class_labels(label)
                if seen[0] not in self.classes_.tolist():
                    self._grow(seen)
            self.partial_fit(X, label)
            self._keys = getattr(self, "_keys", None) or list(x)

    def predict_one(self, x: Mapping[Any, Any]) -> Any:
        """The class or number of one sample; None (0.0 for numbers) before anything was learnt."""
        X = self._vector(x)
        if not hasattr(self, "_engine"):
            return 0.0 if self.task == "regression" else None
        return self.predict(X)[0].item()

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """The probability of each class so far for one sample."""
        X = self._vector(x)
        if not hasattr(self, "_engine"):
            return {}
        probabilities: Callable[[Any], Array] = self.predict_proba
        return dict(zip(self.classes_.tolist(), probabilities(X)[0].tolist()))
