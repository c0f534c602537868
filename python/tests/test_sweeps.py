"""Tuning and Monte Carlo, here and on executors: the same result everywhere, even when workers are lost."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import sys
import time

import numpy as np
import pytest

import optfilter
from optfilter import _executors, _sweep

GRID = {"optimizer": [optfilter.Adam(lr) for lr in (0.01, 0.1, 1.0)], "steps": [3, 20]}


def tuned(executor=None, **settings):
    model = optfilter.models.Growth(Q=3.0, R=2.0)
    data = optfilter.simulate(model, 60, batch=4, seed=0)
    settings.setdefault("grid", GRID)
    settings.setdefault("shard_size", 2)
    return optfilter.tune(
        model, data.observations, truth=data.states, executor=executor, progress=False, **settings
    )


def compared(executor=None, shard_size=4):
    model = optfilter.models.Growth(Q=3.0, R=2.0)
    filters = {
        "ekf": optfilter.ExtendedKalmanFilter(model),
        "pf": optfilter.ParticleFilter(model, 50, seed=1),
        "imap": optfilter.ImplicitMAP(model, optfilter.Adam(0.1), 10),
    }
    return optfilter.monte_carlo(
        model, filters, runs=18, steps=40, seed=3, executor=executor, shard_size=shard_size, progress=False
    )


def same(a, b):
    if isinstance(a, optfilter.TuneResult):
        # NaN equals NaN here.
        return repr(a.rows) == repr(b.rows)
    return all(np.array_equal(a.rmse[k], b.rmse[k], equal_nan=True) for k in a.rmse)


def test_tune_finds_the_best():
    result = tuned()
    assert len(result) == 6
    scores = [row.score for row in result.rows]
    assert scores == sorted(scores)
    # The row is what the filter itself gives.
    model = optfilter.models.Growth(Q=3.0, R=2.0)
    data = optfilter.simulate(model, 60, batch=4, seed=0)
    again = result.best_filter().filter(data.observations).rmse(data.states)
    assert result.best.score == again.mean()
    assert result.best_filter(error_bars=True).P is not None
    assert "TuneResult" in repr(result)
    pytest.importorskip("pandas")
    assert list(result.to_dataframe()["steps"]) == [row.configuration["steps"] for row in result.rows]


def test_tune_without_truth_and_for_other_filters():
    model = optfilter.models.RandomWalk(1, Q=0.5, R=1.0)
    ys = optfilter.simulate(model, 300, seed=0).observations
    grid = {"Q": [0.05, 0.5, 5.0, 50.0]}
    result = optfilter.tune(model, ys, filter=optfilter.ExtendedKalmanFilter, grid=grid, progress=False)
    assert result.metric == "log_likelihood" and result.best.configuration["Q"] == 0.5
    result = optfilter.tune(model, ys, grid={"optimizer": [optfilter.SGD(r) for r in (0.01, 0.5, 0.99)], "steps": [1]}, progress=False)
    assert result.metric == "prediction" and result.best.configuration["optimizer"].lr == 0.5
    assert len(optfilter.default_grid()) == 287


@pytest.mark.parametrize(
    "settings, argument",
    [
        (dict(grid=[]), "grid"),
        (dict(grid={"steps": 5}), "grid"),
        (dict(metric="speed"), "metric"),
        (dict(metric="log_likelihood", grid={"error_bars": [False]}), "metric"),
        (dict(executor="threads"), "executor"),
        (dict(filter=optfilter.UnscentedKalmanFilter, grid=None), "grid"),
        (dict(shard_size=0), "shard_size"),
    ],
)
def test_wrong_settings_of_tune(settings, argument):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        tuned(**settings)


def test_a_wrong_configuration_raises_where_it_is_run():
    with pytest.raises(TypeError):
        tuned(grid={"colour": ["red"]})


def test_the_size_of_shards_does_not_matter():
    assert same(compared(shard_size=1), compared(shard_size=18))
    assert same(tuned(shard_size=1), tuned(shard_size=100))


@pytest.mark.parametrize("kind", [concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor])
def test_executors_of_the_standard_library(kind):
    with kind(2) as pool:
        assert same(tuned(pool), tuned())
        assert same(compared(pool), compared())


def once(shard):
    """Kills its worker the first time it sees its shard, if the shard says so."""
    marker, value, home = shard
    if marker is not None and os.getpid() != home and not pathlib.Path(marker).exists():
        pathlib.Path(marker).touch()
        os._exit(1)
    time.sleep(0.01)
    return value * value


def deadly(tmp_path, count=12, killer=4):
    home = os.getpid()
    return [(str(tmp_path / "died") if i == killer else None, i, home) for i in range(count)]


def test_a_lost_process_loses_no_result(tmp_path):
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        got = _executors.run_shards(once, deadly(tmp_path), pool, False)
    assert got == [i * i for i in range(12)]
    assert (tmp_path / "died").exists(), "a worker really died"


def test_an_exception_of_a_shard_is_raised():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        with pytest.raises(ZeroDivisionError):
            _executors.run_shards(lambda x: 1 / x, [1, 0, 2], pool, False)


def test_a_failed_shard_cancels_those_that_have_not_begun():
    begun = []

    def work(x):
        begun.append(x)
        time.sleep(0.02)
        return 1 / x

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(ZeroDivisionError):
            _executors.run_shards(work, [0, *range(1, 50)], pool, False)
    assert len(begun) < 10


@pytest.fixture(scope="module")
def dask_client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    client = distributed.Client(cluster)
    yield client
    client.close()
    cluster.close()


def test_two_dask_workers_give_the_same_result(dask_client):
    assert len(dask_client.scheduler_info()["workers"]) == 2
    assert same(tuned(dask_client), tuned())
    assert same(compared(dask_client), compared())
    # Callables travel too.
    offset = 0.5
    model = optfilter.Model(lambda x: x + offset, lambda x: x, n=1, m=1, Q=1.0, R=1.0)
    ys = np.ones((10, 1))
    grid = {"steps": [1, 2], "optimizer": [optfilter.SGD(0.1)]}
    there = optfilter.tune(model, ys, grid=grid, executor=dask_client, progress=False)
    assert same(there, optfilter.tune(model, ys, grid=grid, progress=False))


def test_a_lost_dask_worker_loses_no_result(dask_client, tmp_path):
    got = _executors.run_shards(once, deadly(tmp_path), dask_client, False)
    assert got == [i * i for i in range(12)]
    assert (tmp_path / "died").exists(), "a worker really died"


def test_ray_gives_the_same_result(tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    # Workers cannot import this file.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        assert same(tuned(ray), tuned())
        assert same(compared("ray"), compared())
        got = _executors.run_shards(once, deadly(tmp_path), ray, False)
        assert got == [i * i for i in range(12)]
        assert (tmp_path / "died").exists(), "a worker really died"
    finally:
        ray.shutdown()


def test_progress_bar(capsys):
    pytest.importorskip("tqdm")
    model = optfilter.models.Growth()
    _sweep.tune(model, np.ones((5, 1)), grid=GRID, progress=True)
    assert "tune" in capsys.readouterr().err


def test_reproduce_a_toy_system():
    result = optfilter.reproduce("toy Q=3 R=2", progress=False)
    by_method = {(c["method"], c["table"]): c for c in result.cells}
    ekf = next(c for (method, _), c in by_method.items() if method == "EKF")
    assert (f"{ekf['rmse']:.3f}", f"{ekf['ci']:.3f}") == ("34.909", "2.732")
    assert result.verdicts().get("differs", 0) == 0
    assert len(result.grid) == 287 + 1 + 6 + 1 + 1
    few = optfilter.reproduce("toy Q=3 R=2", runs=2, particles=False, progress=False)
    assert few.cells == []
    with pytest.raises(ValueError, match="^systems: "):
        optfilter.reproduce("toy Q=9 R=9")
    with pytest.raises(ValueError, match="^systems: .*reproduce_yearbook"):
        optfilter.reproduce("yearbook")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        again = optfilter.reproduce("toy Q=3 R=2", executor=pool, progress=False)
    assert repr(again.grid) == repr(result.grid)


def test_reproduce_what_the_text_says():
    name = "toy Q=3 R=2"
    both = optfilter.reproduce(name, protocol="both", progress=False)
    assert {row["protocol"] for row in both.grid} == {"published", "specified"}
    assert both.verdicts("published").get("differs", 0) == 0
    specified = [row for row in both.grid if row["protocol"] == "specified"]
    assert len(specified) == 287 + 1 + 6 + 1 + 1
    assert all(row["tuning_rmse"] > 0 for row in specified if row["diverged"] == 0)
    # Under the text's protocol the EKF starts at the prior and reads variances: another number than the printed one.
    ekf = {row["protocol"]: row for row in both.grid if row["method"] == "EKF"}
    assert ekf["specified"]["rmse"] != ekf["published"]["rmse"]
    assert {c["protocol"] for c in both.cells} == {"published", "specified"}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        again = optfilter.reproduce(name, protocol="specified", executor=pool, progress=False)
    assert repr(again.grid) == repr(specified)


def test_reproduce_lorenz_in_any_grouping():
    names = ["lorenz alpha=5 rk4", "lorenz alpha=1 grw", "lorenz alpha=5 euler"]
    together = optfilter.reproduce(names, runs=3, progress=False)
    alone = [optfilter.reproduce(name, runs=3, progress=False) for name in names]
    assert repr(together.grid) == repr([row for part in alone for row in part.grid])


def test_progress_may_stop_a_reproduction(monkeypatch):
    from optfilter import _progress

    class Enough(Exception):
        pass

    def advance(self, amount=1):
        raise Enough

    monkeypatch.setattr(_progress.Progress, "advance", advance)
    for protocol in ("published", "specified"):
        with pytest.raises(Enough):
            optfilter.reproduce("toy", runs=5, protocol=protocol, progress=False)


def test_reproduce_the_yearbook(tmp_path):
    result = optfilter.reproduce_yearbook(size="quick", out=tmp_path, progress=False)
    assert result.generated and result.images > 1000
    by_method = {row["method"]: row for row in result.table}
    assert set(by_method) == {"static", "IMAP-Adam", "PF"}
    assert by_method["IMAP-Adam"]["steps"] == 10 and 50 < by_method["IMAP-Adam"]["to_1970"] <= 100
    assert (tmp_path / "yearbook.csv").exists()
    again = optfilter.reproduce_yearbook(size="quick", out=tmp_path, progress=False)
    assert repr(again.table) == repr(result.table)
    assert "images" in repr(result)
