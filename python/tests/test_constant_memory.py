"""`optfilter adapt` on a stream of a million samples holds no more than on one of ten thousand."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif("OPTFILTER_BINARY" not in os.environ, reason="OPTFILTER_BINARY does not name the program"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is told in kilobytes on Linux"),
]

BLOCK = 10_000


def follow(blocks, *flags):
    """Results, and the most kilobytes held, of a table that comes in pieces by standard input."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(BLOCK, 4))
    labels = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, "up", "down")
    lines = "".join(",".join(f"{v:.3f}" for v in x) + f",{label}\n" for x, label in zip(X.tolist(), labels)).encode()
    words = [os.environ["OPTFILTER_BINARY"], "adapt", "-", "--network", "linear", "--json", *flags]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdin.write(b"a,b,c,d,label\n")
        for _ in range(blocks):
            child.stdin.write(lines)
        child.stdin.close()
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return json.loads(said)[0], used.ru_maxrss


@pytest.mark.parametrize(
    "blocks, flags",
    [(100, ["--optimizer", "gd", "--steps", "1", "--lr", "0.1"]), (10, [])],
    ids=["a million by one setting", "the bank"],
)
def test_memory_does_not_grow_with_the_stream(blocks, flags):
    few, held = follow(1, *flags)
    many, held_by_many = follow(blocks, *flags)
    assert (few["steps"], many["steps"]) == (BLOCK, blocks * BLOCK)
    assert many["accuracy"] > 95
    # The stream is 30 bytes a sample, and 20 once read: holding a million would be 20 megabytes, a hundred thousand 2.
    assert held_by_many - held < 1500, (held, held_by_many)
