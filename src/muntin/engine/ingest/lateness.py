"""Late records: kept as they came, until somebody asks for them as one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin import columnar

Name = tuple[str, int]  # of a column, and how many of that name stand before it
Types = Mapping[str, pa.DataType]


def rows_of(table: pa.Table | pa.RecordBatch, at: NDArray[np.int64]) -> pa.Table:
    """Return some rows of a batch, in ascending order, whatever the types of its columns.

    >>> rows_of(pa.table({"v": [1, 2, 3]}), np.array([0, 2])).to_pydict()
    {'v': [1, 3]}
    """
    columns = [columnar.rows(columnar.one_piece(column), at) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def together(tables: Sequence[pa.Table], types: Types) -> pa.Table:
    """Return tables as one, without losing anything; `types` are those in which columns are read elsewhere.

    Tables of one schema keep it. Otherwise a column has its type in `types`, else the first real one that it
    comes in. What this cannot hold without loss goes to a further column, named after its type.

    >>> mixed = [pa.table({"v": [1]}), pa.table({"v": ["x"]})]
    >>> together(mixed, {}).to_pydict()
    {'v': [1, None], 'v (string)': [None, 'x']}
    """
    if all(table.schema.equals(tables[0].schema) for table in tables):
        return pa.concat_tables(tables)
    wanted = _types(tables, types)
    found: dict[tuple[Name, int], list[pa.Array]] = {}  # by table; all of the same number of rows
    kinds: dict[Name, list[pa.DataType]] = {}  # lists: the types of a user's extensions have no hash
    for k, table in enumerate(tables):
        for name, column in _named(table):
            array, kind = columnar.one_piece(column), wanted[name]
            if array.type != kind:
                array = columnar.plain(array)
                cast = columnar.lossless(array, kind)
                array = array if cast is None else cast
            parts = found.setdefault((name, _place(array.type, kinds.setdefault(name, []))), [])
            parts += [pa.nulls(before.num_rows, array.type) for before in tables[len(parts) : k]]
            parts.append(array)
    columns, names = [], []
    for (name, place), parts in found.items():
        kind = kinds[name][place]
        parts += [pa.nulls(after.num_rows, kind) for after in tables[len(parts) :]]
        names.append(name[0] if kind == wanted[name] else f"{name[0]} ({kind})")
        columns.append(pa.chunked_array(parts, kind))
    return pa.Table.from_arrays(columns, names)


def _place(kind: pa.DataType, kinds: list[pa.DataType]) -> int:
    """Return where a type lies among others, to which it is added if it is new."""
    if kind not in kinds:
        kinds.append(kind)
    return kinds.index(kind)


def _named(table: pa.Table) -> Iterator[tuple[Name, pa.ChunkedArray]]:
    """Return the columns of a table, told apart even where two have one name."""
    seen: Counter[str] = Counter()
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield (name, seen[name]), column
        seen[name] += 1


def _types(tables: Sequence[pa.Table], types: Types) -> dict[Name, pa.DataType]:
    """Return the type of each column; one that it always comes in stays, also in an unusual layout."""
    came: dict[Name, list[pa.DataType]] = {}
    for table in tables:
        for name, column in _named(table):
            _place(column.type, came.setdefault(name, []))
    found = {}
    for name, kinds in came.items():
        real = [
            columnar.plain_type(kind) for kind in kinds if not pa.types.is_null(columnar.plain_type(kind))
        ]
        read = types.get(name[0], pa.null())
        if len(kinds) == 1:
            (found[name],) = kinds
        else:
            found[name] = [*real, pa.null()][0] if pa.types.is_null(read) else read
    return found
