"""What goes into the operator.

Bad input is refused with a clear error and leaves no trace. Good input of every form and type gives the right
rows.
"""

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt

FAR = 2**62  # times must be nearer to zero


# ---- an operator, and its twin that never sees bad input ----


def queries() -> list[mt.Query]:
    """One query of each family."""
    return [
        mt.sliding(10, every=4).agg(total=mt.sum("v"), top=mt.max("v"), name="grid"),
        mt.session(3).agg(total=mt.sum("v"), name="runs"),
        mt.count_sliding(2, every=1).agg(top=mt.max("v"), n=mt.count(), name="pairs"),
    ]


def operator(**setting) -> "mt.WindowOperator":
    """An operator over records (ts, k, v)."""
    return mt.WindowOperator(**{"queries": queries(), "time": "ts", "key": "k", **setting})


GOOD = {"ts": [1, 4, 12], "k": ["a", "b", "a"], "v": [1.0, 2.0, 4.0]}
MORE = {"ts": [13, 25, 26], "k": ["b", "c", "a"], "v": [8.0, 16.0, 32.0]}


def told(table: pa.Table) -> list[dict]:
    """Rows as dicts, in an order of their own: that among keys is not defined."""
    return sorted(table.to_pylist(), key=repr)


def check_same(subject: "mt.WindowOperator", twin: "mt.WindowOperator", *batches) -> None:
    """Two operators give the same rows from here to the end."""
    assert subject.watermark == twin.watermark
    assert subject.metrics.records_in == twin.metrics.records_in
    for batch in batches:
        assert told(subject.process(batch)) == told(twin.process(batch))
    assert told(subject.finish(returns="pyarrow")) == told(twin.finish())
    assert subject.metrics.late_dropped == twin.metrics.late_dropped == 0
    assert subject.metrics.windows_emitted == twin.metrics.windows_emitted
    assert subject.metrics.records_in == twin.metrics.records_in


def check_refused(bad, error: type[Exception], match: str, good=GOOD, more=MORE, **setting) -> None:
    """A bad batch is refused, whether it is the first or not, and leaves no trace."""
    for before, after in ([], [good, more]), ([good], [more]):
        subject, twin = operator(**setting), operator(**setting)
        for batch in before:
            subject.process(batch)
            twin.process(batch)
        with pytest.raises(error, match=match):
            subject.process(bad)
        check_same(subject, twin, *after)


# ---- columns ----


@pytest.mark.parametrize("name", ["ts", "k", "v"])
def test_a_missing_column(name):
    bad = {column: values for column, values in MORE.items() if column != name}
    check_refused(bad, KeyError, f"no column '{name}'.*it has '")


def test_a_missing_tie_column():
    tied = {"tie": "seq", "good": GOOD | {"seq": [1, 2, 3]}, "more": MORE | {"seq": [4, 5, 6]}}
    check_refused(MORE, KeyError, "no column 'seq'", **tied)


def test_a_null_tie():
    tied = {"tie": "seq", "good": GOOD | {"seq": [1, 2, 3]}, "more": MORE | {"seq": [4, 5, 6]}}
    check_refused(MORE | {"seq": [4, None, 6]}, ValueError, "'seq' has nulls", **tied)


def test_two_columns_of_one_name():
    table = pa.table(MORE).append_column("v", pa.array([1.0, 2.0, 3.0]))
    check_refused(table, KeyError, "more than one column 'v'")


@pytest.mark.parametrize(
    "times",
    [
        [13.5, 25.0, 26.0],
        [13.0, math.nan, 26.0],
        ["x", "y", "z"],
        [[13], [25], [26]],
        pa.array([1, 2, 3], pa.date32()),
    ],
    ids=["float", "nan", "text", "list", "date"],
)
def test_times_of_a_wrong_type(times):
    check_refused(MORE | {"ts": times}, TypeError, "'ts'")


def test_a_float_time_says_what_to_do():
    with pytest.raises(TypeError, match=r"double, not integers or timestamps\. Cast it"):
        operator().process(GOOD | {"ts": [1.0, 4.0, 12.0]})


def test_a_null_time():
    check_refused(MORE | {"ts": [13, 25, None]}, ValueError, "'ts' is null in row 2")


def test_a_null_time_in_a_later_chunk():
    table = pa.concat_tables([pa.table(MORE), pa.table(MORE | {"ts": [27, None, 28]})])
    check_refused(table, ValueError, "'ts' is null in row 4")


@pytest.mark.parametrize("t", [FAR, -FAR, FAR + 1, 2**63 - 1, -(2**63)], ids=hex)
def test_times_too_far_from_zero(t):
    check_refused(MORE | {"ts": sorted([13, 25, t])}, ValueError, r"'ts' .*2\^62")


def test_unsigned_times_too_far_from_zero():
    times = pa.array([13, 25, 2**64 - 1], pa.uint64())
    with pytest.raises(ValueError, match=r"'ts' .*2\^62"):
        operator().process(MORE | {"ts": times})


def test_a_time_beyond_64_bits():
    check_refused(MORE | {"ts": [13, 25, 2**70]}, (TypeError, ValueError), "'ts'")


def test_a_sum_of_texts():
    check_refused(MORE | {"v": ["x", "y", "z"]}, TypeError, "'v'")
    with pytest.raises(TypeError, match=r"sum\('v'\) needs numbers, but column 'v' holds string"):
        operator().process(GOOD | {"v": ["x", "y", "z"]})


def test_a_maximum_of_what_has_no_order():
    structs = [{"x": 1}, {"x": 2}, {"x": 3}]
    only = mt.tumbling(100).agg(top=mt.max("v"))
    check_refused(MORE | {"v": structs, "k": ["a", "a", "a"]}, TypeError, "'v'", queries=only)


def test_a_sum_of_times():
    with pytest.raises(TypeError, match=r"sum\('v'\) needs numbers, but column 'v' holds timestamp"):
        operator().process(GOOD | {"v": pa.array([1, 2, 3], pa.timestamp("s"))})


@pytest.mark.parametrize("bad", [[(1, "a", 1.0)], None, "ts", 5, np.array([1, 2])])
def test_a_batch_that_is_none(bad):
    check_refused(bad, TypeError, f"a batch is a pyarrow Table.*not {type(bad).__name__}")


def test_columns_of_different_lengths():
    check_refused(MORE | {"v": [1.0, 2.0]}, TypeError, "named v expected length 3 but got length 2")


@pytest.mark.parametrize("values", [[1.0, "x", None], 5, [{}, [], 3]], ids=["mixed", "scalar", "junk"])
def test_a_column_that_is_none_is_named(values):
    check_refused(MORE | {"v": values}, TypeError, "'v'")


# ---- schema changes ----


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (pa.array([1, 2, 4], pa.int32()), pa.array([8, 16, 32], pa.int64())),
        (pa.array([1, 2, 4], pa.int64()), pa.array([8, 16, 32], pa.int8())),
        (pa.array([1, 2, 4], pa.int64()), pa.array([8.0, 16.0, 32.0])),
        (pa.array([1.0, 2.0, 4.0]), pa.array([8, 16, 32])),
        (pa.array([1.0, 2.0, 4.0]), pa.array([8, 16, 32], pa.float32())),
        (pa.array([1.0, 2.0, 4.0], pa.float32()), pa.array([8.0, 16.0, 32.0])),
    ],
    ids=["i4-i8", "i8-i1", "i8-f8", "f8-i8", "f8-f4", "f4-f8"],
)
def test_later_values_are_cast_if_that_loses_nothing(first, later):
    subject, twin = operator(), operator()
    assert told(subject.process(GOOD | {"v": first})) == told(
        twin.process(GOOD | {"v": first.cast("double")})
    )
    rows = subject.process(MORE | {"v": later})
    assert told(rows) == told(twin.process(MORE))
    assert rows.schema.field("top").type == first.type
    assert told(subject.finish()) == told(twin.finish())


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (pa.array([1, 2, 4]), ["x", "y", "z"]),
        (pa.array([1, 2, 4]), ["8", "16", "032"]),
        (pa.array([1, 2, 4]), [8.0, 16.5, 32.0]),
        (pa.array([1, 2, 4]), [8.0, math.nan, 32.0]),
        (pa.array([1, 2, 4], pa.int32()), [8, 2**31, 32]),
        (pa.array([1, 2, 4], pa.uint32()), [8, -1, 32]),
        (pa.array([1.0, 2.0, 4.0]), [8, 2**53 + 1, 32]),
        (pa.array([1.0, 2.0, 4.0], pa.float32()), [8.0, 0.1, 32.0]),
        (pa.array([True, False, True]), [8, 16, 32]),
        (pa.array([True, False, True]), [0.5, 0.0, 1.0]),
    ],
    ids=["i8-text", "i8-digits", "i8-f8", "i8-nan", "i4-i8", "u4-i8", "f8-i8", "f4-f8", "b-i8", "b-f8"],
)
def test_later_values_are_refused_if_a_cast_would_lose_something(first, later):
    subject, twin = operator(), operator()
    good, more = GOOD | {"v": first}, MORE | {"v": first}
    assert told(subject.process(good)) == told(twin.process(good))
    with pytest.raises(TypeError, match=f"'v' was {first.type} in the first batch and is"):
        subject.process(MORE | {"v": later})
    check_same(subject, twin, more)


