"""Emitted rows, folded: the last word on each window."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType

from muntin.settings import FINAL, FIXED
from muntin.spark.columns import Columns, quoted
from muntin.spark.identity import BOUNDS, Identities, identities_of, noted
from muntin.spark.late import refuse_late
from muntin.windows.base import Query


def fold(
    df: DataFrame,
    *,
    key: str | Sequence[str] | None = None,
    queries: Query | Sequence[Query] | None = None,
) -> DataFrame:
    """Keep the highest revision of each window of a batch DataFrame, and drop what was retracted.

    `df` holds rows that `window_aggregate` gave, of one micro-batch or of many, in any order: read back from
    a sink, say. Columns and their order stay. The key columns are those before `query`, as it gave them; name
    them with `key` if they have moved, as they do in a table that is written with `partitionBy`. What tells
    the windows of a query apart is noted in the schema, also in Parquet files; give the `queries` again where
    that is lost, as in CSV files: without either, windows with a number go by it, others by their bounds.

    Of windows with early results, the last row is kept, early or not; `fold(df.where("final"))` has complete
    ones only. Early rows of a query that was removed are never taken back: they are dropped if `queries` are
    given, and it is not among them.

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
    columns = Columns(df)
    there = [columns.field(name) for name in df.columns]  # refuses names that Spark would confuse
    named = [key] if isinstance(key, str) else list(key or ())
    known = {columns.folded(field.name) for field in there}
    missing = [name for name in (*FIXED, *named) if columns.folded(name) not in known]
    if missing:
        raise KeyError(f"fold() takes rows that window_aggregate gave; there is no column {missing[0]!r}.")
    before = [field.name for field in there[: there.index(columns.field("query"))]]
    identities = noted(df.schema) if queries is None else identities_of(dict(_named(queries)))
    if queries is not None and _tells_early(df, queries):
        df = df.where(sf.col("query").isin(list(identities)) | sf.col(FINAL))
    bounds = [_told_apart_by(name, identities) for name in BOUNDS if name in known]
    keys = [sf.col(quoted(name)) for name in (before if key is None else named)]
    names = [quoted(field.name) for field in there]
    last = sf.max_by(sf.struct(*names), "revision").alias("last")
    identity = enumerate([*keys, sf.col("query"), *bounds])
    folded = df.groupBy(*(column.alias(f"identity {k}") for k, column in identity)).agg(last)
    return folded.where("last.change <> 'retract'").select(*(f"last.{name}" for name in names))


def _named(queries: Query | Sequence[Query]) -> list[tuple[str, Query]]:
    listed = [queries] if isinstance(queries, Query) else list(queries)
    return [(query.name or f"q{place}", query) for place, query in enumerate(listed)]


def _tells_early(df: DataFrame, queries: Query | Sequence[Query]) -> bool:
    """Tell whether rows say which of them are final; an aggregate may have that name where none is early."""
    own = any(FINAL in query.aggregates for _, query in _named(queries))
    return not own and FINAL in df.columns and isinstance(df.schema[FINAL].dataType, BooleanType)


def _told_apart_by(name: str, identities: Identities) -> Column:
    """Return a column where it tells windows apart, else null."""
    whose = [query for query, columns in identities.items() if name in columns]
    usual = ~sf.col("query").isin(list(identities))
    if name != "window_id":  # of unknown queries: a window with a number goes by it, wherever its bounds are
        usual &= sf.col("window_id").isNull()
    return sf.when(sf.col("query").isin(whose) | usual, sf.col(name))
