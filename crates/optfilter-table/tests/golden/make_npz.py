"""Makes the archive that tests/npz.rs reads: pip install numpy, then run in this folder."""

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
