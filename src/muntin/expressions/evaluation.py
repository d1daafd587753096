"""What expressions give: SQL parsed by sqlglot, and computed column by column with Arrow."""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import errors, exp

from muntin import columnar
from muntin.expressions import functions, grammar

Value = pa.Array | pa.Scalar
Columns = Mapping[str, pa.Array]
Step = Callable[[Columns], Any]  # the columns of some records to their values
Maker = Callable[[Any, Callable[[Any], Step]], Step]
ROUNDED = 38  # digits at most, as many as a decimal has
_QUOTED = 200  # characters, the most that messages repeat
FUNCTIONS = "COALESCE, ABS, ROUND, FLOOR, CEIL, SQRT, LN, EXP, UPPER, LOWER, LENGTH and CAST"


@dataclass(frozen=True)
class Parsed:
    """An expression that can be computed."""

    text: str  # as it is printed
    columns: tuple[str, ...]
    column: str | None  # the name, if it is nothing but a column
    step: Step


class _UnsupportedError(Exception):
    """A part that cannot be computed, and why."""

    def __init__(self, node: Any, why: str) -> None:
        super().__init__(why)
        self.node = node


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> Parsed:
    """Return a text as something to compute; refuse what is no expression, saying where."""
    try:
        return _parsed(text)
    except errors.ParseError as error:
        raise ValueError(_misread(text, error)) from None
    except errors.TokenError:
        raise ValueError(f"the expression {_quoted(text)} has a quote that is not closed.") from None
    except (grammar.TooLargeError, RecursionError) as error:
        why = grammar.NO_STACK if isinstance(error, RecursionError) else error
        raise ValueError(f"the expression {_quoted(text)} is too large: {why}.") from None


def _parsed(text: str) -> Parsed:
    node = _read(text)
    try:
        misfit = grammar.refused(node)
        if misfit is not None:
            raise _UnsupportedError(*misfit)
        step = _make(node)
    except _UnsupportedError as refused:
        where = f"{_place(text, refused.node)} of the expression {_quoted(text)}"
        raise ValueError(f"{refused} ({where}).") from None
    names = [column.name for column in node.find_all(exp.Column, bfs=False)]
    alone = node.name if isinstance(node, exp.Column) else None
    return Parsed(node.sql(comments=False), tuple(dict.fromkeys(names)), alone, step)


def _read(text: str) -> exp.Expr:
    """Return what a text is parsed to."""
    dialect = grammar.ExpressionSql()
    found = dialect.parser().parse(grammar.tokenize(text, dialect), text)
    if len(found) != 1 or found[0] is None:
        raise errors.ParseError("not one expression")
    return found[0].unnest()


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return the text of an expression whose columns have other names."""
    node = _read(text)
    for column in node.find_all(exp.Column):
        column.this.set("this", names.get(column.name, column.name))
    return str(node.sql(comments=False))


def _is_careful(node: Any) -> bool:
    """Tell whether some part may leave the range of integers, or meet a text that is no number."""
    return any(type(part) in _CAREFUL and not _is_constant(part) for part in node.walk())


def _is_constant(part: Any) -> bool:
    return isinstance(part, (exp.Neg, exp.Cast)) and isinstance(part.this, exp.Literal)


def _misread(text: str, error: errors.ParseError) -> str:
    if not error.errors:
        return f"an expression is a text such as 'price * volume', not {_quoted(text)}."
    first = error.errors[0]
    near = f" near {first['highlight']!r}" if first.get("highlight") else ""
    where = f"line {first['line']}, column {first['col']} of the expression {_quoted(text)}"
    return f"{where}{near} is no valid SQL."


def _quoted(text: str) -> str:
    """Return a text in quotes, of a long one its beginning."""
    return repr(text) if len(text) <= _QUOTED else f"{text[:40]!r}..."


def _place(text: str, node: Any) -> str:
    """Return line and column of a part; those of its first name, if that is all that is known."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    start = min(starts, default=0)
    line = text.count("\n", 0, start) + 1
    return f"line {line}, column {start - text.rfind(chr(10), 0, start)}"


def evaluate(text: str, table: Any) -> pa.Array:
    """Return the values of an expression for the records of a table."""
    if isinstance(table, Mapping):
        table = pa.table({name: _as_column(values) for name, values in table.items()})
    found = parsed(text)
    columns = {name: columnar.plain(columnar.named(table, name)) for name in found.columns}
    try:
        value = found.step(columns)
    except (pa.ArrowException, TypeError) as error:
        raise _failed(text, error, columns) from error
    if isinstance(value, pa.Scalar):
        return functions.repeated(value, table.num_rows)
    return value