def test_later_keys_are_cast_if_that_loses_nothing():
    subject, twin = operator(), operator()
    subject.process(GOOD)
    twin.process(GOOD)
    check_same(subject, twin, MORE | {"k": pa.array(MORE["k"], pa.large_string()).dictionary_encode()})


def test_later_keys_are_refused_if_a_cast_would_lose_something():
    good, more = GOOD | {"k": [1, 2, 1]}, MORE | {"k": [2, 3, 1]}
    subject, twin = operator(), operator()
    assert told(subject.process(good)) == told(twin.process(good))
    with pytest.raises(TypeError, match=r"'k' was int64 .* is string"):
        subject.process(MORE | {"k": ["x", "y", "z"]})
    check_same(subject, twin, more)


def test_later_times_are_refused_if_a_cast_would_lose_something():
    def batch(kind, times):
        return {"ts": pa.array(times, kind), "v": [1.0, 2.0]}

    milli, micro = pa.timestamp("ms"), pa.timestamp("us")
    subject, twin = (mt.WindowOperator(mt.tumbling("1s").agg(total=mt.sum("v")), time="ts") for _ in range(2))
    assert told(subject.process(batch(milli, [1, 2]))) == told(twin.process(batch(milli, [1, 2])))
    with pytest.raises(TypeError, match=r"'ts' was timestamp\[ms\]"):
        subject.process(batch(micro, [3000, 4001]))
    with pytest.raises(TypeError, match=r"'ts' was timestamp\[ms\]"):
        subject.process(batch(pa.string(), ["x", "y"]))
    check_same(subject, twin, batch(micro, [3000, 4000]), batch(pa.timestamp("s"), [5, 6]))


def test_a_refused_first_batch_fixes_no_types():
    subject = operator()
    with pytest.raises(ValueError, match="row 0"):
        subject.process({"ts": pa.array([None], pa.int32()), "k": [1], "v": [1]})
    rows = subject.process(GOOD)
    assert rows.schema.field("k").type == pa.string()
    assert rows.schema.field("top").type == pa.float64()
    assert rows.schema.field("window_start").type == pa.int64()


# ---- empty batches ----


@pytest.mark.parametrize(
    "empty",
    [
        {},
        {"ts": [], "k": [], "v": []},
        {"other": []},
        pa.table({"ts": pa.array([], pa.string())}),
        pa.table(GOOD).slice(0, 0),
    ],
    ids=["no columns", "no types", "other columns", "other types", "sliced"],
)
def test_an_empty_batch_changes_nothing(empty):
    subject, twin = operator(), operator()
    assert subject.process(empty).num_rows == 0
    assert subject.metrics == twin.metrics
    assert told(subject.process(GOOD)) == told(twin.process(GOOD))
    before = subject.snapshot()
    assert subject.process(empty).num_rows == 0
    assert subject.snapshot() == before
    check_same(subject, twin, MORE)


def test_an_empty_batch_gives_the_columns_of_rows():
    subject = operator()
    names = subject.process(GOOD).schema
    assert subject.process({}).schema == names


# ---- times near the limits, windows of every length ----


@pytest.mark.parametrize("t", [FAR - 1, 1 - FAR], ids=hex)
def test_times_at_the_limit(t):
    subject = operator(queries=mt.tumbling(10).agg(total=mt.sum("v")))
    subject.process({"ts": [t], "k": ["a"], "v": [1.0]})
    (row,) = subject.finish().to_pylist()
    assert (row["window_start"], row["window_end"]) == (t // 10 * 10, t // 10 * 10 + 10)
    assert row["total"] == 1.0


@pytest.mark.parametrize("policy", ["in_order", "manual", FAR - 1])
def test_records_at_both_limits(policy):
    several = [
        mt.tumbling(10).agg(total=mt.sum("v"), name="q0"),
        mt.session(3).agg(total=mt.sum("v"), name="q1"),
        mt.count_tumbling(1).agg(total=mt.sum("v"), name="q2"),
    ]
    subject = operator(queries=several, watermark=policy)
    times, keys = [1 - FAR, 0, FAR - 1], ["a", "a", "a"]
    rows = subject.process({"ts": times, "k": keys, "v": [1.0, 2.0, 4.0]}).to_pylist()
    rows += subject.finish().to_pylist()
    for name in ("q0", "q1", "q2"):
        assert [row["total"] for row in rows if row["query"] == name] == [1.0, 2.0, 4.0]


EXTREMES = [1 - FAR, 0, FAR - 1]


@pytest.mark.parametrize("offset", [0, 1 - FAR, FAR - 1], ids=hex)
@pytest.mark.parametrize("length", [10, FAR - 1], ids=hex)
def test_grids_of_any_length_and_offset_at_the_limits(length, offset):
    subject = operator(queries=mt.tumbling(length, offset=offset).agg(n=mt.count()), key=None)
    rows = subject.process({"ts": EXTREMES}).to_pylist() + subject.finish().to_pylist()
    starts = sorted({(t - offset) // length * length + offset for t in EXTREMES})
    assert [row["window_start"] for row in rows] == starts
    assert [row["window_end"] for row in rows] == [start + length for start in starts]
    assert sum(row["n"] for row in rows) == 3


def test_a_session_of_the_longest_gap():
    subject = operator(queries=mt.session(FAR - 1).agg(n=mt.count()), key=None)
    subject.process({"ts": EXTREMES})
    (row,) = subject.finish().to_pylist()
    assert (row["window_start"], row["window_end"], row["n"]) == (1 - FAR, 2 * FAR - 2, 3)


@pytest.mark.parametrize("wrong", [0, -1, "0s", "-5s", datetime.timedelta(0), datetime.timedelta(seconds=-1)])
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda d: mt.tumbling(d), "length"),
        (lambda d: mt.sliding(d, every=5), "length"),
        (lambda d: mt.sliding(5, every=d), "every"),
        (lambda d: mt.cumulate(d, step=5), "length"),
        (lambda d: mt.cumulate(10, step=d), "step"),
        (lambda d: mt.session(d), "gap"),
    ],
    ids=["tumbling", "sliding", "every", "cumulate", "step", "session"],
)
def test_durations_that_are_not_above_zero(make, what, wrong):
    with pytest.raises(ValueError, match=f"^{what} must be above zero"):
        make(wrong)


@pytest.mark.parametrize("wrong", [0, -1])
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda n: mt.count_tumbling(n), "n"),
        (lambda n: mt.count_sliding(n, every=1), "n"),
        (lambda n: mt.count_sliding(1, every=n), "every"),
    ],
    ids=["tumbling", "sliding", "every"],
)
def test_counts_that_are_not_above_zero(make, what, wrong):
    with pytest.raises(ValueError, match=f"^{what} must be above zero"):
        make(wrong)


