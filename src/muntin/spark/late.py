"""Records that came too late: on their way among the windows of a stream, and apart from them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

LATE = "muntin late"  # the column that holds late records; null in rows of windows
Sink = Callable[[DataFrame, int], None]  # what foreachBatch takes


def split_late(windows: Sink, late: Sink) -> Sink:
    """Return a function for `foreachBatch` that gives windows to one function, and late records to another.

    For streams of `window_aggregate(..., keep_late=True)`. Both functions are called for each micro-batch as
    Spark calls them, windows first; late records have the columns of the stream that they came with.

        table = ParquetTable("out/windows")

        def keep(late, number):
            late.write.mode("overwrite").parquet(f"out/late/{number}")

        windows.writeStream.foreachBatch(split_late(table, keep))
    """

    def split(batch: DataFrame, number: int) -> None:
        if LATE not in batch.columns:
            raise ValueError(
                "there are no late records in this stream: window_aggregate(..., keep_late=True)."
            )
        batch = batch.persist()  # or it would be computed for each
        try:
            is_late = sf.col(f"`{LATE}`").isNotNull()
            windows(batch.where(~is_late).drop(LATE), number)
            late(batch.where(is_late).select(f"`{LATE}`.*"), number)
        finally:
            batch.unpersist()

    return split


def refuse_late(names: Sequence[str]) -> None:
    """Refuse rows with late records among them."""
    if LATE in names:
        raise ValueError("there are late records among these windows: foreachBatch(split_late(...)) first.")


def late_field(whole: Mapping[str, pa.DataType]) -> pa.Field:
    """Return the column for records with these columns."""
    return pa.field(LATE, pa.struct(list(whole.items())))


def among_windows(rows: pa.Table, late: pa.Table | None, whole: Mapping[str, pa.DataType]) -> pa.Table:
    """Return windows and late records in one table, each with nulls where the others have values."""
    column = late_field(whole)
    rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
    if late is None:
        return rows
    records = pa.table({LATE: late.to_struct_array().combine_chunks().cast(column.type)})
    return pa.concat_tables([rows, records], promote_options="default")
