"""Statements to queries: what is selected, from which window, under which names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot import exp

from muntin.algebra import Aggregate
from muntin.expressions.grammar import NO_STACK
from muntin.streamsql.aggregates import aggregate_of, core_of, is_aggregate
from muntin.streamsql.dialect import Brackets, Call, Clauses, Part, StreamSql, parse
from muntin.streamsql.errors import SqlError
from muntin.streamsql.values import Source, place, shown
from muntin.streamsql.windows import (
    FUNCTIONS,
    SPARK,
    Windowed,
    bracket_window,
    function_window,
    over_window,
    spark_window,
)
from muntin.windows import Query

WINDOW_COLUMNS = ("window_start", "window_end", "window_id", "measure_start", "measure_end")
_FIXED = (*WINDOW_COLUMNS, "query", "revision", "change")
_SPARK_FIELDS = {"start": "window_start", "end": "window_end"}


@dataclass(frozen=True)
class Statement:
    """A statement: its query, and what it says of the stream and of the rows it wants."""

    query: Query
    source: str  # the table after FROM
    columns: tuple[str, ...]  # of SELECT, in its order, under the names that rows have them
    explain: bool

    @property
    def time(self) -> str | None:
        """The time column, where it is named."""
        return self.query.time

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of GROUP BY or PARTITION BY that are none of the window's."""
        return tuple(self.query.key or ())


