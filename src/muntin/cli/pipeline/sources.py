"""What a pipeline reads, cut into batches that are the same in every run and on both engines."""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, json

from muntin.console.mistakes import MistakeError, one_line
from muntin.engine.state import Described
from muntin.generate import GENERATORS, Arrivals
from muntin.generate.arrival import MICROSECONDS, TIME_TYPE, cut_off
from muntin.windows.durations import Duration

_SUFFIXES = {"parquet": (".parquet", ".pq"), "csv": (".csv",), "ndjson": (".ndjson", ".jsonl", ".json")}
_SAMPLE = 4_000_000  # bytes of a text file by which the types of its columns are told
_PARTS = 2  # tasks that read a batch of a generator


class Stretch(NamedTuple):
    """A part of a batch: of a file, row groups or bytes; of a generator (path ""), microseconds."""

    path: str
    begin: int
    end: int


class Version(NamedTuple):
    """By what a file is known to be as it was."""

    size: int  # in bytes
    changed: int  # when, in nanoseconds

    @classmethod
    def of(cls, path: str) -> Version:
        """Return that of a file as it is now."""
        stat = Path(path).stat()
        return cls(stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True)
class Source:
    """Batches of records, by number; it can be sent to workers, and kept beside a checkpoint."""

    spec: Mapping[str, Any]
    schema: pa.Schema
    batches: tuple[tuple[Stretch, ...], ...]
    files: Mapping[str, Version]

    def read(self, batch: int) -> pa.Table:
        """Return the records of a batch."""
        return pa.concat_tables([self.schema.empty_table(), *map(self.read_stretch, self.batches[batch])])

    def read_stretch(self, stretch: Stretch) -> pa.Table:
        """Return the records of a part of a batch."""
        if self.spec["format"] == "replay":
            return _arrivals(self.spec).between(stretch.begin, stretch.end).select(self.schema.names)
        try:
            table = _READERS[self.spec["format"]](stretch, self.schema)
        except (OSError, pa.ArrowException, KeyError) as error:
            raise MistakeError(_unreadable(stretch.path, error, self.spec)) from error
        return table

    def only(self, names: Sequence[str]) -> Source:
        """Return a source of these columns."""
        return replace(self, schema=pa.schema([self.schema.field(name) for name in names]))

    def described(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "spec": dict(self.spec),
            "schema": self.schema.serialize().to_pybytes().hex(),
            "batches": self.batches,
            "files": dict(self.files),
        }

    @classmethod
    def from_description(cls, described: Mapping[str, Any]) -> Source:
        """Return the source that was described."""
        schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(described["schema"])))
        batches = tuple(tuple(Stretch(*s) for s in batch) for batch in described["batches"])
        files = {path: Version(*version) for path, version in described["files"].items()}
        return cls(described["spec"], schema, batches, files)

    def changed_file(self) -> str | None:
        """Return a file that is not as it was when the batches were cut, if there is one."""
        for path, version in self.files.items():
            if not Path(path).is_file() or Version.of(path) != version:
                return path
        return None


def check_description(described: Described, spec: Mapping[str, Any]) -> None:
    """Refuse what does not describe a source of this pipeline; its file may have been named otherwise."""
    there, here = ({k: v for k, v in one.items() if k != "path"} for one in (described["spec"].table(), spec))
    if there != here:
        described["spec"].wrong("that of the pipeline")
    try:
        pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(described["schema"].text())))
    except (ValueError, pa.ArrowException):
        described["schema"].wrong("a schema")
    files = {path: version.wholes() for path, version in described["files"].items()}
    for path, version in files.items():
        if len(version) != len(Version._fields):
            described["files"][path].wrong("a size and a time")
    for batch in described["batches"].each():
        if not batch.each():
            batch.wrong("the parts of a batch")
        for file, begin, end in (stretch.each(3) for stretch in batch.each()):
            end.whole(begin.whole(0))
            if file.text() not in (files or [""]):
                file.wrong("a file of the source")


