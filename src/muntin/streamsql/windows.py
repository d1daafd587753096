"""Window clauses to windows: functions after FROM, Spark's in GROUP BY, CQL's brackets, OVER."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from muntin import windows as made
from muntin.streamsql.aggregates import aggregate_of
from muntin.streamsql.dialect import Brackets, Call, Name, Part
from muntin.streamsql.errors import nearest
from muntin.streamsql.values import Source, literal, place, shown
from muntin.windows import Window, policies

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "==",
    exp.NEQ: "!=",
}
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class Windowed:
    """A window, and what its clause says of the stream: the time column, and the columns of PARTITION BY."""

    window: Window
    time: str | None
    keys: tuple[str, ...] | None = None


class Given:
    """The arguments of a window function by their names."""

    def __init__(self, source: Source, function: str, at: int, parts: dict[str, Part]) -> None:
        self.source, self.function, self.at, self.parts = source, function, at, parts

    def __contains__(self, name: str) -> bool:
        return name in self.parts

    def _read(self, read: Callable[[exp.Expr, int, str], Any], name: str, otherwise: Any) -> Any:
        if name not in self.parts:
            return otherwise
        part = self.parts[name]
        return read(part.node, part.at, f"{name} of {self.function}")

    def duration(self, name: str, otherwise: Any = None) -> Any:
        """Return a duration."""
        return self._read(self.source.duration, name, otherwise)

    def offset(self) -> Any:
        """Return how far a grid is shifted."""
        return self._read(self.source.offset, "offset", 0)

    def number(self, name: str, otherwise: Any = None) -> Any:
        """Return a number."""
        return self._read(self.source.number, name, otherwise)

    def text(self, name: str, otherwise: Any = None) -> Any:
        """Return a text."""
        return self._read(self.source.text_of, name, otherwise)

    def column(self, name: str, otherwise: Any = None) -> Any:
        """Return a column."""
        return self._read(self.source.column, name, otherwise)

    def scalar(self, name: str, otherwise: Any = None) -> Any:
        """Return a column, or an expression over columns."""
        return self._read(self.source.scalar, name, otherwise)

    def make(self, maker: Callable[..., Window], *arguments: Any, **keywords: Any) -> Window:
        """Make the window."""
        return self.source.call(self.at, maker, *arguments, **keywords)


@dataclass(frozen=True)
class Function:
    """A window function: its arguments behind the table, how many it needs, and what it makes of them."""

    names: tuple[str, ...]
    needed: int
    make: Callable[[Given], Window]

    def signature(self, function: str, *before: str) -> str:
        """Return how it is written."""
        needed = ", ".join([*before, *self.names[: self.needed]])
        return f"{function}({needed}{''.join(f'[, {name}]' for name in self.names[self.needed :])})"


# ---- what each function makes ----


def _tumbling(given: Given, length: str) -> Window:
    return given.make(made.tumbling, given.duration(length), offset=given.offset())


def _sliding(given: Given, length: str) -> Window:
    reach, every = given.duration(length), given.duration("slide")
    _refuse_mixed(given.source, given.at, (length, reach), ("slide", every))
    return given.make(made.sliding, reach, every=every, offset=given.offset())


def _refuse_mixed(source: Source, at: int, *named: tuple[str, Any]) -> None:
    """Refuse durations of which one has a unit and the other has none: no time column takes both."""
    if len({isinstance(value, str) for _, value in named}) > 1:
        (one, first), (other, second) = named
        raise source.fail(at, f"{one} is {first} and {other} is {second}: give both a unit, or none.")


def _count(given: Given) -> Window:
    if "every" in given:
        return given.make(made.count_sliding, given.number("n"), every=given.number("every"))
    return given.make(made.count_tumbling, given.number("n"))


def _rolling(given: Given) -> Window:
    if ("length" in given) == ("rows" in given):
        raise given.source.fail(given.at, "ROLLING takes a length, or rows => n: give one of them.")
    return given.make(made.rolling, given.duration("length"), rows=given.number("rows"))


def _landmark(given: Given) -> Window:
    if "until" in given and "length" in given:
        raise given.source.fail(
            given.at, "LANDMARK ends where until says, or after length: give one of them."
        )
    spans = {name: given.duration(name) for name in ("length", "every")}
    return given.make(made.landmark, given.scalar("when"), until=given.scalar("until"), **spans)


def _threshold(given: Given) -> Window:
    part = given.parts["condition"]
    node, source = part.node, given.source
    op = COMPARISONS.get(type(node))
    if op is not None:
        value, bound = node.this, node.expression
        if literal(bound) is None:
            value, bound, op = bound, value, _TURNED[op]
        if literal(bound) is not None and literal(value) is None:
            column = source.scalar(value, part.at, "the value of THRESHOLD_FRAME")
            least = given.number("min_records", 1)
            return given.make(made.threshold_frame, column, op, literal(bound), min_records=least)
    raise source.fail(
        part.at,
        "condition of THRESHOLD_FRAME compares a column with a value, as in temp > 80, "
        f"which {shown(node)} does not.",
    )


def _aggregate_frame(given: Given) -> Window:
    part = given.parts["condition"]
    node, source = part.node, given.source
    if not isinstance(node, exp.GTE):
        raise source.fail(
            part.at,
            "condition of AGGREGATE_FRAME is an aggregate that reaches a number, as in SUM(volume) >= 100, "
            f"which {shown(node)} is not.",
        )
    aggregate = aggregate_of(source, node.this, part.at, time=given.column("time"))
    return given.make(made.aggregate_frame, aggregate, source.number(node.expression, part.at, "the bound"))


def _on_measure(given: Given) -> Window:
    part = given.parts["window"]
    node, source = part.node, given.source
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    if name not in _ON_GRIDS or not node.expressions:
        raise source.fail(
            part.at,
            f"window of ON_MEASURE is TUMBLE, HOP or CUMULATE over a column, as in HOP(km, 5, 10), not "
            f"{shown(node)}.",
        )
    arguments = [_part_of(argument, part.at) for argument in node.expressions]
    inner = _bound(source, Name(name, part.at), arguments, FUNCTIONS[name], ())
    return given.make(made.on, inner.scalar("time"), FUNCTIONS[name].make(inner))


def _part_of(node: exp.Expr, at: int) -> Part:
    if isinstance(node, exp.Kwarg):
        return Part(node.expression, place(node.expression, at), Name(node.this.name, place(node, at)))
    return Part(node, place(node, at))


def _policy(given: Given, name: str, known: dict[str, str]) -> Any:
    """Return a trigger or an eviction: `EVERY(10)`, `WITHIN(INTERVAL '1' MINUTE)`."""
    part, source = given.parts[name], given.source
    node = part.node
    called = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    kinds = known.get(called, "")
    if not kinds or len(node.expressions) != len(kinds):
        ways = ", ".join(f"{word}({_POLICY_SHAPES[word]})" for word in known)
        raise source.fail(part.at, f"{name} of POLICY_WINDOW is one of {ways}, not {shown(node)}.")
    readers: dict[str, Callable[[exp.Expr, int, str], Any]] = {
        "n": source.number,
        "d": source.duration,
        "c": source.scalar,
    }
    values = [
        readers[kind](value, place(value, part.at), f"the argument of {called}")
        for kind, value in zip(kinds, node.expressions, strict=True)
    ]
    return source.call(part.at, getattr(policies, called.lower()), *values)


_POLICY_SHAPES = {
    "EVERY": "n",
    "WHEN": "column",
    "KEEP": "n",
    "WITHIN": "length",
    "DELTA": "column, by",
}
_TRIGGERS = {"EVERY": "n", "WHEN": "c"}
_EVICTIONS = {"KEEP": "n", "WITHIN": "d", "DELTA": "cn", "WHEN": "c"}


def _policy_window(given: Given) -> Window:
    trigger, evict = _policy(given, "trigger", _TRIGGERS), _policy(given, "evict", _EVICTIONS)
    return given.make(made.policy_window, trigger, evict)


FUNCTIONS: dict[str, Function] = {
    "TUMBLE": Function(("time", "size", "offset"), 2, lambda g: _tumbling(g, "size")),
    "HOP": Function(("time", "slide", "size", "offset"), 3, lambda g: _sliding(g, "size")),
    "CUMULATE": Function(
        ("time", "step", "size"),
        3,
        lambda g: g.make(made.cumulate, g.duration("size"), step=g.duration("step")),
    ),
    "SESSION": Function(("time", "gap"), 2, lambda g: g.make(made.session, g.duration("gap"))),
    "CALENDAR": Function(
        ("time", "unit", "tz"), 2, lambda g: g.make(made.calendar, g.text("unit"), g.text("tz", "UTC"))
    ),
    "COUNT_WINDOW": Function(("time", "n", "every"), 2, _count),
    "ROLLING": Function(("time", "length", "rows"), 1, _rolling),
    "LAST_N": Function(
        ("time", "n", "every"), 3, lambda g: g.make(made.last_n, g.number("n"), every=g.duration("every"))
    ),
    "LAST_SPAN": Function(
        ("time", "length", "every"),
        3,
        lambda g: g.make(made.last_span, g.duration("length"), every=g.number("every")),
    ),
    "PUNCTUATION": Function(
        ("time", "when", "end"), 2, lambda g: g.make(made.punctuation, g.scalar("when"), end=g.scalar("end"))
    ),
    "LANDMARK": Function(("time", "when", "until", "length", "every"), 2, _landmark),
    "THRESHOLD_FRAME": Function(("time", "condition", "min_records"), 2, _threshold),
    "DELTA_FRAME": Function(
        ("time", "value", "by"), 3, lambda g: g.make(made.delta_frame, g.scalar("value"), by=g.number("by"))
    ),
    "AGGREGATE_FRAME": Function(("time", "condition"), 2, _aggregate_frame),
    "STATE_WINDOW": Function(("time", "value"), 2, lambda g: g.make(made.state_window, g.scalar("value"))),
    "ON_MEASURE": Function(("time", "window"), 2, _on_measure),
    "POLICY_WINDOW": Function(("time", "trigger", "evict"), 3, _policy_window),
}
_ON_GRIDS = ("TUMBLE", "HOP", "CUMULATE")
# Names from elsewhere, and what they are called here.
_ELSEWHERE = {
    "TUMBLING": "TUMBLE",
    "SLIDING": "HOP",
    "SLIDE": "HOP",
    "HOPPING": "HOP",
    "COUNT_TUMBLING": "COUNT_WINDOW",
    "COUNT_SLIDING": "COUNT_WINDOW",
    "ON": "ON_MEASURE",
    "WINDOW": "TUMBLE or HOP here, or window(time, length, slide) in GROUP BY",
    "SESSION_WINDOW": "SESSION here, or session_window(time, gap) in GROUP BY",
}
_HINTS = {name: f"the nearest is {here}" for name, here in _ELSEWHERE.items()}

# Spark's functions in GROUP BY; the first argument is the time column.
SPARK: dict[str, Function] = {
    "WINDOW": Function(
        ("time", "length", "slide", "offset"),
        2,
        lambda g: _sliding(g, "length") if "slide" in g else _tumbling(g, "length"),
    ),
    "SESSION_WINDOW": Function(("time", "gap"), 2, lambda g: g.make(made.session, g.duration("gap"))),
}


# ---- clauses ----


def _bound(
    source: Source, function: Name, arguments: Sequence[Part], known: Function, before: tuple[str, ...]
) -> Given:
    """Give arguments their names; refuse what is too much, unknown or missing."""
    name = function.text.upper()
    written = known.signature(name, *before)
    parts: dict[str, Part] = {}
    for position, part in enumerate(arguments):
        at = part.at if part.name is None else part.name.at
        if part.name is not None:
            parameter = part.name.text.lower().replace("timecol", "time")
            if parameter not in known.names:
                hint = nearest(parameter, [p.upper() for p in known.names])
                raise source.fail(at, f"{name} has no argument {part.name.text}: {hint}, as in {written}.")
        elif position < len(known.names):
            parameter = known.names[position]
        else:
            raise source.fail(at, f"{name} takes no further argument: write {written}.")
        if parameter in parts:
            raise source.fail(at, f"{parameter} of {name} is given twice: write {written}.")
        parts[parameter] = part
    for parameter in known.names[: known.needed]:
        if parameter not in parts:
            raise source.fail(function.at, f"{parameter} of {name} is missing: write {written}.")
    return Given(source, name, function.at, parts)


def function_window(source: Source, call: Call) -> Windowed:
    """Return the window of a function after FROM."""
    name = call.function.text.upper()
    if name not in FUNCTIONS:
        hint = nearest(name, FUNCTIONS, _HINTS)
        raise source.fail(call.function.at, f"there is no window function {call.function.text}: {hint}.")
    given = _bound(source, call.function, call.arguments, FUNCTIONS[name], ("table",))
    time = given.column("time")
    keys = tuple(key.text for key in call.partition) or None
    return Windowed(FUNCTIONS[name].make(given), time, keys)


def spark_window(source: Source, node: exp.Anonymous, at: int) -> Windowed:
    """Return the window of Spark's `window` or `session_window`."""
    name = node.name.upper()
    parts = [_part_of(argument, at) for argument in node.expressions]
    given = _bound(source, Name(node.name, place(node, at)), parts, SPARK[name], ())
    return Windowed(SPARK[name].make(given), given.column("time"))


