"""Draws of NumPy's legacy generator, as golden numbers for tests/numpy_random.rs.

Run: python numpy_legacy.py > numpy_legacy.csv   (made with NumPy 2.4.6)

Each line: seed, kind, then the draws as hexadecimal floats (exact). For each seed the kinds follow one another in ONE stream, so
the stored second normal (seven is odd) and the mixing of kinds are covered as well.
"""
import numpy as np

for seed in (0, 1, 99, 12345, 2**32 - 1):
    np.random.seed(seed)
    for kind, draws in (
        ("normal", np.random.randn(7)),
        ("uniform", np.random.rand(5)),
        ("normal", np.random.randn(6)),
        ("uniform", np.random.rand(700)[-3:]),
        ("normal", np.random.randn(2000)[-4:]),
    ):
        print(seed, kind, *(float(v).hex() for v in draws), sep=",")
