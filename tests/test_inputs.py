"""What may be handed over as records: files, datasets, readers, lazy frames, dicts."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt
from muntin.engine.ingest import inputs

TABLE = pa.table(
    {
        "ts": pa.array([5, 1, 12, 14, 27], pa.int64()),
        "car": ["a", "b", "a", "b", "a"],
        "v": [1.0, 2.0, 3.0, 4.0, 5.0],
        "other": ["x"] * 5,
    }
)
QUERIES = [
    mt.tumbling(10).agg(total=mt.sum("v"), name="tens"),
    mt.session(4).agg(top=mt.max(mt.expr("v * 2")), where="car <> 'b'", name="runs"),
]


def parquet(table, folder):
    pyarrow.parquet.write_table(table, folder / "records.parquet", row_group_size=2)
    return folder / "records.parquet"


def csv(table, folder):
    pyarrow.csv.write_csv(table, folder / "records.csv")
    return folder / "records.csv"


def directory(table, folder):
    (folder / "many").mkdir()
    for k in range(0, 5, 2):
        pyarrow.parquet.write_table(table.slice(k, 2), folder / "many" / f"part-{k}.parquet")
    return folder / "many"


SOURCES = {
    "parquet": parquet,
    "parquet, as text": lambda table, folder: str(parquet(table, folder)),
    "csv": csv,
    "directory": directory,
    "dataset": lambda table, folder: pyarrow.dataset.dataset(directory(table, folder), format="parquet"),
    "reader": lambda table, folder: table.to_reader(max_chunksize=2),
    "lazy frame": lambda table, folder: pl.from_arrow(table).lazy(),
    "lazy file": lambda table, folder: pl.scan_parquet(parquet(table, folder)),
    "polars": lambda table, folder: pl.from_arrow(table),
    "pandas": lambda table, folder: table.to_pandas(),
    "records": lambda table, folder: table.to_pylist(),
    "columns": lambda table, folder: table.to_pydict(),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_windows(kind, tmp_path):
    source = SOURCES[kind](TABLE, tmp_path)
    rows = mt.aggregate(source, QUERIES, time="ts", key="car", returns="pyarrow")
    assert rows.to_pylist() == mt.aggregate(TABLE, QUERIES, time="ts", key="car").to_pylist()


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_is_a_batch(kind, tmp_path):
    subject, twin = (mt.WindowOperator(QUERIES, time="ts", key="car", watermark=20) for _ in range(2))
    given, wanted = subject.process(SOURCES[kind](TABLE, tmp_path), returns="pyarrow"), twin.process(TABLE)
    assert given.to_pylist() == wanted.to_pylist()
    assert subject.metrics.records_in == 5
    assert subject.finish(returns="pyarrow").to_pylist() == twin.finish().to_pylist()


def test_large_sources_come_in_pieces(monkeypatch):
    monkeypatch.setattr(inputs, "_PIECE", 2)
    pieces = list(inputs.pieces(TABLE.to_reader(max_chunksize=1), ["ts"], "ts"))
    assert [piece.num_rows for piece in pieces] == [2, 2, 1]
    rows = mt.aggregate(TABLE.to_reader(max_chunksize=1), QUERIES, time="ts", key="car")
    assert rows.to_pylist() == mt.aggregate(TABLE, QUERIES, time="ts", key="car").to_pylist()


def test_only_what_is_needed_is_read(tmp_path):
    for source in (parquet(TABLE, tmp_path), pl.from_arrow(TABLE).lazy(), TABLE.to_pandas()):
        (piece,) = inputs.pieces(source, ["ts", "v"], "ts")
        assert piece.column_names == ["ts", "v"]
    (piece,) = inputs.pieces(TABLE.to_pandas(), ["ts", "missing"], "ts")
    assert piece.column_names == TABLE.column_names


def test_a_column_that_arrow_cannot_hold_is_no_hindrance_if_nobody_reads_it():
    frame = pd.DataFrame({"ts": [1, 2], "junk": [object(), {1: 2}]})
    assert mt.aggregate(frame, mt.tumbling(10).agg(n=mt.count()), time="ts")["n"].tolist() == [2]


def test_a_time_in_the_index_of_pandas():
    frame = pd.DataFrame({"v": [1.0, 2.0]}, index=pd.Index([1, 12], name="ts"))
    rows = mt.aggregate(frame, mt.tumbling(10).agg(total=mt.sum("v")), time="ts")
    assert rows["total"].tolist() == [1.0, 2.0]


def test_names_that_are_missing_are_told_with_those_that_are_there(tmp_path):
    query = mt.tumbling(10).agg(n=mt.sum("speed"))
    for source in (TABLE.to_pandas(), parquet(TABLE, tmp_path), TABLE.to_pylist()):
        with pytest.raises(KeyError, match="no column 'speed'; it has 'ts', 'car', 'v', 'other'"):
            mt.aggregate(source, query, time="ts")


def test_paths_that_cannot_be_read(tmp_path):
    query = mt.tumbling(10).agg(n=mt.count())
    (tmp_path / "notes.txt").write_text("ts")
    with pytest.raises(ValueError, match=r"give a \.parquet or \.csv file, or a folder of Parquet files"):
        mt.aggregate(tmp_path / "notes.txt", query, time="ts")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.csv"):
        mt.aggregate(str(tmp_path / "gone.csv"), query, time="ts")


# ---- records as dicts ----


def counted(batch):
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
    op.process(batch)
    return op.finish()["n"].to_pylist() if op.metrics.records_in else []


ONE = {
    "integers": {"ts": 5, "v": 1},
    "an integer of NumPy": {"ts": np.int64(5), "v": np.float32(1.5)},
    "text, bytes, null": {"ts": 5, "s": "long text", "b": b"bytes", "n": None},
    "a list beside": {"ts": 5, "tags": ["x", "y"], "pair": (1, 2)},
    "a struct beside": {"ts": 5, "at": {"x": 1.0, "y": 2.0}},
    "decimals and dates": {"ts": 5, "d": decimal.Decimal("1.5"), "day": datetime.date(2026, 1, 1)},
    "a scalar of Arrow": {"ts": pa.scalar(5)},
}


@pytest.mark.parametrize("kind", ONE)
def test_a_dict_of_values_is_one_record(kind):
    assert counted(ONE[kind]) == [1]
    assert counted([ONE[kind], ONE[kind]]) == [2]


MANY = {
    "lists": {"ts": [1, 2]},
    "arrays": {"ts": np.array([1, 2])},
    "ranges": {"ts": range(1, 3)},
    "series": {"ts": pd.Series([1, 2]), "s": pl.Series(["a", "b"])},
    "Arrow": {"ts": pa.array([1, 2]), "v": pa.chunked_array([[1], [2]])},
}


@pytest.mark.parametrize("kind", MANY)
def test_a_dict_of_columns_is_a_batch(kind):
    assert counted(MANY[kind]) == [2]


def test_no_records():
    assert counted([]) == []
    assert counted({}) == []


def test_records_are_kept_whole_when_they_are_late():
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts", watermark=0)
    op.process([{"ts": 20, "note": "a"}, {"ts": 1, "note": "b", "more": 1}])
    assert op.take_late().to_pylist() == [{"ts": 1, "note": "b", "more": 1}]


def test_one_record_in_processing_time():
    op = mt.WindowOperator(mt.tumbling("1h").agg(total=mt.sum("v")), time=mt.PROCESSING_TIME)
    op.process({"v": 2})
    op.process([{"v": 3}])
    assert sum(op.finish()["total"].to_pylist()) == 5


def test_a_mix_of_columns_and_values_names_the_column():
    with pytest.raises(TypeError, match="column 'v' is no column"):
        counted({"ts": [1, 2], "v": 5})


@pytest.mark.parametrize("bad", [[1, 2], [{"ts": 1}, 5], [[("ts", 1)]]])
def test_lists_of_other_things_are_refused(bad):
    with pytest.raises(TypeError, match=r"a batch is a pyarrow Table.* not list"):
        counted(bad)


RECORD = st.fixed_dictionaries(
    {"ts": st.integers(0, 50)},
    optional={"v": st.one_of(st.none(), st.integers(-5, 5)), "w": st.floats(allow_nan=False)},
)


@given(st.lists(RECORD, min_size=1))
def test_records_equal_their_columns(records):
    columns = {name: [record.get(name) for record in records] for name in ("ts", "v", "w")}
    typed = pa.table(columns, pa.schema({"ts": pa.int64(), "v": pa.int64(), "w": pa.float64()}))
    found = inputs.as_arrow(records, "ts")
    assert found.num_rows == len(records)
    for name in found.column_names:
        assert found[name].to_pylist() == typed[name].to_pylist()
    assert all(typed[name].null_count == len(records) for name in set(columns) - set(found.column_names))