@pytest.mark.parametrize("wrong", [1.5, None, True, [10]])
def test_durations_that_are_none(wrong):
    for make in (mt.tumbling, mt.session, lambda d: mt.sliding(10, every=d), lambda d: mt.cumulate(10, d)):
        with pytest.raises(TypeError, match="is a duration such as '10s'"):
            make(wrong)
    with pytest.raises(TypeError, match="n is a whole number of records"):
        mt.count_tumbling(wrong)


@pytest.mark.parametrize("wrong", ["", "10", "ten minutes", "5 fortnights", "1.5s"])
def test_texts_that_are_no_durations(wrong):
    with pytest.raises(ValueError, match=r"length is .*: write '500ms'"):
        mt.tumbling(wrong)


def test_a_duration_that_is_too_long():
    with pytest.raises(ValueError, match=r"lateness must be shorter than 146 years .*, not '80000 days'"):
        operator(watermark="1s", lateness="80000 days")
    long = operator(watermark="30000 days", lateness="40000 days", queries=mt.session("1s").agg(n=mt.count()))
    with pytest.raises(ValueError, match=r"watermark \(30000 days\) and lateness \(40000 days\) together"):
        long.process({"ts": pa.array([0], pa.timestamp("ns")), "k": ["a"]})
    with pytest.raises(ValueError, match=r"length must be shorter than 2\^62"):
        mt.tumbling(FAR)


@pytest.mark.parametrize("what", ["lateness", "watermark"])
def test_lateness_and_delay_below_zero(what):
    with pytest.raises(ValueError, match=f"{what} must be at least zero, not -1"):
        operator(**{"watermark": 5, what: -1})


def test_a_step_that_does_not_divide_the_length():
    with pytest.raises(ValueError, match="step must divide length, but 10 is no multiple of 3"):
        mt.cumulate(10, step=3)
    with pytest.raises(TypeError, match="length and step must be of one kind"):
        mt.cumulate("10s", step=3)


def test_a_slide_that_does_not_divide_the_range():
    subject = operator(queries=mt.sliding(5, every=3).agg(total=mt.sum("v")), key=None)
    subject.process({"ts": [1, 4, 7], "v": [1.0, 2.0, 4.0]})
    rows = subject.finish().to_pylist()
    assert [(r["window_start"], r["total"]) for r in rows] == [(3, 6.0), (6, 4.0)]


# ---- durations beside the type of the time column ----


def stamps(*seconds: int, unit: str = "s") -> pa.Array:
    """Times of a day, as timestamps."""
    return pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp(unit))


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        (
            {"queries": mt.tumbling(10).agg(n=mt.count())},
            "length is 10, but the time column holds timestamps",
        ),
        ({"queries": mt.session(10).agg(n=mt.count())}, "gap is 10, but"),
        ({"watermark": 5}, "watermark is 5, but"),
        ({"watermark": "manual", "lateness": 5}, "lateness is 5, but"),
    ],
    ids=["length", "gap", "watermark", "lateness"],
)
def test_integer_durations_over_timestamps(setting, match):
    subject = operator(**{"queries": mt.tumbling("1m").agg(n=mt.count())} | setting)
    with pytest.raises(TypeError, match=match + ".*say which unit"):
        subject.process({"ts": stamps(1, 2), "k": ["a", "b"]})
    assert subject.metrics.records_in == 0


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ({"queries": mt.sliding("10s", every="5s").agg(n=mt.count())}, "length is '10s', but"),
        ({"queries": mt.cumulate("10s", step="5s").agg(n=mt.count())}, "length is '10s', but"),
        ({"watermark": "5s"}, "watermark is '5s', but"),
        ({"watermark": "manual", "lateness": "5s"}, "lateness is '5s', but"),
    ],
    ids=["length", "cumulate", "watermark", "lateness"],
)
def test_durations_of_time_over_integers(setting, match):
    subject = operator(**setting)
    with pytest.raises(TypeError, match=match + " the time column holds integers"):
        subject.process(GOOD)
    assert subject.metrics.records_in == 0


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ({"queries": mt.tumbling("1500ms").agg(n=mt.count())}, "length"),
        ({"queries": mt.tumbling("10s", offset="1ns").agg(n=mt.count())}, "offset"),
        ({"watermark": "1ms"}, "watermark"),
        ({"watermark": "manual", "lateness": "1us"}, "lateness"),
    ],
    ids=["length", "offset", "watermark", "lateness"],
)
def test_durations_that_are_no_whole_number_of_ticks(setting, what):
    subject = operator(**{"queries": mt.tumbling("1m").agg(n=mt.count())} | setting)
    with pytest.raises(ValueError, match=f"{what} is .* no whole number of seconds: the time column"):
        subject.process({"ts": stamps(1, 2), "k": ["a", "b"]})


def test_a_running_operator_refuses_durations_of_another_kind():
    subject, twin = operator(), operator()
    assert told(subject.process(GOOD)) == told(twin.process(GOOD))
    for window in (mt.tumbling("10s"), mt.session("1m"), mt.cumulate("10s", step="5s")):
        with pytest.raises(TypeError, match="the time column holds integers"):
            subject.add(window.agg(n=mt.count()))
    check_same(subject, twin, MORE)


# ---- watermarks ----


def test_a_watermark_moved_back():
    subject, twin = operator(watermark="manual"), operator(watermark="manual")
    for each in (subject, twin):
        each.process(GOOD)
        each.advance(11)
    with pytest.raises(ValueError, match="cannot go back from 11 to 10"):
        subject.advance(10)
    check_same(subject, twin, MORE)


def test_a_watermark_moved_behind_the_records():
    subject, twin = operator(), operator()
    assert told(subject.process(GOOD)) == told(twin.process(GOOD))
    with pytest.raises(ValueError, match="cannot go back from 12 to 11"):
        subject.advance(11)
    check_same(subject, twin, MORE)


WRONG_WATERMARKS = {
    "bool": True,
    "float": 1.5,
    "text": "5s",
    "list": [5],
    "text scalar": pa.scalar("x"),
    "float scalar": pa.scalar(1.5),
    "null scalar": pa.scalar(None, pa.timestamp("s")),
}


@pytest.mark.parametrize("wrong", WRONG_WATERMARKS)
def test_watermarks_of_a_wrong_kind(wrong):
    subject, twin = operator(watermark="manual"), operator(watermark="manual")
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(TypeError, match="watermark"):
        subject.advance(WRONG_WATERMARKS[wrong])
    check_same(subject, twin, MORE)


@pytest.mark.parametrize("wrong", WRONG_WATERMARKS)
def test_watermarks_of_a_wrong_kind_before_the_first_batch(wrong):
    subject, twin = operator(watermark="manual"), operator(watermark="manual")
    with pytest.raises(TypeError, match="watermark"):
        subject.advance(WRONG_WATERMARKS[wrong])
    check_same(subject, twin, GOOD, MORE)


@pytest.mark.parametrize("wrong", [FAR, -FAR, 2**64], ids=["above", "below", "beyond 64 bits"])
def test_watermarks_too_far_from_zero(wrong):
    for before in ([], [GOOD]):
        subject, twin = operator(watermark="manual"), operator(watermark="manual")
        for batch in before:
            subject.process(batch)
            twin.process(batch)
        with pytest.raises(ValueError, match=r"2\^62"):
            subject.advance(wrong)
        check_same(subject, twin, MORE)


def test_a_watermark_moved_back_before_the_first_batch():
    subject = operator(watermark="manual")
    subject.advance(5)
    with pytest.raises(ValueError, match="cannot go back from 5 to 4"):
        subject.advance(4)
    assert subject.watermark == 5
    subject.process({"ts": [2], "k": ["a"], "v": [1.0]})
    assert subject.watermark == 5
    assert subject.process({"ts": [2], "k": ["a"], "v": [1.0]}).num_rows == 0