def bracket_window(source: Source, brackets: Brackets) -> Windowed:
    """Return the window of CQL's brackets; without a slide, windows lie end to end."""
    span, slide = brackets.span, brackets.slide
    every = None if slide is None else _amount(source, slide, "SLIDE")
    reach = _amount(source, span, "ROWS" if span.rows else "RANGE")
    maker: Callable[..., Window]
    if slide is None:
        maker = made.count_tumbling if span.rows else made.tumbling
        window = source.call(brackets.at, maker, reach)
    else:
        maker = {
            (True, True): made.count_sliding,
            (True, False): made.last_n,
            (False, True): made.last_span,
            (False, False): made.sliding,
        }[span.rows, slide.rows]
        if not span.rows and not slide.rows:
            _refuse_mixed(source, brackets.at, ("RANGE", reach), ("SLIDE", every))
        window = source.call(brackets.at, maker, reach, every=every)
    keys = tuple(key.text for key in brackets.partition) or None
    return Windowed(window, None if brackets.time is None else brackets.time.text, keys)


def _amount(source: Source, amount: Any, what: str) -> Any:
    read = source.number if amount.rows else source.duration
    return read(amount.node, amount.at, what)


# ---- OVER ----

_INSTEAD = "ROWS BETWEEN n PRECEDING AND CURRENT ROW"


