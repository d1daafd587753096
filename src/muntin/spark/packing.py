"""Records on their way to their bucket: in Arrow blobs, merged into panes where queries allow it.

A blob per bucket keeps all types as they are, and spares the detour over pandas that Spark's stateful
operators take.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin import columnar
from muntin.engine import Engine
from muntin.engine.state import cut, dump_panes
from muntin.expressions import marked
from muntin.spark.job import Job

BUCKET = "muntin bucket"
PACKED = pa.schema([("bucket", pa.int32()), ("blob", pa.binary()), ("null_times", pa.int64())])
PACKED_DDL = "bucket int, blob binary, null_times bigint"
_ROWS, _BYTES = 1 << 20, 1 << 27  # cut together: more give fewer panes, and take more memory
_KIND = b"muntin.kind"
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Pack:
    """Puts records, or panes of them, into a blob per bucket."""

    job: Job
    ticks: bool  # each bucket gets at least a row without a blob, so that it sees the watermark

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the batches of a partition."""
        lanes = [(job, job.engine() if job.ahead else None) for job in self.job.lanes]
        silent = set(range(self.job.buckets * len(lanes))) if self.ticks else set()
        null_times = 0
        for chunk in _chunks(batches):
            table = _with_times(chunk.rename_columns([*self.job.columns, BUCKET]), self.job)
            null_times += chunk.num_rows - table.num_rows
            buckets = table[BUCKET].to_numpy()
            table = as_typed(table.drop_columns([BUCKET]), self.job)
            blobs: dict[int, bytes] = {}
            for k, (job, engine) in enumerate(lanes):
                some, chosen = job.taken(table)
                if some.num_rows:
                    places = (buckets if chosen is None else buckets[chosen]) + np.int32(k * job.buckets)
                    blobs |= _blobs(job, some, places, engine)
            silent.difference_update(blobs)
            yield _packed(list(blobs), list(blobs.values()))
        if self.ticks and (silent or null_times):  # any bucket may carry the count: all are added up
            told = sorted(silent) or [0]
            yield _packed(told, [None] * len(told), null_times)


def _with_times(table: pa.Table, job: Job) -> pa.Table:
    """Return the records that have a time; refuse others, if that is what the job says."""
    times = table[job.time]
    if not times.null_count:
        return table
    if job.null_time == "fail":
        some = "1 record" if times.null_count == 1 else f"{times.null_count} records"
        raise ValueError(
            f"the time column {job.time!r} is null in {some}, and every record needs a time: give it one, or "
            "leave such records out with null_time='drop'."
        )
    return table.filter(times.is_valid())


def _blobs(job: Job, table: pa.Table, buckets: NDArray[np.int32], engine: Engine | None) -> dict[int, bytes]:
    if engine is not None:
        keys = job.key_table()
        columns = columns_of(table, job)
        panes = cut(engine, keys, columns, job.time)
        if 2 * len(panes) <= table.num_rows:  # else they would be larger than the records
            of_key = np.zeros(len(keys), np.int32)
            if keys.names:
                of_key[keys.encode([columns[name] for name in keys.names])] = buckets
            else:
                of_key[:] = buckets[0]
            return _split(dump_panes(engine, keys, panes), of_key[panes.code], b"panes")
    return _split(table, buckets, b"records")


def columns_of(table: pa.Table, job: Job) -> dict[str, pa.Array]:
    """Return what the engines of a job read, of a table that it has taken."""
    return {name: columnar.named(table, marked(name)) for name in job.reads}


def as_typed(table: pa.Table, job: Job) -> pa.Table:
    """Return columns in the types of the job: the session's zone and layout of texts make no difference."""
    types = {**job.whole, **job.types}
    schema = pa.schema([(name, types[name]) for name in table.column_names])
    return table if table.schema == schema else table.cast(schema)


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _split(table: pa.Table, buckets: NDArray[np.int32], kind: bytes) -> dict[int, bytes]:
    """Return a blob for each bucket that has rows."""
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), _KIND: kind})
    order = np.argsort(buckets, kind="stable")
    buckets = buckets[order]
    bounds = np.append(np.flatnonzero(np.append(True, buckets[1:] != buckets[:-1])), len(buckets)).tolist()
    if len(bounds) > 2:
        table = table.take(pa.array(order)).combine_chunks()
    pairs = itertools.pairwise(bounds)
    return {int(buckets[begin]): to_blob(table.slice(begin, end - begin)) for begin, end in pairs}


def to_blob(table: pa.Table) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def from_blob(blob: bytes) -> pa.Table:
    """Return the table of a blob."""
    return pa.ipc.open_stream(blob).read_all()


def has_panes(table: pa.Table) -> bool:
    """Tell whether a table from a blob holds panes, not records."""
    return bool(table.schema.metadata[_KIND] == b"panes")


def _packed(buckets: list[int], blobs: list[bytes] | list[None], null_times: int = 0) -> pa.RecordBatch:
    counts = [null_times, *[0] * (len(buckets) - 1)][: len(buckets)]
    return pa.RecordBatch.from_arrays(
        [pa.array(buckets, pa.int32()), pa.array(blobs, pa.binary()), pa.array(counts, pa.int64())],
        schema=PACKED,
    )
