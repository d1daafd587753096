"""Which columns tell the windows of a query apart: noted in a DataFrame's schema by who makes the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from muntin.windows.base import Query

_NOTE = "muntin.identity"  # in the metadata of the column `query`, which Spark hands on, to Parquet files too
BOUNDS = ("window_start", "window_end", "window_id", "measure_start", "measure_end")
Identities = Mapping[str, tuple[str, ...]]  # by the name of a query


def identities_of(queries: Mapping[str, Query]) -> Identities:
    """Return what each query's windows say of themselves.

    >>> import muntin as mt
    >>> identities_of({"q": mt.tumbling("1m").agg(n=mt.count())})
    {'q': ('window_start', 'window_end')}
    """
    return {name: query.window.identity() for name, query in queries.items()}


def note(identities: Identities) -> dict[str, Any]:
    """Return the metadata that says it."""
    return {_NOTE: json.dumps(identities)}


def noted(schema: StructType) -> Identities:
    """Return what is noted in a schema; nothing if it was lost on the way."""
    found = next((field.metadata[_NOTE] for field in schema if _NOTE in field.metadata), "{}")
    return {name: tuple(columns) for name, columns in json.loads(found).items()}
