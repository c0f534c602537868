"""What belongs to saved weights: settings, scaling and classes, in the metadata of the safetensors file.

The lines are those of the command line (``optfilter adapt --save``), one for each thing: ``network mlp:64,64``,
``feature MEAN FACTOR`` in their order, ``class NAME`` in theirs; lines that a reader does not know are left alone. A bank is
``method auto`` and has no settings of a single filter.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _network, _weights, optimizers

_RULES = {
    "gd": lambda lr, more: optimizers.SGD(lr),
    "momentum": lambda lr, more: optimizers.SGD(lr, more.get("decay", 0.9)),
    "nesterov": lambda lr, more: optimizers.SGD(lr, more.get("decay", 0.9), True),
    "adam": lambda lr, more: optimizers.Adam(lr, more.get("beta1", 0.9), more.get("beta2", 0.999), more.get("eps", 1e-8)),
    "rmsprop": lambda lr, more: optimizers.RMSProp(
        lr, more.get("decay", 0.9), more.get("eps", 1e-8), more.get("eps_in_sqrt", True)
    ),
    "adagrad": lambda lr, more: optimizers.Adagrad(lr, more.get("accumulator", 0.1), more.get("eps", 1e-7)),
    "adadelta": lambda lr, more: optimizers.Adadelta(lr, more.get("decay", 0.9), more.get("eps", 1e-6)),
}


@dataclass
class Saved:
    """What a file says beside its weights."""

    settings: dict[str, Any]
    shape: list[int]
    features: list[tuple[float, float]]
    targets: list[tuple[float, float]]
    classes: Optional[NDArray[Any]]
    samples: int

    @property
    def outputs(self) -> int:
        return max(len(self.targets), 1)


#: The numbers of a single filter under the names that the command line gives them; a method has one count at most.
_LINES = {
    "steps": "steps",
    "lr": "lr",
    "drift_var": "sigma2",
    "prior_var": "prior",
    "noise_var": "noise",
    "robust": "robust",
    "particles": "particles",
    "rank": "particles",
    "samples": "particles",
}

#: Settings of ivon in the order of its line, with what they are where they were not given.
_IVON = {"ivon_size": 1e4, "ivon_curvature": 0.1, "ivon_betas": (0.9, 0.999), "ivon_decay": 1e-4}


def _single(settings: dict[str, Any]) -> list[str]:
    lines = [f"method {_weights.form(settings)}"]
    if settings["method"] == "ivon":
        size, curvature, betas, decay = (settings.get(name, usual) for name, usual in _IVON.items())
        lines.append("ivon " + " ".join(repr(float(v)) for v in (size, curvature, *betas, decay)))
    if "optimizer" in settings:
        spec = settings["optimizer"]._spec()
        lines += [
            f"optimizer {spec.pop('optimizer')}",
            f"lr {spec.pop('lr')!r}",
            f"rule {json.dumps(spec)}",
            f"carry {'true' if settings['carry'] else 'false'}",
            f"window {settings['window']} {float(settings['discount'])!r}",
        ]
    return lines + [f"{line} {settings[name]}" for name, line in _LINES.items() if name in settings]


def _settings(one: dict[str, str]) -> dict[str, Any]:
    """What the lines say of a single filter, as far as its method reads it."""
    form = one.get("method", "imap")
    method = form.partition("-")[0]
    settings: dict[str, Any] = {"method": method}
    reads = {name for name, methods in _weights.READ_BY.items() if method in methods}
    if "optimizer" in reads:
        settings["optimizer"] = _RULES[one["optimizer"]](float(one["lr"]), json.loads(one.get("rule", "{}")))
        settings["carry"] = one.get("carry") == "true"
        window, _, discount = one.get("window", "0 1").partition(" ")
        settings["window"], settings["discount"] = int(window), float(discount)
    # Of the two counts that bong may have, the one of its form.
    reads -= {"bong-low-rank": {"samples"}, "bong-sampled": {"rank", "robust"}, "bong": {"rank", "samples"}}.get(form, set())
    for name, line in _LINES.items():
        if name in reads and line in one:
            settings[name] = (int if name in ("steps", "particles", "rank", "samples") else float)(one[line])
    if method == "ivon" and "ivon" in one:
        size, curvature, beta1, beta2, decay = map(float, one["ivon"].split())
        found = dict(zip(_IVON, (size, curvature, (beta1, beta2), decay)))
        settings.update({name: value for name, value in found.items() if value != _IVON[name]})
    if method in ("imap", "vkf"):
        settings.setdefault("steps", 50)
    return settings


def text(
    follower: Any,
    shape: list[int],
    scaling: tuple[list[tuple[float, float]], list[tuple[float, float]]],
    classes: Optional[NDArray[Any]],
    samples: int,
) -> str:
    """The lines for a follower."""
    single: list[str] = ["method auto"]
    if not follower._banked:
        single = _single(_weights.usual(follower._filter()))
    lines = [
        f"network {_network.describe(follower.network)}",
        *single,
        f"seed {follower.seed}",
        f"shape {' '.join(map(str, shape))}",
        f"samples {samples}",
        f"scale {'true' if follower.scale else 'false'}",
    ]
    lines += [f"feature {mean!r} {factor!r}" for mean, factor in scaling[0]]
    lines += [f"target {mean!r} {factor!r}" for mean, factor in scaling[1]] or ["target 0.0 1.0"]
    if classes is not None:
        lines.append(f"labels {classes.dtype.str}")
        lines += ["class " + str(c).replace("\n", " ").replace("\r", " ") for c in classes.tolist()]
    return "\n".join(lines) + "\n"


def parse(data: bytes, path: str) -> Saved:
    """What the bytes of a file say; an error names the line."""
    try:
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        about = header.get("__metadata__", {}).get("optfilter")
    except (struct.error, ValueError, AttributeError):
        raise ValueError(f"{path}: is not a safetensors file") from None
    if about is None:
        raise ValueError(f"{path}: has weights but no settings; give it as Follower(network, weights=...)")
    settings: dict[str, Any] = {}
    found: dict[str, list[str]] = {}
    for line in about.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key, []).append(value)
    try:
        one = {key: values[0] for key, values in found.items()}
        settings["network"] = one["network"]
        if one.get("method") != "auto":
            settings.update(_settings(one))
        settings["seed"] = int(one.get("seed", "0"))
        settings["scale"] = one.get("scale", "true") == "true"
        pairs = {key: [(float(v.split()[0]), float(v.split()[1])) for v in found.get(key, [])] for key in ("feature", "target")}
        classes = None
        if "class" in found:
            kind = np.dtype(one["labels"]) if "labels" in one else None
            truth = kind is not None and kind.kind == "b"
            classes = np.array([name == "True" for name in found["class"]] if truth else found["class"])
            classes = classes if kind is None else classes.astype(kind)
        shape = [int(v) for v in one["shape"].split()] if "shape" in one else [len(pairs["feature"])]
        settings["task"] = "regression" if classes is None else "classification"
        samples = int(one.get("samples", "1000"))
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise ValueError(f"{path}: what it says of its settings is damaged ({error})") from None
    return Saved(settings, shape, pairs["feature"], pairs["target"], classes, samples)


def write(follower: Any, path: Union[str, os.PathLike[str]]) -> None:
    """Writes the weights of a follower, with all that belongs to them."""
    engine, classes = follower._engine, getattr(follower, "classes_", None)
    data = engine.to_safetensors(text(follower, follower._made[0], engine.scaling, classes, follower._samples))
    with open(path, "wb") as file:
        file.write(data)


def read(cls: Any, path: Union[str, os.PathLike[str]]) -> Any:
    """A follower of that class, as the file has it."""
    with open(path, "rb") as file:
        data = file.read()
    saved = parse(data, os.fspath(path))
    follower = cls(**saved.settings)
    n = 0 if saved.classes is None else len(saved.classes)
    outputs = saved.outputs if n == 0 else 1 if n <= 2 else n
    loss = "squared" if n == 0 else "binary" if n <= 2 else "classes"
    engine = follower._build(saved.shape, outputs, loss)
    engine.read_safetensors(data)
    if follower.scale and len(saved.shape) == 1:
        engine.set_scaling(saved.features, saved.targets if n == 0 else [], float(saved.samples))
    follower._engine, follower._made = engine, (saved.shape, outputs, loss)
    follower._settings = follower._described(follower._made)
    follower._flat, follower._samples = outputs == 1, saved.samples
    follower.n_features_in_ = int(np.prod(saved.shape))
    if saved.classes is not None:
        follower.classes_ = saved.classes
    return follower
