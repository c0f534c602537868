"""Data as people have them: frames by column name, calendar times, missing values, the index of a frame."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from conftest import cart_text

import optfilter

pandas = pytest.importorskip("pandas")

POSITIONS = cart_text(doppler=True, timed=False)
TIMED = cart_text(doppler=True)


@pytest.fixture(scope="module")
def model():
    return optfilter.Model.from_toml(POSITIONS)


@pytest.fixture(scope="module")
def frame(model):
    us = np.sin(np.arange(30.0))
    data = optfilter.simulate(model, 30, us=us, seed=1)
    ys = data.observations.copy()
    ys[3, 1] = np.nan
    return pandas.DataFrame({"gps": ys[:, 0], "doppler": ys[:, 1], "push": us})


@pytest.fixture(scope="module")
def expected(model, frame):
    ys = frame[["gps", "doppler"]].to_numpy()
    return optfilter.KalmanFilter(model).filter(ys, us=frame["push"].to_numpy())


def same(a, b):
    return np.array_equal(a.means, b.means) and np.array_equal(a.log_likelihoods, b.log_likelihoods)


def test_columns_are_found_by_name(model, frame, expected):
    f = optfilter.KalmanFilter(model)
    assert same(f.filter(frame), expected)
    # In any order, with others between them, and with pandas.NA for the missing one.
    shuffled = frame.assign(note="text", number=7)[["number", "push", "doppler", "note", "gps"]]
    assert same(f.filter(shuffled), expected)
    assert same(f.filter(frame.astype("Float64")[["doppler", "push", "gps"]]), expected)
    # What is given beside the frame goes before its columns.
    assert same(f.filter(shuffled.assign(push=99.0), us=frame["push"]), expected)


def test_polars_and_arrow(model, frame, expected):
    f = optfilter.KalmanFilter(model)
    shuffled = frame[["push", "doppler", "gps"]]
    polars = pytest.importorskip("polars")
    assert same(f.filter(polars.from_pandas(shuffled)), expected)
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_pandas(shuffled, preserve_index=False)
    assert table["doppler"].null_count == 1
    assert same(f.filter(table), expected)
    assert same(f.filter(table.to_batches()[0]), expected)


def test_columns_that_are_not_there(model, frame):
    f = optfilter.KalmanFilter(model)
    with pytest.raises(ValueError, match="^ys: the frame has no column 'doppler'; it has gps, push"):
        f.filter(frame.drop(columns="doppler"))
    with pytest.raises(ValueError, match="^us: the frame has no column 'push'"):
        f.filter(frame.drop(columns="push"))
    with pytest.raises(ValueError, match="^ys: column 'gps': must be real numbers"):
        f.filter(frame.assign(gps="here"))
    with pytest.raises(ValueError, match="^ts: the frame has no column 'when'"):
        optfilter.Model.from_toml(TIMED).filter(frame)


def test_a_model_without_names(frame):
    f = optfilter.ExtendedKalmanFilter(optfilter.models.RandomWalk(2))
    with pytest.raises(ValueError, match="^ys: the model has no names for its measurements"):
        f.filter(frame)
    numbers = frame[["gps", "doppler"]]
    expected = f.filter(numbers.to_numpy()).means
    # Its own default names will do, in any order.
    named = numbers.rename(columns={"gps": "y0", "doppler": "y1"})
    assert np.array_equal(f.filter(named[["y1", "y0"]]).means, expected)
    callables = optfilter.Model(
        lambda x: x, lambda x: x, n=2, m=2, Q=1.0, R=1.0, observation_names=["gps", "doppler"]
    )
    np.testing.assert_allclose(optfilter.ExtendedKalmanFilter(callables).filter(frame).means, expected, atol=1e-8)
    # A series has one column and needs no name; rows of a frame can be given one by one.
    one = optfilter.ExtendedKalmanFilter(optfilter.models.RandomWalk(1))
    assert np.array_equal(one.filter(frame["gps"]).means, one.filter(frame["gps"].to_numpy()).means)
    for k, row in enumerate(numbers.itertuples(index=False)):
        if k:
            f.predict()
        f.update(row)
    assert np.array_equal(f.x, expected[-1])


HOURS = np.array([0.0, 1.0, 2.0, 4.0, 4.5] + list(range(6, 31)))


@pytest.mark.parametrize(
    "times",
    [
        lambda when: when,
        lambda when: when.astype("datetime64[s]"),
        lambda when: [str(t) + "Z" for t in when.astype("datetime64[s]")],
        lambda when: pandas.DatetimeIndex(when),
        lambda when: pandas.DatetimeIndex(when).tz_localize("UTC"),
        lambda when: pandas.Series(pandas.DatetimeIndex(when).strftime("%Y-%m-%d %H:%M:%S")),
        lambda when: [datetime.datetime.fromisoformat(str(t)) for t in when.astype("datetime64[s]")],
    ],
    ids=["ns", "s", "iso", "index", "zone", "text", "datetime"],
)
def test_times_of_a_calendar(frame, times):
    model = optfilter.Model.from_toml(TIMED)
    f = optfilter.KalmanFilter(model)
    when = np.datetime64("2026-02-27T12:00:00", "ns") + (HOURS * 3600e9).astype("timedelta64[ns]")
    # In units of the model, from the first on, over the end of a month.
    expected = f.filter(frame, ts=HOURS)
    assert same(f.filter(frame, ts=times(when)), expected)
    by_column = f.filter(frame.assign(when=times(when)))
    assert same(by_column, expected)
    assert len(by_column.to_dataframe()["t"]) == 30


def test_calendar_times_are_shown_as_they_were_given(frame):
    model = optfilter.Model.from_toml(TIMED)
    when = pandas.date_range("2026-01-01", periods=30, freq="h")
    result = optfilter.KalmanFilter(model).filter(frame.assign(when=when))
    assert np.array_equal(result.ts, when.to_numpy())
    assert list(result.to_dataframe()["t"]) == list(when)
    assert len(result.plot()) == 2
    for library in ("pandas", "polars"):
        pytest.importorskip(library)
        zoned = optfilter.KalmanFilter(model).filter(frame, ts=when.tz_localize("Europe/Oslo"))
        assert list(zoned.to_dataframe(library)["t"]) == list(when.tz_localize("Europe/Oslo"))
    plain = optfilter.KalmanFilter(model).filter(frame, ts=HOURS + 5)
    assert np.array_equal(plain.ts, HOURS + 5)


def test_times_long_ago_and_fractions_of_a_second(model, frame):
    f = optfilter.KalmanFilter(model)
    days = np.datetime64("1500-01-01") + np.arange(30)
    assert same(f.filter(frame, ts=days), f.filter(frame, ts=np.arange(30) * 86400.0))
    before = np.datetime64("1969-12-31T23:59:59.250", "ms") + np.arange(30) * np.timedelta64(500, "ms")
    assert same(f.filter(frame, ts=before), f.filter(frame, ts=np.arange(30) * 0.5))


def test_times_that_are_none(model, frame):
    f = optfilter.KalmanFilter(model)
    when = pandas.date_range("2026-01-01", periods=30, freq="h").to_numpy()
    with pytest.raises(ValueError, match="^ts: time runs backwards at index 1"):
        f.filter(frame, ts=when[::-1])
    lost = when.copy()
    lost[4] = np.datetime64("NaT")
    with pytest.raises(ValueError, match="^ts: has an entry that is not a time"):
        f.filter(frame, ts=lost)
    with pytest.raises(ValueError, match="^ts: has an entry that is not a time"):
        f.filter(frame, ts=pandas.DatetimeIndex(lost).tz_localize("UTC"))
    with pytest.raises(ValueError, match="^ts: .*soon"):
        f.filter(frame, ts=["2026-01-01"] * 29 + ["soon"])
    with pytest.raises(ValueError, match="^ts: must be real numbers"):
        f.filter(frame, ts=when - when[0])


def test_the_index_of_a_frame_is_kept(model, frame, expected):
    named = frame.set_index(pandas.Index([f"row {i}" for i in range(30)], name="id"))
    result = optfilter.KalmanFilter(model).filter(named)
    out = result.to_dataframe()
    assert same(result, expected) and list(out.index) == list(named.index) and out.index.name == "id"
    # So results stand beside the data.
    joined = named.join(out)
    np.testing.assert_allclose(joined["gps"] - joined["gps_innovation"] + out["gps_innovation"], named["gps"])
    assert list(expected.to_dataframe().index) == list(range(30))
    polars = pytest.importorskip("polars")
    assert isinstance(result.to_dataframe("polars"), polars.DataFrame)


FILE = (
    POSITIONS
    + """
