"""Settings of filters and optimizers, as the engine reads them; what is wrong with one is said by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _core
from ._arrays import whole

#: Whole numbers: the least and the largest.
_WHOLE = {
    "steps": (1, 2**32 - 1),
    "particles": (1, 2**32 - 1),
    "members": (2, 2**32 - 1),
    "seed": (0, 2**64 - 1),
    "window": (0, 2**32 - 1),
    "probes": (0, 2**32 - 1),
}
_SWITCHES = ("carry", "eps_in_sqrt", "error_bars", "periodic", "predict_first", "rotate", "shorten", "strict")
_TEXTS = ("constraint", "gaps", "gating", "irregular", "loss", "method", "optimizer", "resampling")
_NUMBERS = (
    *("accumulator", "alpha", "beta", "beta1", "beta2", "decay", "discount", "eps", "gate", "inflation", "kappa", "lr"),
    *("measurement_scale", "prior_var", "process_scale", "radius", "threshold"),
)
#: Arrays of so many dimensions.
_ARRAYS = {"state_places": 2, "measurement_places": 2, "period": 1}
#: Every setting of the engine.
KEYS = tuple(sorted((*_WHOLE, *_SWITCHES, *_TEXTS, *_NUMBERS, *_ARRAYS)))


def _plain(key: str, value: Any) -> Any:
    """A setting as JSON has it."""
    if key in _WHOLE:
        return whole(key, value, *_WHOLE[key])
    if key in _SWITCHES:
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{key}: must be True or False, not {value!r}")
        return bool(value)
    if key in _TEXTS:
        if not isinstance(value, str):
            raise ValueError(f"{key}: must be text, not {value!r}")
        return value
    if key in _ARRAYS:
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            array = np.full(1, np.nan)
        if key != "period" and array.ndim == 1:
            array = array[:, None]
        if array.ndim != _ARRAYS[key] or not np.isfinite(array).all():
            raise ValueError(f"{key}: must be finite numbers in {_ARRAYS[key]} dimensions")
        return array.tolist()
    if key not in KEYS:
        raise ValueError(f"{key}: is not a setting of a filter; there are {', '.join(KEYS)}")
    try:
        number = np.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{key}: must be a finite number, not {value!r}")
    return number


def to_json(settings: Mapping[str, Any]) -> str:
    """Settings for the engine, which knows their ranges and defaults.

    >>> to_json({"method": "ekf", "process_scale": 2})
    '{"method": "ekf", "process_scale": 2.0}'
    >>> to_json({"loss": "cubed"})
    Traceback (most recent call last):
    ValueError: loss: unknown variant `cubed`, expected `likelihood` or `squared`
    """
    plain = {key: _plain(key, value) for key, value in settings.items()}
    try:
        _core.check_spec(json.dumps(plain))
    except ValueError as error:
        # Which one it is: the engine does not say where text is none that it knows.
        if str(error).startswith("settings: "):
            for key, value in plain.items():
                try:
                    _core.check_spec(json.dumps({key: value}))
                except ValueError as of_one:
                    text = re.sub(r" at line \d+ column \d+$", "", str(of_one).removeprefix("settings: "))
                    raise ValueError(f"{key}: {text}") from None
        raise
    return json.dumps(plain)
