"""Maximum likelihood through Python: the same numbers as the program's, and the manners of the package."""

import json
import os
import subprocess

import numpy as np
import pytest

import optfilter

LEVEL = """
states = ["level"]
[dynamics]
level = "level"
[observation]
y = "level"
[process_noise]
var = 0.5
[measurement_noise]
var = 2
[initial]
mean = 0
std = 3
diffuse = true
"""


def series(seed=0, rows=200):
    rng = np.random.default_rng(seed)
    ys = np.cumsum(0.5 * rng.standard_normal(rows)) + rng.standard_normal(rows)
    ys[[3, 50, 51]] = np.nan
    return ys


def test_the_result_has_what_it_promises():
    found = optfilter.Model.from_toml(LEVEL).fit(series())
    assert isinstance(found, optfilter.FitResult)
    assert list(found.params) == ["process_noise.level", "measurement_noise.y"]
    assert abs(found.params["process_noise.level"] - 0.25) < 3 * found.std_errors["process_noise.level"]
    assert found.aic == pytest.approx(2 * 3 - 2 * found.log_likelihood)
    assert found.bic == pytest.approx(3 * np.log(197) - 2 * found.log_likelihood)
    assert found.model.Q[0, 0] == found.params["process_noise.level"]
    assert "measurement_noise.y" in found.summary()
    assert np.allclose(np.diag(found.correlations), 1.0)
    again = found.model.fit(series())
    assert again.log_likelihood == pytest.approx(found.log_likelihood, abs=1e-7)


@pytest.mark.parametrize("unit", [1e-12, 1e-4, 1e6, 1e12])
def test_units_do_not_matter(unit):
    model, ys = optfilter.Model.from_toml(LEVEL), series()
    one, found = model.fit(ys), model.fit(ys * unit)
    # One of 197 numbers is spent on the unknown start.
    assert found.log_likelihood == pytest.approx(one.log_likelihood - 196 * np.log(unit), abs=1e-5)
    assert found.converged and not found.warnings
    for name, value in one.params.items():
        assert found.params[name] == pytest.approx(value * unit**2, rel=1e-3)
        assert found.std_errors[name] == pytest.approx(one.std_errors[name] * unit**2, rel=1e-3)


def test_the_first_rows_are_enough_for_a_start():
    model, ys = optfilter.Model.from_toml(LEVEL), series()
    with pytest.warns(UserWarning, match="only the first 80 of 200 rows"):
        found = model.fit(ys, max_rows=80)
    assert found.log_likelihood == model.fit(ys[:80]).log_likelihood
    with pytest.raises(ValueError, match="max_rows"):
        model.fit(ys, max_rows=0)


def test_frames_lists_and_batches_are_series():
    pandas = pytest.importorskip("pandas")
    model = optfilter.Model.from_toml(LEVEL)
    parts = [series(seed) for seed in range(3)]
    batch = model.fit(np.stack(parts)[:, :, None])
    frames = model.fit([pandas.DataFrame({"y": part}) for part in parts])
    assert batch.rows == 600
    assert batch.log_likelihood == frames.log_likelihood


def test_a_parameter_goes_into_the_model():
    model = optfilter.Model.from_toml('system = "pendulum"', R=0.01)
    data = optfilter.simulate(model, 300, seed=1)
    wrong = optfilter.Model.from_toml('system = "pendulum"\n[parameters]\ng = 7', R=0.01)
    found = wrong.fit(data.observations, free="g", starts=1)
    assert abs(found.params["g"] - 9.81) < 4 * found.std_errors["g"]
    assert found.model.parameters["g"] == found.params["g"]
    assert found.model.R[0, 0] == 0.01
    total = np.sum(found.model.filter(data.observations, method="ekf").log_likelihoods)
    assert total == pytest.approx(found.log_likelihood, rel=1e-9)