[filter]
method = "imap"
optimizer = "rmsprop"
steps = 3
lr = 0.02
carry = true
predict_first = true
"""
)


def test_a_model_file_says_which_filter(tmp_path, model, frame):
    path = tmp_path / "positions.toml"
    path.write_text(FILE)
    of_file = optfilter.Model.from_toml(path)
    by_hand = optfilter.ImplicitMAP(model, optfilter.RMSProp(0.02), 3, carry=True, predict_first=True)
    result = of_file.filter(frame)
    assert np.array_equal(result.means, by_hand.filter(frame).means)
    assert result.ts[0] == 1.0 and result.covariances is None
    # One of its settings changed; then another method, which keeps only when the belief is of.
    changed = of_file.filter(frame, carry=False, predict_first=False)
    assert changed.ts[0] == 0.0 and changed.covariances is not None
    kalman = optfilter.KalmanFilter(model, predict_first=True).filter(frame)
    assert same(of_file.filter(frame, method="kf"), kalman)
    assert same(of_file.filter(frame, method="kf", errors="nan", covariances=False), kalman)
    # A change of the model, and pickling, keep the table.
    assert of_file.replace(R=1.0).filter_settings == of_file.filter_settings != {}


def test_the_scale_of_process_noise_in_a_file(model, frame):
    of_file = optfilter.Model.from_toml(POSITIONS + '[filter]\nmethod = "kf"\nprocess_scale = 4.0\n')
    scaled = optfilter.KalmanFilter(model, Q=4.0 * model.Q).filter(frame)
    np.testing.assert_allclose(of_file.filter(frame).means, scaled.means, rtol=1e-12)
    assert same(of_file.filter(frame), optfilter.KalmanFilter(model, process_scale=4.0).filter(frame))
    assert not same(of_file.filter(frame), optfilter.KalmanFilter(model).filter(frame))


def test_the_scale_of_measurement_noise_in_a_file(model, frame):
    of_file = optfilter.Model.from_toml(POSITIONS + '[filter]\nmethod = "kf"\nmeasurement_scale = 4.0\n')
    scaled = optfilter.KalmanFilter(model, R=4.0 * model.R).filter(frame)
    np.testing.assert_allclose(of_file.filter(frame).means, scaled.means, rtol=1e-12)
    assert same(of_file.filter(frame), optfilter.KalmanFilter(model, measurement_scale=4.0).filter(frame))
    assert not same(of_file.filter(frame), optfilter.KalmanFilter(model).filter(frame))


HELD = """
states = ["x"]
observations = ["y"]
[dynamics]
x = "0.9*x + DYNAMICS"
[observation]
y = "x"
[inputs]
u = { hold = true }
[process_noise]
var = 0.1
[measurement_noise]
std = "NOISE"
[initial]
mean = 0
std = 1
[filter]
method = "kf"
"""


def test_an_input_without_a_first_value_is_an_error_unless_noise_alone_reads_it():
    late = pandas.DataFrame({"u": [np.nan, np.nan, 2.0, np.nan], "y": [np.nan, np.nan, 1.0, 1.5]})
    read = optfilter.Model.from_toml(HELD.replace("DYNAMICS", "u").replace("NOISE", "0.5"))
    with pytest.raises(ValueError, match="^us: .*index 0"):
        read.filter(late)
    with pytest.raises(ValueError, match="us: .*index 0"):
        read.filter(late.assign(who="a"), by="who")
    known = late.assign(u=[1.0, np.nan, 2.0, np.nan])
    spelled = late.assign(u=[1.0, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(read.filter(known).means, read.filter(spelled).means)
    # Of rows without a measurement, the spread of measurements says nothing.
    noise = optfilter.Model.from_toml(HELD.replace("DYNAMICS", "0").replace("NOISE", "u"))
    np.testing.assert_array_equal(noise.filter(late).means, noise.filter(spelled).means)
    with pytest.raises(ValueError, match="^us: .*index 1"):
        noise.filter(late.assign(y=[np.nan, 1.0, 1.0, 1.5]))