def test_a_watermark_before_the_first_batch_holds_for_it():
    subject = operator(queries=mt.tumbling(5).agg(n=mt.count()), watermark="manual", key=None)
    subject.advance(5)
    subject.process({"ts": [3, 7]})
    assert subject.metrics.late_dropped == 1
    assert [row["window_start"] for row in subject.finish().to_pylist()] == [5]


def test_a_time_is_no_watermark_over_integers():
    subject, twin = operator(watermark="manual"), operator(watermark="manual")
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(TypeError, match="the time column holds int64; give the watermark as a whole number"):
        subject.advance(datetime.datetime(2024, 1, 1))
    check_same(subject, twin, MORE)


def test_an_integer_is_no_watermark_over_timestamps():
    subject = operator(queries=mt.tumbling("10s").agg(n=mt.count()), watermark="manual")
    subject.process({"ts": stamps(1, 12), "k": ["a", "a"]})
    with pytest.raises(TypeError, match=r"holds timestamp\[s\]; give the watermark as a datetime"):
        subject.advance(10)
    assert subject.advance(datetime.datetime(1970, 1, 1, 0, 0, 10)).num_rows == 1


@pytest.mark.parametrize(
    "mark",
    [
        datetime.datetime(1970, 1, 1, 0, 0, 10),
        datetime.datetime(1970, 1, 1, 0, 0, 10, tzinfo=datetime.UTC),
        np.datetime64("1970-01-01T00:00:10", "ms"),
        pa.scalar(10, pa.timestamp("s")),
        pa.scalar(10 * 10**9, pa.timestamp("ns", "Europe/Berlin")),
    ],
    ids=["naive", "utc", "numpy", "scalar", "zone"],
)
@pytest.mark.parametrize("early", [False, True])
def test_watermarks_of_every_form_over_timestamps(mark, early):
    subject = operator(queries=mt.tumbling("10s").agg(n=mt.count()), watermark="manual")
    if early:
        subject.advance(mark)
        subject.process({"ts": stamps(12, 13, unit="ms"), "k": ["a", "a"]})
    else:
        subject.process({"ts": stamps(1, 12, unit="ms"), "k": ["a", "a"]})
        assert subject.advance(mark).column("n").to_pylist() == [1]
    assert subject.watermark.cast(pa.int64()).as_py() == 10_000


def test_integer_watermarks_of_every_form():
    for mark in (10, np.int32(10), pa.scalar(10), pa.scalar(10, pa.uint8())):
        subject = operator(queries=mt.tumbling(10).agg(n=mt.count()), watermark="manual")
        subject.process(GOOD)
        assert subject.advance(mark).num_rows == 2
        assert subject.watermark == 10


def test_advance_needs_a_watermark_in_event_time():
    subject, twin = operator(), operator()
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(TypeError, match=r"advance\(\) needs a watermark"):
        subject.advance()
    check_same(subject, twin, MORE)


# ---- queries ----


def test_queries_of_one_name():
    twice = [mt.tumbling(5).agg(n=mt.count(), name="x"), mt.session(5).agg(n=mt.count(), name="x")]
    with pytest.raises(ValueError, match="there is a query named 'x' already"):
        operator(queries=twice)
    subject, twin = operator(), operator()
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(ValueError, match="there is a query named 'runs' already"):
        subject.add(mt.tumbling(5).agg(n=mt.count(), name="runs"))
    check_same(subject, twin, MORE)


def test_no_queries():
    with pytest.raises(ValueError, match="an operator needs at least one query"):
        operator(queries=[])


@pytest.mark.parametrize("wrong", [mt.tumbling(5), "q", [mt.count()]])
def test_what_is_no_query(wrong):
    with pytest.raises(TypeError, match=r"a query is what a window's agg\(\) gives"):
        operator(queries=[wrong])
    with pytest.raises(TypeError, match=r"a query is what a window's agg\(\) gives"):
        operator().add(wrong)


def test_removing_a_query_that_is_not_there():
    subject, twin = operator(), operator()
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(KeyError, match="no query named 'nobody'; there are 'grid', 'runs', 'pairs'"):
        subject.remove("nobody")
    check_same(subject, twin, MORE)


def test_removing_the_only_query():
    only = mt.tumbling(10).agg(total=mt.sum("v"), name="only")
    subject, twin = operator(queries=only), operator(queries=only)
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(ValueError, match="'only' is the only query"):
        subject.remove("only")
    check_same(subject, twin, MORE)


def test_lateness_in_order():
    with pytest.raises(ValueError, match="lateness needs a watermark that lets records be late"):
        operator(lateness=5)


def test_only_changes_with_lateness():
    changes = mt.tumbling(5).agg(n=mt.count(), emit="on_change", name="c")
    with pytest.raises(ValueError, match="query 'c': emit='on_change' needs lateness 0"):
        operator(queries=changes, watermark="manual", lateness=5)
    subject = operator(watermark="manual", lateness=5)
    with pytest.raises(ValueError, match="query 'c': emit='on_change' needs lateness 0"):
        subject.add(changes)
    check_same(subject, operator(watermark="manual", lateness=5), GOOD, MORE)


@pytest.mark.parametrize(
    "window", [mt.session(5), mt.count_tumbling(5), mt.count_sliding(5, every=1)], ids=repr
)
def test_empty_windows_are_of_grids_only(window):
    with pytest.raises(ValueError, match=f"emit_empty is for windows on a time grid; a {window.kind}"):
        window.agg(n=mt.count(), emit_empty=True)


@pytest.mark.parametrize(
    "window", [mt.tumbling(5), mt.sliding(5, every=2), mt.cumulate(6, step=2), mt.session(5)], ids=repr
)
def test_partial_windows_are_of_counts_only(window):
    with pytest.raises(ValueError, match=f"emit_partial is for count windows, not for a {window.kind}"):
        window.agg(n=mt.count(), emit_partial=True)


def test_queries_that_say_nothing():
    with pytest.raises(ValueError, match="needs at least one aggregate"):
        mt.tumbling(5).agg()
    with pytest.raises(TypeError, match="n must be an aggregate such as"):
        mt.tumbling(5).agg(n="count")
    with pytest.raises(ValueError, match=r"total=sum\(\) does not say which column"):
        mt.tumbling(5).agg(total=mt.sum())
    with pytest.raises(ValueError, match="emit is 'all' or 'on_change', not 'some'"):
        mt.tumbling(5).agg(n=mt.count(), emit="some")


FIXED = [
    "query",
    "window_start",
    "window_end",
    "window_id",
    "measure_start",
    "measure_end",
    "revision",
    "change",
]


@pytest.mark.parametrize("name", ["k", *FIXED])
def test_an_aggregate_named_like_another_column(name):
    query = mt.Query(mt.tumbling(5), {name: mt.count()}, "x")
    with pytest.raises(ValueError, match=f"query 'x' names an aggregate '{name}'"):
        operator(queries=query)
    subject, twin = operator(), operator()
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(ValueError, match=f"query 'x' names an aggregate '{name}'"):
        subject.add(query)
    check_same(subject, twin, MORE)


@pytest.mark.parametrize("key", [["query"], ["window_end"], ["k", "k"]])
def test_a_key_named_like_another_column(key):
    with pytest.raises(ValueError, match=f"key column '{key[0]}' is named twice, or like"):
        operator(key=key)


def test_one_name_with_two_types():
    two = [mt.tumbling(5).agg(x=mt.count(), name="a"), mt.session(5).agg(x=mt.mean("v"), name="b")]
    with pytest.raises(TypeError, match="column 'x' would be int64 for one query and double for 'b'"):
        operator(queries=two).process(GOOD)
    subject, twin = operator(), operator()
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(TypeError, match="column 'n' would be int64 for one query and double for 'b'"):
        subject.add(mt.session(5).agg(n=mt.mean("v"), name="b"))
    check_same(subject, twin, MORE)