def _as_column(values: Any) -> Any:
    return values if isinstance(values, (pa.Array, pa.ChunkedArray)) else columnar.column(values)


def _failed(text: str, error: Exception, columns: Columns) -> Exception:
    if isinstance(error, pa.ArrowNotImplementedError):
        kinds = ", ".join(f"{name} ({column.type})" for name, column in columns.items())
        return TypeError(f"the expression {_quoted(text)} cannot be computed of {kinds or 'its constants'}.")
    if "overflow" in str(error):
        return OverflowError(
            f"the expression {_quoted(text)} left the 64-bit range; cast its columns to DOUBLE for floats."
        )
    kind = ValueError if type(error) is pa.ArrowInvalid else TypeError
    return kind(
        f"the expression {_quoted(text)} cannot be computed: {str(error).splitlines()[0].rstrip('.')}."
    )


# ---- the parts of an expression ----


def _make(node: Any) -> Step:
    """Return what computes a part."""
    if type(node) not in _MAKERS:
        raise _UnsupportedError(node, _unknown(node))
    make, allowed = _MAKERS[type(node)]
    for name, value in node.args.items():
        if value and name not in allowed:
            raise _UnsupportedError(node, f"{_word(node)} takes no {name.upper()} here")
    return make(node, _make)


def _word(node: Any) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).upper()
    return str(node.sql_name() if isinstance(node, exp.Func) else node.key).upper()


def _unknown(node: Any) -> str:
    if isinstance(node, exp.AggFunc):
        return f"{_word(node)} is an aggregate, not a function of one record"
    if isinstance(node, exp.Func):
        return f"there is no function {_word(node)}; there are {FUNCTIONS}"
    return f"{node.sql()!r} is no expression over a record's columns"


def _column(node: Any, make: Any) -> Step:
    del make
    if node.table:
        raise _UnsupportedError(node, f"a column is named without a table, as in {node.name!r}")
    name = node.name
    return lambda columns: columns[name]


def _constant(value: Any) -> Step:
    return lambda _columns: value


def _literal(node: Any, make: Any) -> Step:
    del make
    if node.is_string:
        return _constant(pa.scalar(node.this, pa.string()))
    if not node.this.isdigit():
        return _constant(pa.scalar(float(node.this)))
    whole = _whole(node.this, 2**63 - 1)
    if whole is None:
        raise _UnsupportedError(node, f"{_quoted(node.this)[1:-1]} does not fit 64 bits")
    return _constant(pa.scalar(whole, pa.int64()))


def _whole(digits: str, most: int) -> int | None:
    """Return the number that digits stand for; None if it is larger than that."""
    plain = digits.lstrip("0") or "0"
    return int(plain) if len(plain) <= len(str(most)) and int(plain) <= most else None


def _negative(node: Any, make: Any) -> Step:
    if isinstance(node.this, exp.Literal) and node.this.this == str(2**63):  # fits with its sign only
        return _constant(pa.scalar(-(2**63), pa.int64()))
    value = make(node.this)
    return lambda columns: functions.negative(value(columns))


def _interval(node: Any, make: Any) -> Step:
    del make
    amount, unit = node.args.get("this"), node.args.get("unit")
    size = functions.INTERVALS.get(str(unit).upper().removesuffix("S")) if unit is not None else None
    try:
        exact = decimal.Decimal(amount.name) if isinstance(amount, exp.Literal) and size else None
    except decimal.InvalidOperation:
        exact = None
    if exact is None or size is None or not exact.is_finite():
        raise _UnsupportedError(node, f"{node.sql()} is no interval such as INTERVAL '5' MINUTE")
    micros = exact * size
    if abs(micros) > 2**63 - 1:
        raise _UnsupportedError(node, f"{node.sql()} is longer than 2^63 microseconds")
    return _constant(pa.scalar(round(micros), pa.duration("us")))


def _is(node: Any, make: Any) -> Step:
    value, what = make(node.this), node.expression
    if isinstance(what, exp.Null):
        return lambda columns: pc.is_null(value(columns))
    if isinstance(what, exp.Boolean):
        wanted = what.this
        return lambda columns: functions.is_boolean(value(columns), wanted)
    raise _UnsupportedError(node, "IS is followed by NULL, TRUE or FALSE")


