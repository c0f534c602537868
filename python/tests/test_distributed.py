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


@pytest.fixture(scope="module")
def spark():
    """Spark on this machine: two tasks at a time, and a task whose worker is lost is begun anew."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    builder = sql.SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "3").getOrCreate()
    yield session
    session.stop()


def test_spark(model, frame, expected, spark):
    rows = spark.createDataFrame(frame.assign(gps=frame["gps"].astype(float)))
    found = optfilter.distributed.filter_frame(rows, model, by="who", **SETTINGS)
    same(found.toPandas(), expected)


class Stream:
    """A folder of files that come one after the other, and one of results that a query makes of them."""

    def __init__(self, spark, folder, schema):
        self.spark, self.folder, self.schema, self.files = spark, str(folder), schema, 0
        os.makedirs(f"{self.folder}/rows")

    def arrive(self, rows):
        """Rows come, as one file; a query takes one file for each of its batches."""
        rows.to_csv(f"{self.folder}/{self.files}.csv", index=False, date_format="%Y-%m-%dT%H:%M:%S.%fZ")
        os.rename(f"{self.folder}/{self.files}.csv", f"{self.folder}/rows/{self.files}.csv")
        self.files += 1

    def run(self, model, through=None, **settings):
        """A query from where the last one stopped until nothing is left to do; it stops then."""
        rows = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).option("header", True)
        found = optfilter.distributed.filter_frame(rows.csv(f"{self.folder}/rows"), model, by="who", **settings)
        if through is not None:
            found = found.mapInPandas(through, found.schema)
        sink = found.writeStream.outputMode("append").option("checkpointLocation", f"{self.folder}/state")
        query = sink.trigger(availableNow=True).start(f"{self.folder}/results", format="parquet")
        assert query.awaitTermination(240), "the query does not end"
        return [batch.numInputRows for batch in query.recentProgress]

    def results(self):
        return self.spark.read.parquet(f"{self.folder}/results").toPandas()


def parts_of(rows, count):
    """Consecutive rows, in about equal parts."""
    return [rows.iloc[at] for at in np.array_split(np.arange(len(rows)), count)]


STREAM = "when timestamp, gps double, who string, other long"


@pytest.mark.parametrize("settings", [SETTINGS, {"method": "pf", "particles": 50, "seed": 3}, {"optimizer": "adam", "steps": 3, "lr": 0.05}])
def test_spark_streams_keep_a_filter_for_each_key(model, frame, spark, tmp_path, settings):
    """Batches, a stop and a restart, a lost worker: the numbers of one run over all rows, to the bit."""
    expected = sorted_rows(model.filter(frame.sort_values("when"), by="who", **settings))
    stream = Stream(spark, tmp_path, STREAM)
    # Each batch has later rows of some of the keys, in no order; the keys begin and end in other batches.
    parts = parts_of(frame.sort_values("when"), 5)
    for part in parts[:3]:
        stream.arrive(part.sample(frac=1.0, random_state=1))
    assert stream.run(model, **settings)[:3] == [len(part) for part in parts[:3]]
    # The query has stopped; another goes on from what Spark has saved. Its first worker is lost on the way.
    for part in parts[3:]:
        stream.arrive(part.sample(frac=1.0, random_state=2))
    mark = optfilter_mark()
    try:
        stream.run(model, die_once_of(mark), **settings)
        assert os.path.exists(mark), "no worker was lost"
    finally:
        shutil.rmtree(os.path.dirname(mark), ignore_errors=True)
    same(stream.results(), expected)


def die_once_of(mark):
    """:func:`die_once` as Spark calls it."""

    def through(frames):
        for rows in frames:
            if len(rows):
                try:
                    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    os._exit(1)
            yield rows

    return through


def test_spark_streams_hold_inputs_and_count_rows_without_times(spark, tmp_path):
    """What a row does not state holds from the batch before; rows of a model without times are counted on."""
    text = """
states = ["x"]
[time]
dt = 0.5
[inputs]
push = { hold = true }
[dynamics]
x = "0.9*x + push + 0.1*t"
[observation]
gps = "x"
[process_noise]
std = 0.3
[measurement_noise]
std = 0.5
[initial]
mean = 0
std = 1
"""
    held = optfilter.Model.from_toml(text)
    rng = np.random.default_rng(2)
    rows = pandas.DataFrame({"n": range(24), "gps": rng.normal(size=24), "push": np.nan, "who": [f"k{i % 3}" for i in range(24)]})
    rows.loc[[0, 1, 2, 13], "push"] = [1.0, -1.0, 0.5, 2.0]
    expected = held.filter(rows, by="who").sort_values(["who", "t"]).reset_index(drop=True)
    stream = Stream(spark, tmp_path, "n long, gps double, push double, who string")
    for part in parts_of(rows, 4):
        stream.arrive(part.iloc[::-1])
        stream.run(held, order="n")
    found = stream.results().sort_values(["who", "t"]).reset_index(drop=True)
    pandas.testing.assert_frame_equal(found[list(expected.columns)], expected, check_exact=True, check_dtype=False)
    # What a stream cannot do is said before it begins.
    rows = spark.readStream.schema(stream.schema).csv(f"{stream.folder}/rows")
    with pytest.raises(ValueError, match="horizon: is not for a stream"):
        optfilter.distributed.filter_frame(rows, held, by="who", order="n", horizon=2)
    between = optfilter.Model.from_toml(text.replace("hold", "interpolate"))
    with pytest.raises(ValueError, match="wait for the next value of input 'push'"):
        optfilter.distributed.filter_frame(rows, between, by="who", order="n")


def test_rows_in_parts_are_rows_at_once(model, frame):
    """What Spark's streams stand on, without Spark: a series goes on from bytes."""
    per_key = optfilter.distributed._PerKey(model, "who", "when", SETTINGS)
    stream = optfilter.distributed._PerKeyOfStream(per_key)
    rows = frame[frame["who"] == "k07"].sort_values("when")
    expected = model.filter(rows, by="who", **SETTINGS)
    stream.names = list(expected.columns)
    parts, saved, last = [], None, None
    for part in parts_of(rows, 3):
        done, saved, last = stream(part, saved, last)
        parts.append(done)
    same(pandas.concat(parts), sorted_rows(expected))
    with pytest.raises(ValueError, match="series 'k07': ts: time runs backwards"):
        stream(rows.iloc[:1], saved, last)
    with pytest.raises(ValueError, match="saved: "):
        stream(rows.iloc[:1], saved[:-3], last)


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