class Translation:
    """One statement on its way to a query."""

    def __init__(self, text: str, clauses: Clauses) -> None:
        assert clauses.table is not None
        self.clauses = clauses
        self.source = Source(text, clauses.table.text, clauses.alias.text if clauses.alias else None)
        self.over = any(part.node.find(exp.Window) for part in clauses.items)
        self.windowed = self._window()
        self.keys = self._keys()
        self.aggregates: dict[str, Aggregate] = {}

    def fail(self, at: int, message: str) -> SqlError:
        """Return an error at a place."""
        return self.source.fail(at, message)

    def statement(self) -> Statement:
        """Return the statement."""
        clauses = self.clauses
        columns = tuple(column for item in clauses.items for column in self._selected(item))
        if not self.aggregates:
            raise self.fail(clauses.at, "SELECT has no aggregate: add one, such as COUNT(*).")
        where = None if clauses.where is None else self._condition(clauses.where)
        having = None if clauses.having is None else self._having(clauses.having)
        assert clauses.table is not None
        return Statement(
            self._query(where, having),
            clauses.table.text,
            columns,
            clauses.explain,
        )

    def _query(self, where: str | None, having: str | None) -> Query:
        emit, name, early = self.clauses.emit, self.clauses.name, self.clauses.early
        at = min([*emit.values(), *([early.at] if early else [])], default=self.clauses.at)
        options: dict[str, Any] = {flag: True for flag in ("emit_empty", "emit_partial") if flag in emit}
        options |= {"emit": "on_change"} if "on_change" in emit else {}
        options |= {"early": self.source.duration(early.node, early.at, "EARLY EVERY")} if early else {}
        options |= {"where": where, "having": having, "time": self.windowed.time, "key": self.keys}
        named = None if name is None else name.text
        return self.source.call(at, Query, self.windowed.window, self.aggregates, named, **options)

    # ---- the window ----

    def _window(self) -> Windowed:
        """Return the one window that the statement has."""
        clauses, found = self.clauses, list(self._windows())
        if not found:
            raise self.fail(
                clauses.at,
                "the statement has no window: take FROM TUMBLE(table, time, size), "
                "FROM table [RANGE 10 MINUTES] or GROUP BY window(time, '10 minutes').",
            )
        (_, first), *others = found
        for at, other in others:
            if other != first:
                raise self.fail(
                    at, "there is another window: a statement has one; take a statement for each."
                )
        return first

    def _windows(self) -> Iterator[tuple[int, Windowed]]:
        window = self.clauses.window
        if isinstance(window, Call):
            yield window.function.at, function_window(self.source, window)
        if isinstance(window, Brackets):
            yield window.at, bracket_window(self.source, window)
        for part in self.clauses.group or []:
            if _is_spark(part.node):
                yield part.at, spark_window(self.source, part.node, part.at)  # type: ignore[arg-type]
            elif isinstance(part.node, exp.Anonymous) and part.node.name.upper() in FUNCTIONS:
                name = part.node.name.upper()
                written = FUNCTIONS[name].signature(name, "table")
                raise self.fail(part.at, f"{name} stands after FROM, not in GROUP BY: write FROM {written}.")
        for part in self.clauses.items:
            for over in part.node.find_all(exp.Window):
                yield part.at, over_window(self.source, over, part.at)

    # ---- keys ----

    def _keys(self) -> tuple[str, ...]:
        """Return the columns that GROUP BY or the window's PARTITION BY names."""
        group, partition = self.clauses.group, self.windowed.keys
        if group is None:
            return partition or ()
        if self.over:
            raise self.fail(group[0].at, "OVER has its own PARTITION BY: leave GROUP BY out.")
        keys, windows = [], 0
        for part in group:
            column = self._grouped(part)
            if column is None:
                windows += 1
            elif column not in keys:
                keys.append(column)
        if isinstance(self.clauses.window, Call) and not windows:
            raise self.fail(
                group[0].at, "GROUP BY names no column of the window: add window_start and window_end."
            )
        if partition is not None and set(partition) != set(keys):
            raise self.fail(
                group[0].at,
                f"windows are cut for each key: GROUP BY must name the columns of PARTITION BY, "
                f"{', '.join(partition)}.",
            )
        return tuple(keys)

    def _grouped(self, part: Part) -> str | None:
        """Return a column of GROUP BY; None for one of the window."""
        if _is_spark(part.node):
            return None
        if not isinstance(part.node, exp.Column):
            raise self.fail(
                part.at,
                f"GROUP BY takes columns and windows, not {shown(part.node)}: make it a column of the table.",
            )
        if _window_column(part.node) is not None:
            return None
        key = self.source.column(part.node, part.at, "a key")
        self._refuse_window_time(key, part.at)
        return key

    def _refuse_window_time(self, column: str, at: int) -> None:
        """Refuse Flink's last moment of a window, which rows do not have."""
        if column.lower() == "window_time":
            raise self.fail(
                at, "there is no window_time: the nearest is window_end, which lies just after it."
            )

    # ---- what is selected ----

    def _selected(self, item: Part) -> tuple[str, ...]:
        """Return the columns of rows that an item of SELECT stands for."""
        node = item.node
        if is_aggregate(node):
            return (self._aggregate(item),)
        columns = self._plain(node, item.at)
        if item.name is not None and (item.name.text,) != columns:
            raise self.fail(
                item.name.at,
                f"rows have {' and '.join(columns)} under that name: leave AS out.",
            )
        return columns

    def _plain(self, node: exp.Expr, at: int) -> tuple[str, ...]:
        """Return the columns for an item that is no aggregate: a key, or one of the window."""
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise self.fail(at, "SELECT * is not supported: name keys, window columns and aggregates.")
        if not isinstance(node, exp.Column):
            self._refuse_item(node, at)
        spark = node.name.lower() in ("window", "session_window") and not node.table
        if spark and any(_is_spark(part.node) for part in self.clauses.group or []):
            return ("window_start", "window_end")
        window = _window_column(node)
        if window is not None:
            return (self._checked(window, at),)
        if node.table.upper() in SPARK:
            raise self.fail(at, f"{node.table} has start and end, not {node.name}.")
        name = self.source.column(node, at, "a column of SELECT")
        if name in self.keys:
            return (name,)
        self._refuse_window_time(name, at)
        if self.over and name == self.windowed.time:
            raise self.fail(at, f"rows have {name} as window_end: write window_end.")
        raise self.fail(
            at, f"{name} is no key: add it to GROUP BY, or take an aggregate such as LAST_VALUE({name})."
        )

    def _checked(self, column: str, at: int) -> str:
        if column.startswith("measure_") and not self.windowed.window.measured:
            raise self.fail(
                at, f"only ON_MEASURE has {column}: the nearest is {column.replace('measure', 'window')}."
            )
        return column

    def _refuse_item(self, node: exp.Expr, at: int) -> NoReturn:
        called = [part for part in node.find_all(exp.Anonymous) if is_aggregate(part)]
        if _is_spark(node):
            fields = " and ".join(f"{node.name.lower()}.{name}" for name in _SPARK_FIELDS)
            raise self.fail(at, f"{node.name} stands in GROUP BY: select {fields}.")
        if called:
            raise self.fail(
                at,
                f"{shown(node)} computes with an aggregate, which is not supported: "
                f"select {shown(called[0])} itself, and compute with the rows.",
            )
        if isinstance(core_of(node), exp.Anonymous):
            aggregate_of(self.source, node, at, self.windowed.time)  # says that there is none of this name
        raise self.fail(
            at,
            f"{shown(node)} is neither a key, nor a column of the window, nor an aggregate such as SUM(v).",
        )

    def _aggregate(self, item: Part) -> str:
        name = item.name.text if item.name else default_name(item.node)
        at = item.name.at if item.name else item.at
        if self.over and not isinstance(item.node, exp.Window):
            raise self.fail(item.at, "some aggregates have OVER and some have not: write it after each.")
        if name in _FIXED or name in self.keys:
            raise self.fail(at, f"rows have another column {name}: give the aggregate another name with AS.")
        if name in self.aggregates:
            raise self.fail(at, f"two columns are called {name}: give one another name with AS.")
        self._refuse_nested(item)
        self.aggregates[name] = aggregate_of(self.source, item.node, item.at, self.windowed.time)
        return name

    def _refuse_nested(self, item: Part) -> None:
        inner = [n for n in item.node.find_all(exp.Anonymous) if is_aggregate(n)]
        if len(inner) > 1:
            raise self.fail(
                place(inner[1], item.at),
                f"{shown(inner[1])} stands inside an aggregate: select it by itself.",
            )

    # ---- conditions ----

    def _condition(self, part: Part) -> str:
        """Return WHERE as an expression over the columns of records."""
        for node in part.node.find_all(exp.Anonymous):
            if is_aggregate(node):
                raise self.fail(
                    place(node, part.at),
                    f"WHERE sees single records, not {shown(node)}: put that into HAVING.",
                )
        for column in part.node.find_all(exp.Column):
            if _window_column(column) is not None:
                raise self.fail(
                    place(column, part.at),
                    f"WHERE sees records before they have windows: put {shown(column)} into HAVING.",
                )
        return self._expression(part.node, part.at)

    def _having(self, part: Part) -> str:
        """Return HAVING as an expression over the columns of rows: aggregates stand for their names."""
        node = part.node.copy()
        if is_aggregate(node):  # a condition that is nothing but an aggregate
            return self._expression(self._named(node, part.at), part.at)
        wrapped = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.Anonymous)
        while (call := next((n for n in node.find_all(*wrapped) if is_aggregate(n)), None)) is not None:
            call.replace(self._named(call, part.at))
        for column in node.find_all(exp.Column):
            window = _window_column(column)
            if window is not None:
                column.replace(exp.column(window))
            elif column.name not in (*self.keys, *self.aggregates) and not column.table:
                raise self.fail(
                    place(column, part.at),
                    f"HAVING sees the columns of rows, of which {column.name} is none: there are "
                    f"{', '.join([*self.keys, *self.aggregates, 'window_start', 'window_end'])}.",
                )
        return self._expression(node, part.at)

    def _named(self, call: exp.Expr, at: int) -> exp.Expr:
        """Return the column of SELECT that holds an aggregate."""
        aggregate = aggregate_of(self.source, call, at, self.windowed.time)
        for name, selected in self.aggregates.items():
            if selected == aggregate:
                return exp.column(exp.to_identifier(name, quoted=not _reads_plainly(name)))
        raise self.fail(place(call, at), f"HAVING needs {shown(call)} among the columns: add it to SELECT.")

    def _expression(self, node: exp.Expr, at: int) -> str:
        from muntin.expressions import Expression

        return self.source.call(at, Expression, shown(self.source.unqualified(node, at)))


