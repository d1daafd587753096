"""Emitted rows, folded: the last word on each window."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from muntin.slicing.output import FIXED


def fold(df: DataFrame) -> DataFrame:
    """Keep the highest revision of each window of a batch DataFrame, and drop what was retracted.

    `df` holds rows that `window_aggregate` gave, of one micro-batch or of many, in any order: read back from
    a sink, say. Columns and their order stay.

    >>> schema = "query string, window_start long, window_end long, window_id long, revision long, "
    >>> schema += "change string, n long"
    >>> told = [("q", 0, 5, None, 0, "insert", 2), ("q", 0, 5, None, 1, "update", 3)]
    >>> told += [("q", 7, 9, None, 0, "insert", 1), ("q", 7, 9, None, 1, "retract", None)]
    >>> [(row.window_start, row.n) for row in fold(spark.createDataFrame(told, schema)).collect()]
    [(0, 3)]
    """
    if df.isStreaming:
        raise ValueError("fold() takes a batch DataFrame: what was written, or what foreachBatch is given.")
    names = [_quoted(name) for name in df.columns]
    at = df.columns.index("query") if "query" in df.columns else 0
    if tuple(df.columns[at : at + len(FIXED)]) != FIXED:
        raise ValueError(
            f"fold() takes the columns that window_aggregate gave, in their order: keys, {', '.join(FIXED)}, "
            f"aggregates; it has {', '.join(df.columns)}. A table written with partitionBy() has lost it: "
            "select() them in that order first."
        )
    keys = names[:at]
    # A window with a number is told apart by it, wherever its bounds are; others by their bounds.
    unnumbered = sf.col("window_id").isNull()
    bounds = [sf.when(unnumbered, sf.col(name)) for name in ("window_start", "window_end")]
    identity = [*(sf.col(name) for name in keys), sf.col("query"), sf.col("window_id"), *bounds]
    last = sf.max_by(sf.struct(*names), "revision").alias("last")
    folded = df.groupBy(*(c.alias(f"identity {k}") for k, c in enumerate(identity))).agg(last)
    return folded.where("last.change <> 'retract'").select(*(f"last.{name}" for name in names))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
