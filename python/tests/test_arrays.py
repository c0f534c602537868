"""Tables in NumPy's files, through the program: NumPy reads what was written, and it is what a CSV says."""

import os
import subprocess

import numpy as np
import pytest

MODEL = """
states = ["x[3]"]
[fields]
x = { edges = "periodic" }
[dynamics]
"x[i]" = "0.9*x[i] + 0.05*x[i-1]"
[observation]
"y[i]" = { equation = "x[i]", size = 3 }
[process_noise]
std = 0.3
[measurement_noise]
std = 0.5
[initial]
mean = 0
std = 1
[filter]
method = "ekf"
"""


@pytest.fixture
def binary():
    path = os.environ.get("OPTFILTER_BINARY")
    if not path:
        pytest.skip("OPTFILTER_BINARY, the program, is not given")
    return path


def test_arrays_in_and_out_are_the_table_in_text(binary, tmp_path):
    (tmp_path / "model.toml").write_text(MODEL)
    ys = np.random.default_rng(5).normal(size=(20, 3))
    ys[4, 1] = np.nan
    np.savez(tmp_path / "data.npz", y=ys)
    np.save(tmp_path / "data.npy", ys)
    head = "y[0],y[1],y[2]"
    np.savetxt(tmp_path / "data.csv", ys, delimiter=",", header=head, comments="", fmt="%.17g")
    results = {}
    for data in ["data.npz", "data.npy", "data.csv"]:
        out = f"out-{data}"
        command = [binary, "filter", "model.toml", data, "-o", out]
        subprocess.run(command, cwd=tmp_path, check=True)
        results[data] = out
    npz = np.load(tmp_path / "out-data.npz")
    text = np.genfromtxt(tmp_path / "out-data.csv", delimiter=",", names=True, dtype=None, deletechars="")
    for i in range(3):
        np.testing.assert_array_equal(npz["x"][:, i], text[f"x[{i}]"])
        np.testing.assert_array_equal(npz["x_std"][:, i], text[f"x[{i}]_std"])
    assert npz["flag"].tolist() == text["flag"].tolist()
    matrix = np.load(tmp_path / "out-data.npy")
    numbers = [name for name in text.dtype.names if text[name].dtype.kind == "f"]
    for name in numbers:
        np.testing.assert_array_equal(matrix[:, text.dtype.names.index(name)], text[name])
