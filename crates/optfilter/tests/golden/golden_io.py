"""Writing golden files: JSON with every digit of a float, one array per line.

NaN stands for a missing value and becomes `null`; an infinity is refused,
because JSON has no word for it.
"""

import json
import math
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def plain(value):
    """NumPy arrays and scalars as nested lists and Python numbers, NaN as None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            raise ValueError("an infinity reached a golden file")
    return value


def _holds_objects(value):
    if isinstance(value, dict):
        return True
    return isinstance(value, list) and any(_holds_objects(item) for item in value)


def _write(value, indent):
    pad, end = " " * (indent + 1), " " * indent
    if isinstance(value, dict):
        rows = [f"{pad}{json.dumps(k)}: {_write(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + end + "}"
    if _holds_objects(value):
        rows = [pad + _write(item, indent + 1) for item in value]
        return "[\n" + ",\n".join(rows) + "\n" + end + "]"
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def write(name, document):
    """Write `document` to `name` beside this script and print its size."""
    text = _write(plain(document), 0) + "\n"
    path = HERE / name
    path.write_text(text)
    json.loads(text)
    print(f"{name}: {len(text) / 1000:.1f} kB")
