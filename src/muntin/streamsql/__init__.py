"""Window queries in SQL, for the embedded engine and for Spark."""

from muntin.streamsql.errors import SqlError
from muntin.streamsql.translate import Statement, sql, statements

__all__ = ["SqlError", "Statement", "sql", "statements"]
