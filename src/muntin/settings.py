"""What queries and arguments say of a stream together: its time column and its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from muntin.windows.base import Query


class MisfitError(ValueError):
    """A query that is written for another time or key than the stream has; it knows which one it is."""

    def __init__(self, query: Query, message: str) -> None:
        super().__init__(message)
        self.query = query


def time_and_key(
    queries: Iterable[Query], time: Any, key: str | Sequence[str] | None
) -> tuple[Any, list[str]]:
    """Return the time column and the key: as given, or where None is given, as the queries were written.

    Queries of `mt.sql` are written for a time column and a key, those of functions for any. One that is
    written for others than the stream has is refused; the order of key columns does not matter.

    >>> import muntin as mt
    >>> queries = mt.sql("SELECT car, COUNT(*) FROM TUMBLE(cars, ts, '1m') GROUP BY car, window_start")
    >>> time_and_key(queries, None, None)
    ('ts', ['car'])
    """
    given = None if key is None else [key] if isinstance(key, str) else list(key)
    whose_time = whose_key = "the stream"
    for query in queries:
        if query.time is not None:
            if time is not None and time != query.time:
                raise MisfitError(
                    query,
                    f"{_named(query)} takes its time from {query.time!r}, but the time of {whose_time} is "
                    f"{time!r}: they must be the same.",
                )
            time, whose_time = (query.time, _other(query)) if time is None else (time, whose_time)
        if query.key is not None:
            if given is not None and set(given) != set(query.key):
                raise MisfitError(
                    query,
                    f"{_named(query)} groups by {_columns(query.key)}, but the key of {whose_key} is "
                    f"{_columns(given)}: they must be the same.",
                )
            given, whose_key = (list(query.key), _other(query)) if given is None else (given, whose_key)
    if time is None:
        raise TypeError("the time column is missing: give time=, as in time='ts'.")
    return time, given or []


def _named(query: Query) -> str:
    return f"query {query.name!r}" if query.name is not None else f"the query {query!r}"


def _other(query: Query) -> str:
    return "another query" if query.name is None else _named(query)


def _columns(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "no column"
