"""Tables as people have them: noise by the row, inputs that hold, gates, times in other spellings."""

import numpy as np
import pytest

import optfilter

pd = pytest.importorskip("pandas")

LEVEL = """
states = ["level"]
[dynamics]
level = "level"
[observation]
y = "level"
[process_noise]
var = "0.1*hdop"
[measurement_noise]
std = "0.5*hdop"
[initial]
mean = 0.2
var = 2
"""

# statsmodels, KalmanFilter with an obs_cov and a state_cov for every row.
MEANS = [
    *(1.0888888888888888, 1.0888888888888888, 0.48051948051948057, 0.6868532283923627),
    *(1.291363623807071, 0.9650872473904325, 0.8508701921379311, 1.0034765667272951),
]


def frame():
    y = [1.2, np.nan, 0.4, 2.5, 1.9, -0.3, 0.8, 1.1]
    return pd.DataFrame({"y": y, "hdop": [1, 2, 0.5, 4, 1.5, 3, 1, 0.8]})


def test_noise_by_the_row():
    model = optfilter.Model.from_toml(LEVEL)
    assert model.input_names == ("hdop",)
    np.testing.assert_allclose(model.filter(frame()).means[:, 0], MEANS, rtol=1e-12)
    # A column that noise alone reads may be empty where nothing is measured.
    table = frame()
    table.loc[1, "hdop"] = np.nan
    assert np.isfinite(model.filter(table).means).all()


def test_inputs_hold():
    text = (
        'states = ["x"]\n[inputs]\npush = { hold = true }\n[dynamics]\nx = "x + push"\n[observation]\ny = "x"\n'
        "[process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n"
    )
    model = optfilter.Model.from_toml(text)
    sparse = pd.DataFrame({"y": [1.0, 2, np.nan, 4, 5], "push": [2, np.nan, np.nan, -1, np.nan]})
    full = sparse.assign(push=[2.0, 2, 2, -1, -1])
    np.testing.assert_array_equal(model.filter(sparse).means, model.filter(full).means)


def test_inputs_lie_on_a_line():
    text = (
        'states = ["x"]\n[inputs]\npush = { interpolate = true }\n[dynamics]\nx = "x + push*dt"\n[observation]\ny = "x"\n'
        "[process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n[time]\ncolumn = 't'\n"
    )
    model = optfilter.Model.from_toml(text)
    ts = [0.0, 1, 4, 5, 6]
    sparse = pd.DataFrame({"t": ts, "y": [1.0, 2, np.nan, 4, 5], "push": [2, np.nan, np.nan, -3, np.nan]})
    full = sparse.assign(push=[2.0, 1, -2, -3, -3])
    expected = model.filter(full).means
    np.testing.assert_array_equal(model.filter(sparse).means, expected)
    # The same of two series whose rows alternate.
    both = pd.concat([sparse.assign(who="a"), sparse.assign(who="b")]).sort_values("t", kind="stable")
    found = model.filter(both, by="who")
    for who in "ab":
        np.testing.assert_array_equal(found[found["who"] == who]["x"], expected[:, 0])


def test_what_acts_on_a_step_is_said_in_the_file():
    """Frames, arrays, batches and simulations alike; `by hand` is the row before, or the mean of both, in a plain column."""
    text = (
        'states = ["x"]\n[inputs]\npush = { RULE }\n[dynamics]\nx = "x + push*dt"\n[observation]\ny = "x"\n'
        "[process_noise]\nvar = 1\nper = 'time'\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n[time]\ncolumn = 't'\n"
    )
    plain = optfilter.Model.from_toml(text.replace("RULE", ""))
    ts = np.array([0.0, 1, 2, 4, 5, 7])
    ys, us = np.array([1.0, 2, 1, 4, 5, 2]), np.array([2.0, 4, 1, -3, 8, 6])
    before = np.r_[2.0, us[:-1]]
    for rule, acts in (("previous", before), ("next", us), ("mean", (before + us) / 2)):
        model = optfilter.Model.from_toml(text.replace("RULE", f'hold = "{rule}"'))
        expected = plain.filter(ys, ts, acts)
        frame = pd.DataFrame({"t": ts, "y": ys, "push": us})
        for found in (model.filter(frame), model.filter(ys, ts, us)):
            np.testing.assert_allclose(found.means, expected.means, rtol=1e-14)
        twice = model.filter(np.stack([ys, ys])[..., None], ts, us)
        np.testing.assert_array_equal(twice.means[1], model.filter(frame).means)
        both = pd.concat([frame.assign(who="a"), frame.assign(who="b")])
        named = model.filter(both, by="who")
        np.testing.assert_array_equal(named[named["who"] == "b"]["x"], model.filter(frame).means[:, 0])
        np.testing.assert_array_equal(model.smooth(frame).means, model.smooth(ys, ts, us).means)
        drawn = optfilter.simulate(model, 6, seed=3, us=us), optfilter.simulate(plain, 6, seed=3, us=acts)
        np.testing.assert_allclose(drawn[0].states, drawn[1].states, rtol=1e-14)
        # A row in which the column is empty changes nothing.
        between = pd.concat([frame, pd.DataFrame({"t": [3.0]})]).sort_values("t", kind="stable")
        split = model.filter(between)
        np.testing.assert_allclose(split.means[-1], model.filter(frame).means[-1], rtol=1e-12)


def test_a_gate_rejects():
    model = optfilter.models.RandomWalk(1, Q=0.1, R=1.0)
    ys = np.zeros((30, 1))
    ys[12] = 50.0
    gated = optfilter.KalmanFilter(model, gate=0.999).filter(ys)
    blank = ys.copy()
    blank[12] = np.nan
    np.testing.assert_array_equal(gated.means, optfilter.KalmanFilter(model).filter(blank).means)
    inflated = optfilter.ExtendedKalmanFilter(model, gate=0.999, gating="inflate").filter(ys)
    assert 0 < inflated.means[12, 0] < optfilter.KalmanFilter(model).filter(ys).means[12, 0]
    with pytest.raises(ValueError, match="gate"):
        optfilter.KalmanFilter(model, gate=1.5)


@pytest.mark.parametrize(
    ("time", "values"),
    [
        ('format = "%d.%m.%Y"', ["30.01.2026", "31.01.2026", "02.02.2026"]),
        ('epoch = "millisecond"', [1769731200000, 1769817600000, 1769990400000]),
    ],
)
def test_times_in_other_spellings(time, values):
    text = f'system = "local-level"\n[process_noise]\nvar = 1\nper = "time"\n[time]\ncolumn = "t"\nunit = "day"\n{time}\n'
    found = optfilter.Model.from_toml(text).filter(pd.DataFrame({"t": values, "y": [1.0, 2.0, 1.5]}))
    plain = optfilter.Model.from_toml(text.replace(time, "")).filter(
        pd.DataFrame({"t": ["2026-01-30", "2026-01-31", "2026-02-02"], "y": [1.0, 2.0, 1.5]})
    )
    np.testing.assert_array_equal(found.means, plain.means)
