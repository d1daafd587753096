"""What happens in a bucket: blobs into the engine, rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.engine import FOREVER, NEVER, Engine
from muntin.engine.ingest import KeyTable, read_batch, read_times
from muntin.engine.state import cut, dump_panes, load_panes
from muntin.lanes import with_final
from muntin.settings import FINAL
from muntin.spark.job import Job
from muntin.spark.packing import columns_of, from_blob, has_panes


class Outcome(NamedTuple):
    """What came of the records of a bucket."""

    rows: pa.Table
    came: int  # records
    dropped: int  # records that were too late
    late: pa.Table | None  # they, if they are kept


@dataclass
class Bucket:
    """The engine for the keys of one bucket."""

    job: Job
    engine: Engine
    keys: KeyTable

    @classmethod
    def new(cls, job: Job) -> Bucket:
        """Return a bucket that has seen nothing."""
        return cls(job, job.engine(), job.key_table())

    def process(self, blobs: Iterable[bytes], watermark: int) -> Outcome:
        """Take in blobs under a watermark."""
        tables = [from_blob(blob) for blob in blobs]
        if not tables:
            return Outcome(self.engine.advance(watermark, self.keys), 0, 0, None)
        if self.job.ahead:
            return self._process_panes(tables, watermark)
        return self._process_records(pa.concat_tables(tables), watermark)

    def _process_records(self, table: pa.Table, watermark: int) -> Outcome:
        engine, job = self.engine, self.job
        columns = columns_of(table, job)
        times = read_times(columns[job.time], job.time)
        batch = read_batch(engine, self.keys, columns, times, job.time, job.tie)
        rows, late_at = engine.ingest_at(watermark, batch, self.keys)
        dropped = np.empty(0, np.int64) if late_at is None else late_at
        late = table.select(list(job.whole)).take(pa.array(dropped)) if job.whole and len(dropped) else None
        return Outcome(rows, len(times), len(dropped), late)

    def _process_panes(self, tables: list[pa.Table], watermark: int) -> Outcome:
        fresh = self.job.engine()  # has the fields of those who cut
        known = {plan.identity: number for number, plan in self.engine.plan.fields.items()}
        numbers = {number: known[plan.identity] for number, plan in fresh.plan.fields.items()}
        cut_up = [t if has_panes(t) else self._cut(fresh, t) for t in tables]
        panes = load_panes(self.engine, self.keys, cut_up, numbers)
        count = int(panes.rows.sum())
        rows, dropped = self.engine.ingest_panes(watermark, panes, self.keys)
        return Outcome(rows, count, dropped, None)

    def _cut(self, fresh: Engine, table: pa.Table) -> pa.Table:
        keys = self.job.key_table()
        columns = columns_of(table, self.job)
        return dump_panes(fresh, keys, cut(fresh, keys, columns, self.job.time))


@dataclass(frozen=True)
class Combine:
    """All windows of a bucket's records, once: for DataFrames that end."""

    job: Job
    schema: pa.Schema

    def __call__(self, packed: pa.Table) -> pa.Table:
        """Return the rows of a bucket."""
        bucket = Bucket.new(self.job.lanes[packed["bucket"][0].as_py() // self.job.buckets])
        bucket.process(packed["blob"].to_pylist(), NEVER)
        rows = bucket.engine.advance(FOREVER, bucket.keys)
        return fitted(rows, self.schema)


@dataclass(frozen=True)
class Unpack:
    """Rows out of blobs, for DataFrames of a stream."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition."""
        for batch in batches:
            for blob in batch.column(batch.schema.get_field_index("rows")):
                if blob.is_valid:
                    yield from from_blob(blob.as_buffer()).cast(self.schema).to_batches()


def in_ticks(milliseconds: int, job: Job) -> int:
    """Return a watermark of Spark in ticks; Spark has none as long as it says 0."""
    return NEVER if milliseconds <= 0 else milliseconds * job.clock_ticks


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of the output: null where only other queries have them.

    Columns of queries that joined later may lie elsewhere. Where only other queries have early results, all
    rows are final.
    """
    rows = with_final(rows) if FINAL in schema.names else rows
    for column in schema:
        if column.name not in rows.column_names:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
    return rows.select(schema.names).cast(schema)


def row_blobs(rows: pa.Table, schema: pa.Schema, most: int = 1 << 18) -> list[pa.Table]:
    """Return rows in the types of the output, in tables of bounded size."""
    rows = fitted(rows, schema)
    return [rows.slice(begin, most) for begin in np.arange(0, rows.num_rows, most).tolist()]
