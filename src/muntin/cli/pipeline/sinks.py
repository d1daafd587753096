"""Where rows go: files of several formats."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from muntin.cli.pipeline.ledger import Entry
from muntin.console.mistakes import MistakeError
from muntin.files import PENDING, write_whole

_PART = re.compile(r"part-(\d{6})\.(parquet|csv|ndjson)")


def write_table(path: Path, table: pa.Table, kind: str) -> None:
    """Write a table as parquet, csv or ndjson."""
    write_whole(path, lambda file: _WRITERS[kind](plain(table), file))


def plain(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries, so that rows of many calls go together."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _write_parquet(table: pa.Table, file: BinaryIO) -> None:
    pq.write_table(table, file)


def _write_csv(table: pa.Table, file: BinaryIO) -> None:
    """Write text; lists and structs, for which CSV has no form, as JSON."""
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            texts = [None if value is None else as_json(value) for value in table[field.name].to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    csv.write_csv(table, file)


def _write_ndjson(table: pa.Table, file: BinaryIO) -> None:
    for batch in table.to_batches(max_chunksize=4096):
        file.writelines(as_line(row) for row in batch.to_pylist())


_WRITERS = {"parquet": _write_parquet, "csv": _write_csv, "ndjson": _write_ndjson}


def as_json(value: Any) -> str:
    """Return a value as JSON, with text for what JSON has no form for: times are in ISO 8601."""
    return json.dumps(_finite(value), ensure_ascii=False, default=_text)


def as_line(row: Any) -> bytes:
    """Return a row as a line of a file."""
    return (as_json(row) + "\n").encode()


def _finite(value: Any) -> Any:
    """Return a value with null for the numbers that JSON cannot write."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class Parts:
    """The rows of a run in files by number, in a folder of their own."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self._kind = folder, kind

    def check(self) -> None:
        """Refuse a folder with files that no run has written."""
        if self.folder.is_file():
            raise MistakeError(
                f"{self.folder} is a file, but all changes go into a folder: name another path."
            )
        others = [
            p.name
            for p in _listed(self.folder)
            if not _PART.fullmatch(p.name.removeprefix(".").removesuffix(PENDING))
        ]
        if others:
            raise MistakeError(
                f"the folder {self.folder} holds {others[0]!r}, which is no part of a run: name another path."
            )

    def write(self, number: int, rows: pa.Table | None) -> str | None:
        """Write the rows of a step, or of the same step again; return the digest of the file.

        A step without rows has no file.
        """
        path = self.folder / f"part-{number:06}.{self._kind}"
        if rows is None or not rows.num_rows:
            path.unlink(missing_ok=True)
            return None
        write_table(path, rows, self._kind)
        return _digest(path)

    def entry(self, steps: int) -> Entry:
        """Return what the files of so many steps come to."""
        entry = Entry()
        for path in sorted(_listed(self.folder)):
            found = _PART.fullmatch(path.name)
            if found is not None and int(found[1]) < steps:
                entry = entry.plus(int(found[1]), _digest(path))
        return entry

    def remove_from(self, number: int) -> None:
        """Remove what was written in this step and later."""
        for path in _listed(self.folder):
            found = _PART.fullmatch(path.name)
            if found is None or int(found[1]) >= number:
                path.unlink()

    def read(self) -> pa.Table | None:
        """Return all rows of Parquet files; None if there are none."""
        tables = [pq.read_table(path) for path in sorted(_listed(self.folder)) if _PART.fullmatch(path.name)]
        return pa.concat_tables(tables, promote_options="permissive") if tables else None


def _listed(folder: Path) -> Sequence[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