@pytest.mark.parametrize("aggregate", [mt.max("s"), mt.sum("s")], ids=["two types", "no numbers"])
def test_an_added_query_that_its_column_does_not_suit(aggregate):
    """Only the next batch tells the type of a column that was not read before."""
    subject, twin = operator(), operator()
    assert told(subject.process(GOOD)) == told(twin.process(GOOD))
    subject.add(mt.tumbling(5).agg(total=aggregate, name="new"))
    with pytest.raises(TypeError, match=r"'s'|'total'"):
        subject.process(MORE | {"s": ["x", "y", "z"]})
    subject.remove("new")
    check_same(subject, twin, MORE)


def test_an_added_query_whose_column_is_missing():
    subject, twin = operator(), operator()
    assert told(subject.process(GOOD)) == told(twin.process(GOOD))
    subject.add(mt.tumbling(100).agg(total=mt.sum("w"), name="new"))
    with pytest.raises(KeyError, match="no column 'w'"):
        subject.process(MORE)
    subject.remove("new")
    check_same(subject, twin, MORE)


def test_a_bad_batch_does_not_fix_the_types_of_an_added_query():
    subject, twin = operator(), operator()
    for each in (subject, twin):
        each.process(GOOD)
        each.add(mt.tumbling(5).agg(most=mt.max("w"), name="new"))
    with pytest.raises(ValueError, match=r"2\^62"):
        subject.process(MORE | {"ts": [13, 25, FAR], "w": [1, 2, 3]})
    check_same(subject, twin, MORE | {"w": ["x", "y", "z"]})


def test_an_unknown_store_or_policy():
    with pytest.raises(ValueError, match=r"store is 'auto', .* not 'quick'"):
        operator(store="quick")
    with pytest.raises(ValueError, match="watermark is 'sometimes', which is no duration"):
        operator(watermark="sometimes")


def test_nothing_goes_on_after_the_end():
    subject = operator()
    subject.process(GOOD)
    assert subject.finish().num_rows > 0
    for call in (
        lambda: subject.process(MORE),
        lambda: subject.process({}),
        lambda: subject.advance(100),
        lambda: subject.add(mt.tumbling(5).agg(n=mt.count())),
        lambda: subject.remove("grid"),
    ):
        with pytest.raises(RuntimeError, match=r"ended by finish\(\)"):
            call()
    assert subject.finish().num_rows == 0
    assert subject.metrics.records_in == 3


def test_the_end_of_a_stream_without_records():
    subject = operator()
    assert subject.finish().num_rows == 0
    with pytest.raises(RuntimeError, match=r"ended by finish\(\)"):
        subject.process(GOOD)


# ---- aggregates that fail ----


def fussy(where: str, kind: str) -> mt.Aggregate:
    """A sum that fails over values below zero, in one of its functions; its state is a number or a list."""
    wrap = (lambda x: [x]) if kind == "object" else (lambda x: x)
    bare = (lambda s: s[0]) if kind == "object" else (lambda s: s)

    def checked(x, here):
        if where == here and x < 0:
            raise ValueError("below zero")
        return x

    class Fussy(mt.Aggregate):
        commutative = True

        def lift(v):
            return wrap(checked(v, "lift"))

        def combine(a, b):
            return wrap(checked(bare(a), "combine") + checked(bare(b), "combine"))

        def lower(a):
            return checked(bare(a), "lower")

    return Fussy("v")


@pytest.mark.parametrize(
    "window", [mt.sliding(10, every=5), mt.session(3), mt.count_sliding(2, every=1)], ids=repr
)
@pytest.mark.parametrize("where", ["lift", "combine", "lower"])
def test_a_batch_over_which_an_aggregate_fails_leaves_no_trace(window, where):
    aggregate = fussy(where, "object")
    several = [window.agg(own=aggregate, total=mt.sum("v"), name="q"), *queries()]
    bad = {"ts": [12, 13, 14, 40, 41], "k": ["a", "a", "new", "a", "a"], "v": [1.0, -9.0, 2.0, 3.0, 4.0]}
    check_refused(bad, ValueError, "below zero", queries=several)


@pytest.mark.parametrize("window", [mt.tumbling(100), mt.session(50)], ids=repr)
def test_a_record_that_does_not_combine_with_earlier_ones_leaves_no_trace(window):
    several = [window.agg(own=fussy("combine", "object"), name="q"), *queries()]
    subject, twin = operator(queries=several), operator(queries=several)
    for each in (subject, twin):
        each.process(GOOD)
    with pytest.raises(ValueError, match="below zero"):
        subject.process({"ts": [12], "k": ["a"], "v": [-1.0]})
    check_same(subject, twin, MORE)


class Careful(mt.Aggregate):
    """A sum that fails over values below zero; compiled."""

    commutative = True

    def combine(a, b):
        if b < 0.0:
            raise ValueError("below zero")
        return a + b


@pytest.mark.parametrize("window", [mt.tumbling(100), mt.session(50)], ids=repr)
def test_a_compiled_aggregate_that_fails_leaves_no_trace(window):
    several = [window.agg(own=Careful("v"), name="q"), *queries()]
    bad = {"ts": [12, 13], "k": ["a", "a"], "v": [1.0, -1.0]}
    check_refused(bad, ValueError, "below zero", queries=several)


def test_a_call_that_an_aggregate_breaks_off_can_be_made_again_without_it():
    own = mt.tumbling(10).agg(own=fussy("lower", "object"), name="own")
    subject, twin = operator(queries=[own, *queries()]), operator()
    for each in (subject, twin):
        each.process({"ts": [1, 2], "k": ["a", "b"], "v": [-1.0, 1.0]})
    for call in (lambda: subject.process(MORE), lambda: subject.advance(10), subject.finish):
        with pytest.raises(ValueError, match="below zero"):
            call()
    subject.remove("own")
    check_same(subject, twin, GOOD | {"ts": [3, 4, 12]}, MORE)


def test_a_first_batch_over_which_an_aggregate_fails_fixes_no_types():
    several = [mt.tumbling(10).agg(own=fussy("lift", "object"), name="own"), *queries()]
    subject, twin = operator(queries=several), operator(queries=several)
    with pytest.raises(ValueError, match="below zero"):
        subject.process({"ts": pa.array([1], pa.int8()), "k": [1], "v": [-1]})
    check_same(subject, twin, GOOD, MORE)


@pytest.mark.parametrize(
    "window", [mt.tumbling(10), mt.session(3), mt.count_tumbling(2)], ids=["grid", "session", "count"]
)
def test_a_sum_of_integers_beyond_64_bits(window):
    several = [window.agg(total=mt.sum("v"), name="q"), mt.tumbling(5).agg(n=mt.count(), name="n")]
    good, more = GOOD | {"v": [1, 2, 4]}, MORE | {"v": [8, 16, 32]}
    bad = {"ts": [12, 13, 30], "k": ["a", "a", "a"], "v": [2**63 - 1, 2**63 - 1, 1]}
    check_refused(bad, OverflowError, "64-bit range", good, more, queries=several)


def test_a_sum_of_integers_that_leaves_64_bits_and_comes_back():
    subject = operator(queries=mt.tumbling(10).agg(total=mt.sum("v"), avg=mt.mean("v")))
    subject.process({"ts": [1, 2, 3], "k": ["a", "a", "a"], "v": [2**63 - 1, 2**63 - 1, -(2**63)]})
    (row,) = subject.finish().to_pylist()
    assert row["total"] == 2**63 - 2
    assert row["avg"] == pytest.approx((2**63 - 2) / 3)


def test_a_mean_of_integers_whose_sum_is_beyond_64_bits():
    subject = operator(queries=mt.tumbling(10).agg(avg=mt.mean("v")))
    subject.process({"ts": [1, 2], "k": ["a", "a"], "v": [2**63 - 1, 2**63 - 1]})
    assert subject.finish().column("avg").to_pylist() == [pytest.approx(2.0**63)]


# ---- batches of every form ----


class Capsule:
    """Something that speaks Arrow and is of no known kind."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class ArrayCapsule:
    """A record batch of no known kind."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


def _padded(table: pa.Table) -> pa.Table:
    """A slice of a longer table: its arrays begin after their buffers do."""
    return pa.concat_tables([table, table, table]).combine_chunks().slice(table.num_rows, table.num_rows)


