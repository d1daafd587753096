"""Statements beside what they mean: the query as functions make it, and what brute force must be told.

Each case stands for one window or one aggregate in one grammar. Times are in column `t`: integers, or, where
a statement speaks of seconds, timestamps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import muntin as mt
from tests import sketch_calls, windows_oracle
from tests.oracle import answer
from tests.window_types import Record

# Aggregates with parameters, over at least one value and no null.
windows_oracle.OWN.update(
    p90=lambda values: windows_oracle.quantile(values, 0.9),
    variance_of_all=lambda values: (
        answer("variance", [*values, *values]) * (2 * len(values) - 1) / (2 * len(values))
    ),
    stddev_of_all=lambda values: windows_oracle.OWN["variance_of_all"](values) ** 0.5,
    joined=lambda values: "-".join(map(str, values)),
    run_together=lambda values: "".join(map(str, values)),
)
assert sketch_calls.MADE  # it tells the oracle what sketches answer

N = {"n": ("count",)}


@dataclass(frozen=True)
class Case:
    """A statement, the same query by functions, and the windows, records and rows of the oracle."""

    text: str
    query: mt.Query
    kind: str
    params: tuple[Any, ...]
    calls: dict[str, tuple[str, ...]]
    seconds: bool = False
    keys: tuple[str, ...] = ("k",)
    where: Callable[[Record], bool] | None = None  # which records count
    seen: Callable[[Record], Record] | None = None  # a record as the aggregates see it
    having: Callable[[dict[str, Any]], bool] | None = None  # which rows stay


def over(window: Any, text: str, kind: str, *params: Any, **options: Any) -> Case:
    """A case of one window, in which records are counted."""
    keys = options.setdefault("keys", ("k",))
    columns = "".join(f"{key}, " for key in keys)
    select = f"SELECT {columns}window_start, window_end, COUNT(*) AS n, SUM(w) AS s FROM {text}"
    calls = {"n": ("count",), "s": ("sum", "w")}
    return Case(select, window.agg(n=mt.count(), s=mt.sum("w")), kind, params, calls, **options)


def _policy(name: str, *given: Any) -> Any:
    return getattr(mt.policies, name)(*given)


def by_key(function: str) -> str:
    """A window function whose windows are grouped by key."""
    return f"{function} GROUP BY k, window_start, window_end"


FLINK = [
    over(
        mt.tumbling("10s"),
        by_key("TABLE(TUMBLE(TABLE e, DESCRIPTOR(t), INTERVAL '10' SECONDS))"),
        "tumbling", 10, 0, seconds=True,
    ),
    over(
        mt.tumbling("1m", offset="15s"),
        by_key("TABLE(TUMBLE(TABLE e, DESCRIPTOR(t), INTERVAL '1' MINUTE, INTERVAL '15' SECOND))"),
        "tumbling", 60, 15, seconds=True,
    ),
    over(
        mt.sliding("10s", every="5s"),
        by_key("TABLE(HOP(TABLE e, DESCRIPTOR(t), INTERVAL '5' SECONDS, INTERVAL '10' SECONDS))"),
        "sliding", 10, 5, 0, seconds=True,
    ),
    over(
        mt.sliding("10s", every="4s", offset="-1s"),
        by_key(
            "TABLE(HOP(DATA => TABLE e, TIMECOL => DESCRIPTOR(t), SIZE => INTERVAL '10' SECOND, "
            "SLIDE => INTERVAL '4' SECOND, OFFSET => INTERVAL '-1' SECOND))"
        ),
        "sliding", 10, 4, -1, seconds=True,
    ),
    over(
        mt.cumulate("12s", step="3s"),
        by_key("TABLE(CUMULATE(TABLE e, DESCRIPTOR(t), INTERVAL '3' SECOND, INTERVAL '12' SECOND))"),
        "cumulate", 12, 3, seconds=True,
    ),
    over(
        mt.session("2s"),
        by_key("TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(t), INTERVAL '2' SECOND))"),
        "session", 2, seconds=True,
    ),
    over(
        mt.session("1s"),
        by_key("SESSION(TABLE e PARTITION BY (k), DESCRIPTOR(t), INTERVAL '1' SECOND)"),
        "session", 1, seconds=True,
    ),
]  # fmt: skip
SHORT = [
    over(mt.tumbling("10s"), by_key("TUMBLE(e, t, INTERVAL '10' SECOND)"), "tumbling", 10, 0, seconds=True),
    over(mt.tumbling("10s"), by_key("tumble(e, t, '10 seconds')"), "tumbling", 10, 0, seconds=True),
    over(mt.tumbling(10, offset=3), by_key("TUMBLE(e, t, 10, 3)"), "tumbling", 10, 3),
    over(mt.tumbling(10), "TUMBLE(e, t, 10)", "tumbling", 10, 0, keys=()),
    over(
        mt.sliding("1m", every="10s"),
        by_key("HOP(e, t, INTERVAL '10' SECONDS, INTERVAL '1' MINUTE)"),
        "sliding", 60, 10, 0, seconds=True,
    ),
    over(
        mt.sliding("10s", every="2s"),
        by_key("HOP(e, t, '2 seconds', '10s')"),
        "sliding", 10, 2, 0, seconds=True,
    ),
    over(mt.sliding(7, every=3), by_key("HOP(e, t, slide => 3, size => 7)"), "sliding", 7, 3, 0),
    over(mt.cumulate(12, step=4), by_key("CUMULATE(e, t, 4, 12)"), "cumulate", 12, 4),
    over(mt.session(2), by_key("SESSION(e, t, 2)"), "session", 2),
    over(mt.session("2s"), by_key("SESSION(e PARTITION BY k, t, gap => '2s')"), "session", 2, seconds=True),
]  # fmt: skip
SPARK = [
    Case(
        "SELECT k, window.start, window.end, count(*) AS n FROM e GROUP BY k, window(t, '10 seconds')",
        mt.tumbling("10s").agg(n=mt.count()), "tumbling", (10, 0), N, seconds=True,
    ),
    Case(
        "SELECT k, window, count(1) AS n FROM e GROUP BY window(t, '10 seconds', '5 seconds'), k",
        mt.sliding("10s", every="5s").agg(n=mt.count()), "sliding", (10, 5, 0), N, seconds=True,
    ),
    Case(
        "SELECT k, count(*) AS n FROM e GROUP BY k, window(t, '10 seconds', '10 seconds', '3 seconds')",
        mt.sliding("10s", every="10s", offset="3s").agg(n=mt.count()),
        "sliding", (10, 10, 3), N, seconds=True,
    ),
    Case(
        "SELECT k, session_window.start, count(*) AS n FROM e GROUP BY k, session_window(t, '2 seconds')",
        mt.session("2s").agg(n=mt.count()), "session", (2,), N, seconds=True,
    ),
]  # fmt: skip
CQL = [
    over(mt.tumbling("30s"), "e [RANGE 30 Seconds] GROUP BY k", "tumbling", 30, 0, seconds=True),
    over(
        mt.sliding("7s", every="3s"),
        "e [WATTR t RANGE 7 seconds SLIDE 3 seconds] GROUP BY k",
        "sliding", 7, 3, 0, seconds=True,
    ),
    over(
        mt.sliding("7s", every="3s"),
        "e [RANGE INTERVAL '7' SECOND SLIDE '3s' WATTR t] GROUP BY k",
        "sliding", 7, 3, 0, seconds=True,
    ),
    over(mt.sliding(7, every=3), "e [PARTITION BY k RANGE 7 SLIDE 3]", "sliding", 7, 3, 0),
    over(mt.count_tumbling(5), "e [ROWS 5] GROUP BY k", "count_tumbling", 5),
    over(mt.count_sliding(5, every=2), "e [ROWS 5 SLIDE 2] GROUP BY k", "count_sliding", 5, 2),
    over(mt.count_sliding(5, every=2), "e [RANGE 5 ROWS SLIDE 2 ROWS] GROUP BY k", "count_sliding", 5, 2),
    over(mt.last_n(3, every="5s"), "e [ROWS 3 SLIDE 5 SECONDS] GROUP BY k", "last_n", 3, 5, seconds=True),
    over(
        mt.last_span("6s", every=2),
        "e [RANGE 6 SECONDS SLIDE 2 ROWS] GROUP BY k",
        "last_span", 6, 2, seconds=True,
    ),
]  # fmt: skip
OWN = [
    over(mt.calendar("day"), by_key("CALENDAR(e, t, 'day')"), "calendar", "day", "UTC", "s", seconds=True),
    over(
        mt.calendar("year", tz="Europe/Berlin"),
        by_key("CALENDAR(e, t, 'year', 'Europe/Berlin')"),
        "calendar", "year", "Europe/Berlin", "s", seconds=True,
    ),
    over(mt.count_tumbling(4), by_key("COUNT_WINDOW(e, t, 4)"), "count_tumbling", 4),
    over(mt.count_sliding(6, every=2), by_key("COUNT_WINDOW(e, t, 6, 2)"), "count_sliding", 6, 2),
    over(mt.rolling("6s"), by_key("ROLLING(e, t, INTERVAL '6' SECOND)"), "rolling", 6, seconds=True),
    over(mt.rolling(rows=3), by_key("ROLLING(e, t, rows => 3)"), "rolling_rows", 3),
    over(mt.last_n(3, every=5), by_key("LAST_N(e, t, 3, 5)"), "last_n", 3, 5),
    over(mt.last_span(6, every=2), by_key("LAST_SPAN(e, t, 6, 2)"), "last_span", 6, 2),
    over(mt.punctuation("p"), by_key("PUNCTUATION(e, t, p)"), "punctuation", "p", None),
    over(
        mt.punctuation("p", end="q"),
        by_key("PUNCTUATION(e, t, when => p, end => q)"),
        "punctuation", "p", "q",
    ),
    over(mt.landmark("p"), by_key("LANDMARK(TABLE e, DESCRIPTOR(t), DESCRIPTOR(p))"), "landmark", "p"),
    over(mt.landmark("p", until="q"), by_key("LANDMARK(e, t, p, q)"), "landmark_until", "p", "q"),
    over(mt.landmark("p", length=7), by_key("LANDMARK(e, t, p, length => 7)"), "landmark_length", "p", 7),
    over(mt.landmark("p", every=5), by_key("LANDMARK(e, t, p, every => 5)"), "landmark_every", "p", 5),
    over(
        mt.landmark("p", until="q", every=5),
        by_key("LANDMARK(e, t, p, until => q, every => 5)"),
        "landmark_until_every", "p", "q", 5,
    ),
    over(
        mt.threshold_frame("w", ">", 1),
        by_key("THRESHOLD_FRAME(e, t, w > 1)"),
        "threshold_frame", "w", ">", 1, 1,
    ),
    over(
        mt.threshold_frame("w", "<=", 2, min_records=2),
        by_key("THRESHOLD_FRAME(e, t, 2 >= w, 2)"),
        "threshold_frame", "w", "<=", 2, 2,
    ),
    over(
        mt.threshold_frame("v", "!=", 1.5),
        by_key("THRESHOLD_FRAME(e, t, v <> 1.5)"),
        "threshold_frame", "v", "!=", 1.5, 1,
    ),
    over(mt.delta_frame("v", by=1.5), by_key("DELTA_FRAME(e, t, v, 1.5)"), "delta_frame", "v", 1.5),
    over(
        mt.aggregate_frame(mt.sum("w"), reaches=5),
        by_key("AGGREGATE_FRAME(e, t, SUM(w) >= 5)"),
        "aggregate_frame", ("sum", "w"), 5,
    ),
    over(
        mt.aggregate_frame(mt.count(), reaches=3),
        by_key("AGGREGATE_FRAME(e, t, COUNT(*) >= 3)"),
        "aggregate_frame", ("count",), 3,
    ),
    over(mt.state_window("s"), by_key("STATE_WINDOW(e, t, s)"), "state_window", "s"),
    over(mt.on("m", mt.tumbling(5)), by_key("ON_MEASURE(e, t, TUMBLE(m, 5))"), "on", "m", "tumbling", (5, 0)),
    over(
        mt.on("m", mt.sliding(10, every=5, offset=1)),
        by_key("ON_MEASURE(e, t, HOP(m, 5, 10, 1))"),
        "on", "m", "sliding", (10, 5, 1),
    ),
    over(
        mt.on("m", mt.cumulate(10, step=5)),
        by_key("ON_MEASURE(e, t, CUMULATE(m, step => 5, size => 10))"),
        "on", "m", "cumulate", (10, 5),
    ),
    *(
        over(
            mt.policy_window(_policy(*trigger), _policy(*evict)),
            by_key(f"POLICY_WINDOW(e, t, {written})"),
            "policy_window", trigger, evict,
        )
        for trigger, evict, written in [
            (("every", 3), ("keep", 4), "EVERY(3), KEEP(4)"),
            (("when", "p"), ("within", 8), "WHEN(p), WITHIN(8)"),
            (("every", 2), ("delta", "w", 2), "trigger => EVERY(2), evict => DELTA(w, 2)"),
            (("every", 2), ("when", "q"), "EVERY(2), WHEN(q)"),
        ]
    ),
]  # fmt: skip
OVER = [
    Case(
        "SELECT k, window_end, "
        "AVG(v) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM e",
        mt.rolling(rows=3).agg(a=mt.mean("v")), "rolling_rows", (3,), {"a": ("mean", "v")},
    ),
    Case(
        "SELECT window_id, SUM(w) OVER (ORDER BY t ROWS 1 PRECEDING) AS s, "
        "MAX(w) OVER (ORDER BY t ROWS 1 PRECEDING) AS h FROM e",
        mt.rolling(rows=2).agg(s=mt.sum("w"), h=mt.max("w")), "rolling_rows", (2,),
        {"s": ("sum", "w"), "h": ("max", "w")}, keys=(),
    ),
]  # fmt: skip


def named(call: tuple[str, ...], *written: str, **aggregates: mt.Aggregate) -> Case:
    """A case of one aggregate under all its names, over tumbling windows."""
    (made,) = aggregates.values()
    columns = [f"a{place}" for place, _ in enumerate(written)]
    items = ", ".join(f"{text} AS {column}" for text, column in zip(written, columns, strict=True))
    query = mt.tumbling(10).agg(**dict.fromkeys(columns, made))
    text = f"SELECT k, {items} FROM TUMBLE(e, t, 10) GROUP BY k, window_start"
    return Case(text, query, "tumbling", (10, 0), dict.fromkeys(columns, call))


P90 = "WITHIN GROUP (ORDER BY v)"
AGGREGATES = [
    named(("count",), "COUNT(*)", "count(1)", made=mt.count()),
    named(("count", "v"), "COUNT(v)", "Count(e.v)", made=mt.count("v")),
    named(("sum", "v"), "SUM(v)", "sum(`v`)", made=mt.sum("v")),
    named(("product", "w"), "PRODUCT(w)", made=mt.product("w")),
    named(("min", "v"), "MIN(v)", made=mt.min("v")),
    named(("max", "v"), "MAX(v)", 'max("v")', made=mt.max("v")),
    named(("mean", "v"), "AVG(v)", "MEAN(v)", "AVERAGE(v)", made=mt.mean("v")),
    named(("geomean", "w"), "GEOMEAN(w)", "GEOMETRIC_MEAN(w)", made=mt.geomean("w")),
    named(("min_count", "w"), "MIN_COUNT(w)", made=mt.min_count("w")),
    named(("max_count", "w"), "MAX_COUNT(w)", made=mt.max_count("w")),
    named(
        ("variance", "v"), "VARIANCE(v)", "VAR_SAMP(v)", "VARIANCE(v, 1)", made=mt.variance("v"),
    ),
    named(("variance_of_all", "v"), "VAR_POP(v)", "VARIANCE(v, 0)", made=mt.variance("v", ddof=0)),
    named(("stddev", "v"), "STDDEV(v)", "STD(v)", "STDDEV_SAMP(v)", made=mt.stddev("v")),
    named(("stddev_of_all", "v"), "STDDEV_POP(v)", "STDDEV(v, 0)", made=mt.stddev("v", ddof=0)),
    named(("relative_variation", "v"), "RELATIVE_VARIATION(v)", made=mt.relative_variation("v")),
    named(("covariance", "v", "w"), "COVAR_SAMP(v, w)", "COVARIANCE(v, w)", made=mt.covariance("v", "w")),
    named(("correlation", "v", "w"), "CORR(v, w)", "CORRELATION(v, w)", made=mt.correlation("v", "w")),
    named(("regression", "v", "w"), "REGRESSION(v, w)", made=mt.regression("v", "w")),
    named(("slope", "v", "w"), "REGR_SLOPE(v, w)", made=mt.regression("v", "w", only="slope")),
    named(("intercept", "v", "w"), "REGR_INTERCEPT(v, w)", made=mt.regression("v", "w", only="intercept")),
    named(("r2", "v", "w"), "REGR_R2(v, w)", made=mt.regression("v", "w", only="r2")),
    named(
        ("weighted_mean", "v", "ABS(w)"), "WEIGHTED_MEAN(v, ABS(w))", "WEIGHTED_AVG(v, ABS(w))",
        made=mt.weighted_mean("v", mt.expr("ABS(w)")),
    ),
    named(("ewm", "v"), "EWM(v, 0.3)", made=mt.ewm("v", alpha=0.3)),
    named(("rate", "w"), "RATE(w)", made=mt.rate("w")),
    named(("argmax", "v", "w"), "ARG_MAX(w, v)", "MAX_BY(w, v)", "ARGMAX(w, v)", made=mt.argmax("v", "w")),
    named(("argmin", "v", "w"), "ARG_MIN(w, v)", "MIN_BY(w, v)", "ARGMIN(w, v)", made=mt.argmin("v", "w")),
    named(
        ("first", "v"), "FIRST_VALUE(v)", "FIRST(v)", "ANY_VALUE(v)", "FIRST_VALUE(v) IGNORE NULLS",
        made=mt.first("v"),
    ),
    named(("last", "v"), "LAST_VALUE(v)", "LAST(v ORDER BY t)", "LAST(v IGNORE NULLS)", made=mt.last("v")),
    named(
        ("collect", "v"), "ARRAY_AGG(v)", "COLLECT_LIST(v)", "COLLECT(v)", "ARRAY_AGG(v ORDER BY t)",
        made=mt.collect("v"),
    ),
    named(
        ("collect_distinct", "v"), "COLLECT_SET(v)", "COLLECT_DISTINCT(v)", "ARRAY_AGG(DISTINCT v)",
        made=mt.collect_distinct("v"),
    ),
    named(
        ("joined", "w"),
        *(f"{name}(CAST(w AS STRING), '-')" for name in ("STRING_AGG", "LISTAGG", "GROUP_CONCAT", "CONCAT")),
        "LISTAGG(CAST(w AS STRING), '-') WITHIN GROUP (ORDER BY t)",
        made=mt.concat(mt.expr("CAST(w AS STRING)"), sep="-"),
    ),
    named(("run_together", "w"), "STRING_AGG(CAST(w AS TEXT))", made=mt.concat(mt.expr("CAST(w AS TEXT)"))),
    named(("m4", "v"), "M4(v)", made=mt.m4("v")),
    named(("median", "v"), "MEDIAN(v)", made=mt.median("v")),
    named(
        ("p90", "v"), f"PERCENTILE_CONT(0.9) {P90}", "QUANTILE(v, 0.9)", "PERCENTILE(v, 0.9)",
        made=mt.quantile("v", q=0.9),
    ),
    named(
        ("quantiles", "v"), "QUANTILE(v, ARRAY[0.25, 0.5, 0.9])", "PERCENTILE(v, array(0.25, 0.5, 0.9))",
        made=mt.quantile("v", q=[0.25, 0.5, 0.9]),
    ),
    named(("mode", "w"), "MODE() WITHIN GROUP (ORDER BY w)", "MODE(w)", made=mt.mode("w")),
    named(("count_distinct", "v"), "COUNT(DISTINCT v)", "COUNT_DISTINCT(v)", made=mt.count_distinct("v")),
    named(
        ("distinct", "v"), "APPROX_COUNT_DISTINCT(v)", "APPROX_DISTINCT(v)",
        made=mt.approx_count_distinct("v"),
    ),
    named(
        ("middle", "v"), "APPROX_QUANTILE(v)", "PERCENTILE_APPROX(v, 0.5)", "APPROX_PERCENTILE(v, 0.5)",
        made=mt.approx_quantile("v"),
    ),
    named(
        ("ranks", "v"), "APPROX_QUANTILE(v, ARRAY[0, 0.25, 0.5, 0.9, 1])",
        made=mt.approx_quantile("v", sketch_calls.SHARES),
    ),
    named(("top", "w"), "APPROX_TOP_K(w, 3)", made=mt.approx_top_k("w", 3)),
    named(("counts", "w"), "COUNT_MIN_SKETCH(w)", made=mt.count_min_sketch("w")),
    named(("members", "w"), "BLOOM_FILTER(w)", made=mt.bloom_filter("w")),
]  # fmt: skip


def _times(r: Record) -> Record:
    return r._replace(v=None if r.v is None else r.v * r.w)


def _where_w(r: Record) -> Record:
    return r._replace(v=r.v if r.w > 2 else None)


EXPRESSIONS = [
    Case(
        "SELECT k, SUM(v * e.w) AS s FROM HOP(e, t, 5, 10) GROUP BY k, window_end",
        mt.sliding(10, every=5).agg(s=mt.sum(mt.expr("v * w"))), "sliding", (10, 5, 0), {"s": ("sum", "v")},
        seen=_times,
    ),
    Case(
        "SELECT k, MAX(v * w) AS s FROM e [ROWS 4 SLIDE 2] GROUP BY k EMIT PARTIAL",
        mt.count_sliding(4, every=2).agg(s=mt.max(mt.expr("v*w")), emit_partial=True),
        "count_sliding", (4, 2), {"s": ("max", "v")}, seen=_times,
    ),
    Case(
        "SELECT k, AVG(v) FILTER (WHERE w > 2) AS a, COUNT(*) FILTER (WHERE w > 2 AND v IS NOT NULL) AS n, "
        "COUNT_IF(w > 2 AND NOT v IS NULL) AS m, COUNTIF(w > 2 AND v IS NOT NULL) AS o "
        "FROM e [RANGE 10] GROUP BY k",
        mt.tumbling(10).agg(
            a=mt.mean(mt.expr("CASE WHEN w > 2 THEN v END")),
            n=mt.count(mt.expr("CASE WHEN w > 2 AND v IS NOT NULL THEN 1 END")),
            m=mt.count(mt.expr("CASE WHEN w > 2 AND NOT v IS NULL THEN 1 END")),
            o=mt.count(mt.expr("CASE WHEN w > 2 AND v IS NOT NULL THEN 1 END")),
        ),
        "tumbling", (10, 0), {"a": ("mean", "v"), **dict.fromkeys("nmo", ("count", "v"))}, seen=_where_w,
    ),
    Case(
        "SELECT k, ARG_MAX(w, v) FILTER (WHERE w > 2) AS a FROM SESSION(e, t, 3) GROUP BY k, window_start",
        mt.session(3).agg(a=mt.argmax(mt.expr("CASE WHEN w > 2 THEN v END"), "w")),
        "session", (3,), {"a": ("argmax", "v", "w")}, seen=_where_w,
    ),
    *(
        Case(
            f"SELECT k, COUNT(*) AS n FROM {text} WHERE {condition} GROUP BY k{grouped}",
            window.agg(n=mt.count(), where="w > 1 AND v >= 0"), kind, params, N,
            where=lambda r: r.w > 1 and r.v is not None and r.v >= 0,
        )
        for text, window, kind, params, condition, grouped in [
            ("TUMBLE(e, t, 10)", mt.tumbling(10), "tumbling", (10, 0), "w > 1 AND v >= 0", ", window_start"),
            ("e AS x [ROWS 3]", mt.count_tumbling(3), "count_tumbling", (3,), "x.w > 1 and e.v >= 0", ""),
            ("e", mt.session(2), "session", (2,), "w > 1 AND v >= 0 -- late\n", ", session_window(t, 2)"),
            ("ROLLING(e, t, 6) r", mt.rolling(6), "rolling", (6,), "r.w > 1 AND r.v >= 0", ", window_id"),
            (
                "STATE_WINDOW(e, t, s)", mt.state_window("s"), "state_window", ("s",),
                "w > 1 AND v >= 0", ", window_id",
            ),
        ]
    ),
    *(
        Case(
            f"SELECT k, COUNT(*) AS n, MAX(w) AS h FROM {text} HAVING {condition}",
            window.agg(n=mt.count(), h=mt.max("w"), having=written), kind, params,
            {"n": ("count",), "h": ("max", "w")}, having=lambda row: row["n"] > 1 and row["h"] < 5,
        )
        for text, window, kind, params, condition, written in [
            (
                by_key("TUMBLE(e, t, 10)"), mt.tumbling(10), "tumbling", (10, 0),
                "COUNT(*) > 1 AND MAX(w) < 5", "n > 1 AND h < 5",
            ),
            (
                "e [ROWS 3] GROUP BY k", mt.count_tumbling(3), "count_tumbling", (3,),
                "n > 1 AND h < 5 AND window_end >= window_start",
                "n > 1 AND h < 5 AND window_end >= window_start",
            ),
            (
                "e GROUP BY k, session_window(t, 2)", mt.session(2), "session", (2,),
                "NOT (n <= 1 OR session_window.end < session_window.start OR h >= 5)",
                "NOT (n <= 1 OR window_end < window_start OR h >= 5)",
            ),
        ]
    ),
    *(
        Case(
            f"SELECT k, SUM(w) AS s FROM {text} GROUP BY k, window_id",
            window.agg(s=mt.sum("w")), kind, params, {"s": ("sum", "w")}, seen=seen,
        )
        for text, window, kind, params, seen in [
            (
                "PUNCTUATION(e, t, w > 3)", mt.punctuation(mt.expr("w > 3")), "punctuation", ("p", None),
                lambda r: r._replace(p=r.w > 3),
            ),
            (
                "LANDMARK(e, t, w > 3, until => w < 2)",
                mt.landmark(mt.expr("w > 3"), until=mt.expr("w < 2")), "landmark_until", ("p", "q"),
                lambda r: r._replace(p=r.w > 3, q=r.w < 2),
            ),
            (
                "THRESHOLD_FRAME(e, t, v * w > 3)", mt.threshold_frame(mt.expr("v * w"), ">", 3),
                "threshold_frame", ("v", ">", 3, 1), _times,
            ),
            (
                "DELTA_FRAME(e, t, v * w, 2)", mt.delta_frame(mt.expr("v * w"), 2),
                "delta_frame", ("v", 2), _times,
            ),
            (
                "AGGREGATE_FRAME(e, t, SUM(v * w) >= 6)", mt.aggregate_frame(mt.sum(mt.expr("v * w")), 6),
                "aggregate_frame", (("sum", "v"), 6), _times,
            ),
            (
                "STATE_WINDOW(e, t, w > 2)", mt.state_window(mt.expr("w > 2")), "state_window", ("s",),
                lambda r: r._replace(s=r.w > 2),
            ),
            (
                "ON_MEASURE(e, t, TUMBLE(m * 2, 10))", mt.on(mt.expr("m * 2"), mt.tumbling(10)),
                "on", ("m", "tumbling", (10, 0)), lambda r: r._replace(m=r.m * 2),
            ),
            (
                "POLICY_WINDOW(e, t, WHEN(w > 3), KEEP(3))",
                mt.policy_window(mt.policies.when(mt.expr("w > 3")), mt.policies.keep(3)),
                "policy_window", (("when", "p"), ("keep", 3)), lambda r: r._replace(p=r.w > 3),
            ),
        ]
    ),
]  # fmt: skip
EMITTED = [
    Case(
        "SELECT k, COUNT(*) AS n FROM TUMBLE(e, t, 3) GROUP BY k, window_start EMIT EMPTY",
        mt.tumbling(3).agg(n=mt.count(), emit_empty=True), "tumbling", (3, 0), N,
    ),
    Case(
        "INSERT INTO named SELECT k, COUNT(*) AS n FROM e [RANGE 3] GROUP BY k EMIT ON CHANGE",
        mt.tumbling(3).agg(n=mt.count(), name="named", emit="on_change"), "tumbling", (3, 0), N,
    ),
    Case(
        "EXPLAIN CREATE TEMPORARY VIEW v AS "
        "SELECT k, COUNT(*) AS n FROM e [RANGE 3] GROUP BY k EMIT EMPTY, ON CHANGE;",
        mt.tumbling(3).agg(n=mt.count(), name="v", emit_empty=True, emit="on_change"), "tumbling", (3, 0), N,
    ),
    Case(
        "SELECT k, COUNT(*) AS n FROM e [ROWS 4] GROUP BY k EMIT PARTIAL",
        mt.count_tumbling(4).agg(n=mt.count(), emit_partial=True), "count_tumbling", (4,), N,
    ),
    Case(
        "SELECT k, COUNT(*) AS n FROM TUMBLE(e, t, 9) GROUP BY k, window_start EMIT EARLY EVERY 3",
        mt.tumbling(9).agg(n=mt.count(), early=3), "tumbling", (9, 0), N,
    ),
    Case(
        "SELECT k, COUNT(*) AS n FROM e [ROWS 4] GROUP BY k EMIT PARTIAL, EARLY EVERY 2",
        mt.count_tumbling(4).agg(n=mt.count(), emit_partial=True, early=2), "count_tumbling", (4,), N,
    ),
]  # fmt: skip
CASES = [*FLINK, *SHORT, *SPARK, *CQL, *OWN, *OVER, *AGGREGATES, *EXPRESSIONS, *EMITTED]
