"""`optfilter adapt --checkpoint` that is killed, and goes on as if it had not been."""

from __future__ import annotations

import os
import signal
import subprocess
import time as clock

import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif("OPTFILTER_BINARY" not in os.environ, reason="OPTFILTER_BINARY does not name the program"),
    pytest.mark.skipif(os.name != "posix", reason="signals of POSIX"),
]

KILLS = 4


def command(folder, name, settings):
    flags = ["--checkpoint", f"{name}.ck", "--checkpoint-every", "500", "--csv", f"{name}.csv", "--json", *settings]
    words = [os.environ["OPTFILTER_BINARY"], "adapt", "stream.csv", *flags]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kept(path):
    """What tells one checkpoint from the next: each is a new file that takes the place of the old one."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


@pytest.mark.parametrize(
    "settings",
    [
        ["--network", "mlp:32,32"],
        ["--network", "linear", "--method", "lofi", "--rank", "8", "--delay", "3"],
        ["--network", "mlp:16", "--steps", "5", "--window", "3", "--carry"],
    ],
    ids=["bank", "low rank", "window"],
)
def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path, settings):
    rng = np.random.default_rng(0)
    n = 12_000
    X = rng.normal(size=(n, 6))
    angle = np.arange(n) / 3000
    y = np.where(X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0, "up", "down")
    y[5000::7] = "sideways"  # a class that joins between two checkpoints
    rows = "".join(",".join(f"{v:.6f}" for v in x) + f",{label}\n" for x, label in zip(X.tolist(), y))
    (tmp_path / "stream.csv").write_text("a,b,c,d,e,f,label\n" + rows)

    whole = command(tmp_path, "whole", settings)
    expected, error = whole.communicate(timeout=300)
    assert whole.returncode == 0, error

    kills = 0
    while True:
        before = kept(tmp_path / "cut.ck")
        run = command(tmp_path, "cut", settings)
        # Only once it has gone further than the run before, so that this ends.
        while kills < KILLS and run.poll() is None and kept(tmp_path / "cut.ck") == before:
            clock.sleep(0.0005)
        if kills < KILLS and run.poll() is None:
            clock.sleep(rng.uniform(0, 0.01))  # somewhere between two checkpoints, or in the midst of one
            run.send_signal(signal.SIGKILL)
        found, error = run.communicate(timeout=300)
        if run.returncode == -signal.SIGKILL:
            kills += 1
            continue
        assert run.returncode == 0, error
        break
    assert kills > 0, "the run was too quick to be killed"
    assert found == expected
    for ending in ("csv", "ck"):
        assert (tmp_path / f"cut.{ending}").read_bytes() == (tmp_path / f"whole.{ending}").read_bytes(), ending
