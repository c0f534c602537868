"""The engine behind :class:`optfilter.nn.Follower`: made of its settings and of the first samples, renewed, grown and pickled.

It is a single filter or a bank of them, with the same manners; the one says log-odds or logits, the other probabilities. Nothing is
changed where something is wrong with what was given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _core, _network, _weights
from ._arrays import Array, whole
from ._estimator import Estimator
from ._network import NetworkLike

#: What is only there once something was learnt.
LEARNT = (
    *("_engine", "_made", "_settings", "_flat", "_samples", "_keys"),
    *("classes_", "feature_names_in_", "n_features_in_"),
)


class Native(Estimator):
    """Settings, and an engine of them once there were samples."""

    network: NetworkLike
    scale: bool
    weights: Union[str, os.PathLike[str], None]
    seed: int
    classes_: NDArray[Any]
    n_features_in_: int

    method: Optional[str]

    def _filter(self) -> dict[str, Any]:
        """The settings of a single filter as they were given; None where they were not."""
        return {name: getattr(self, name) for name in ("method", *_weights.READ_BY)}

    def _spec(self, outputs: int, loss: str) -> Optional[str]:
        """The single filter as the engine reads it; nothing for a bank."""
        settings = self._filter()
        several = loss == "squared" and outputs > 1
        if self.method == "auto" or (not _weights.given(settings) and not several):
            _weights.check({**settings, "method": "auto"})
            return None
        return _weights.spec(settings)

    def _described(self, made: tuple[list[int], int, str]) -> tuple[str, Optional[str], bool]:
        return _network.describe(self.network), self._spec(*made[1:]), bool(self.scale)

    def _engine_of(self, made: tuple[list[int], int, str], described: tuple[str, Optional[str], bool]) -> Any:
        """An engine that has learnt nothing: a single filter, or a bank."""
        (shape, outputs, loss), (network, spec, scale) = made, described
        seed = whole("seed", self.seed, least=0, most=2**64 - 1)
        scale = scale and (len(shape) == 1 or spec is None)  # the bank leaves images as they are by itself
        classes, numbers = {"squared": (0, outputs), "binary": (2, 1)}.get(loss, (outputs, 1))
        return _core.CoreFollower(network, shape, classes, numbers, spec, scale, seed)

    def _build(self, *made: Any) -> Any:
        return self._engine_of(made, self._described(made))

    @property
    def _banked(self) -> bool:
        return hasattr(self, "_engine") and self._settings[1] is None

    def _begin(self, X: Array, y: NDArray[Any], classes: Any, names: Optional[list[str]]) -> None:
        """Everything that the first samples say; nothing is changed where something is wrong."""
        if self.task not in (None, "classification", "regression"):
            raise ValueError(f"task: must be 'classification' or 'regression', not {self.task!r}")
        shape = _network.sample_shape(X)
        known = None
        if self.task == "classification" or (self.task is None and (classes is not None or _network.are_classes(y))):
            known = np.unique(_network.class_labels(y if classes is None else np.asarray(classes)))
            outputs, loss = (1, "binary") if len(known) <= 2 else (len(known), "classes")
        else:
            outputs, loss = _network.number_labels(y).shape[1], "squared"
        engine = self._build(shape, outputs, loss)
        if self.weights is not None:
            with open(self.weights, "rb") as file:
                engine.read_safetensors(file.read())
        self._engine = engine
        self._made = (shape, outputs, loss)
        self._settings = self._described(self._made)
        self._flat = y.ndim == 1
        self._samples = 0
        self.n_features_in_ = int(np.prod(shape))
        for name, value in (("classes_", known), ("feature_names_in_", names)):
            if value is not None:
                setattr(self, name, np.asarray(value, dtype=object) if name == "feature_names_in_" else value)
            elif hasattr(self, name):
                delattr(self, name)

    def _renew(self) -> None:
        """An engine of the present settings with the weights and the scaling of the old one."""
        described = self._described(self._made)
        if self._settings == described:
            return
        if self._settings[0] != described[0]:
            raise ValueError("network: cannot change once weights were learnt; use fit, or a new Follower")
        engine = self._build(*self._made)
        engine.set_weights(self._engine.weights, self._engine.updates)
        if self.scale:
            engine.set_scaling(*self._engine.scaling, float(self._samples))
        self._engine, self._settings = engine, described

    @property
    def _classifies(self) -> bool:
        return self._made[2] != "squared"

    def _read(self, X: Any) -> tuple[Array, Optional[list[str]]]:
        """Samples, checked against those before; and the names of their columns, where they have some."""
        names = None
        if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            names = [str(name) for name in X.columns]
        array = _network.samples(X)
        if hasattr(self, "_engine"):
            known = getattr(self, "feature_names_in_", None)
            if names is not None and known is not None and names != known.tolist():
                raise ValueError(
                    "X: The feature names should match those that were passed during fit: "
                    f"{known.tolist()}, not {names}"
                )
            if _network.sample_shape(array) != self._made[0]:
                n = int(np.prod(array.shape[1:]))
                raise ValueError(
                    f"X: samples of shape {array.shape[1:]}, but those before had {self._made[0]}: X has {n} features, "
                    f"but Follower is expecting {self.n_features_in_} features as input"
                )
        return array, names

    def _coded(self, y: NDArray[Any]) -> tuple[Optional[NDArray[np.uint32]], Optional[Array]]:
        if self._classifies:
            return _network.codes(_network.class_labels(y), self.classes_), None
        values = _network.number_labels(y)
        if values.shape[1] != self._made[1]:
            raise ValueError(f"y: {values.shape[1]} numbers for each sample; {self._made[1]} are needed")
        return None, values

    def _pair(self, X: Any, y: Any) -> tuple[Array, NDArray[Any], Optional[list[str]]]:
        array, names = self._read(X)
        if y is None:
            raise ValueError("y: This estimator requires y to be passed, but the target y is None")
        if not np.isfinite(array).all():
            sample = int(np.argwhere(~np.isfinite(array))[0][0])
            raise ValueError(f"X: sample {sample} contains NaN or infinity")
        return array, _network.labels(y, len(array)), names

    def _grow(self, new: NDArray[Any]) -> None:
        """One more class: what was learnt of the others stays; the optimizer's memory and the window begin anew. The engine before stays as it
        is, so that it can be put back."""
        if (new.dtype.kind in "US") != (self.classes_.dtype.kind in "US"):
            _network.codes(new, self.classes_)  # says what is wrong
        classes = np.concatenate([self.classes_, new])
        if len(classes) > 2:
            engine = self._engine_of(self._made, self._settings)
            engine.load(self._engine.save())
            engine.grow(len(classes))
            self._engine, self._made = engine, (self._made[0], len(classes), "classes")
        self.classes_ = classes

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """What fails in here leaves everything as it was before. Engines are replaced in here, or undo their own failures."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:  # Ctrl-C too
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in self.__dict__.items() if k != "_engine"}
        return {**state, "_kept": self._engine.save()} if hasattr(self, "_engine") else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = state.pop("_kept", None)
        self.__dict__.update(state)
        if kept is not None:
            self._engine = self._engine_of(self._made, self._settings)
            self._engine.load(kept)