def over_window(source: Source, node: exp.Window, at: int) -> Windowed:
    """Return the window of OVER: the last rows up to each record.

    A RANGE is refused: it holds both its ends and all records of the last one's time, which rolling windows
    do not.
    """
    spec, order = node.args.get("spec"), node.args.get("order")
    if node.args.get("alias") is not None:
        raise source.fail(at, "named windows are not supported: write the window itself after OVER.")
    if spec is None or spec.args.get("start") in (None, "UNBOUNDED"):
        raise source.fail(at, f"OVER without a bound behind is not supported: the nearest is {_INSTEAD}.")
    time = _ordered_by(source, order, at)
    if str(spec.args["kind"]).upper() != "ROWS":
        raise source.fail(
            at,
            f"OVER with {str(spec.args['kind']).upper()} is not supported, as it takes in both ends and all "
            f"records of one time: the nearest is FROM ROLLING({source.table}, {time}, length), with windows "
            f"(t - length, t], or {_INSTEAD}.",
        )
    rows = literal(spec.args["start"]) if isinstance(spec.args["start"], exp.Expr) else None
    ends_here = spec.args.get("end") in (None, "CURRENT ROW") and not spec.args.get("exclude")
    if type(rows) is not int or str(spec.args.get("start_side")).upper() != "PRECEDING" or not ends_here:
        raise source.fail(at, f"this frame of OVER is not supported: the nearest is {_INSTEAD}.")
    keys = tuple(source.column(key, at, "a key of OVER") for key in node.args.get("partition_by") or ())
    window = source.call(at, made.rolling, rows=rows + 1)
    return Windowed(window, time, keys)


def _ordered_by(source: Source, order: exp.Expr | None, at: int) -> str:
    ordered = order.expressions if order is not None else []
    if len(ordered) != 1 or ordered[0].args.get("desc"):
        raise source.fail(at, "OVER needs the time column in order, as in ORDER BY ts.")
    return source.column(ordered[0].this, at, "what OVER orders by")
