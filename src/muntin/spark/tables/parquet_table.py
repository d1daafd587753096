"""A table of windows in Parquet files, of which each micro-batch writes a new one."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame

from muntin.files import write_new, write_whole
from muntin.spark.identity import Identities, noted
from muntin.spark.tables.kinds import check_names, kind_of, mismatch, of_one_sort
from muntin.spark.tables.upsert import IDENTITY, Changes, changes_of, stream_of

_KEPT = 2  # versions: a reader who has just looked which one is current may still open it


class ParquetTable:
    """A table in Parquet files in a directory, a new file a micro-batch; readers always find a whole one.

    Each micro-batch rewrites the table on the driver: for tables of some million rows; beyond that, use a
    database. The directory is local or mounted, and has one writer at a time.

    A column whose type changes gets one that holds old and new values as they are: of integers and floats,
    floats, unless an integer is too large for that. Where there is none, the micro-batch is refused, and the
    table stays as it was.

        table = ParquetTable("out/windows")
        windows.writeStream.foreachBatch(table).option("checkpointLocation", "out/state").start()
        table.read()
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Take in a micro-batch."""
        self.take(batch.toArrow(), stream_of(batch), batch_id, noted(batch.schema))

    def take(
        self, rows: pa.Table, stream: str, batch_id: int, identities: Identities = MappingProxyType({})
    ) -> None:
        """Take in the rows of a micro-batch of a stream; `identities` say what tells windows apart."""
        state = self._state()
        if batch_id <= state["batches"].get(stream, -1) or not rows.num_rows:
            return
        changes = changes_of(rows, identities)
        table = changes.standing
        check_names(table.column_names, self._place)
        if state["version"]:
            kept = self._open(state["version"])
            others = kept.filter(pc.invert(pc.is_in(kept[IDENTITY], changes.windows)))
            table = self._joined(others, changes)
        state["batches"][stream] = batch_id
        self._switch(table, state)

    @property
    def _place(self) -> str:
        return f"the table in {self._directory}"

    def _joined(self, kept: pa.Table, changes: Changes) -> pa.Table:
        """Return both, with a type for each column that holds the values of both."""
        fresh = changes.standing
        check_names(dict.fromkeys([*kept.column_names, *fresh.column_names]), self._place)
        for name in fresh.column_names:
            if name in kept.column_names:
                kept, fresh = self._alike(kept, fresh, name, fixed=name in changes.fixed)
        return pa.concat_tables([kept, fresh], promote_options="permissive")

    def _alike(self, kept: pa.Table, fresh: pa.Table, name: str, *, fixed: bool) -> tuple[pa.Table, pa.Table]:
        """Return both with one type for a column; TypeError where a value would change."""
        was, comes = kept.schema.field(name).type, fresh.schema.field(name).type
        kinds = kind_of(was), kind_of(comes)
        advice = "rename it, or write into another directory"
        if fixed and kinds[0] != kinds[1] and "null" not in kinds:
            advice = "windows are told apart by it, so cast it, or write into another directory"
            raise TypeError(mismatch(name, self._place, str(was), str(comes), advice))
        try:
            if not of_one_sort(was, comes):
                raise pa.ArrowTypeError(f"{was} and {comes} have no type in common")
            common = _common_type(was, comes)
            return _cast(kept, name, common), _cast(fresh, name, common)
        except pa.ArrowException as error:
            raise TypeError(mismatch(name, self._place, str(was), str(comes), advice)) from error

    def read(self) -> pa.Table:
        """Return the table as it stands; KeyError if nothing was written yet."""
        return self._open(self.current.name).drop_columns([IDENTITY])

    @property
    def current(self) -> Path:
        """Return the file that holds the table as it stands, as for `spark.read.parquet(str(...))`."""
        version: str | None = self._state()["version"]
        if not version:
            raise KeyError(f"there is no table in {self._directory} yet: no micro-batch was written.")
        return self._directory / version

    def _open(self, version: str) -> pa.Table:
        return parquet.read_table(self._directory / version)

    def _state(self) -> dict[str, Any]:
        """Return which version is current, and the last micro-batch of each stream."""
        path = self._directory / "current.json"
        try:
            state = json.loads(path.read_text())
            version, batches = state["version"], state["batches"]
            if re.fullmatch(r"version-\d{10}-\w+\.parquet", version) is None or not isinstance(batches, dict):
                raise ValueError
        except FileNotFoundError:
            return {"version": None, "batches": {}}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path} is damaged: restore the directory from a copy, or write into another one."
            ) from error
        return {"version": version, "batches": batches}

    def _switch(self, table: pa.Table, state: dict[str, Any]) -> None:
        """Write a version beside the current one, then say that it is current; the latter is atomic."""
        self._directory.mkdir(parents=True, exist_ok=True)
        number = int(state["version"].split("-")[1]) + 1 if state["version"] else 0
        # A writer that was killed may have left a file of this number: each has a name of its own.
        state["version"] = f"version-{number:010}-{uuid.uuid4().hex[:8]}.parquet"
        write_new(self._directory / state["version"], lambda file: parquet.write_table(table, file))
        content = json.dumps(state).encode()
        write_whole(self._directory / "current.json", lambda file: file.write(content))
        for old in self._directory.glob("version-*.parquet"):
            if int(old.name.split("-")[1]) <= number - _KEPT:
                old.unlink()


def _common_type(was: pa.DataType, comes: pa.DataType) -> pa.DataType:
    """Return the type for values of both, as far as types tell.

    >>> _common_type(pa.decimal128(38, 1), pa.decimal128(38, 3))  # Spark has no more than 38 digits
    Decimal128Type(decimal128(38, 3))
    """
    if pa.types.is_decimal128(was) and pa.types.is_decimal128(comes):
        scale = max(was.scale, comes.scale)
        whole = max(was.precision - was.scale, comes.precision - comes.scale)
        return pa.decimal128(min(whole + scale, 38), scale)
    both = [pa.schema([("column", was)]), pa.schema([("column", comes)])]
    return pa.unify_schemas(both, promote_options="permissive").field("column").type


def _cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    """Return a table with a column in another type; Arrow refuses to change a value."""
    place = table.column_names.index(name)
    return table.set_column(place, name, table[name].cast(kind))