def default_name(node: exp.Expr) -> str:
    """Return the name of an aggregate without AS: the call as it is written, its function in lower case."""
    call = node.this if isinstance(node, exp.Window) else node
    return call.sql(StreamSql, normalize_functions="lower", comments=False)


def _reads_plainly(name: str) -> bool:
    """Tell whether a name without quotes is read as the column; one such as null or case is not."""
    from muntin.expressions import Expression

    try:
        return Expression(f"({name} IN ({name} + 1, ABS({name})))").columns == (name,)
    except ValueError:
        return False


def _is_spark(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in SPARK


def _window_column(column: exp.Expr) -> str | None:
    """Return the column of rows that names a window: `window_start`, or Spark's `window.start`."""
    if not isinstance(column, exp.Column):
        return None
    if column.table.upper() in SPARK:
        return _SPARK_FIELDS.get(column.name.lower())
    lower = column.name.lower()
    return lower if lower in WINDOW_COLUMNS else None


def statements(text: str) -> list[Statement]:
    """Translate all statements of a text, each with what it says of its stream.

    >>> found = statements("SELECT car, AVG(speed) AS avg FROM cars [WATTR ts RANGE 7 MINUTES] GROUP BY car")
    >>> found[0].query, found[0].source, found[0].time, found[0].keys
    (tumbling('7m').agg(avg=mean('speed')), 'cars', 'ts', ('car',))
    """
    return [statement for _, statement in _translated(text)]


def _translated(text: str) -> list[tuple[Clauses, Statement]]:
    if not isinstance(text, str):
        raise TypeError(f"sql takes a text, not {text!r}.")
    found: list[tuple[Clauses, Statement]] = []
    for clauses in parse(text):
        try:
            statement = Translation(text, clauses).statement()
        except RecursionError as error:
            raise SqlError(text, clauses.at, f"the statement is too large: {NO_STACK}.") from error
        name = clauses.name
        if name is not None and any(other.query.name == name.text for _, other in found):
            raise SqlError(text, name.at, f"two queries are called {name.text}: rename one.")
        found.append((clauses, statement))
    return found


def sql(text: str) -> list[Query]:
    """Translate SQL to queries, one for each statement, to be run together: they share slices.

    The queries are those that the functions of muntin make; they also know the time column and the key that
    they are written for, so that nobody has to name these again. All statements read one table by one time
    column and one key, since one operator has one of each.

    >>> import muntin as mt
    >>> mt.sql("SELECT MAX(speed) AS peak FROM HOP(cars, ts, INTERVAL '1' MINUTE, INTERVAL '10' MINUTES)")
    [sliding('10m', every='1m').agg(peak=max('speed'))]
    >>> mt.sql("SELECT MAX(speed) FROM HOPP(cars, ts, '1 minute', '10 minutes')")
    Traceback (most recent call last):
    muntin.streamsql.errors.SqlError: line 1, column 24: there is no window function HOPP: the nearest is HOP.
    """
    found = _translated(text)
    (_, first), *others = found
    for clauses, other in others:
        for what, its, that in (
            ("the table", first.source, other.source),
            ("the time column", first.time, other.time),
            ("the key", set(first.keys), set(other.keys)),
        ):
            if its != that and None not in (its, that):
                message = f"{what} differs from that of the first statement: call sql for each."
                raise SqlError(text, clauses.at, message)
    return [statement.query for _, statement in found]
