"""Layers, samples and labels of :mod:`optfilter.nn`: what is given, checked and brought into the engine's form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from ._arrays import Array, to_float_array, whole


class Layer:
    """A layer of a network; :func:`describe` makes text of a list of them."""

    def text(self) -> str:
        """As the engine and the command line read it."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Conv(Layer):
    """Convolution with a bias: a window of ``size`` x ``size`` moves by ``stride`` over an image with a zero border.

    The border is ``size // 2`` wide where nothing else is said, so that a stride of 1 keeps the image's size (odd ``size``):
    PyTorch's ``Conv2d(..., size, stride, padding=border)``.
    """

    channels: int
    size: int = 3
    stride: int = 1
    border: Optional[int] = None

    def text(self) -> str:
        numbers = [whole("channels", self.channels), whole("size", self.size), whole("stride", self.stride)]
        if self.border is not None:
            numbers.append(whole("border", self.border, least=0))
        elif numbers[1:] == [3, 1]:
            numbers = numbers[:1]
        return "conv:" + ",".join(map(str, numbers))


@dataclass(frozen=True)
class Dense(Layer):
    """Matrix product with a bias."""

    outputs: int

    def text(self) -> str:
        return f"dense:{whole('outputs', self.outputs)}"


@dataclass(frozen=True)
class MaxPool(Layer):
    """The largest of ``size`` x ``size`` pixels; what is left over at the edges is dropped."""

    size: int = 2

    def text(self) -> str:
        return "maxpool" if self.size == 2 else f"maxpool:{whole('size', self.size, least=2)}"


@dataclass(frozen=True)
class MeanPool(Layer):
    """The mean of ``size`` x ``size`` pixels; what is left over at the edges is dropped."""

    size: int = 2

    def text(self) -> str:
        return f"meanpool:{whole('size', self.size, least=2)}"


@dataclass(frozen=True)
class ReLU(Layer):
    """``max(x, 0)``."""


@dataclass(frozen=True)
class LeakyReLU(Layer):
    """``x`` where it is positive, else ``x / 100``."""


@dataclass(frozen=True)
class ELU(Layer):
    """``x`` where it is positive, else ``exp(x) - 1``."""


@dataclass(frozen=True)
class Tanh(Layer):
    """Hyperbolic tangent."""


@dataclass(frozen=True)
class Flatten(Layer):
    """An image becomes a vector; put in before the first dense layer where it is left out."""


NetworkLike = Union[str, Iterable[Union[str, Layer]]]


def describe(network: NetworkLike) -> str:
    """A network as text.

    >>> describe([Conv(8, size=5, stride=2), ReLU(), Dense(16), "tanh"])
    'conv:8,5,2 relu dense:16 tanh'
    >>> describe([3])
    Traceback (most recent call last):
    ValueError: network: a layer is one of optfilter.nn (Conv, Dense, ...) or its text, not 3
    """
    if isinstance(network, str):
        return network
    try:
        layers = list(network)
    except TypeError:
        raise ValueError(f"network: must be text or a list of layers, not {network!r}") from None
    for layer in layers:
        if not isinstance(layer, (str, Layer)):
            raise ValueError(f"network: a layer is one of optfilter.nn (Conv, Dense, ...) or its text, not {layer!r}")
    if not layers:
        return "linear"
    return " ".join(layer if isinstance(layer, str) else layer.text() for layer in layers)


