"""Many series on Dask, Ray and Spark: real local clusters, and the numbers of the local run to the bit.

An engine that is not installed is skipped, and says so; `cargo xtask peers` installs them (Spark needs Java).
"""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import pytest
from conftest import cart_text, walk

import optfilter
import optfilter.distributed

pandas = pytest.importorskip("pandas")

SETTINGS = {"method": "kf"}


@pytest.fixture(scope="module")
def model():
    return optfilter.Model.from_toml(cart_text(pushed=False))


@pytest.fixture(scope="module")
def frame():
    """Forty series of other lengths, in turns and with gaps; the rows of each out of order."""
    rng = np.random.default_rng(5)
    parts = []
    for key in range(40):
        rows = int(rng.integers(3, 30))
        columns = walk(rng, rows)
        columns["gps"][rng.random(rows) < 0.1] = np.nan
        parts.append(pandas.DataFrame({**columns, "who": f"k{key:02}", "other": key}))
    mixed = pandas.concat(parts, ignore_index=True)
    return mixed.iloc[rng.permutation(len(mixed))].reset_index(drop=True)


@pytest.fixture(scope="module")
def expected(model, frame):
    return sorted_rows(model.filter(frame.sort_values("when"), by="who", **SETTINGS))


def sorted_rows(frame):
    return frame.sort_values(["who", "t"]).reset_index(drop=True)


def same(found, expected):
    found = sorted_rows(found)
    assert list(found.columns) == list(expected.columns)
    assert found["who"].tolist() == expected["who"].tolist()
    assert np.array_equal(found["t"].to_numpy("datetime64[us]"), expected["t"].to_numpy("datetime64[us]"))
    for name in expected.columns[2:]:
        assert np.array_equal(found[name].to_numpy(float), expected[name].to_numpy(float), equal_nan=True), name


@pytest.fixture(scope="module")
def cluster():
    """Two processes of Dask."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'dask[distributed]'")
    pytest.importorskip("dask.dataframe", reason="dask.dataframe does not load: pip install 'dask[dataframe]'")
    made = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with made, distributed.Client(made) as client:
        yield client


def test_dask_of_two_processes(model, frame, expected, cluster):
    dask = pytest.importorskip("dask.dataframe")
    rows = dask.from_pandas(frame, npartitions=5)
    lazy = optfilter.distributed.filter_frame(rows, model, by="who", **SETTINGS)
    assert list(lazy.columns) == list(expected.columns)
    same(lazy.compute(), expected)
    # Rows of a model that knows no time are put in order by whatever column says it.
    timeless = optfilter.Model.from_expressions({"x": "x"}, {"gps": "x"})
    lazy = optfilter.distributed.filter_frame(rows, timeless, by="who", order="when", **SETTINGS)
    alone = timeless.filter(frame[frame["who"] == "k07"].sort_values("when")["gps"].to_numpy(), **SETTINGS)
    assert np.array_equal(lazy[lazy["who"] == "k07"].compute()["x"], alone.means[:, 0])
    with pytest.raises(ValueError, match="has no column 'whom'"):
        optfilter.distributed.filter_frame(rows, model, by="whom")


def test_dask_loses_a_worker_and_nothing_else(model, frame, expected, cluster):
    dask = pytest.importorskip("dask.dataframe")
    rows = dask.from_pandas(frame, npartitions=8)
    lazy = optfilter.distributed.filter_frame(rows, model, by="who", **SETTINGS)
    mark = optfilter_mark()
    lazy = lazy.map_partitions(die_once, mark, meta=lazy._meta)
    try:
        same(lazy.compute(), expected)
        assert os.path.exists(mark), "no worker was lost"
    finally:
        shutil.rmtree(os.path.dirname(mark), ignore_errors=True)


def optfilter_mark():
    import tempfile

    return os.path.join(tempfile.mkdtemp(), "lost")


def die_once(rows, mark):
    """Ends the process of the first worker that comes here, as a machine that goes away does."""
    if len(rows):
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return rows
        os._exit(1)
    return rows


def test_ray(model, frame, expected):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]'")
    data = pytest.importorskip("ray.data", reason="ray.data does not load: pip install 'ray[data]'")
    path = os.pathsep.join(sys.path)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": path}})
    try:
        rows = data.from_pandas(frame).repartition(4)
        found = optfilter.distributed.filter_frame(rows, model, by="who", **SETTINGS)
        same(found.to_pandas(), expected)
    finally:
        ray.shutdown()


def test_spark(model, frame, expected):
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    try:
        rows = session.createDataFrame(frame.assign(gps=frame["gps"].astype(float)))
        found = optfilter.distributed.filter_frame(rows, model, by="who", **SETTINGS)
        same(found.toPandas(), expected)
    finally:
        session.stop()


def test_mistakes_are_named(model, frame):
    with pytest.raises(ValueError, match="must be a Dask DataFrame, a Ray Dataset or a Spark DataFrame, not DataFrame"):
        optfilter.distributed.filter_frame(frame, model, by="who")
    import importlib.util

    if importlib.util.find_spec("dask") is not None:
        dask = pytest.importorskip("dask.dataframe")
        rows = dask.from_pandas(frame, npartitions=2)
        timeless = optfilter.Model.from_expressions({"x": "x"}, {"gps": "x"})
        with pytest.raises(ValueError, match="order: the model names no time column"):
            optfilter.distributed.filter_frame(rows, timeless, by="who")
        with pytest.raises(ValueError, match="model: must be an optfilter.Model"):
            optfilter.distributed.filter_frame(rows, "pendulum", by="who")
