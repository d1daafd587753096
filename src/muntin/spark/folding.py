"""Emitted rows, folded: the last word on each window."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from muntin.slicing.output import FIXED
from muntin.spark.late import refuse_late


def fold(df: DataFrame, *, key: str | Sequence[str] | None = None) -> DataFrame:
    """Keep the highest revision of each window of a batch DataFrame, and drop what was retracted.

    `df` holds rows that `window_aggregate` gave, of one micro-batch or of many, in any order: read back from
    a sink, say. Columns and their order stay. The key columns are those before `query`, as it gave them; name
    them with `key` if they have moved, as they do in a table that is written with `partitionBy`.

    >>> schema = "query string, window_start long, window_end long, window_id long, revision long, "
    >>> schema += "change string, n long"
    >>> told = [("q", 0, 5, None, 0, "insert", 2), ("q", 0, 5, None, 1, "update", 3)]
    >>> told += [("q", 7, 9, None, 0, "insert", 1), ("q", 7, 9, None, 1, "retract", None)]
    >>> [(row.window_start, row.n) for row in fold(spark.createDataFrame(told, schema)).collect()]
    [(0, 3)]
    """
    if df.isStreaming:
        raise ValueError("fold() takes a batch DataFrame: what was written, or what foreachBatch is given.")
    refuse_late(df.columns)
    names = [_quoted(name) for name in df.columns]
    named = [key] if isinstance(key, str) else list(key or ())
    missing = [name for name in (*FIXED, *named) if name not in df.columns]
    if missing:
        raise KeyError(f"fold() takes rows that window_aggregate gave; there is no column {missing[0]!r}.")
    before = df.columns[: df.columns.index("query")]
    keys = [_quoted(name) for name in (before if key is None else named)]
    # A window with a number is told apart by it, wherever its bounds are; others by their bounds.
    unnumbered = sf.col("window_id").isNull()
    bounds = [sf.when(unnumbered, sf.col(name)) for name in ("window_start", "window_end")]
    identity = [*(sf.col(name) for name in keys), sf.col("query"), sf.col("window_id"), *bounds]
    last = sf.max_by(sf.struct(*names), "revision").alias("last")
    folded = df.groupBy(*(c.alias(f"identity {k}") for k, c in enumerate(identity))).agg(last)
    return folded.where("last.change <> 'retract'").select(*(f"last.{name}" for name in names))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