def _in(node: Any, make: Any) -> Step:
    value, members = make(node.this), [make(member) for member in node.expressions]
    if not members:
        raise _UnsupportedError(node, "IN is followed by values in parentheses")

    def step(columns: Columns) -> Any:
        there = value(columns)
        return functools.reduce(
            pc.or_kleene, [functions.compare("equal", there, m(columns)) for m in members]
        )

    return step


def _between(node: Any, make: Any) -> Step:
    value, low, high = make(node.this), make(node.args["low"]), make(node.args["high"])

    def step(columns: Columns) -> Any:
        there = value(columns)
        above = functions.compare("greater_equal", there, low(columns))
        return pc.and_kleene(above, functions.compare("less_equal", there, high(columns)))

    return step


def _like(node: Any, make: Any) -> Step:
    value, pattern = make(node.this), node.expression
    if not pattern.is_string:
        raise _UnsupportedError(node, "LIKE is followed by a text such as 'a%'")

    def step(columns: Columns) -> Any:
        like = pc.match_like(functions.text(value(columns)), pattern.this)
        return pc.invert(like) if node.args.get("negate") else like

    return step


def _case(node: Any, make: Any) -> Step:
    subject = make(node.this) if node.this else None
    branches = [(make(branch.this), make(branch.args["true"])) for branch in node.args["ifs"]]
    default = node.args.get("default")
    otherwise = _constant(pa.scalar(None)) if default is None else make(default)

    def whether(test: Step, columns: Columns) -> Any:
        there = test(columns)
        return there if subject is None else functions.compare("equal", subject(columns), there)

    def at_once(columns: Columns) -> Any:
        tests = [whether(test, columns) for test, _ in branches]
        return functions.choose(tests, [*(value(columns) for _, value in branches), otherwise(columns)])

    def in_turn(columns: Columns) -> Any:
        left, parts = _rows(columns), []
        for test, value in branches:
            true = functions.true(whether(test, _taken(columns, left)), len(left))
            parts.append((left[true], value(_taken(columns, left[true]))))
            left = left[~true]
        return functions.scattered([*parts, (left, otherwise(_taken(columns, left)))])

    guarded = [branch.args["true"] for branch in node.args["ifs"]]
    guarded += [*(branch.this for branch in node.args["ifs"][1:]), *([] if default is None else [default])]
    return _guarding(guarded, in_turn, at_once)


def _coalesce(node: Any, make: Any) -> Step:
    values = [make(value) for value in (node.this, *node.expressions)]

    def at_once(columns: Columns) -> Any:
        return pc.coalesce(*functions.alike([value(columns) for value in values]))

    def in_turn(columns: Columns) -> Any:
        left, parts = _rows(columns), []
        for value in values:
            found = value(_taken(columns, left))
            column = functions.repeated(found, len(left)) if isinstance(found, pa.Scalar) else found
            there = np.asarray(column.is_valid())
            parts.append((left[there], column.filter(pa.array(there))))
            left = left[~there]
        return functions.scattered([*parts, (left, pa.scalar(None))])

    return _guarding(node.expressions, in_turn, at_once)


def _guarding(guarded: Iterable[Any], in_turn: Step, at_once: Step) -> Step:
    """Return what computes parts for the rows that reach them, if they may raise over others.

    Without columns, there are constants only.
    """
    if not any(_is_careful(part) for part in guarded):
        return at_once
    return lambda columns: in_turn(columns) if columns else at_once(columns)


def _rows(columns: Columns) -> NDArray[np.int64]:
    return np.arange(_count(columns))


