"""What users hand over as records, as Arrow: tables, frames, files, readers, dicts of columns, records."""

from __future__ import annotations

import importlib
import operator
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import columnar

_FORMATS = {".parquet": "parquet", ".csv": "csv"}
_PIECE = 1_000_000  # records that are taken in at a time from what is read bit by bit


def as_arrow(batch: Any, time: Any = None) -> pa.Table | pa.RecordBatch:
    """Return a batch as Arrow columns, without copying where its owner speaks Arrow.

    A dict is a record if its time, the column of that name, is one value and no column of them.

    >>> as_arrow({"ts": 5, "tags": ["a", "b"]}, "ts").to_pylist()
    [{'ts': 5, 'tags': ['a', 'b']}]
    >>> as_arrow([{"ts": 5}, {"ts": 7, "v": 1.5}]).to_pylist()
    [{'ts': 5, 'v': None}, {'ts': 7, 'v': 1.5}]
    """
    if isinstance(batch, (pa.Table, pa.RecordBatch)):
        return batch
    if isinstance(batch, Mapping):
        batch = of_records([batch]) if is_record(batch, time) else batch
    elif isinstance(batch, list) and all(issubclass(kind, Mapping) for kind in set(map(type, batch))):
        batch = of_records(batch)
    reader = _reader(batch, None)
    if reader is not None:
        return reader.read_all()
    if origin(batch, "LazyFrame") == "polars":
        batch = batch.collect()
    try:
        if isinstance(batch, Mapping):
            return pa.table({name: _as_array(name, column) for name, column in batch.items()})
        if origin(batch, "DataFrame") == "pandas":
            table = pa.Table.from_pandas(batch)
            unnamed = [n for n in table.column_names if n.startswith("__index_level_") and n not in batch]
            return table.drop_columns(unnamed)  # an index with a name is a column like others
        if hasattr(batch, "__arrow_c_stream__") or hasattr(batch, "__arrow_c_array__"):
            return pa.table(batch)
    except (pa.ArrowException, ValueError) as error:
        if isinstance(batch, Mapping) or hasattr(batch, "columns"):
            raise TypeError(f"the batch cannot be read as Arrow columns: {error}") from error
    raise TypeError(
        "a batch is a pyarrow Table or RecordBatch, a pandas or polars DataFrame, a dict of arrays, a record "
        "as a dict, a list of those, a dataset, a reader, or the path of a Parquet or CSV file, "
        f"not {type(batch).__name__}."
    )


def origin(given: Any, name: str) -> str | None:
    """Return which library a frame of a class of this name comes from; None: neither pandas nor polars.

    A library that was not imported made no frame; it is not imported to find out.

    >>> import polars
    >>> origin(polars.DataFrame(), "DataFrame"), origin(polars.DataFrame(), "LazyFrame")
    ('polars', None)
    """
    for library in ("pandas", "polars"):
        kind = getattr(sys.modules.get(library), name, None)
        if isinstance(kind, type) and isinstance(given, kind):
            return library
    return None


def pieces(source: Any, names: Iterable[str], time: Any = None) -> Iterator[pa.Table | pa.RecordBatch]:
    """Return a finite source in pieces of which each fits into memory, with these columns only where it can.

    >>> reader = pa.table({"ts": [1, 2], "v": [3, 4]}).to_reader(max_chunksize=1)
    >>> [piece.num_rows for piece in pieces(reader, ["ts"])]
    [2]
    """
    wanted = list(dict.fromkeys(names))
    reader = _reader(source, wanted)
    if reader is not None:
        yield from _gathered(reader)
        return
    if origin(source, "LazyFrame") == "polars":
        source = source.select(_chosen(source.collect_schema().names(), wanted))
    elif origin(source, "DataFrame") is not None:
        # A column that no query reads may hold what Arrow has no type for.
        source = source[_chosen(source.columns, wanted)]
    yield as_arrow(source, time)


def _chosen(there: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Return the wanted columns; all that there are if one of them is missing, for whoever says so."""
    found = list(dict.fromkeys(there))
    return [name for name in found if name in wanted] if set(wanted) <= set(found) else found


def _gathered(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Return what a reader gives, many small batches together."""
    held: list[pa.RecordBatch] = []
    for batch in reader:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _PIECE:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _reader(source: Any, wanted: Sequence[str] | None) -> pa.RecordBatchReader | None:
    """Return a reader of what is read bit by bit, of the wanted columns (None: all); None: it is not."""
    if isinstance(source, pa.RecordBatchReader):
        return source
    source = _opened(source)
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is None or not isinstance(source, dataset.Dataset):
        return None
    columns = None if wanted is None else _chosen(source.schema.names, wanted)
    return source.scanner(columns=columns).to_reader()


def _opened(source: Any) -> Any:
    """Return the files that a path names as a dataset; anything else as it is."""
    if not isinstance(source, (str, os.PathLike)):
        return source
    path = Path(source)
    form = "parquet" if path.is_dir() else _FORMATS.get(path.suffix.lower())
    if form is None:
        if isinstance(source, str) and path.suffix == "":
            return source  # a word, which is refused like any other value
        raise ValueError(
            f"{str(path)!r} is no file that can be read: give a .parquet or .csv file, or a folder of "
            "Parquet files."
        )
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    return importlib.import_module("pyarrow.dataset").dataset(path, format=form)


# ---- records as dicts ----


def is_record(given: Mapping[str, Any], time: Any = None) -> bool:
    """Tell whether a dict is one record, and not a column of values under each name.

    >>> is_record({"ts": 1, "v": 2.0}), is_record({"ts": [1], "v": [2.0]}), is_record({})
    (True, False, False)
    """
    if time in given:
        return not _is_column(given[time])
    return bool(given) and not any(map(_is_column, given.values()))


def _is_column(value: Any) -> bool:
    """Tell whether there are many values in one."""
    if isinstance(value, (str, bytes, Mapping, pa.Scalar)) or getattr(value, "ndim", 1) == 0:
        return False
    return hasattr(value, "__iter__") or hasattr(value, "__arrow_c_array__") or hasattr(value, "__array__")


def of_records(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return records as columns; what a record does not have is null.

    >>> of_records([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    if not records:
        return {}
    names = list(records[0])
    if set(map(len, records)) == {len(names)}:
        try:
            return {name: list(map(operator.itemgetter(name), records)) for name in names}
        except KeyError:
            pass  # as many names in each record, but not the same ones
    names = list(dict.fromkeys(name for record in records for name in record))
    return {name: [record.get(name) for record in records] for name in names}


def _as_array(name: str, column: Any) -> Any:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        if hasattr(column, "__arrow_c_stream__"):
            return pa.chunked_array(column)
        if isinstance(column, np.ma.MaskedArray):
            return pa.array(column.data, mask=np.ma.getmaskarray(column))
        return columnar.column(column)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"column {name!r} is no column of values of one type: {error}") from error
