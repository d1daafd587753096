"""Settings: the arguments of an operator, checked, and its queries under their names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from muntin.algebra.aggregate import Absent
from muntin.expressions import Expression
from muntin.windows.base import Query
from muntin.windows.durations import Duration

Store = Literal["auto", "lazy", "eager", "sliding"]
FIXED = ("query", "window_start", "window_end", "window_id", "revision", "change")  # columns of all rows
MEASURES = ("measure_start", "measure_end")  # only there if some query has a measure
FINAL = "final"  # only there if some query has early results


@dataclass(frozen=True)
class Settings:
    """What an operator was told of its stream, on whatever engine it runs."""

    time: str | Absent
    key: tuple[str, ...]
    policy: str  # "in_order", "manual", or "delay"
    delay: Duration | None
    lateness: Duration
    tie: str | None
    store: Store

    @classmethod
    def of(
        cls,
        queries: Sequence[Query],
        *,
        time: str | Absent | None,
        key: str | Sequence[str] | None,
        watermark: Any,
        lateness: Any,
        tie: str | None,
        store: Store,
    ) -> Settings:
        """Return the settings, or say what is wrong with an argument."""
        time, keys = time_and_key(queries, time, key)
        policy = watermark if watermark in ("in_order", "manual") else "delay"
        delay = Duration.of(watermark, "watermark", least=0) if policy == "delay" else None
        late = Duration.of(lateness, "lateness", least=0)
        if policy == "in_order" and late.amount:
            raise ValueError(
                "lateness needs a watermark that lets records be late: watermark='5s' or 'manual'."
            )
        if store not in ("auto", "lazy", "eager", "sliding"):
            raise ValueError(f"store is 'auto', 'lazy', 'eager' or 'sliding', not {store!r}.")
        for what, name in (("the time", time), *(("a key", name) for name in keys)):
            if isinstance(name, Expression):
                raise ValueError(
                    f"{what} is a column, not {name!r}: add the expression to the records as one."
                )
        for name in keys:
            if name in FIXED or keys.count(name) > 1:
                raise ValueError(f"the key column {name!r} is named twice, or like a column of the output.")
        return cls(time, tuple(keys), policy, delay, late, tie, store)

    def named(
        self, queries: Iterable[Query], taken: Collection[str] = (), number: int = 0
    ) -> list[tuple[str, Query]]:
        """Return queries with their names; those without one are numbered from `number` on."""
        names = set(taken)
        found: list[tuple[str, Query]] = []
        for query in queries:
            name = query.name if query.name is not None else f"q{number + len(found)}"
            if name in names:
                raise ValueError(f"there is a query named {name!r} already; give each its own name=.")
            if query.emit == "on_change" and self.lateness.amount:
                raise ValueError(f"query {name!r}: emit='on_change' needs lateness 0.")
            self._check_columns(name, query)
            found.append((name, query))
            names.add(name)
        self.check_final(found)
        return found

    def check_final(self, queries: Iterable[tuple[str, Query]]) -> None:
        """Refuse a column named like the one that tells early results, where one of all queries has some."""
        named = list(queries)
        early = next((name for name, query in named if query.early is not None), None)
        if early is None:
            return
        whose = ["a key column"] if FINAL in self.key else []
        whose += [f"an aggregate of query {name!r}" for name, query in named if FINAL in query.aggregates]
        if whose:
            raise ValueError(
                f"query {early!r} has early results, which are told by a column {FINAL!r}, and {whose[0]} is "
                "named so: rename that one."
            )

    def _check_columns(self, name: str, query: Query) -> None:
        """Refuse output columns that are there already, and a condition on those that are not."""
        for column in query.aggregates:
            if column in (*self.key, *FIXED, *MEASURES):
                raise ValueError(
                    f"query {name!r} names an aggregate {column!r}, like a key or a fixed output column."
                )
        if isinstance(query.having, Expression):
            bounds = ["window_start", "window_end", "window_id"]
            bounds += MEASURES if query.window.measured else ()
            there = [*self.key, *bounds, *query.aggregates]
            for column in query.having.columns:
                if column not in there:
                    columns = ", ".join(map(repr, there))
                    raise ValueError(f"query {name!r}: having reads {column!r}, but its rows have {columns}.")

    def inputs(self, columns: Iterable[str]) -> list[str]:
        """Return all columns and expressions that batches must have; queries read some of them."""
        time = [self.time] if isinstance(self.time, str) else []
        tie = [self.tie] if self.tie else []
        return list(dict.fromkeys([*time, *self.key, *tie, *columns]))


def as_queries(queries: Query | Iterable[Query]) -> list[Query]:
    """Return one query or several as a list; refuse what is none."""
    listed = [queries] if isinstance(queries, Query) else list(queries)
    if not listed:
        raise ValueError("an operator needs at least one query, as in mt.tumbling('1m').agg(n=mt.count()).")
    for query in listed:
        if not isinstance(query, Query):
            raise TypeError(f"a query is what a window's agg() gives, not {query!r}.")
    return listed


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
