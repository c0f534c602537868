"""The same model, table and settings give the same bits from Rust, from the program and from Python.

Every filter with its defaults, on the twelve built-in systems, with full data, gaps, partly missing rows, irregular times,
inputs and angles. Equal refusals count as equal. ``OPTFILTER_DOORS`` names a folder that
``cargo run -p optfilter-model --example doors -- FOLDER`` has filled, ``OPTFILTER_BINARY`` the program;
``python/run_tests.sh`` makes both.
"""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import optfilter
from optfilter import _core

pd = pytest.importorskip("pandas")

#: Every filter. One that is not here fails the test below.
METHODS = {"imap", "ekf", "iekf", "ukf", "pf", "kf", "vkf", "etkf", "letkf"}
KINDS = {"full", "gaps", "partial", "times", "inputs", "angles"}


@pytest.fixture(scope="module")
def folder():
    path = os.environ.get("OPTFILTER_DOORS")
    if not path:
        pytest.skip("OPTFILTER_DOORS is not set; run python/run_tests.sh")
    return Path(path)


@pytest.fixture(scope="module")
def rust(folder):
    out = {}
    for line in (folder / "rust.txt").read_text().splitlines():
        case, method, *words = line.split()
        refused = words == ["refused"]
        bits = None if refused else np.array([int(w, 16) for w in words], dtype=np.uint64).view(np.float64)
        out[case, method] = bits
    return out


def same(a, b):
    """Equal bits, except that one NaN is like another."""
    nan = np.isnan(a) & np.isnan(b)
    return a.shape == b.shape and bool(np.all(nan | (a.view(np.uint64) == b.view(np.uint64))))


def by_program(folder, case, method):
    out = folder / f"{case}-{method}.out.csv"
    arguments = [os.environ["OPTFILTER_BINARY"], "filter", folder / f"{case}.toml", folder / f"{case}.csv"]
    arguments += ["--full", "--quiet", "--out", out] + ([] if method == "default" else ["--method", method])
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True)
    if done.returncode:
        assert done.returncode in (2, 4), done.stderr  # a filter that does not fit, or that diverged
        return None
    frame = pd.read_csv(out)
    return frame.drop(columns=[frame.columns[0], "flag"]).to_numpy(dtype=float).ravel()


def by_python(folder, case, method):
    model = optfilter.Model.from_toml(folder / f"{case}.toml")
    frame = pd.read_csv(folder / f"{case}.csv")
    try:
        result = model.filter(frame, method=None if method == "default" else method)
    except (ValueError, optfilter.DivergenceError):
        return None
    rows = len(result)
    lost = np.full((rows, 1), np.nan)

    def column(values, width=1):
        return lost.repeat(width, axis=1) if values is None else values.reshape(rows, -1)

    covs = result.innovation_covariances
    spread = None if covs is None else np.sqrt(np.diagonal(covs, axis1=-2, axis2=-1))
    parts = [
        result.means,
        column(result.stds, model.n),
        result.innovations,
        column(spread, model.m),
        column(result.log_likelihoods),
        column(result.nis),
    ]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).ravel()


def test_no_filter_system_or_kind_of_data_is_left_out(rust):
    assert METHODS == set(_core.methods()) == {method for _, method in rust} - {"default"}
    assert METHODS == set(optfilter.filters.BY_NAME)
    systems = set(optfilter.models.systems())
    assert {case for case, _ in rust} == {f"{system}-{kind}" for system in systems for kind in KINDS}
    assert len(systems) == 12
    # Refusals are the exception: only filters that do not fit a model refuse it.
    refused = sum(bits is None for bits in rust.values())
    assert refused < 0.2 * len(rust)


def test_every_door_leads_to_the_same_bits(folder, rust):
    cases = sorted(rust)
    with ThreadPoolExecutor(2) as pool:
        program = list(pool.map(lambda c: by_program(folder, *c), cases))
    wrong = []
    for (case, method), theirs in zip(cases, program):
        expected, ours = rust[case, method], by_python(folder, case, method)
        for door, found in (("program", theirs), ("python", ours)):
            if (expected is None) != (found is None):
                wrong.append(f"{case} {method}: refused by one of Rust and {door}")
            elif expected is not None and not same(expected, found):
                first = int(np.argmax(~((expected == found) | (np.isnan(expected) & np.isnan(found)))))
                wrong.append(f"{case} {method}: {door} differs from number {first} on")
    assert not wrong, "\n".join(wrong[:20]) + f"\n{len(wrong)} of {2 * len(cases)} differ"