def samples(X: Any) -> Array:
    """Samples first: vectors (n, features), grey images (n, rows, columns) or images (n, rows, columns, channels)."""
    if hasattr(X, "toarray"):
        raise TypeError("X: sparse data are not supported; use X.toarray()")
    array = np.asarray(X)
    if np.iscomplexobj(array):
        raise ValueError("X: Complex data not supported")
    if array.dtype.kind == "O" and any(isinstance(v, (dict, list, set, tuple)) for v in array.ravel().tolist()):
        raise TypeError("X: every argument must be a number, and not even a string that is no number")
    array = to_float_array("X", X)
    if array.ndim == 0 or array.ndim > 4:
        raise ValueError(f"X: Expected 2D array (samples, features) or images, got an array of shape {array.shape}")
    if array.ndim == 1:
        raise ValueError(
            f"X: Expected 2D array, got 1D array of {len(array)} numbers instead. "
            "Reshape your data either using array.reshape(-1, 1) if it has one feature or array.reshape(1, -1) for one sample"
        )
    if len(array) == 0:
        raise ValueError(f"X: Found array with 0 sample(s) (shape={array.shape}) while a minimum of 1 is required.")
    if array[0].size == 0:
        raise ValueError(f"X: Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    return array


def sample_shape(X: Array) -> list[int]:
    """Shape of one sample as the engine takes it."""
    if X.ndim == 2:
        return [X.shape[1]]
    return [*X.shape[1:3], X.shape[3] if X.ndim == 4 else 1]


def labels(y: Any, n: int) -> NDArray[Any]:
    """One label for each sample, or one row of numbers."""
    array = np.asarray(y)
    if array.ndim == 0:
        raise ValueError("y: one label for each sample is needed, not a single one")
    if np.iscomplexobj(array):
        raise ValueError("y: Complex data not supported")
    if len(array) != n:
        raise ValueError(f"y: {len(array)} labels for {n} samples (inconsistent numbers of samples)")
    return array


def are_classes(y: NDArray[Any]) -> bool:
    """Whether labels look like classes: texts, truth values or whole numbers."""
    if y.dtype.kind == "O":
        return any(isinstance(v, (str, bool, int)) for v in y.ravel().tolist())
    return y.dtype.kind in "USbiu"


def class_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Labels that are classes: a vector of things that can be compared."""
    if y.ndim == 2 and y.shape[1] == 1:
        _warn_of_columns()
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y: one class for each sample is needed, not an array of shape {y.shape}")
    if y.dtype.kind in "fc":
        if not np.isfinite(y).all():
            raise ValueError("y: contains NaN or infinity, which is no class")
        if (y != np.floor(y)).any():
            raise ValueError("y: Unknown label type: numbers that are not whole are no classes (task='regression'?)")
    if y.dtype.kind == "O":
        kinds = {type(v) for v in y.tolist()}
        if len(kinds) > 1 and any(issubclass(k, str) for k in kinds):
            raise ValueError("y: labels are of several types: " + ", ".join(sorted(k.__name__ for k in kinds)))
        if type(None) in kinds:
            raise ValueError("y: a label is None; leave such samples out")
        y = np.array(y.tolist())
    return y


def number_labels(y: NDArray[Any]) -> Array:
    """Labels that are numbers, (n, outputs)."""
    if y.dtype.kind in "US" or (y.dtype.kind == "O" and any(isinstance(v, str) for v in y.ravel().tolist())):
        raise ValueError("y: numbers are needed, not texts (task='classification'?)")
    values = to_float_array("y", y)
    if values.ndim > 2:
        raise ValueError(f"y: must have shape (n,) or (n, outputs), not {values.shape}")
    wrong = ~np.isfinite(values)
    if wrong.any():
        sample = int(np.argwhere(wrong)[0][0])
        raise ValueError(f"y: the label of sample {sample} is not a finite number (it contains NaN or infinity)")
    return values.reshape(len(values), -1)


def codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.uint32]:
    """The place of each label among the classes."""
    if (y.dtype.kind in "US") != (classes.dtype.kind in "US"):
        kinds = ("texts", "numbers") if y.dtype.kind in "US" else ("numbers", "texts")
        raise ValueError(f"y: the labels are {kinds[0]}, but the classes are {kinds[1]}: {classes.tolist()}")
    order = np.argsort(classes, kind="stable")
    ordered = classes[order]
    at = np.minimum(np.searchsorted(ordered, y), len(ordered) - 1)
    unknown = ordered[at] != y
    if unknown.any():
        new = y[np.argmax(unknown)]
        raise ValueError(f"y: unknown class {new!r} of sample {int(np.argmax(unknown))}; the classes are {classes.tolist()}")
    return order[at].astype(np.uint32)


def _warn_of_columns() -> None:
    import sys
    import warnings

    known = sys.modules.get("sklearn.exceptions")
    kind: type[Warning] = getattr(known, "DataConversionWarning", UserWarning)
    warnings.warn("A column-vector y was passed when a 1d array was expected", kind, stacklevel=4)