FORMS = {
    "table": lambda t: t,
    "record batch": lambda t: t.to_batches()[0],
    "dict of lists": lambda t: t.to_pydict(),
    "dict of numpy arrays": lambda t: {name: t[name].to_numpy() for name in t.column_names},
    "dict of strided arrays": lambda t: {
        name: np.repeat(t[name].to_numpy(), 2)[::2] for name in t.column_names
    },
    "dict of arrow arrays": lambda t: {name: t[name].combine_chunks() for name in t.column_names},
    "dict of chunked arrays": lambda t: {name: t[name] for name in t.column_names},
    "dict of tuples": lambda t: {name: tuple(t[name].to_pylist()) for name in t.column_names},
    "chunks of one": lambda t: pa.concat_tables([t.slice(i, 1) for i in range(t.num_rows)]),
    "empty chunks": lambda t: pa.concat_tables([t.slice(0, 0), t.slice(0, 1), t.slice(0, 0), t.slice(1)]),
    "slice": _padded,
    "stream capsule": Capsule,
    "array capsule": lambda t: ArrayCapsule(t.to_batches()[0]),
    "reader": lambda t: t.to_reader(max_chunksize=2),
    "more columns": lambda t: t.append_column("other", pa.array([None] * t.num_rows)),
    "columns in another order": lambda t: t.select(t.column_names[::-1]),
    "dictionary keys": lambda t: t.set_column(1, "k", t["k"].dictionary_encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_batches_of_every_form(form):
    subject, twin = operator(), operator()
    for batch in (GOOD, MORE):
        table = pa.table(batch)
        assert told(subject.process(FORMS[form](table))) == told(twin.process(table))
    check_same(subject, twin)


def test_a_masked_array_has_nulls():
    masked = np.ma.MaskedArray([1.0, 2.0, 4.0], mask=[True, False, False])
    subject, twin = operator(), operator()
    assert told(subject.process(GOOD | {"v": masked})) == told(twin.process(GOOD | {"v": [None, 2.0, 4.0]}))
    check_same(subject, twin, MORE)


def test_a_pandas_frame():
    pandas = pytest.importorskip("pandas")
    check_frames(lambda batch: pandas.DataFrame(batch))


def test_a_polars_frame():
    polars = pytest.importorskip("polars")
    check_frames(lambda batch: polars.DataFrame(batch))


def check_frames(make) -> None:
    """Frames of another library do as tables do."""
    subject, twin = operator(), operator()
    for batch in (GOOD, MORE):
        assert told(subject.process(make(batch), returns="pyarrow")) == told(twin.process(batch))
    check_same(subject, twin)


def test_numpy_times():
    subject = operator(queries=mt.tumbling("10s").agg(n=mt.count()), key=None)
    subject.process({"ts": np.array([1, 12], "datetime64[ms]")})
    table = subject.finish()
    assert table.schema.field("window_start").type == pa.timestamp("ms")


def test_the_callers_arrays_are_left_alone():
    times, values = np.array([1, 2, 12]), np.array([1.0, 2.0, 4.0])
    subject = operator(queries=mt.tumbling(10).agg(total=mt.sum("v")), key=None)
    subject.process({"ts": times, "v": values})
    times[:], values[:] = 99, 99.0
    assert subject.finish().column("total").to_pylist() == [4.0]


# ---- keys ----

D = decimal.Decimal
KEYS = {
    "string": pa.array(["x", "", "y"]),
    "large_string": pa.array(["x", "", "y"], pa.large_string()),
    "string_view": pa.array(["x", "", "a text that is too long for its place"], pa.string_view()),
    "int8": pa.array([-128, 0, 127], pa.int8()),
    "int64": pa.array([-(2**63), 0, 2**63 - 1]),
    "uint64": pa.array([0, 1, 2**64 - 1], pa.uint64()),
    "date32": pa.array([-1, 0, 1], pa.date32()),
    "date64": pa.array([-86_400_000, 0, 86_400_000], pa.date64()),
    "time32": pa.array([0, 1, 2], pa.time32("ms")),
    "time64": pa.array([0, 1, 2], pa.time64("us")),
    "timestamp": pa.array([-1, 0, 1], pa.timestamp("us")),
    "timestamp ns": pa.array([1000, 0, 2000], pa.timestamp("ns")),
    "zone": pa.array([-1, 0, 1], pa.timestamp("s", "Europe/Berlin")),
    "duration": pa.array([-1, 0, 1], pa.duration("ms")),
    "decimal": pa.array([D("1.50"), D("-1.50"), D("0.00")], pa.decimal128(5, 2)),
    "decimal256": pa.array([D("1.5"), D("-1.5"), D("0.0")], pa.decimal256(40, 1)),
    "float16": pa.array(np.array([0.5, -0.5, 2.0], np.float16)),
    "float32": pa.array([0.1, -0.1, 1e30], pa.float32()),
    "float64": pa.array([0.1, math.inf, -math.inf]),
    "binary": pa.array([b"", b"\x00", b"\xff\xfe"]),
    "binary_view": pa.array([b"", b"\x00", b"\xff\xfe"], pa.binary_view()),
    "fixed": pa.array([b"ab", b"\x00\x00", b"\xff\xfe"], pa.binary(2)),
    "struct": pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": None, "b": "x"}]),
    "list": pa.array([[1, 2], [], [1, None]]),
    "list of struct": pa.array([[{"a": 1}], [{"a": 2}], []]),
    "fixed list": pa.array([[1, 2], [2, 1], [1, None]], pa.list_(pa.int64(), 2)),
    "map": pa.array([[("a", 1)], [], [("b", 1)]], pa.map_(pa.string(), pa.int64())),
}


def plain(kind: pa.DataType) -> pa.DataType:
    """Views come out as plain columns, and half floats as single ones: not all of Arrow knows them."""
    known = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.float16(): pa.float32()}
    return known.get(kind, kind)


def check_keys(one, other, third, kind: pa.DataType) -> None:
    """Three keys and null are told apart, from batch to batch and over a snapshot, and keep their type."""
    values = (
        pa.array([one, other, one, None], kind),
        pa.array([third, one, None], kind),
        pa.array([other], kind),
    )
    subject = mt.WindowOperator(mt.tumbling(100).agg(total=mt.sum("v")), time="ts", key="k")
    subject.process({"ts": [1, 2, 3, 4], "k": values[0], "v": [1, 2, 4, 8]})
    subject.process({"ts": [4, 5, 6], "k": values[1], "v": [16, 32, 64]})
    subject = mt.WindowOperator.restore(subject.snapshot())
    subject.process({"ts": [7], "k": values[2], "v": [128]})
    table = subject.finish()
    assert table.schema.field("k").type == plain(kind)
    got = {
        repr(key): total
        for key, total in zip(table["k"].to_pylist(), table["total"].to_pylist(), strict=True)
    }
    known = pa.array([one, other, None, third], kind).cast(plain(kind))  # half floats come out as floats
    assert got == dict(zip(map(repr, known.to_pylist()), (37, 130, 72, 16), strict=True))


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(name):
    check_keys(*KEYS[name].to_pylist(), KEYS[name].type)


def test_keys_that_are_true_or_false():
    subject = operator()
    subject.process(GOOD | {"k": [True, False, True]})
    rows = pa.concat_tables([subject.process(MORE | {"k": [None, True, False]}), subject.finish()])
    assert rows.schema.field("k").type == pa.bool_()
    runs = [(row["k"], row["total"]) for row in rows.to_pylist() if row["query"] == "runs"]
    assert sorted(runs, key=repr) == [(False, 32.0), (None, 8.0), (True, 16.0), (True, 4.0)]


def test_keys_that_are_all_null():
    subject = operator(queries=mt.tumbling(100).agg(total=mt.sum("v")))
    subject.process(GOOD | {"k": [None, None, None]})
    subject.process(MORE | {"k": [None, None, None]})
    assert subject.finish().select(["k", "total"]).to_pylist() == [{"k": None, "total": 63.0}]


def test_dictionary_keys_come_out_as_their_values():
    keys = pa.array(["a", "b", None]).dictionary_encode()
    subject = operator(queries=mt.tumbling(100).agg(total=mt.sum("v")))
    subject.process(GOOD | {"k": keys})
    subject.process(MORE | {"k": pa.array(["b", None, "a"]).dictionary_encode()})
    table = subject.finish()
    assert table.schema.field("k").type == pa.string()
    totals = dict(zip(table["k"].to_pylist(), table["total"].to_pylist(), strict=True))
    assert totals == {"a": 33.0, "b": 10.0, None: 20.0}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("batch", [1, 6])
def test_all_nan_are_one_key_and_so_are_both_zeros(kind, batch):
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    keys = pa.array(np.array([math.nan, -0.0, 0.0, other_nan, -math.nan, 1.0])).cast(kind)
    subject = operator(queries=mt.tumbling(100).agg(total=mt.sum("v")))
    table = pa.table({"ts": [1, 2, 3, 4, 5, 6], "k": keys, "v": [1, 2, 4, 8, 16, 32]})
    for at in range(0, 6, batch):
        subject.process(table.slice(at, batch))
    rows = subject.finish()
    assert sorted(rows["total"].to_pylist()) == [6, 25, 32]
    by_total = dict(zip(rows["total"].to_pylist(), rows["k"].to_pylist(), strict=True))
    assert math.isnan(by_total[25])
    assert by_total[6] == 0.0


def test_nan_and_zeros_within_nested_keys():
    keys = pa.array([{"x": math.nan}, {"x": -0.0}, {"x": 0.0}, {"x": math.nan}, {"x": None}, None])
    subject = operator(queries=mt.tumbling(100).agg(total=mt.sum("v")))
    subject.process({"ts": [1, 2, 3, 4, 5, 6], "k": keys, "v": [1, 2, 4, 8, 16, 32]})
    assert sorted(subject.finish()["total"].to_pylist()) == [6, 9, 16, 32]


def test_two_key_columns():
    subject = operator(queries=mt.tumbling(100).agg(total=mt.sum("v")), key=["k", "l"])
    subject.process({"ts": [1, 2, 3], "k": ["x", None, "x"], "l": [1, 1, None], "v": [1, 2, 4]})
    subject.process({"ts": [3, 4, 5], "k": [None, "x", None], "l": [None, 1, 1], "v": [8, 16, 32]})
    subject.process({"ts": [6], "k": ["x"], "l": [None], "v": [64]})
    rows = subject.finish()
    assert rows.column_names[:2] == ["k", "l"]
    assert {(row["k"], row["l"]): row["total"] for row in rows.to_pylist()} == {
        ("x", 1): 17,
        (None, 1): 34,
        ("x", None): 68,
        (None, None): 8,
    }


def test_key_columns_of_mixed_types():
    subject = operator(queries=mt.tumbling(100).agg(total=mt.sum("v")), key=["k", "l", "m"])
    batch = {
        "k": [[1], [1], [2]],
        "l": [math.nan, math.nan, 0.0],
        "m": pa.array(["a", "a", "b"]).dictionary_encode(),
    }
    subject.process({"ts": [1, 2, 3], "v": [1, 2, 4], **batch})
    subject.process({"ts": [4, 5, 6], "v": [8, 16, 32], **batch})
    assert sorted(subject.finish()["total"].to_pylist()) == [27, 36]


def test_a_key_may_be_the_value_too():
    subject = operator(queries=mt.tumbling(100).agg(total=mt.sum("k"), n=mt.count()))
    subject.process({"ts": [1, 2, 3], "k": [5, 7, 5]})
    rows = subject.finish().select(["k", "total", "n"]).to_pylist()
    assert sorted(rows, key=lambda row: row["k"]) == [
        {"k": 5, "total": 10, "n": 2},
        {"k": 7, "total": 7, "n": 1},
    ]


# ---- times ----


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_of_every_unit(unit, zone):
    kind = pa.timestamp(unit, zone)
    several = [
        mt.tumbling("10s").agg(total=mt.sum("v"), name="grid"),
        mt.session(datetime.timedelta(seconds=3)).agg(total=mt.sum("v"), name="runs"),
        mt.count_tumbling(2).agg(total=mt.sum("v"), name="pairs"),
    ]
    subject = mt.WindowOperator(several, time="ts", watermark="5s")
    times = stamps(-13, -12, 1, 14, unit=unit).cast(kind)
    rows = pa.concat_tables([subject.process({"ts": times, "v": [1.0, 2.0, 4.0, 8.0]}), subject.finish()])
    assert {rows.schema.field(name).type for name in ("window_start", "window_end")} == {kind}
    seconds = {
        name: rows[name].cast(pa.timestamp("s", zone)).cast(pa.int64()).to_pylist()
        for name in ("window_start", "window_end")
    }
    got = sorted(zip(rows["query"].to_pylist(), *seconds.values(), rows["total"].to_pylist(), strict=True))
    assert got == [
        ("grid", -20, -10, 3.0),
        ("grid", 0, 10, 4.0),
        ("grid", 10, 20, 8.0),
        ("pairs", -13, -12, 3.0),
        ("pairs", 1, 14, 12.0),
        ("runs", -13, -9, 3.0),
        ("runs", 1, 4, 4.0),
        ("runs", 14, 17, 8.0),
    ]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str
)
def test_integer_times_of_every_width(kind):
    subject = operator(queries=mt.tumbling(10).agg(total=mt.sum("v")))
    rows = subject.process(GOOD | {"ts": pa.array(GOOD["ts"], kind)})
    assert {rows.schema.field(name).type for name in ("window_start", "window_end")} == {kind}
    assert rows["window_end"].to_pylist() == [10, 10]


