"""Makes the archives that tests/npz.rs and tests/arrays.rs read: pip install numpy, then run in this folder."""

import numpy as np

np.savez_compressed(
    "kinds.npz",
    x=np.arange(6, dtype=np.float32).reshape(3, 2) / 4,
    y=np.array(["up", "dówn", "\N{CLOCK FACE FOUR OCLOCK}"]),
    plain=np.array([b"a", b"bcd", b""]),
    yes=np.array([True, False, True]),
    objects=np.array(["up", None, 3], dtype=object),
    records=np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    when=np.array(["2026-11-15"], dtype="datetime64[s]"),
    turned=np.asfortranarray(np.ones((2, 3))),
)

np.savez(
    "table.npz",
    when=np.array(["2026-11-15T00:00:01.5", "2026-11-15T00:00:02"], dtype="datetime64[ms]"),
    level=np.array([1.5, np.nan]),
    x=np.arange(6, dtype=np.int16).reshape(2, 3),
    T=np.arange(8.0).reshape(2, 2, 2),
    short=np.zeros(1),
    scalar=np.float64(3),
    objects=np.array(["up", None], dtype=object),
)
np.save("table.npy", np.arange(4.0).reshape(2, 2))
