"""Columns of a DataFrame by the names that users type, resolved as Spark resolves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructField

from muntin.expressions import Expression
from muntin.settings import FINAL, FIXED, MEASURES
from muntin.spark.job import Job
from muntin.windows.base import Query


class Columns:
    """The columns of a DataFrame; upper and lower case are the same unless `spark.sql.caseSensitive` is set.

    >>> columns = Columns(spark.createDataFrame([(1, "a")], "ts long, Car string"))
    >>> columns.field("CAR").name, columns.type_of("TS")
    ('Car', DataType(int64))
    """

    def __init__(self, df: DataFrame) -> None:
        self.fields: list[StructField] = df.schema.fields
        self._case_matters = (df.sparkSession.conf.get("spark.sql.caseSensitive") or "").lower() == "true"

    def folded(self, name: str) -> str:
        """Return what names of one column have in common."""
        return name if self._case_matters else name.lower()

    def field(self, name: str) -> StructField:
        """Return the column that a name means; KeyError if there is none, ValueError if there are several."""
        found = [field for field in self.fields if self.folded(field.name) == self.folded(name)]
        if not found:
            have = ", ".join(repr(field.name) for field in self.fields)
            raise KeyError(f"the DataFrame has no column {name!r}; it has {have}.")
        if len(found) > 1:
            both = " and ".join(repr(field.name) for field in found)
            raise ValueError(f"the name {name!r} is ambiguous: the DataFrame has {both}; rename one.")
        return found[0]

    def type_of(self, name: str) -> pa.DataType:
        """Return the Arrow type of the column that a name means."""
        return to_arrow_type(self.field(name).dataType, timezone="UTC")

    def types(self) -> dict[str, pa.DataType]:
        """Return the Arrow types of all columns."""
        return {field.name: self.type_of(field.name) for field in self.fields}

    def check_output(self, job: Job) -> None:
        """Refuse columns of the output that Spark would not tell apart."""
        answers = [column for query in job.queries.values() for column in query.aggregates]
        alike: dict[str, str] = {}
        final = [FINAL] if any(query.early is not None for query in job.queries.values()) else []
        for name in (*job.keys, *FIXED, *MEASURES, *final, *answers):
            other = alike.setdefault(self.folded(name), name)
            if other != name:
                raise ValueError(
                    f"the output would have the columns {other!r} and {name!r}, which Spark does not tell "
                    "apart: rename one, or set spark.sql.caseSensitive to true."
                )

    def with_having(self, queries: Query | Sequence[Query], keys: Sequence[str]) -> list[Query]:
        """Return queries whose `having` names the columns of their rows as these are written."""
        listed = [queries] if isinstance(queries, Query) else list(queries)
        return [self._with_having(query, keys) if isinstance(query, Query) else query for query in listed]

    def _with_having(self, query: Query, keys: Sequence[str]) -> Query:
        if not isinstance(query.having, Expression):
            return query
        rows = {self.folded(name): name for name in (*FIXED, *MEASURES, *keys, *query.aggregates)}
        typed = query.having.columns
        return replace(query, having=query.having.renamed({n: rows.get(self.folded(n), n) for n in typed}))


def quoted(name: str) -> str:
    """Return a name as Spark takes it, whatever characters it has.

    >>> quoted("speed.max")
    '`speed.max`'
    """
    return "`" + name.replace("`", "``") + "`"