@pytest.mark.parametrize(
    ("kind", "t", "bounds"),
    [(pa.int8(), 120, [(110, 122), (115, 127), (120, 132)]), (pa.uint8(), 1, [(-10, 2), (-5, 7), (0, 12)])],
    ids=["past the largest", "below zero"],
)
def test_windows_that_reach_beyond_the_type_of_times(kind, t, bounds):
    subject = operator(queries=mt.sliding(12, every=5).agg(n=mt.count()), key=None)
    subject.process({"ts": pa.array([t], kind)})
    rows = subject.finish().to_pylist()
    assert [(row["window_start"], row["window_end"]) for row in rows] == bounds


# ---- values ----

VALUES = {
    "int8": pa.array([3, -128, 127], pa.int8()),
    "int16": pa.array([3, -(2**15), 2**15 - 1], pa.int16()),
    "int32": pa.array([3, -(2**31), 2**31 - 1], pa.int32()),
    "int64": pa.array([3, -(2**63), 2**63 - 1]),
    "uint8": pa.array([3, 0, 255], pa.uint8()),
    "uint16": pa.array([3, 0, 2**16 - 1], pa.uint16()),
    "uint32": pa.array([3, 0, 2**32 - 1], pa.uint32()),
    "uint64": pa.array([3, 0, 2**63 - 4], pa.uint64()),
    "large uint64": pa.array([3, 0, 2**64 - 1], pa.uint64()),
    "float16": pa.array(np.array([0.5, -0.5, 2.0], np.float16)),
    "float32": pa.array([0.1, -1e30, math.inf], pa.float32()),
    "float64": pa.array([0.1, -math.inf, 1e300]),
    "bool": pa.array([True, False, True]),
    "date32": pa.array([3, -1, 7], pa.date32()),
    "date64": pa.array([3 * 86_400_000, 0, 7 * 86_400_000], pa.date64()),
    "time32": pa.array([3, 0, 7], pa.time32("s")),
    "time64": pa.array([3000, 0, 7000], pa.time64("ns")),
    "timestamp": pa.array([3, -1, 7], pa.timestamp("us")),
    "zone": pa.array([3, -1, 7], pa.timestamp("ms", "Asia/Tokyo")),
    "duration": pa.array([3, -1, 7], pa.duration("s")),
    "string": pa.array(["m", "", "z"]),
    "large_string": pa.array(["m", "", "z"], pa.large_string()),
    "string_view": pa.array(["m", "", "z" * 20], pa.string_view()),
    "binary": pa.array([b"m", b"", b"\xff"]),
    "decimal": pa.array([D("3.00"), D("-99.99"), D("99.99")], pa.decimal128(4, 2)),
}


