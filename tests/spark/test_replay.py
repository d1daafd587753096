"""Replay: the same records, whatever the pace, the cuts and the restarts."""

import time

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import StreamingQueryException

import muntin.generate as gen
from muntin.spark.replay import FORMAT, _StreamReader, register, replay

FACTORY = {"seconds": 4, "machines": 2, "seed": 5}


def arrivals(**how):
    return gen.Arrivals(gen.Factory(**FACTORY), seed=5, **how).table()


def run(stream, path, **trigger):
    """Write a stream to files, by micro-batch, until it has all; return the micro-batches in order."""
    batches = {}

    def keep(batch, number):
        batches[number] = batch.toArrow()

    writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(path))
    query = writer.trigger(**trigger).start()
    try:
        if "availableNow" in trigger:
            query.awaitTermination(60)
        else:
            query.processAllAvailable()
    finally:
        query.stop()
    return [batches[number] for number in sorted(batches)]


def in_order(table):
    return table.sort_by([("ts", "ascending"), ("machine", "ascending")])


def test_batch(spark):
    rows = replay(spark, "factory", streaming=False, parts=1, **FACTORY).toArrow()
    assert rows.equals(arrivals())


def test_micro_batches_take_so_much_of_the_recording(spark, tmp_path):
    stream = replay(spark, "factory", speed=None, per_batch="2s", parts=1, **FACTORY)
    batches = run(stream, tmp_path, availableNow=True)
    assert pa.concat_tables(batches).equals(arrivals())
    assert len(batches) == 4  # 4 s and 2 s of delay, and the very last moment
    assert batches[0].equals(gen.Arrivals(gen.Factory(**FACTORY), seed=5).between(0, 2_000_000))


def test_a_restart_goes_on_where_it_was(spark, tmp_path):
    stream = replay(spark, "factory", speed=None, per_batch="1s", **FACTORY)
    first = []

    def fail_at_two(batch, number):
        if number == 2:
            raise RuntimeError("as if the power failed")
        first.append(batch.toArrow())

    query = stream.writeStream.foreachBatch(fail_at_two).option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match="as if the power failed"):
        query.awaitTermination(60)
    rest = run(stream, tmp_path, availableNow=True)
    assert len(first) == 2
    assert in_order(pa.concat_tables([*first, *rest])).equals(in_order(arrivals()))


def test_a_file_with_disorder_by_format_and_options(spark, tmp_path):
    path = tmp_path / "cars.csv"
    lines = [f"2026-01-01 00:00:{s:02},{s}" for s in range(30)]
    path.write_text("ts,v\n" + "\n".join(lines) + "\n")
    register(spark)
    options = {"source": str(path), "time": "ts", "disorder": "0.5", "delay": "5s"}
    rows = spark.read.format(FORMAT).options(**options).load()
    assert rows.dtypes == [("ts", "timestamp"), ("v", "bigint")]
    values = [row.v for row in rows.collect()]
    assert sorted(values) == list(range(30)) != values
    assert max(max(values[: k + 1]) - v for k, v in enumerate(values)) <= 5
    ordered = replay(spark, path, time="ts", streaming=False, parts=2)
    assert [row.v for row in ordered.collect()] == list(range(30))


def test_ones_own_generator(spark):
    rows = replay(spark, "muntin.generate.factory:Factory", seconds=1.5, streaming=False)
    assert rows.count() == 150


class Labelled(gen.Factory):
    """A generator with arguments that are no numbers, and one with a capital letter."""

    def __init__(self, seconds, labels, codeOf, seed=0):
        super().__init__(seconds=seconds, seed=seed)
        assert (labels, codeOf) == (["x", None], "007")


def test_arguments_of_a_generator_keep_their_types_and_names(spark):
    how = {"seconds": 1.5, "labels": ["x", None], "codeOf": "007"}
    assert replay(spark, "tests.spark.test_replay:Labelled", streaming=False, **how).count() == 150
    with pytest.raises(
        TypeError, match=r"the argument labels of a generator is .*, but goes to workers as JSON"
    ):
        replay(spark, "factory", labels={1, 2})


