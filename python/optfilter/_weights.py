"""Filters over weights: their names, what each of them reads, and its settings as the engine takes them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ._arrays import whole
from ._settings import to_json
from .optimizers import Adam, Optimizer

#: Every method, and what it is.
METHODS = {
    "imap": "implicit MAP filter: K optimizer steps",
    "vkf": "variational Kalman filter: K steps with a pull to the prediction",
    "direct": "direct fit: 1000 steps",
    "pf": "particle filter",
    "static": "weights that never change",
    "ekf": "extended Kalman filter with a diagonal belief",
    "vdekf": "the same, variational",
    "bong": "Bayesian online natural gradient with a diagonal belief, or a low-rank one",
    "lofi": "low-rank extended Kalman filter",
    "ivon": "variational online Newton",
    "auto": "a bank of settings",
}

_DESCENT = ("imap", "vkf", "direct")
_BELIEF = ("ekf", "vdekf", "bong", "lofi")

#: The settings of a single filter, and the methods that read each.
READ_BY: dict[str, tuple[str, ...]] = {
    "optimizer": _DESCENT,
    "steps": ("imap", "vkf", "ivon"),
    "window": _DESCENT,
    "discount": _DESCENT,
    "carry": _DESCENT,
    "lr": ("ivon",),
    "drift_var": ("vkf", "pf", *_BELIEF),
    "particles": ("pf",),
    "rank": ("lofi", "bong"),
    "samples": ("bong",),
    "prior_var": _BELIEF,
    "noise_var": _BELIEF,
    "robust": _BELIEF,
    "ivon_size": ("ivon",),
    "ivon_curvature": ("ivon",),
    "ivon_betas": ("ivon",),
    "ivon_decay": ("ivon",),
}

#: What is not given, where it is not the engine's to choose.
USUAL: dict[str, Any] = {"optimizer": Adam(1e-3), "steps": 10, "window": 0, "discount": 1.0, "carry": False}


def given(settings: Mapping[str, Any]) -> list[str]:
    """The settings of a single filter that were given.

    >>> given({"method": None, "steps": 3, "window": None})
    ['steps']
    """
    named = [] if settings.get("method") in (None, "auto") else ["method"]
    return named + [name for name in READ_BY if settings.get(name) is not None]


def check(settings: Mapping[str, Any]) -> str:
    """The method; what it does not read is refused, because whoever gives it expects something of it.

    >>> check({"method": "ekf", "rank": 3})
    Traceback (most recent call last):
    ValueError: rank: is nothing to method='ekf'; it is for lofi, bong
    >>> check({"method": "auto", "steps": 3})
    Traceback (most recent call last):
    ValueError: steps: is chosen by the bank itself; leave it out, or name another method
    """
    method = settings.get("method") or "imap"
    if method not in METHODS:
        raise ValueError(f"method: there is no {method!r}; there are {', '.join(METHODS)}")
    for name, methods in READ_BY.items():
        value = settings.get(name)
        idle = value is None or (name == "window" and value == 0)
        if idle or method in methods:
            continue
        if method == "auto":
            raise ValueError(f"{name}: is chosen by the bank itself; leave it out, or name another method")
        more = "; the rate of a rule belongs to it: optimizer=Adam(lr)" if name == "lr" else ""
        raise ValueError(f"{name}: is nothing to method={method!r}; it is for {', '.join(methods)}{more}")
    if settings.get("samples") is not None:
        for name, why in (("rank", "are two forms of bong"), ("robust", "do not go together: it needs the linearised network")):
            if settings.get(name) is not None:
                raise ValueError(f"samples: {name} and samples {why}; give one of them")
    return str(method)


def form(settings: Mapping[str, Any]) -> str:
    """The method under the engine's name, of which bong has three.

    >>> form({"method": "bong", "samples": 4}), form({"method": "bong", "rank": 4}), form({"method": "lofi", "rank": 4})
    ('bong-sampled', 'bong-low-rank', 'lofi')
    """
    method = str(settings["method"])
    if method != "bong":
        return method
    return "bong-low-rank" if "rank" in settings else "bong-sampled" if "samples" in settings else "bong"


def _number(name: str, value: Any, zero: bool = False) -> float:
    try:
        number = math.nan if isinstance(value, (str, bool)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and (number > 0 or (zero and number == 0))):
        raise ValueError(f"{name}: must be {'at least 0' if zero else 'positive'} and finite, not {value!r}")
    return number


def _betas(value: Any) -> list[float]:
    try:
        betas = [float(beta) for beta in value]
    except (TypeError, ValueError):
        betas = []
    if isinstance(value, str) or len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"ivon_betas: must be two numbers, at least 0 and below 1, not {value!r}")
    return betas


def usual(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the method reads, with what is usual in the place of those that were not given; the engine's own defaults are left out."""
    method = check(settings)
    read = {name: settings.get(name) for name, methods in READ_BY.items() if method in methods}
    fill: Mapping[str, Any] = {"lr": 0.1} if method == "ivon" else USUAL  # which takes one step, not ten
    read = {name: fill.get(name) if value is None else value for name, value in read.items()}
    return {"method": method, **{name: value for name, value in read.items() if value is not None}}


def spec(settings: Mapping[str, Any]) -> str:
    """A single filter as the engine reads it.

    >>> spec({"method": "lofi", "rank": 3, "drift_var": 1e-4})
    '{"method": "lofi", "drift_var": 0.0001, "count": 3}'
    """
    chosen = usual(settings)
    out: dict[str, Any] = {"method": form(chosen)}
    if "optimizer" in chosen:
        rule = chosen["optimizer"]
        if not isinstance(rule, Optimizer) or not hasattr(rule, "lr"):
            raise ValueError(
                f"optimizer: must be SGD, Adam, RMSProp, Adagrad or Adadelta of optfilter, not {rule!r}; "
                "other rules work with optfilter.torch and optfilter.jax"
            )
        names = ("steps", "window", "discount", "carry")
        descent: dict[str, Any] = {str(name): chosen[name] for name in names if name in chosen}
        out["rule"] = to_json({"method": "imap", **rule._spec(), **descent})
    if "steps" in chosen:
        out["steps"] = whole("steps", chosen["steps"], most=2**32 - 1)
    for name in ("lr", "drift_var", "prior_var", "noise_var", "robust", "ivon_size", "ivon_curvature", "ivon_decay"):
        if name in chosen:
            out[name] = _number(name, chosen[name], zero=name in ("drift_var", "ivon_decay"))
    if "ivon_betas" in chosen:
        out["ivon_betas"] = _betas(chosen["ivon_betas"])
    for name in ("particles", "rank", "samples"):
        if name in chosen:
            out["count"] = whole(name, chosen[name], most=2**32 - 1)
    return json.dumps(out)