def open_source(spec: Mapping[str, Any], time: str | None) -> Source:
    """Return a finite source; `time` is the column whose texts are times."""
    if spec["format"] == "replay":
        return _open_replay(spec)
    files = _files(spec)
    versions = {path: Version.of(path) for path in files}
    try:
        schema = _SCHEMAS[spec["format"]](files[0], spec["types"])
    except (OSError, pa.ArrowException) as error:
        raise MistakeError(_unreadable(files[0], error, spec)) from error
    schema = pa.schema([_plain(field, time) for field in schema])
    return Source(spec, schema, tuple(_batches(files, spec)), versions)


# ---- generators ----


def _arrivals(spec: Mapping[str, Any]) -> Arrivals:
    made: Any = GENERATORS[spec["generator"]]
    seed = spec["arguments"]["seed"]
    return Arrivals(made(**spec["arguments"]), disorder=spec["disorder"], delay=spec["delay"], seed=seed)


def _open_replay(spec: Mapping[str, Any]) -> Source:
    arrivals = _arrivals(spec)
    end = arrivals.length + 1  # a record may arrive at the very last moment
    step = Duration.of(spec["per_batch"], "per_batch").ticks(MICROSECONDS, "per_batch")
    batches = []
    for begin in range(0, end, step):
        stop = min(begin + step, end)
        edges = [begin + (stop - begin) * k // _PARTS for k in range(_PARTS + 1)]
        batches.append(tuple(Stretch("", a, b) for a, b in itertools.pairwise(edges) if a < b))
    return Source(spec, arrivals.recording.schema, tuple(batches), {})


# ---- files ----


def _files(spec: Mapping[str, Any]) -> list[str]:
    """Return the files of a path: itself, those of a folder, or those that fit a pattern, by name.

    A run that goes on may be started elsewhere, and workers of Spark are elsewhere: names are whole.
    """
    path, suffixes = Path(spec["path"]), _SUFFIXES[spec["format"]]
    if path.is_file():
        return [str(path.absolute())]
    if path.is_dir():
        names = [p for p in path.iterdir() if p.is_file() and p.suffix.lower() in suffixes]
        found = sorted(str(p) for p in names if not p.name.startswith((".", "_")))
    else:
        found = sorted(p for p in glob.glob(str(path)) if Path(p).is_file())
    if not found:
        raise MistakeError(f"there is no {spec['format']} file at {path}: look at path in [source].")
    return [str(Path(name).absolute()) for name in found]


def _unreadable(path: str, error: BaseException, spec: Mapping[str, Any]) -> str:
    said = one_line(error).rstrip(".")
    unfit = isinstance(error, pa.ArrowInvalid) and ("conver" in said or "changed from" in said)
    guessed = unfit and not _type_is_said(path, said, spec["types"])
    hint = ": say the type of its column in [source.types]" if guessed else ""
    return f"{path} cannot be read: {said}{hint}."


def _type_is_said(path: str, said: str, types: Mapping[str, str]) -> bool:
    """Tell whether a pipeline says the type of the column of which Arrow says that a value does not fit."""
    if found := re.search(r"In CSV column #(\d+)", said):
        with open(path, "rb") as file:
            return csv.read_csv(BytesIO(file.readline())).column_names[int(found[1])] in types
    if found := re.search(r"Column\(/(.*?)\) changed from", said):
        return found[1] in types
    return bool(types)  # of Parquet: its columns have types, and are converted to others only if said


def _batches(files: Sequence[str], spec: Mapping[str, Any]) -> Iterator[tuple[Stretch, ...]]:
    """Cut files into batches of about so many bytes, in the order of their names."""
    most = spec["per_batch"]
    batch: list[Stretch] = []
    filled = 0
    units = _row_groups if spec["format"] == "parquet" else _byte_ranges
    for path in files:
        try:
            listed = list(units(path, most))
        except (OSError, pa.ArrowException) as error:
            raise MistakeError(_unreadable(path, error, spec)) from error
        for stretch, size in listed:
            if batch and filled + size > most:
                yield tuple(batch)
                batch, filled = [], 0
            batch.append(stretch)
            filled += size
    if batch:
        yield tuple(batch)


def _row_groups(path: str, most: int) -> Iterator[tuple[Stretch, int]]:
    del most
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            yield Stretch(path, number, number + 1), file.metadata.row_group(number).total_byte_size


def _byte_ranges(path: str, most: int) -> Iterator[tuple[Stretch, int]]:
    """Cut a file at line ends; as Arrow's own reader does, it takes each for the end of a record."""
    with open(path, "rb") as file:
        begin = 0
        size = file.seek(0, 2)
        while begin < size:
            file.seek(min(begin + most, size) - 1)
            file.readline()
            yield Stretch(path, begin, file.tell()), file.tell() - begin
            begin = file.tell()


def _parquet_schema(path: str, types: Mapping[str, str]) -> pa.Schema:
    schema = pq.read_schema(path)
    return pa.schema([f.withtype_named(type_named(types[f.name])) if f.name in types else f for f in schema])


def _csv_schema(path: str, types: Mapping[str, str]) -> pa.Schema:
    with open(path, "rb") as file:
        sample = file.read(_SAMPLE)
    cut = sample if len(sample) < _SAMPLE else sample[: sample.rindex(b"\n") + 1]
    options = csv.ConvertOptions(column_types={name: type_named(kind) for name, kind in types.items()})
    return csv.read_csv(BytesIO(cut), convert_options=options).schema


def _json_schema(path: str, types: Mapping[str, str]) -> pa.Schema:
    with open(path, "rb") as file:
        sample = file.read(_SAMPLE)
    cut = sample if len(sample) < _SAMPLE else sample[: sample.rindex(b"\n") + 1]
    known = pa.schema([(name, type_named(kind)) for name, kind in types.items()])
    return json.read_json(BytesIO(cut), parse_options=json.ParseOptions(explicit_schema=known)).schema


def type_named(name: str) -> pa.DataType:
    """Return the type that a pipeline names."""
    return TIME_TYPE if name == "timestamp" else pa.type_for_alias(name)


def _plain(field: pa.Field, time: str | None) -> pa.Field:
    """Return a column as both engines have it: times in microseconds, no unsigned integers."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind):
        kind = pa.string()
    if pa.types.is_unsigned_integer(kind):  # Spark has none
        kind = pa.int64()
    if field.name == time and (pa.types.is_timestamp(kind) or pa.types.is_string(kind)):
        kind = TIME_TYPE  # what says no zone is taken as UTC, as everywhere in muntin
    elif pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    return pa.field(field.name, kind)


def _read_parquet(stretch: Stretch, schema: pa.Schema) -> pa.Table:
    with pq.ParquetFile(stretch.path) as file:
        table = file.read_row_groups(list(range(stretch.begin, stretch.end)), columns=schema.names)
    return _cast(table, schema)


def _read_csv(stretch: Stretch, schema: pa.Schema) -> pa.Table:
    options = csv.ConvertOptions(column_types=_parsed_types(schema), include_columns=schema.names)
    return _cast(csv.read_csv(BytesIO(_bytes(stretch, header=True)), convert_options=options), schema)


def _read_json(stretch: Stretch, schema: pa.Schema) -> pa.Table:
    known = pa.schema(list(_parsed_types(schema).items()))
    options = json.ParseOptions(explicit_schema=known, unexpected_field_behavior="ignore")
    return _cast(json.read_json(BytesIO(_bytes(stretch)), parse_options=options), schema)


def _parsed_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types in which text is read: times as texts first, which may or may not name a zone."""
    return {f.name: pa.string() if pa.types.is_timestamp(f.type) else f.type for f in schema}


def _bytes(stretch: Stretch, *, header: bool = False) -> bytes:
    with open(stretch.path, "rb") as file:
        first = file.readline() if header and stretch.begin else b""
        file.seek(stretch.begin)
        return first + file.read(stretch.end - stretch.begin)


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        column = table[field.name]
        if pa.types.is_string(column.type) and pa.types.is_timestamp(field.type):
            column = _times(column, field.type)
        timed = pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type)
        columns.append(cut_off(column, field.type) if timed else column.cast(field.type))
    return pa.table(columns, schema=schema)


def _times(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return texts in ISO 8601 as times, with a zone or without."""
    try:
        return texts.cast(pa.timestamp("us", "UTC")).cast(kind)
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us")).cast(kind)


_SCHEMAS = {"parquet": _parquet_schema, "csv": _csv_schema, "ndjson": _json_schema}
_READERS = {"parquet": _read_parquet, "csv": _read_csv, "ndjson": _read_json}
