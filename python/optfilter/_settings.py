"""Settings of filters and optimizers, as the engine reads them; what is wrong with one is said by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from . import _core
from ._arrays import whole

#: The engine's table of settings, by name.
TABLE: dict[str, dict[str, Any]] = {setting["name"]: setting for setting in json.loads(_core.settings())}
#: Every setting of the engine.
KEYS = tuple(sorted(TABLE))
#: Arrays have so many dimensions.
_DIMENSIONS = {"list": 1, "table": 2}


def _plain(key: str, value: Any) -> Any:
    """A setting as JSON has it."""
    if key not in TABLE:
        raise ValueError(f"{key}: is not a setting of a filter; there are {', '.join(KEYS)}")
    kind, limits = TABLE[key]["kind"], TABLE[key]["range"]
    if kind == "whole":
        return whole(key, value, int(limits["low"][0]), min(int(limits["high"][0]), 2**64 - 1))
    if kind == "switch":
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{key}: must be True or False, not {value!r}")
        return bool(value)
    if isinstance(kind, dict):
        if not isinstance(value, str):
            raise ValueError(f"{key}: must be text, not {value!r}")
        return value
    if kind in _DIMENSIONS:
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            array = np.full(1, np.nan)
        if kind == "table" and array.ndim == 1:
            array = array[:, None]
        if array.ndim != _DIMENSIONS[kind] or not np.isfinite(array).all():
            raise ValueError(f"{key}: must be finite numbers in {_DIMENSIONS[kind]} dimensions")
        return array.tolist()
    try:
        number = np.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{key}: must be a finite number, not {value!r}")
    return number


def documented(text: str, names: Iterable[str]) -> str:
    """A docstring with a line for each of these settings that it does not speak of."""
    missing = [TABLE[name] for name in names if name in TABLE and f"``{name}``" not in text and f"\n    {name} :" not in text]
    if not missing:
        return text
    lines = []
    for setting in missing:
        default = f" ({setting['default']} unless given)" if setting["default"] else ""
        lines.append(f"    {setting['name']} : {setting['help']}{default}.")
    return "\n".join([text.rstrip(), "", "    Further settings", "    ----------------", *lines, "    "])


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