@pytest.mark.parametrize("nulls", [False, True], ids=["values", "nulls"])
@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_come_out_as_they_went_in(name, nulls):
    values = VALUES[name]
    middle, least, most = values.to_pylist()
    if nulls:
        values = pa.concat_arrays([pa.nulls(1, values.type), values, pa.nulls(1, values.type)])
    aggregates = {"low": mt.min("v"), "high": mt.max("v"), "first": mt.first("v"), "last": mt.last("v")}
    query = mt.tumbling(100).agg(**aggregates, n=mt.count("v"))
    subject = mt.WindowOperator(query, time="ts")
    subject.process({"ts": list(range(len(values))), "v": values})
    table = subject.finish()
    assert {table.schema.field(column).type for column in aggregates} == {plain(values.type)}
    (row,) = table.select([*aggregates, "n"]).to_pylist()
    assert row == {"low": least, "high": most, "first": middle, "last": most, "n": 3}


@pytest.mark.parametrize("name", [n for n in VALUES if n.startswith(("int", "uint", "float", "bool"))])
def test_sums_and_means_of_every_type_of_numbers(name):
    values = VALUES[name]
    query = mt.tumbling(100).agg(total=mt.sum("v"), avg=mt.mean("v"))
    subject = operator(queries=query, key=None)
    subject.process({"ts": [1, 2, 3], "v": values})
    table = subject.finish()
    floats = pa.types.is_floating(values.type)
    assert table.schema.field("total").type == (pa.float64() if floats else pa.int64())
    assert table.schema.field("avg").type == pa.float64()
    numbers = [float(v) if floats else int(v) for v in values.to_pylist()]
    (row,) = table.to_pylist()
    assert row["total"] == pytest.approx(sum(numbers))
    assert row["avg"] == pytest.approx(sum(numbers) / 3)


def test_sums_of_decimals_are_exact():
    kind = pa.decimal128(6, 2)
    subject = operator(queries=mt.tumbling(10).agg(total=mt.sum("v")), key=None)
    rows = subject.process({"ts": [1, 2, 11], "v": pa.array([D("0.10"), D("0.20"), D("1.00")], kind)})
    assert rows["total"].to_pylist() == [D("0.30")]
    rows = subject.process({"ts": [12, 21], "v": pa.array([D("9999.99"), D("1.00")], kind)})
    assert rows["total"].to_pylist() == [D("10000.99")]
    assert subject.finish()["total"].to_pylist() == [D("1.00")]


def test_the_mean_of_decimals():
    subject = operator(queries=mt.tumbling(10).agg(avg=mt.mean("v")), key=None)
    subject.process({"ts": [1, 2], "v": pa.array([D("1.00"), D("2.00")], pa.decimal128(6, 2))})
    assert subject.finish()["avg"].to_pylist() == [1.5]


def test_values_that_are_all_null():
    aggregates = {"total": mt.sum("v"), "top": mt.max("v"), "avg": mt.mean("v"), "n": mt.count("v")}
    for kind in (pa.null(), pa.int64(), pa.float64()):
        subject = operator(queries=mt.tumbling(10).agg(**aggregates), key=None)
        subject.process({"ts": [1, 2], "v": pa.nulls(2, kind)})
        (row,) = subject.finish().select(list(aggregates)).to_pylist()
        assert row == {"total": None, "top": None, "avg": None, "n": 0}


def test_the_argument_of_the_largest_keeps_its_type():
    names = pa.array(["low", "high", "mid"], pa.large_string())
    subject = operator(queries=mt.tumbling(10).agg(who=mt.argmax("v", "name")), key=None)
    subject.process({"ts": [1, 2, 3], "v": [1, 9, 5], "name": names})
    table = subject.finish()
    assert table.schema.field("who").type == pa.large_string()
    assert table["who"].to_pylist() == ["high"]


def test_nulls_that_come_later():
    subject = operator(queries=mt.sliding(20, every=10).agg(total=mt.sum("v"), n=mt.count("v")), key=None)
    subject.process({"ts": [1, 2], "v": [1, 2]})
    rows = subject.process({"ts": [3, 11, 21], "v": [None, 4, None]}).to_pylist()
    rows += subject.finish().to_pylist()
    assert [(row["window_end"], row["total"], row["n"]) for row in rows] == [
        (10, 3, 2),
        (20, 7, 3),
        (30, 4, 1),
        (40, None, 0),
    ]


# ---- processing time ----


@pytest.fixture
def clock(monkeypatch):
    """Set the clock, in seconds."""

    def put(seconds: float) -> None:
        monkeypatch.setattr("muntin.running_stream.clock_time.time_ns", lambda: int(seconds * 10**9))

    return put


def in_processing_time(*more: mt.Query) -> "mt.WindowOperator":
    """An operator that stamps records as they come."""
    query = mt.tumbling("10s").agg(total=mt.sum("v"), name="q")
    return mt.WindowOperator([query, *more], time=mt.PROCESSING_TIME)


def bounds(table: pa.Table) -> list[tuple[int, int]]:
    """The bounds of rows, in seconds."""
    columns = (table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end"))
    return [(start // 10**6, end // 10**6) for start, end in zip(*columns, strict=True)]


def test_processing_time(clock):
    subject = in_processing_time()
    clock(1)
    assert subject.process({"v": [1.0, 2.0]}).num_rows == 0
    clock(9.5)
    assert subject.process({"v": [4.0]}).num_rows == 0
    clock(12)
    rows = subject.process({"v": [8.0]})
    assert rows.schema.field("window_start").type == pa.timestamp("us", "UTC")
    assert (bounds(rows), rows["total"].to_pylist()) == ([(0, 10)], [7.0])
    clock(20)
    rows = subject.advance()
    assert (bounds(rows), rows["total"].to_pylist()) == ([(10, 20)], [8.0])
    assert subject.watermark == pa.scalar(20 * 10**6, pa.int64()).cast(pa.timestamp("us", "UTC"))


def test_processing_time_never_goes_back(clock):
    subject = in_processing_time()
    clock(12)
    subject.process({"v": [1.0]})
    clock(3)
    subject.process({"v": [2.0]})
    subject.advance()
    assert subject.metrics.late_dropped == 0
    subject = mt.WindowOperator.restore(subject.snapshot())
    subject.process({"v": [4.0]})
    rows = subject.finish()
    assert (bounds(rows), rows["total"].to_pylist()) == ([(10, 20)], [7.0])


def test_processing_time_asks_for_no_time_column(clock):
    clock(1)
    subject = mt.WindowOperator(mt.tumbling("1s").agg(n=mt.count()), time=mt.PROCESSING_TIME, key="k")
    subject.process({"k": ["a", "b", "a"]})
    assert sorted(subject.finish()["n"].to_pylist()) == [1, 2]


def test_processing_time_before_the_first_batch(clock):
    subject = in_processing_time()
    clock(5)
    assert subject.advance().num_rows == 0
    clock(6)
    subject.process({"v": [1.0]})
    clock(11)
    assert bounds(subject.advance()) == [(0, 10)]


def test_bad_input_in_processing_time(clock):
    clock(1)
    subject = in_processing_time()
    with pytest.raises(KeyError, match="no column 'v'"):
        subject.process({"w": [1.0]})
    with pytest.raises(TypeError, match="'v' holds string"):
        subject.process({"v": ["x"]})
    subject.process({"v": [1.0]})
    with pytest.raises(TypeError, match="length is 10, but the time column holds timestamps"):
        subject.add(mt.tumbling(10).agg(n=mt.count()))
    assert subject.finish()["total"].to_pylist() == [1.0]
