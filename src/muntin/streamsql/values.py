"""What stands in an argument: columns, numbers, texts, durations and whole expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlglot import exp

from muntin.streamsql.dialect import StreamSql
from muntin.streamsql.errors import SqlError
from muntin.windows.durations import Duration

T = TypeVar("T")

# Units of intervals as windows write them; longer ones have no fixed length.
_UNITS = {
    "NANOSECOND": "ns",
    "MICROSECOND": "us",
    "MILLISECOND": "ms",
    "SECOND": "s",
    "MINUTE": "m",
    "HOUR": "h",
    "DAY": "d",
    "WEEK": "w",
}
# Where an expression by itself says that it is wrong: the place in the statement is told instead.
_ITS_PLACE = re.compile(r" \(line \d+, column \d+ of the expression .*\)\.$", re.DOTALL)
_ITS_TEXT = re.compile(r"^line \d+, column \d+ of the expression (.*?)(?: near .*)? is no valid SQL\.$")
_CALENDAR = ("MONTH", "QUARTER", "YEAR")


@dataclass(frozen=True)
class Source:
    """The text of a statement, its table, and the other name of that."""

    text: str
    table: str
    alias: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """What columns may be qualified by."""
        return tuple(filter(None, dict.fromkeys([self.table, self.table.split(".")[-1], self.alias])))

    def fail(self, at: int, message: str) -> SqlError:
        """Return an error at a place."""
        return SqlError(self.text, at, message)

    def call(self, at: int, make: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        """Make a window or an aggregate; what refuses its arguments is told as an error at a place."""
        try:
            return make(*arguments, **keywords)
        except (TypeError, ValueError) as error:
            told = _ITS_TEXT.sub(r"the expression \1 is no valid SQL.", _ITS_PLACE.sub(".", str(error)))
            raise self.fail(at, told) from error

    # ---- expressions ----

    def unqualified(self, node: exp.Expr, at: int) -> exp.Expr:
        """Return an expression whose columns are no longer qualified by the table."""
        plain = node.copy()
        for column in list(plain.find_all(exp.Column)):
            if not column.table:
                continue
            qualifier = ".".join(part.name for part in column.parts[:-1])
            if qualifier.lower() not in map(str.lower, self.names):
                known = " or ".join(self.names)
                raise self.fail(
                    place(column, at),
                    f"there is no table {qualifier} here: columns are those of {known}.",
                )
            for part in ("table", "db", "catalog"):
                column.set(part, None)
        return plain

    def column(self, node: exp.Expr, at: int, what: str) -> str:
        """Return the name of a column; `DESCRIPTOR(ts)` is one, too."""
        inner = described(node)
        if not isinstance(inner, exp.Column) or isinstance(inner.this, exp.Star):
            hint = ""
            if isinstance(inner, exp.Literal) and inner.is_string:
                hint = ": texts stand in single quotes, names in none or in double quotes"
            raise self.fail(place(node, at), f"{what} is a column, not {shown(node)}{hint}.")
        return self.unqualified(inner, at).name

    def scalar(self, node: exp.Expr, at: int, what: str) -> str:
        """Return an expression over columns: the name of a column, or an `Expression`."""
        from muntin.expressions import expr

        inner = described(node)
        if isinstance(inner, exp.Column):
            return self.column(inner, at, what)
        return self.call(place(node, at), expr, shown(self.unqualified(inner, at)))

    # ---- literals ----

    def number(self, node: exp.Expr, at: int, what: str) -> int | float:
        """Return a number, perhaps with a sign."""
        value = literal(node)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(place(node, at), f"{what} is a number, not {shown(node)}.")
        return value

    def text_of(self, node: exp.Expr, at: int, what: str) -> str:
        """Return a text."""
        value = literal(node)
        if not isinstance(value, str):
            hint = ": texts stand in single quotes" if isinstance(node, exp.Column) else ""
            raise self.fail(place(node, at), f"{what} is a text, not {shown(node)}{hint}.")
        return value

    def duration(self, node: exp.Expr, at: int, what: str, least: int | None = 1) -> str | int:
        """Return a duration of some length: an interval, a text such as '10 minutes', or a whole number."""
        value = self._length(node, at, what)
        self.call(place(node, at), Duration.of, value, what, least=least)
        return value

    def offset(self, node: exp.Expr, at: int, what: str) -> str | int:
        """Return a duration that may be negative or none at all."""
        return self.duration(node, at, what, least=None)

    def _length(self, node: exp.Expr, at: int, what: str) -> str | int:
        value = literal(node)
        if isinstance(value, str) or type(value) is int:
            return value
        if isinstance(node, exp.Add):  # INTERVAL '1' HOUR '30' MINUTE
            parts = (self._length(part, at, what) for part in (node.this, node.expression))
            return "".join(map(str, parts))
        if not isinstance(node, exp.Interval):
            hint = ": texts stand in single quotes" if isinstance(node, exp.Column) else ""
            raise self.fail(
                place(node, at),
                f"{what} is a duration such as INTERVAL '10' MINUTE or '10 minutes', "
                f"not {shown(node)}{hint}.",
            )
        return self._interval(node, at, what)

    def _interval(self, node: exp.Interval, at: int, what: str) -> str:
        unit = node.args.get("unit")
        amount = node.this.name
        if unit is None:  # INTERVAL '1 hour 30 minutes'
            return str(amount)
        word = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
        if word in _CALENDAR:
            raise self.fail(
                place(node, at),
                f"{what} is {shown(node)}, which has no fixed length: the nearest is "
                f"CALENDAR(table, time, '{word.lower()}').",
            )
        if word not in _UNITS:
            raise self.fail(
                place(node, at),
                f"{what} is {shown(node)}, whose unit is not supported: units are "
                f"{', '.join(list(_UNITS)[:-1])} and WEEK.",
            )
        if not re.fullmatch(r"-?\d+", amount):
            raise self.fail(
                place(node, at),
                f"{what} is {shown(node)}, but counts whole units only: take a smaller unit, as in "
                "INTERVAL '1500' MILLISECOND.",
            )
        return f"{amount}{_UNITS[word]}"


def described(node: exp.Expr) -> exp.Expr:
    """Return the column in `DESCRIPTOR(column)`, and anything else as it is."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR" and len(node.expressions) == 1:
        inner: exp.Expr = node.expressions[0]
        return inner
    return node


def literal(node: exp.Expr) -> Any:
    """Return the value of a literal, perhaps with a sign; None if it is none."""
    if isinstance(node, exp.Neg):
        value = literal(node.this)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.this)
    try:
        return int(node.this)
    except ValueError:
        return float(node.this)


def place(node: exp.Expr, otherwise: int) -> int:
    """Return where a node begins, as far as sqlglot has noted it."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=otherwise)


def shown(node: exp.Expr) -> str:
    """Return an expression as a user reads it."""
    return node.sql(StreamSql, comments=False)
