"""Expressions over a record's columns: SQL text that stands wherever the name of a column stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_MARK = "\0expression "  # before the text, where only plain names can be kept; no user's column is so named


class Expression(str):
    """A SQL expression, held as the text that its parts give when they are printed anew.

    It equals no column of the same name. What it needs, sqlglot to parse and Arrow to compute, is loaded with
    the first one.

    >>> import muntin as mt
    >>> mt.expr("price*volume").evaluate({"price": [2.0, None], "volume": [3, 4]}).to_pylist()
    [6.0, None]
    >>> mt.expr("price*volume") == mt.expr("price  *  volume")
    True
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Expression:
        """Parse the text; a ValueError says what is not supported, and where."""
        from muntin.expressions.evaluation import parsed

        return str.__new__(cls, parsed(str(text)).text)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, in the order they are named."""
        from muntin.expressions.evaluation import parsed

        return parsed(str(self)).columns

    def renamed(self, names: Mapping[str, str]) -> Expression:
        """Return the same expression over columns of other names.

        >>> Expression("Total > 10 AND n > 1").renamed({"Total": "total"})
        expr('total > 10 AND n > 1')
        """
        from muntin.expressions.evaluation import renamed

        return Expression(renamed(str(self), names))

    def evaluate(self, table: Any) -> pa.Array:
        """Return its value for each record of an Arrow table or batch, or of a mapping of columns.

        Nulls are as in SQL: what is computed of one is null, and AND, OR and NOT know three values. Division
        is one of floats, and null where it is by zero. An integer that leaves 64 bits raises OverflowError.
        NaN compares as floats do: it is equal to nothing, nor more, nor less.
        """
        from muntin.expressions.evaluation import evaluate

        return evaluate(str(self), table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return f"expr({str(self)!r})"


def expr(text: str) -> str:
    """Return a SQL expression over columns, which stands wherever the name of a column does.

    Columns, numbers, texts, TRUE, FALSE, NULL, timestamps and intervals; `+ - * / %`, comparisons, AND, OR,
    NOT, IS NULL, IN, BETWEEN, LIKE, CASE, CAST; COALESCE, ABS, ROUND, FLOOR, CEIL, SQRT, LN, EXP, UPPER,
    LOWER and LENGTH. Operators bind as in DuckDB: IS binds less than comparisons. What is just a column gives
    its name.

    >>> import muntin as mt
    >>> mt.tumbling("1m").agg(turnover=mt.sum(mt.expr("price * volume")))
    tumbling('1m').agg(turnover=sum(expr('price * volume')))
    >>> mt.expr("price")
    'price'
    """
    if not isinstance(text, str):
        raise TypeError(f"an expression is a text such as 'price * volume', not {text!r}.")
    made = text if isinstance(text, Expression) else Expression(text)
    from muntin.expressions.evaluation import parsed

    return parsed(str(made)).column or made


def condition(text: Any, what: str) -> Expression | None:
    """Return what where= or having= was given as an expression, a bare column, too; None: there is none."""
    if text is None or isinstance(text, Expression):
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} is a condition such as 'price > 0', not {text!r}.")
    return Expression(text)


def sources(name: str) -> tuple[str, ...]:
    """Return the columns that must be there for a name: itself, or those that an expression reads.

    >>> sources("v")
    ('v',)
    """
    return name.columns if isinstance(name, Expression) else (name,)


def marked(name: str) -> str:
    """Return a name as a plain text that `unmarked` knows for an expression, if it is one."""
    return _MARK + name if isinstance(name, Expression) else name


def unmarked(name: str) -> str:
    """Return the name, or the expression, that was marked.

    >>> import muntin as mt
    >>> unmarked(marked(mt.expr("v + 1"))), unmarked(marked("v + 1"))
    (expr('v + 1'), 'v + 1')
    """
    return Expression(name.removeprefix(_MARK)) if name.startswith(_MARK) else name


__all__ = ["Expression", "expr"]