def test_all_times_of_a_file_become_microseconds(spark, tmp_path):
    nano = pa.array([1_000_000_001, 2_000_000_002], pa.timestamp("ns", "UTC"))
    second = pa.array([1, 2], pa.timestamp("s", "UTC"))
    parquet.write_table(pa.table({"ts": nano, "seen": nano, "day": second}), tmp_path / "cars.parquet")
    rows = replay(spark, tmp_path / "cars.parquet", time="ts", streaming=False, parts=1).toArrow()
    for name in ("ts", "seen", "day"):
        assert rows[name].cast(pa.int64()).to_pylist() == [1_000_000, 2_000_000]


# ---- the pace: offsets by the clock ----


@pytest.fixture
def now(monkeypatch):
    moment = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


def reader(**options):
    return _StreamReader({"source": "factory", "seconds": "60", **{k: str(v) for k, v in options.items()}})


def test_offsets_follow_real_time(now):
    source = reader(speed=10)
    assert source.initialOffset() == {"arrived": 0}
    assert source.latestOffset({"arrived": 0}, None) == {"arrived": 0}
    now[0] += 2
    assert source.latestOffset({"arrived": 0}, None) == {"arrived": 20_000_000}
    now[0] += 1000
    assert source.latestOffset({"arrived": 20_000_000}, None) == {"arrived": 62_000_001}


def test_after_a_restart_the_pace_goes_on(now):
    source = reader(speed=1)
    assert source.latestOffset({"arrived": 30_000_000}, None) == {"arrived": 30_000_000}
    now[0] += 1.5
    assert source.latestOffset({"arrived": 30_000_000}, None) == {"arrived": 31_500_000}


def test_a_slow_reader_catches_up_by_so_much_a_batch(now):
    source = reader(speed=1, per_batch="5s")
    source.latestOffset({"arrived": 0}, None)
    now[0] += 30
    assert source.latestOffset({"arrived": 0}, None) == {"arrived": 5_000_000}
    assert source.latestOffset({"arrived": 5_000_000}, None) == {"arrived": 10_000_000}


def test_what_is_available_now_is_all(now):
    source = reader(speed=1)
    source.prepareForTriggerAvailableNow()
    assert source.latestOffset({"arrived": 0}, None) == {"arrived": 62_000_001}


def test_parts_cover_a_stretch(now):
    parts = [p.value for p in reader(parts=3).partitions({"arrived": 0}, {"arrived": 10})]
    assert parts == [(0, 3), (3, 6), (6, 10)]
    assert reader(parts=3).partitions({"arrived": 10}, {"arrived": 10}) == []


# ---- what is wrong is said at the call ----


@pytest.mark.parametrize(
    ("source", "how", "said"),
    [
        ("cars.csv", {}, "needs its time column, as in time='ts'"),
        ("cars.csv", {"time": "ts"}, "there is no file cars.csv to replay"),
        ("cars.csv", {"time": "ts", "hertz": 5}, "replay of a file does not know hertz"),
        ("factory", {"speed": 0}, "speed is above zero, or 'max'"),
        ("factory", {"disorder": 2}, "disorder is a share between 0 and 1"),
        ("factory", {"per_batch": "soon"}, "per_batch is 'soon', which is no duration"),
        ("factory", {"parts": 0}, "parts is at least 1, not 0"),
        ("factory", {"machines": 0}, "a factory needs at least one machine"),
        ("factory", {"colour": "red"}, "unexpected keyword argument 'colour'"),
        ("muntin.nothing:Factory", {}, "No module named"),
    ],
)
def test_wrong_options(spark, source, how, said):
    with pytest.raises((ValueError, TypeError, ImportError, FileNotFoundError), match=said):
        replay(spark, source, **how)


def test_an_option_is_missing():
    with pytest.raises(ValueError, match="needs the option source: a file, or one of factory, football"):
        _StreamReader({})