def _count(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _taken(columns: Columns, rows: NDArray[np.int64]) -> Columns:
    """Return some rows of columns, or all of them."""
    if len(rows) == _count(columns):
        return columns
    places = pa.array(rows)
    return {name: column.take(places) for name, column in columns.items()}


def _cast(node: Any, make: Any) -> Step:
    value, name = make(node.this), node.to.this.name
    kind = functions.TYPES.get(name) if not node.to.expressions else None
    if kind is None:
        raise _UnsupportedError(
            node, f"there is no CAST to {node.to.sql()}; there are {', '.join(functions.TYPES)}"
        )
    if isinstance(node.this, exp.Literal):  # so that a constant that is none is refused at once
        try:
            return _constant(functions.cast(value({}), kind))
        except pa.ArrowException:
            raise _UnsupportedError(node, f"{node.this.sql()} is no {name}") from None
        except TypeError as error:
            raise _UnsupportedError(node, str(error)) from None
    return lambda columns: functions.cast(value(columns), kind)


def _round(node: Any, make: Any) -> Step:
    value, digits = make(node.this), node.args.get("decimals")
    places = 0
    if digits is not None:
        inner = digits.this if isinstance(digits, exp.Neg) else digits
        if not isinstance(inner, exp.Literal) or not inner.name.isdigit():
            raise _UnsupportedError(node, "ROUND takes a whole number of digits")
        whole = _whole(inner.name, ROUNDED)
        if whole is None:
            raise _UnsupportedError(node, f"ROUND takes at most {ROUNDED} digits, before or behind the point")
        places = -whole if isinstance(digits, exp.Neg) else whole
    return lambda columns: functions.rounded(value(columns), places)


def _one(function: Callable[[Any], Any]) -> tuple[Maker, tuple[str, ...]]:
    def maker(node: Any, make: Any) -> Step:
        value = make(node.this)
        return lambda columns: function(value(columns))

    return maker, ("this",)


def _two(function: Callable[[Any, Any], Any]) -> tuple[Maker, tuple[str, ...]]:
    """Return what computes an operator, or a row of one and the same from left to right."""

    def maker(node: Any, make: Any) -> Step:
        first, *others = [make(term) for term in _terms(node)]

        def step(columns: Columns) -> Any:
            value = first(columns)
            for other in others:
                value = function(value, other(columns))
            return value

        return step

    return maker, ("this", "expression", "typed", "safe")


def _terms(node: Any) -> list[Any]:
    """Return what one operator joins in a row: of `a + b + c` the columns a, b and c."""
    found = []
    while type(node.this) is type(node):
        found.append(node.expression)
        node = node.this
    return [node.this, node.expression, *reversed(found)]


def _compared(name: str) -> tuple[Maker, tuple[str, ...]]:
    return _two(functools.partial(functions.compare, name))


_MAKERS: dict[type, tuple[Maker, tuple[str, ...]]] = {
    exp.Column: (_column, ("this", "table")),
    exp.Literal: (_literal, ("this", "is_string")),
    exp.Boolean: (lambda node, _make: _constant(pa.scalar(node.this)), ("this",)),
    exp.Null: (lambda _node, _make: _constant(pa.scalar(None)), ()),
    exp.Interval: (_interval, ("this", "unit")),
    exp.Paren: _one(lambda value: value),
    exp.Neg: (_negative, ("this",)),
    exp.Not: _one(lambda value: pc.invert(functions.truth(value))),
    exp.Add: _two(functions.add),
    exp.Sub: _two(functions.subtract),
    exp.Mul: _two(functions.multiply),
    exp.Div: _two(functions.divide),
    exp.Mod: _two(functions.remainder),
    exp.EQ: _compared("equal"),
    exp.NEQ: _compared("not_equal"),
    exp.LT: _compared("less"),
    exp.LTE: _compared("less_equal"),
    exp.GT: _compared("greater"),
    exp.GTE: _compared("greater_equal"),
    exp.And: _two(lambda a, b: pc.and_kleene(functions.truth(a), functions.truth(b))),
    exp.Or: _two(lambda a, b: pc.or_kleene(functions.truth(a), functions.truth(b))),
    exp.Is: (_is, ("this", "expression")),
    exp.In: (_in, ("this", "expressions")),
    exp.Between: (_between, ("this", "low", "high")),
    exp.Like: (_like, ("this", "expression", "negate")),
    exp.Case: (_case, ("this", "ifs", "default")),
    exp.Coalesce: (_coalesce, ("this", "expressions")),
    exp.Cast: (_cast, ("this", "to", "_type")),
    exp.Abs: _one(lambda value: pc.abs_checked(functions.number(value))),
    exp.Round: (_round, ("this", "decimals")),
    exp.Floor: _one(lambda value: functions.whole(pc.floor, value)),
    exp.Ceil: _one(lambda value: functions.whole(pc.ceil, value)),
    exp.Sqrt: _one(lambda value: pc.sqrt(functions.floating(value))),
    exp.Ln: _one(functions.logarithm),
    exp.Exp: _one(lambda value: pc.exp(functions.floating(value))),
    exp.Upper: _one(lambda value: pc.utf8_upper(functions.text(value))),
    exp.Lower: _one(lambda value: pc.utf8_lower(functions.text(value))),
    exp.Length: _one(lambda value: pc.utf8_length(functions.text(value)).cast(pa.int64())),
}
_CAREFUL = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs, exp.Round, exp.Cast)
