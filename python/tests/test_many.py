"""Frames with many series: each is as if it were alone, to the bit, in pandas, polars and pyarrow."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import cart_text, walk

import optfilter

pandas = pytest.importorskip("pandas")

@pytest.fixture(scope="module")
def model():
    return optfilter.Model.from_toml(cart_text())


@pytest.fixture(scope="module")
def frame():
    """Three series, two of one length, in turns; irregular times of a calendar; an index that is no range."""
    rng = np.random.default_rng(3)
    parts = []
    for key, rows in (("north", 30), ("a, b", 20), ("7", 30)):
        columns = walk(rng, rows)
        columns["gps"][4] = np.nan
        parts.append(pandas.DataFrame({**columns, "push": rng.normal(size=rows), "who": key}))
    mixed = pandas.concat(parts).sort_values("when", kind="stable")
    return mixed.set_index(np.arange(len(mixed)) * 3 + 5)


def as_library(frame, library):
    if library == "pandas":
        return frame
    module = pytest.importorskip(library)
    if library == "polars":
        return module.DataFrame({name: frame[name].to_list() for name in frame})
    return module.table({name: frame[name].to_list() for name in frame})


def to_pandas(frame, library):
    if library == "polars":  # without pyarrow, which its own conversion needs
        return pandas.DataFrame(frame.to_dict(as_series=False))
    return frame if library == "pandas" else frame.to_pandas()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("settings", [{"method": "kf"}, {"method": "pf", "particles": 30}, {"method": "imap", "lr": 0.05}])
@pytest.mark.parametrize("command", ["filter", "smooth", "forecast"])
def test_each_series_is_as_if_it_were_alone(model, frame, library, settings, command):
    if command == "smooth" and settings["method"] == "imap":
        settings = {"method": "imap"}
    if command == "forecast":
        model = optfilter.Model.from_toml(cart_text(pushed=False))
        settings = {**settings, "steps": 3}
    given = as_library(frame, library)
    found = getattr(model, command)(given, by="who", **settings)
    assert type(found).__module__.split(".")[0] == library
    found = to_pandas(found, library)
    assert list(found.columns[:3]) == ["t", "who", "x"]
    for key, rows in frame.groupby("who", sort=False):
        alone = getattr(model, command)(rows, **settings).to_dataframe()
        mine = found[found["who"] == key].drop(columns="who")
        assert list(mine.columns) == list(alone.columns)
        for name in alone.columns[1:]:
            assert np.array_equal(mine[name].to_numpy(), alone[name].to_numpy(), equal_nan=True), (key, name)
        assert np.array_equal(mine["t"].to_numpy("datetime64[us]"), alone["t"].to_numpy("datetime64[us]"))
    if command != "forecast":
        assert found["who"].tolist() == frame["who"].tolist()
        if library == "pandas":
            assert found.index.equals(frame.index)


@pytest.mark.parametrize(
    ("style", "times"),
    [
        ('format = "%d.%m.%Y"', ["30.01.2026", "31.01.2026", "02.02.2026"]),
        ('epoch = "second"', [1769731200, 1769817600, 1769990400]),
    ],
)
def test_times_are_written_as_the_model_says(style, times):
    model = optfilter.Model.from_toml(cart_text(pushed=False) + style + "\n")
    rows = pandas.DataFrame({"when": times, "gps": [1.0, 2.0, 4.0]})
    both = pandas.concat([rows.assign(who="a"), rows.assign(who="b")])
    found = model.filter(both, by="who", method="kf")
    alone = model.filter(rows, method="kf")
    assert np.array_equal(found["v"], np.tile(alone.means[:, 1], 2))
    assert found["t"].tolist() == times * 2


@pytest.mark.parametrize("method", ["ekf", "iekf", "ukf"])
def test_series_of_one_length_run_together(method):
    model = optfilter.models.Growth()
    data = optfilter.simulate(model, 25, batch=6, seed=1)
    frame = pandas.DataFrame({"y0": data.observations.reshape(-1), "key": np.repeat(np.arange(6), 25)})
    named = optfilter.Model.from_expressions(
        {"x": "0.5*x + sin(x)"}, {"y0": "x^2/20"}, Q=1.0, R=1.0, x0=0.1, P0=1.0
    )
    found = named.filter(frame, by="key", method=method)
    for key in range(6):
        alone = named.filter(data.observations[key], method=method)
        mine = found[found["key"] == key]
        assert np.array_equal(mine["x"], alone.means[:, 0])
        assert np.array_equal(mine["log_likelihood"], alone.log_likelihoods)


@pytest.mark.parametrize("method", ["ekf", "iekf", "ukf"])
@pytest.mark.parametrize("system", ["pendulum", "lorenz63", "growth"])
def test_nonlinear_series_side_by_side_are_those_alone(system, method):
    model = optfilter.Model.from_toml(f'system = "{system}"')
    ys = optfilter.simulate(model, 30, batch=11, seed=4).observations
    ys[2, 5:9] = np.nan  # gaps of one, of all, and of a component
    ys[:, 20] = np.nan
    ys[7, 12, -1] = np.nan
    ys[10] = ys[10] * 1e3  # one that goes astray
    together = model.filter(ys, method=method, errors="nan")
    for b in range(11):
        alone = model.filter(ys[b], method=method, errors="nan")
        for name in ("means", "covariances", "innovations", "innovation_covariances", "log_likelihoods", "nis"):
            assert np.array_equal(getattr(together, name)[b], getattr(alone, name), equal_nan=True), (name, b)


@pytest.mark.parametrize("optimizer", ["gd", "adam", "cg"])
@pytest.mark.parametrize("carry", [False, True])
def test_windows_of_many_series_are_those_alone(optimizer, carry):
    model = optfilter.Model.from_toml('system = "pendulum"')
    ys = optfilter.simulate(model, 30, batch=9, seed=4).observations
    ys[:, 5:8] = np.nan
    rate = {} if optimizer == "cg" else {"lr": 0.02}
    if optimizer == "cg" and carry:
        pytest.skip("conjugate gradients remember nothing")
    settings = dict(optimizer=optimizer, steps=3, window=4, carry=carry, error_bars=False, **rate)
    together = model.filter(ys, method="imap", **settings)
    for b in range(9):
        alone = model.filter(ys[b], method="imap", **settings)
        for name in ("means", "innovations", "lagged"):
            assert np.array_equal(getattr(together, name)[b], getattr(alone, name), equal_nan=True), (name, b)


def test_one_model_is_fitted_to_all_or_one_to_each():
    model = optfilter.Model.from_toml('system = "local-level"')
    data = optfilter.simulate(model, 120, batch=3, seed=2).observations[..., 0]
    frame = pandas.DataFrame({"y": data.T.reshape(-1), "key": np.tile(["a", "b", "c"], 120)})
    common = model.fit(frame, by="key")
    assert common.params == model.fit(data[..., None]).params and common.rows == 360
    each = model.fit(frame, by="key", each=True)
    assert each["key"].tolist() == ["a", "b", "c"]
    for i in range(3):
        alone = model.fit(data[i])
        assert each["process_noise.level"][i] == alone.params["process_noise.level"]
        assert each["process_noise.level_std_error"][i] == alone.std_errors["process_noise.level"]
        assert each["log_likelihood"][i] == alone.log_likelihood
    # A series without a measurement is none to fit; the others are.
    frame.loc[frame["key"] == "b", "y"] = np.nan
    with pytest.warns(UserWarning, match="series 'b'"):
        each = model.fit(frame, by="key", each=True)
    assert np.isnan(each["process_noise.level"][1]) and not np.isnan(each["process_noise.level"][2])


def test_mistakes_are_named(model, frame):
    with pytest.raises(ValueError, match="by: the frame has no column 'whom'"):
        model.filter(frame, by="whom")
    with pytest.raises(ValueError, match="by: names a column"):
        model.filter(np.zeros(5), by="who")
    gap = frame.copy()
    gap.loc[gap.index[4], "who"] = None
    with pytest.raises(ValueError, match="by: row 4 has no name in column 'who'"):
        model.filter(gap, by="who")
    with pytest.raises(ValueError, match="each: needs by"):
        model.fit(frame, each=True)
    with pytest.raises(ValueError, match="series '7'"):
        model.filter(frame.iloc[::-1].sort_values("who", kind="stable"), by="who", method="pf")
    walk = optfilter.Model.from_expressions({"x": "x^3"}, {"y": "x"}, x0=0.0, P0=100.0, Q=1e-6)
    rows = pandas.DataFrame({"y": [0.0, 9.0] + [np.nan] * 18, "key": ["a", "b"] * 10})
    with pytest.raises(optfilter.DivergenceError, match="series 'b'"):
        walk.filter(rows, by="key", method="ekf")
    with pytest.raises(ValueError, match="of their own"):
        walk.filter(rows.rename(columns={"key": "x"}), by="x")