def test_mistakes_are_named():
    model = optfilter.Model.from_toml(LEVEL)
    with pytest.raises(ValueError, match="did you mean `process_noise`"):
        model.fit(series(), free=["proces_noise"])
    with pytest.raises(ValueError, match="pf has no likelihood"):
        model.fit(series(), method="pf")
    with pytest.raises(ValueError, match="Growth cannot be fitted"):
        optfilter.models.Growth().fit(series())
    with pytest.raises(ValueError, match="no measurement"):
        model.fit([np.nan, np.nan])
    with pytest.warns(UserWarning, match="at its bound 0"):
        model.fit(np.tile([1.0, 2.0], 40))


def test_the_program_finds_the_same(tmp_path):
    program = os.environ.get("OPTFILTER_BINARY")
    if not program:
        pytest.skip("the program is not built")
    (tmp_path / "m.toml").write_text(LEVEL)
    ys = series()
    cells = "\n".join("" if np.isnan(y) else repr(float(y)) for y in ys)
    (tmp_path / "d.csv").write_text("k,y\n" + "\n".join(f"{k},{c}" for k, c in enumerate(cells.split("\n"))) + "\n")
    done = subprocess.run(
        [program, "fit", str(tmp_path / "m.toml"), str(tmp_path / "d.csv"), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    theirs = json.loads(done.stdout)
    ours = optfilter.Model.from_toml(LEVEL).fit(ys)
    assert theirs["log_likelihood"] == ours.log_likelihood
    for name, value in ours.params.items():
        assert theirs["parameters"][name]["estimate"] == value


COUNTS = """
states = ["x"]
[parameters]
growth = 0
[dynamics]
x = "x + growth"
[observation.y]
equation = "x"
likelihood = "poisson"
link = "log"
[initial]
mean = 0
std = 1
"""


def test_counts_are_a_regression():
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(3)
    parts = [rng.poisson(np.exp(start + 0.08 * np.arange(25))).astype(float) for start in (0.5, 1.5)]
    parts[0][4] = np.nan
    model = optfilter.Model.from_toml(COUNTS)
    ys, ts = np.concatenate(parts), np.tile(np.arange(25.0), 2)
    seen = ~np.isnan(ys)
    design = np.column_stack([np.repeat(np.eye(2), 25, axis=0), ts])[seen]
    theirs = sm.GLM(ys[seen], design, family=sm.families.Poisson()).fit(tol=1e-14)
    found = model.fit(np.stack(parts)[:, :, None])
    assert (found.criterion, found.method, found.windows) == ("window", "imap", 2)
    assert found.log_likelihood == pytest.approx(theirs.llf, abs=1e-9)
    assert found.params["growth"] == pytest.approx(theirs.params[-1], rel=1e-7)
    assert found.std_errors["growth"] == pytest.approx(theirs.bse[-1], rel=1e-4)
    assert found.aic == pytest.approx(theirs.aic, abs=1e-8)
    cut = model.fit(parts[1], window=4)
    assert cut.windows == 5
    assert found.model.parameters["growth"] == found.params["growth"]


def test_a_criterion_can_be_chosen():
    model = optfilter.Model.from_toml(COUNTS)
    ys = [3.0, 4.0, 8.0, 11.0]
    predicted = model.fit(ys, method="imap", criterion="prediction")
    assert (predicted.criterion, predicted.windows) == ("prediction", None)
    with pytest.raises(ValueError, match="not one of likelihood, window, prediction"):
        model.fit(ys, criterion="guess")
    with pytest.raises(ValueError, match="is that of imap, not of ekf"):
        model.fit(ys, method="ekf", criterion="window")
    with pytest.raises(ValueError, match="a window of one row says nothing"):
        model.fit(ys, criterion="window", window=0)
    with pytest.raises(ValueError, match="does not scatter by a Gaussian"):
        model.fit(ys, method="ekf", free="growth")
    other = optfilter.Model.from_toml(COUNTS, likelihood=optfilter.likelihoods.StudentT(4, 1))
    with pytest.raises(ValueError, match="reads how measurements scatter from the model's text"):
        other.fit(ys)
