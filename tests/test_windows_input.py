"""Windows that look at records: what they refuse, and that a refused batch leaves no trace."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest

import muntin as mt


def rows(table: pa.Table, *names: str) -> list[tuple]:
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


BOUNDS = ("window_start", "window_end", "window_id", "n")


def listed(window, table: dict, *, key=None, **setting) -> list[tuple]:
    """Start, end, number and count of each window over a table in order."""
    op = mt.WindowOperator(window.agg(n=mt.count()), time="t", key=key, **setting)
    return [*rows(op.process(table), *BOUNDS), *rows(op.finish(), *BOUNDS)]


# ---- what is refused when a window is made ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mt.rolling(), "takes a length, as in rolling"),
        (lambda: mt.rolling("5s", rows=3), "takes a length, as in rolling"),
        (lambda: mt.rolling(rows=0), "rows must be above zero"),
        (lambda: mt.rolling(rows=2**62), r"rows must be less than 2\^62 records"),
        (lambda: mt.count_tumbling(10**30), r"n must be less than 2\^62 records"),
        (
            lambda: mt.tumbling("9" * 5000 + "s"),
            "has a number of 5000 digits: it must be shorter than 146 years",
        ),
        (lambda: mt.last_n(0, every=5), "n must be above zero"),
        (lambda: mt.last_span(5, every=0), "every must be above zero"),
        (lambda: mt.landmark("p", until="q", length=5), "give one of them"),
        (lambda: mt.threshold_frame("v", "=>", 1), "op is one of '>', '>=', '<', '<=', '==', '!='"),
        (lambda: mt.threshold_frame("v", ">", math.nan), "the bound is a value to compare with"),
        (lambda: mt.threshold_frame("v", ">", 1, min_records=0), "min_records must be above zero"),
        (lambda: mt.delta_frame("v", by=-1), "by is a number, zero or above"),
        (lambda: mt.aggregate_frame(mt.sum("v"), reaches=math.nan), "reaches is a number"),
        (lambda: mt.aggregate_frame(mt.sum(), reaches=1), "does not say which column it is over"),
        (lambda: mt.calendar("fortnight"), "unit is one of 'day', 'week', 'month', 'quarter', 'year'"),
        (lambda: mt.calendar("day", tz="Mars/Olympus"), "tz is the name of a time zone"),
        (lambda: mt.user_window(lambda s, t, row: (s, 0, 0), columns=["a b"]), "fields of a named tuple"),
    ],
)
def test_windows_say_what_they_take(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mt.punctuation(when=5), "when is the name of a column, not 5"),
        (lambda: mt.state_window(None), "value is the name of a column"),
        (lambda: mt.aggregate_frame("v", reaches=1), "takes an aggregate such as"),
        (lambda: mt.on("m", mt.session(5)), "takes a window on a grid"),
        (lambda: mt.on("m", mt.tumbling("5s")), "give a whole number"),
        (lambda: mt.on("m", mt.calendar("day")), "is for timestamps"),
        (lambda: mt.user_window(5), "f_disc is a function"),
        (lambda: mt.user_window(lambda state, t: state), "must take three arguments"),
        (lambda: mt.user_window(lambda s, t, row: (s, 0, 0), columns="v"), r"as in columns=\['v'\]"),
        (lambda: mt.policy_window(trigger=mt.policies.keep(3), evict=mt.policies.keep(3)), "trigger is one"),
        (
            lambda: mt.policy_window(trigger=5, evict=mt.policies.keep(3)),
            "trigger is one of mt.policies.every",
        ),
    ],
)
def test_windows_say_what_kind_of_thing_they_take(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_emit_empty_and_emit_partial_are_refused():
    with pytest.raises(
        ValueError, match="emit_empty is for windows on a time grid; a rolling is never empty"
    ):
        mt.rolling(5).agg(n=mt.count(), emit_empty=True)
    with pytest.raises(ValueError, match="emit_partial is for count windows, not for a last_n"):
        mt.last_n(5, every=5).agg(n=mt.count(), emit_partial=True)


# ---- what is refused when records come ----


@pytest.mark.parametrize(
    ("window", "column", "needs"),
    [
        (mt.punctuation("c"), [1, 0], "needs booleans in column 'c', which holds int64"),
        (mt.landmark("c", every=5), ["x", "y"], "needs booleans in column 'c', which holds string"),
        (
            mt.delta_frame("c", by=1),
            ["x", "y"],
            "needs numbers other than uint64 in column 'c', which holds string",
        ),
        (mt.on("c", mt.tumbling(5)), [True, False], "needs whole or finite numbers in column 'c'"),
    ],
)
def test_columns_of_other_types_are_refused(window, column, needs):
    op = mt.WindowOperator(window.agg(n=mt.count()), time="t")
    with pytest.raises(TypeError, match=needs):
        op.process({"t": [1, 2], "c": column})


def test_a_column_that_a_window_reads_must_be_there():
    op = mt.WindowOperator(mt.punctuation("p").agg(n=mt.count()), time="t")
    with pytest.raises(KeyError, match="the batch has no column 'p'"):
        op.process({"t": [1]})


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ([1.0, None], "the measure 'm' is null in row 1"),
        ([1.0, math.inf], "the measure 'm' is inf in row 1; it must be finite"),
        ([1.0, 0.5], "the measure 'm' goes back to 0.5 in the record of time 2"),
        ([1.5, 1.25], "the measure 'm' goes back to 1.25 in the record of time 2"),
        ([1.0, 2.0**62], "2\\^62 or more from zero"),
    ],
)
def test_a_measure_must_advance(measures, message):
    op = mt.WindowOperator(mt.on("m", mt.tumbling(2)).agg(n=mt.count()), time="t")
    op.process({"t": [0], "m": [0.0]})
    with pytest.raises(ValueError, match=message):
        op.process({"t": [1, 2], "m": measures})
    table = op.process({"t": [1, 2], "m": [1.0, 2.5]})
    assert rows(table, "window_start", "window_end", "measure_start", "measure_end", "n") == [
        (0, 1, 0.0, 2.0, 2)
    ]


def test_calendars_are_for_timestamps_of_their_centuries():
    op = mt.WindowOperator(mt.calendar("day").agg(n=mt.count()), time="t")
    with pytest.raises(TypeError, match="is for timestamps, but the time column holds integers"):
        op.process({"t": [1]})
    op = mt.WindowOperator(mt.calendar("day").agg(n=mt.count()), time="t")
    far = pa.array([2**61], pa.int64()).cast(pa.timestamp("s"), safe=False)
    with pytest.raises(ValueError, match="from the year 5 to the year 9994"):
        op.process({"t": far})
    assert op.process({"t": pa.array([0], pa.timestamp("s"))}).num_rows == 0


# ---- a user's functions ----


def pairs(state, t, row):
    return state + 1, 1 if state % 2 == 0 else 0, 1 if state and state % 2 == 0 else 0


def ends_too_many(state, t, row):
    return state + 1, 1, 2 if t == 13 else 0


def begins_less_than_none(state, t, row):
    return state, -1 if t == 13 else 1, 0


def divides(state, t, row):
    return state, 1, 0 * (1 // (t - 13))


def in_python(function):
    """The same function, in a form that cannot be compiled: its state is a list."""

    def wrapped(state, t, row):
        after, begins, ends = function(state[0], t, row)
        return [after], begins, ends

    wrapped.__name__ = function.__name__
    return wrapped


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (ends_too_many, "ends_too_many ends 2 windows where 1 are open, at record 1 of its key, of time 13"),
        (begins_less_than_none, "begins -1 windows and ends 0, at record 1 of its key, of time 13"),
        (divides, r"divides raised ZeroDivisionError\(.*\), at record 1 of its key, of time 13"),
    ],
)
def test_a_function_that_fails_is_told_where_and_leaves_no_trace(function, message, compiled):
    made = mt.user_window(function, state=0) if compiled else mt.user_window(in_python(function), state=[0])
    queries = [made.agg(n=mt.count()), mt.tumbling(10).agg(n=mt.count())]
    op = mt.WindowOperator(queries, time="t", key="k")
    op.process({"t": [11, 11], "k": ["a", "b"]})
    before = op.snapshot()
    with pytest.raises(ValueError, match=message):
        op.process({"t": [12, 13, 25], "k": ["a", "b", "b"]})
    assert op.snapshot() == before
    assert op.process({"t": [14, 30], "k": ["a", "a"]}).num_rows == 2  # the tumbling windows


def test_a_function_is_compiled_where_it_can_be():
    op = mt.WindowOperator(mt.user_window(pairs, state=0).agg(n=mt.count()), time="t")
    op.process({"t": [1, 2, 3]})
    (slices,) = op._engine.slices.of_kind("position").values()
    (lister,) = slices.settled.listers.values()
    assert lister.kernel is not None


def rises(state, t, row):
    if row.v is None:
        return state, 0, 0
    last, has = state
    return (row.v, True), 0 if has and row.v > last else 1, 1 if has and row.v <= last else 0


def test_nulls_bring_a_function_to_python_with_its_state():
    made = mt.user_window(rises, state=(0.0, False), columns=["v"])
    op = mt.WindowOperator(made.agg(n=mt.count()), time="t")
    first = op.process({"t": [1, 2, 3], "v": [1.0, 2.0, 1.5]})
    second = op.process({"t": [4, 5, 6], "v": [None, 2.5, 0.0]})
    assert rows(first, *BOUNDS) == [(1, 2, 0, 2)]
    assert rows(second, *BOUNDS) == [(3, 5, 1, 3)]
    assert rows(op.finish(), *BOUNDS) == [(6, 6, 2, 1)]


def by_word(state, t, row):
    return row.word, 1 if row.word != state else 0, 1 if state is not None and row.word != state else 0


def test_a_function_may_see_anything_in_python():
    made = mt.user_window(by_word, columns=["word"])
    words = ["a", "a", "b", "b", "b", "c"]
    assert listed(made, {"t": range(6), "word": words}) == [(0, 1, 0, 2), (2, 4, 1, 3), (5, 5, 2, 1)]


def test_snapshots_need_functions_again():
    op = mt.WindowOperator(mt.user_window(pairs, state=0).agg(n=mt.count()), time="t")
    op.process({"t": [1]})
    with pytest.raises(ValueError, match="aggregates or functions of your own"):
        mt.WindowOperator.restore(op.snapshot())
    again = mt.WindowOperator.restore(
        op.snapshot(), queries=[mt.user_window(pairs, state=0).agg(n=mt.count())]
    )
    assert rows(again.process({"t": [2, 3]}), *BOUNDS) == [(1, 2, 0, 2)]


class Backwards(mt.ContextFreeWindow):
    """A grid whose edges go back."""

    def windows(self, t):
        return [(t, t + 5)]

    def next_edge(self, t):
        return t


class Elsewhere(Backwards):
    """A grid whose windows do not hold what they are said to."""

    def windows(self, t):
        return [(t + 1, t + 5)]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (Backwards(), "Backwards.* says that the next edge after 7 is 7"),
        (Elsewhere(), r"Elsewhere.* says that \[8, 12\) holds 7, which it does not"),
    ],
)
def test_a_grid_of_ones_own_must_keep_to_its_word(grid, message):
    queries = [mt.tumbling(5).agg(n=mt.count()), grid.agg(n=mt.count())]
    op = mt.WindowOperator(queries, time="t")
    with pytest.raises(ValueError, match=message):
        op.process({"t": [7]})


# ---- windows over values of all kinds ----


def test_states_of_any_type():
    for values in (
        ["x", "x", None, None, "y"],
        [1, 1, None, None, 2],
        [True, True, None, None, False],
        [Decimal("1.5"), Decimal("1.5"), None, None, Decimal("2.5")],
        [[1, 2], [1, 2], None, None, [3]],
        [2**63, 2**63, None, None, 0],
    ):
        kind = pa.uint64() if values[0] == 2**63 else None
        table = {"t": range(5), "s": pa.array(values, kind)}
        assert listed(mt.state_window("s"), table) == [(0, 1, 0, 2), (2, 3, 1, 2), (4, 4, 2, 1)]


def test_thresholds_compare_exactly():
    big = 2**53
    table = {"t": range(3), "v": pa.array([big, big + 1, big], pa.int64())}
    assert listed(mt.threshold_frame("v", ">", float(big)), table) == [(1, 1, 0, 1)]
    assert listed(mt.threshold_frame("v", ">", big + 0.0), table) == [(1, 1, 0, 1)]
    words = {"t": range(4), "s": ["a", "c", None, "d"]}
    assert listed(mt.threshold_frame("s", ">=", "b"), words) == [(1, 1, 0, 1), (3, 3, 1, 1)]


def test_deltas_of_integers_are_exact():
    table = {"t": range(4), "v": pa.array([2**62, 2**62 + 1, -(2**62), -(2**62) - 2], pa.int64())}
    assert listed(mt.delta_frame("v", by=1), table) == [(0, 1, 0, 2), (2, 2, 1, 1), (3, 3, 2, 1)]


def test_a_day_lasts_as_long_as_its_time_zone_says():
    hours = pa.array(range(1_679_788_800, 1_679_788_800 + 72 * 3600, 3600), pa.int64())  # from 2023-03-26
    op = mt.WindowOperator(mt.calendar("day", tz="Europe/Berlin").agg(n=mt.count()), time="t")
    table = op.process({"t": hours.cast(pa.timestamp("s", "UTC"))})
    assert table["n"].to_pylist() == [22, 24, 24]  # an hour came before, and one was left out


def test_the_measure_is_null_for_other_queries():
    queries = [mt.on("m", mt.tumbling(10)).agg(n=mt.count()), mt.tumbling(10).agg(n=mt.count())]
    op = mt.WindowOperator(queries, time="t")
    table = op.process({"t": [1, 2, 30], "m": [1, 2, 30]})
    names = ["query", "window_start", "window_end", "window_id", "measure_start", "measure_end", "revision"]
    assert table.column_names[:7] == names
    assert rows(table, *names[1:6]) == [(1, 2, None, 0, 10), (0, 10, None, None, None)]
    op.remove("q0")
    assert "measure_start" not in op.finish().column_names


def test_windows_say_what_tells_them_apart():
    assert mt.tumbling(5).identity() == ("window_start", "window_end")
    assert mt.count_tumbling(5).identity() == ("window_id",)
    assert mt.rolling(5).identity() == ("window_end", "window_id")
    assert mt.last_n(5, every=5).identity() == ("window_end",)
    assert mt.landmark("p").identity() == ("window_id",)
    assert mt.landmark("p", every=5).identity() == ("window_end",)
    assert mt.on("m", mt.tumbling(5)).identity() == ("measure_start", "measure_end")


def test_what_no_window_needs_is_let_go():
    op = mt.WindowOperator(
        [
            mt.punctuation("p").agg(n=mt.count()),
            mt.rolling(50).agg(n=mt.count()),
            mt.last_n(20, every=10).agg(n=mt.count()),
            mt.state_window("s").agg(n=mt.count()),
        ],
        time="t",
    )
    for begin in range(0, 20_000, 500):
        t = range(begin, begin + 500)
        op.process({"t": t, "p": [i % 40 == 0 for i in t], "s": [i // 30 for i in t]})
    assert op.metrics.slices <= 100
    assert op.metrics.records_kept == 0


def test_explain_knows_all_windows():
    queries = [mt.last_n(5, every=10).agg(n=mt.count()), mt.user_window(pairs, state=0).agg(n=mt.count())]
    op = mt.WindowOperator(queries, time="t")
    text = str(op.explain())
    assert "last_n(5, every=10) (forward context aware)" in text
    assert "user_window(pairs, state=0) (forward context free)" in text
    assert "at most 32 at a time: windows begin in hindsight, and split them" in text
    rolling = mt.WindowOperator(mt.rolling(5).agg(n=mt.count()), time="t")
    assert "each by itself: windows look back from each" in str(rolling.explain())
    op.remove("q0")
    assert "where their windows begin and end" in str(op.explain())


@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize("tz", ["Asia/Kathmandu", "Pacific/Apia", "America/St_Johns"])
def test_calendars_work_up_to_their_first_and_last_year(unit, tz):
    # East of Greenwich, year 1 begins before what a date can hold; a watermark that is not set asks for it.
    for t in (-62_000_000_000, 253_200_000_000):
        op = mt.WindowOperator(mt.calendar(unit, tz).agg(n=mt.count()), time="t", watermark="manual")
        assert op.process({"t": pa.array([t], pa.timestamp("s"))}).num_rows == 0
        assert op.finish()["n"].to_pylist() == [1]
