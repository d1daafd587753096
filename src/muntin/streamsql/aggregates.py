"""Aggregate calls to aggregates: by their usual SQL names, and by our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from muntin import algebra
from muntin.algebra import Aggregate
from muntin.streamsql.errors import nearest
from muntin.streamsql.values import Source, literal, place, shown


@dataclass(frozen=True)
class Called:
    """A call of an aggregate, taken apart."""

    source: Source
    name: str  # upper case
    at: int
    arguments: list[exp.Expr]
    distinct: bool
    order: list[exp.Expr]  # of WITHIN GROUP, or within the parentheses
    within: bool  # the order is that of WITHIN GROUP
    only: exp.Expr | None  # FILTER (WHERE ...)
    time: str | None

    def fail(self, message: str) -> Exception:
        """Return an error at the call."""
        return self.source.fail(self.at, message)

    def value(self, index: int = 0, *, counted: bool = True) -> str:
        """Return an argument as a column or an expression; null where FILTER leaves a record out.

        Aggregates skip records whose value is null, so that a value made null is a record left out. A value
        that is not `counted` is one that comes along.
        """
        return self.over(self.arguments[index], counted=counted)

    def over(self, node: exp.Expr, *, counted: bool = True) -> str:
        """Return an expression as `value` does."""
        if isinstance(node, exp.Star):
            raise self.fail(f"{self.name} takes a column: only COUNT takes *.")
        if self.only is not None and counted:
            node = exp.Case(ifs=[exp.If(this=self.only.copy(), true=node.copy())])
        return self.source.scalar(node, self.at, f"the argument of {self.name}")

    def number(self, index: int) -> int | float:
        """Return an argument that is a number."""
        return self.source.number(self.arguments[index], self.at, f"argument {index + 1} of {self.name}")

    def shares(self, node: exp.Expr) -> Any:
        """Return a share, or several in an array."""
        what = f"the share of {self.name}"
        several = isinstance(node, exp.Array) or (
            isinstance(node, exp.Anonymous) and node.name.upper() == "ARRAY"
        )
        if several:
            return [self.source.number(share, self.at, what) for share in node.expressions]
        return self.source.number(node, self.at, what)

    def make(self, maker: Callable[..., Aggregate], *arguments: Any, **keywords: Any) -> Aggregate:
        """Make the aggregate."""
        return self.source.call(self.at, maker, *arguments, **keywords)

    def in_time(self) -> None:
        """Refuse an order other than that of the time column, which records come in anyway."""
        for ordered in self.order:
            column = ordered.this
            by_time = isinstance(column, exp.Column) and column.name == self.time and len(self.order) == 1
            if not by_time or ordered.args.get("desc"):
                time = self.time or "the time column"
                raise self.fail(
                    f"{self.name} takes records in the order of time: leave ORDER BY out, or order by {time}."
                )


Build = Callable[[Called], Aggregate]


@dataclass(frozen=True)
class Form:
    """How an aggregate is written, between how many arguments it takes, and what it makes of them."""

    written: str
    least: int
    most: int
    build: Build
    distinct: Build | None = None  # with DISTINCT
    ordered: bool = False  # may say ORDER BY


def _one(maker: Callable[..., Aggregate], **options: Any) -> Callable[[str], Form]:
    """Return the form of an aggregate over one column."""
    return lambda name: Form(f"{name}(v)", 1, 1, lambda call: call.make(maker, call.value()), **options)


def _two(maker: Callable[..., Aggregate], first: str, second: str, **options: Any) -> Callable[[str], Form]:
    """Return the form of an aggregate over two columns."""

    def build(call: Called) -> Aggregate:
        return call.make(maker, call.value(0), call.value(1, counted=False), **options)

    return lambda name: Form(f"{name}({first}, {second})", 2, 2, build)


# ---- those that are more than a function of one column ----


def _count(call: Called) -> Aggregate:
    (node,) = call.arguments
    records = isinstance(node, exp.Star) or literal(node) is not None  # COUNT(*), COUNT(1)
    if records and call.only is None:
        return call.make(algebra.count)
    return call.make(algebra.count, call.over(exp.Literal.number(1) if records else node))


def _count_if(call: Called) -> Aggregate:
    (node,) = call.arguments
    counted = exp.Case(ifs=[exp.If(this=node.copy(), true=exp.Literal.number(1))])
    return call.make(algebra.count, call.over(counted))


def _with_ddof(maker: Callable[..., Aggregate]) -> Build:
    def build(call: Called) -> Aggregate:
        ddof = call.number(1) if len(call.arguments) > 1 else 1
        return call.make(maker, call.value(), ddof=ddof)

    return build


def _of_population(maker: Callable[..., Aggregate], ddof: int) -> Callable[[str], Form]:
    return lambda name: Form(f"{name}(v)", 1, 1, lambda call: call.make(maker, call.value(), ddof=ddof))


def _argument_of(maker: Callable[..., Aggregate]) -> Callable[[str], Form]:
    """Return the form of ARG_MAX and its like: what is returned comes first, as in every SQL."""

    def build(call: Called) -> Aggregate:
        return call.make(maker, call.value(1), call.value(0, counted=False))

    return lambda name: Form(f"{name}(arg, v)", 2, 2, build)


def _shared(maker: Callable[..., Aggregate], **defaults: Any) -> Callable[[str], Form]:
    """Return the form of quantiles, the value first."""

    def build(call: Called) -> Aggregate:
        keywords = {"q": call.shares(call.arguments[1])} if len(call.arguments) > 1 else defaults
        return call.make(maker, call.value(), **keywords)

    least = 1 if defaults else 2
    return lambda name: Form(f"{name}(v, q)", least, 2, build)


def _percentile(call: Called) -> Aggregate:
    """Return the quantile of PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY v)."""
    return call.make(algebra.quantile, _within(call), q=call.shares(call.arguments[0]))


def _mode(call: Called) -> Aggregate:
    if call.arguments and not call.order:
        return call.make(algebra.mode, call.value())
    if call.arguments:
        raise call.fail("MODE has a column or WITHIN GROUP, not both: write MODE(v).")
    return call.make(algebra.mode, _within(call))


def _within(call: Called) -> str:
    """Return the value of WITHIN GROUP (ORDER BY v)."""
    if not call.within or len(call.order) != 1:
        shares = "q" if call.arguments else ""
        raise call.fail(
            f"{call.name} needs its column: write {call.name}({shares}) WITHIN GROUP (ORDER BY v)."
        )
    if call.order[0].args.get("desc"):
        raise call.fail(f"{call.name} takes values in ascending order only: leave DESC out.")
    return call.over(call.order[0].this)


def _top(call: Called) -> Aggregate:
    return call.make(algebra.approx_top_k, call.value(), *([call.number(1)] if call.arguments[1:] else []))


def _decayed(call: Called) -> Aggregate:
    return call.make(algebra.ewm, call.value(), alpha=call.number(1))


def _joined(call: Called) -> Aggregate:
    call.in_time()
    if len(call.arguments) == 1:
        return call.make(algebra.concat, call.value())
    separator = call.source.text_of(call.arguments[1], call.at, f"the separator of {call.name}")
    return call.make(algebra.concat, call.value(), sep=separator)


def _listed(call: Called) -> Aggregate:
    call.in_time()
    return call.make(algebra.collect, call.value())


def _at_end(maker: Callable[..., Aggregate]) -> Callable[[str], Form]:
    def build(call: Called) -> Aggregate:
        call.in_time()
        return call.make(maker, call.value())

    return lambda name: Form(f"{name}(v)", 1, 1, build, ordered=True)


def _collected(name: str) -> Form:
    return Form(f"{name}(v)", 1, 1, _listed, _set_of, ordered=True)


def _set_of(call: Called) -> Aggregate:
    return call.make(algebra.collect_distinct, call.value())


def _texts(name: str) -> Form:
    return Form(f"{name}(s, ', ')", 1, 2, _joined, ordered=True)


def _distinct_count(call: Called) -> Aggregate:
    return call.make(algebra.count_distinct, call.value())


# Each aggregate under its own name first, then under those of SQL.
_NAMES: dict[str, Callable[[str], Form]] = {
    "COUNT": lambda name: Form(f"{name}(v)", 1, 1, _count, _distinct_count),
    "SUM": _one(algebra.sum),
    "PRODUCT": _one(algebra.product),
    "MIN": _one(algebra.min),
    "MAX": _one(algebra.max),
    "MEAN AVG AVERAGE": _one(algebra.mean),
    "GEOMEAN GEOMETRIC_MEAN": _one(algebra.geomean),
    "MIN_COUNT": _one(algebra.min_count),
    "MAX_COUNT": _one(algebra.max_count),
    "VARIANCE": lambda name: Form(f"{name}(v, ddof)", 1, 2, _with_ddof(algebra.variance)),
    "STDDEV STD": lambda name: Form(f"{name}(v, ddof)", 1, 2, _with_ddof(algebra.stddev)),
    "VAR_SAMP": _of_population(algebra.variance, 1),
    "VAR_POP": _of_population(algebra.variance, 0),
    "STDDEV_SAMP": _of_population(algebra.stddev, 1),
    "STDDEV_POP": _of_population(algebra.stddev, 0),
    "RELATIVE_VARIATION": _one(algebra.relative_variation),
    "COVARIANCE COVAR_SAMP": _two(algebra.covariance, "x", "y"),
    "CORRELATION CORR": _two(algebra.correlation, "x", "y"),
    "REGRESSION": _two(algebra.regression, "y", "x"),
    "REGR_SLOPE": _two(algebra.regression, "y", "x", only="slope"),
    "REGR_INTERCEPT": _two(algebra.regression, "y", "x", only="intercept"),
    "REGR_R2": _two(algebra.regression, "y", "x", only="r2"),
    "WEIGHTED_MEAN WEIGHTED_AVG": _two(algebra.weighted_mean, "v", "w"),
    "EWM": lambda name: Form(f"{name}(v, alpha)", 2, 2, _decayed),
    "RATE": _one(algebra.rate),
    "ARGMAX ARG_MAX MAX_BY": _argument_of(algebra.argmax),
    "ARGMIN ARG_MIN MIN_BY": _argument_of(algebra.argmin),
    "FIRST FIRST_VALUE ANY_VALUE": _at_end(algebra.first),
    "LAST LAST_VALUE": _at_end(algebra.last),
    "COLLECT ARRAY_AGG COLLECT_LIST": _collected,
    "COLLECT_DISTINCT COLLECT_SET": _one(algebra.collect_distinct),
    "CONCAT STRING_AGG LISTAGG GROUP_CONCAT": _texts,
    "M4": _one(algebra.m4),
    "MEDIAN": _one(algebra.median),
    "QUANTILE PERCENTILE": _shared(algebra.quantile),
    "PERCENTILE_CONT": lambda name: Form(
        f"{name}(q) WITHIN GROUP (ORDER BY v)", 1, 1, _percentile, ordered=True
    ),
    "MODE": lambda name: Form(f"{name}() WITHIN GROUP (ORDER BY v)", 0, 1, _mode, ordered=True),
    "COUNT_DISTINCT": _one(algebra.count_distinct),
    "COUNT_IF COUNTIF": lambda name: Form(f"{name}(condition)", 1, 1, _count_if),
    "APPROX_COUNT_DISTINCT APPROX_DISTINCT": _one(algebra.approx_count_distinct),
    "APPROX_QUANTILE APPROX_PERCENTILE PERCENTILE_APPROX": _shared(algebra.approx_quantile, q=0.5),
    "APPROX_TOP_K": lambda name: Form(f"{name}(v, k)", 1, 2, _top),
    "BLOOM_FILTER": _one(algebra.bloom_filter),
    "COUNT_MIN_SKETCH": _one(algebra.count_min_sketch),
}
AGGREGATES: dict[str, Form] = {name: form(name) for names, form in _NAMES.items() for name in names.split()}
_HINTS = {
    "PERCENTILE_DISC": "the nearest is PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY v), which interpolates",
    "ROW_NUMBER": "the nearest is window_id, which numbers the windows of a key",
    "RANK": "the nearest is APPROX_TOP_K(v, k)",
    "HLL": "the nearest is APPROX_COUNT_DISTINCT",
    "NTH_VALUE": "the nearest is FIRST_VALUE or LAST_VALUE",
    "COVAR_POP": "the nearest is COVAR_SAMP",
    "BOOL_OR": "the nearest is MAX",
    "BOOL_AND": "the nearest is MIN",
}


def is_aggregate(node: exp.Expr) -> bool:
    """Tell whether a node calls an aggregate; what it wraps it in, too."""
    core = core_of(node)
    return isinstance(core, exp.Anonymous) and core.name.upper() in AGGREGATES


def core_of(node: exp.Expr) -> exp.Expr:
    """Return the call itself, without FILTER, WITHIN GROUP and the like."""
    while isinstance(node, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.Window)):
        node = node.this
    return node


def aggregate_of(source: Source, node: exp.Expr, at: int, time: str | None) -> Aggregate:
    """Return the aggregate that a call makes."""
    core = core_of(node)
    if not isinstance(core, exp.Anonymous):
        raise source.fail(place(node, at), f"{shown(node)} is no aggregate: write one such as SUM(v).")
    name = core.name.upper()
    if name not in AGGREGATES:
        hint = nearest(name, AGGREGATES, _HINTS)
        if hint.startswith("there are"):
            hint = "there are COUNT, SUM, AVG, MIN, MAX and those in the table of docs/sql.md"
        raise source.fail(place(core, at), f"there is no aggregate {core.name}: {hint}.")
    call = _called(source, node, core, place(core, at), time)
    return _build(call, AGGREGATES[name])


def _build(call: Called, form: Form) -> Aggregate:
    if not form.least <= len(call.arguments) <= form.most:
        raise call.fail(f"{call.name} is written {form.written}, not with {len(call.arguments)} argument(s).")
    if call.order and not form.ordered:
        raise call.fail(f"{call.name} takes no ORDER BY: write {form.written}.")
    if not call.distinct:
        return form.build(call)
    if form.distinct is None:
        raise call.fail(
            f"{call.name}(DISTINCT ...) is not supported: the nearest are COUNT(DISTINCT v) and "
            "ARRAY_AGG(DISTINCT v)."
        )
    return form.distinct(call)


def _called(source: Source, node: exp.Expr, core: exp.Anonymous, at: int, time: str | None) -> Called:
    """Take a call apart: what is wrapped around it, and what its last argument may carry."""
    only, order, within = None, [], False
    while node is not core:
        if isinstance(node, exp.RespectNulls):
            raise source.fail(
                at, f"{core.name.upper()} skips nulls, as all aggregates do: leave RESPECT NULLS out."
            )
        if isinstance(node, exp.Filter):
            only = node.expression.this
        if isinstance(node, exp.WithinGroup):
            order, within = list(node.expression.expressions), True
        node = node.this
    arguments, distinct = list(core.expressions), False
    for index, argument in enumerate(arguments):
        if isinstance(argument, exp.Order):
            order, argument = list(argument.expressions), argument.this
        if isinstance(argument, exp.IgnoreNulls):
            argument = argument.this
        if isinstance(argument, exp.Distinct):
            if len(argument.expressions) != 1:
                raise source.fail(
                    at, f"{core.name.upper()}(DISTINCT ...) takes one column: write two aggregates."
                )
            distinct, argument = True, argument.expressions[0]
        arguments[index] = argument
    given = [argument for argument in arguments if argument is not None]  # none before ORDER BY
    return Called(source, core.name.upper(), at, given, distinct, order, within, only, time)
