"""Times and durations as users give them: exact in ticks, or refused with the range."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import muntin as mt
from muntin.cli.pipeline.sources import open_source
from muntin.console.mistakes import MistakeError
from muntin.engine.ingest.times import ticks_of
from muntin.generate import Stored

DAY = 86_400
FAR = datetime.datetime(2500, 1, 1)
NANO, SECOND = pa.timestamp("ns"), pa.timestamp("s")
RANGE = r"must lie between 1823-11-12 and 2116-02-20, as far as timestamp\[ns\] reaches, not at 2500-01-01"


def operator(**setting) -> mt.WindowOperator:
    query = mt.tumbling("1d").agg(n=mt.count())
    return mt.WindowOperator(query, time="ts", **{"watermark": "manual", **setting})


def started(kind: pa.DataType, days: int = 0) -> mt.WindowOperator:
    """An operator whose time column has a type, with one record some days after 1970."""
    subject = operator()
    subject.process({"ts": pa.array([days * DAY], SECOND).cast(kind)})
    return subject


# ---- the range of a time column ----

FAR_FORMS = {
    "naive": FAR,
    "zone": FAR.replace(tzinfo=datetime.UTC),
    "numpy": np.datetime64("2500-01-01"),
    "year": np.datetime64("2500"),
    "pandas": pd.Timestamp("2500-01-01").as_unit("s"),
    "scalar": pa.scalar(FAR),
}


@pytest.mark.parametrize("form", FAR_FORMS)
def test_a_watermark_that_nanoseconds_do_not_reach(form):
    subject = started(NANO)
    with pytest.raises(ValueError, match="^the watermark " + RANGE):
        subject.advance(FAR_FORMS[form])
    assert subject.watermark is None
    assert subject.advance(datetime.datetime(1970, 1, 2))["n"].to_pylist() == [1]


@pytest.mark.parametrize("form", FAR_FORMS)
def test_a_watermark_that_coarser_units_reach(form):
    for unit in ("s", "ms", "us"):
        subject = started(pa.timestamp(unit))
        assert subject.advance(FAR_FORMS[form])["n"].to_pylist() == [1]
        assert subject.watermark.cast(SECOND).as_py() == FAR


@pytest.mark.parametrize("where", [None, "ts IS NOT NULL"])
def test_a_watermark_held_for_the_first_batch(where):
    query = mt.tumbling("1d").agg(n=mt.count(), where=where)
    subject = mt.WindowOperator(query, time="ts", watermark="manual")
    subject.advance(FAR)
    with pytest.raises(ValueError, match="^the watermark " + RANGE):
        subject.process({"ts": pa.array([0], NANO)})
    assert subject.metrics.records_in == 0
    subject.process({"ts": pa.array([0], SECOND)})
    assert subject.metrics.late_dropped == 1


def test_a_look_up_that_nanoseconds_do_not_reach():
    subject = started(NANO)
    with pytest.raises(ValueError, match="^end " + RANGE):
        subject.lookup(datetime.datetime(1970, 1, 1), FAR)
    with pytest.raises(ValueError, match="^start " + RANGE):
        subject.lookup(FAR, FAR)
    whole = subject.lookup(datetime.datetime(1960, 1, 1), datetime.datetime(2100, 1, 1))
    assert whole["n"].to_pylist() == [1]


def test_a_look_up_takes_whole_ticks_within_its_bounds():
    query = mt.tumbling("1s").agg(n=mt.count())
    subject = mt.WindowOperator(query, time="ts", watermark="manual")
    subject.process({"ts": pa.array([-2, -1, 0, 1], SECOND)})

    def covered(start: float, end: float) -> int:
        moments = (pa.scalar(int(t * 1000), pa.timestamp("ms")) for t in (start, end))
        return sum(subject.lookup(*moments)["n"].to_pylist())

    assert covered(-2, 2) == 4
    assert covered(-1.5, 1.5) == 2
    assert covered(-1.5, -0.5) == 0


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (np.datetime64("2020"), 18262 * DAY),
        (np.datetime64("1969-11"), -61 * DAY),
        (np.datetime64("1970-01-02"), DAY),
        (np.datetime64(1, "W"), 7 * DAY),
        (np.datetime64(3, "25m"), 75 * 60),
        (np.datetime64(-1, "as"), -1),
        (pd.Timestamp("1970-01-02", tz="Europe/Berlin"), DAY - 3600),
        (pa.scalar(-1, NANO), -1),
        (pa.scalar(10**9 + 1, NANO), 1),
    ],
    ids=str,
)
def test_times_in_any_unit_are_rounded_down(given, seconds):
    assert ticks_of(given, SECOND) == seconds


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(
    "given", [np.datetime64("NaT"), pd.NaT, np.timedelta64(5, "s"), datetime.date(2020, 1, 1)], ids=repr
)
def test_what_is_no_time_is_no_watermark(given, early):
    subject = operator() if early else started(NANO)
    with pytest.raises(TypeError, match="the watermark is an integer, a datetime or an Arrow scalar, not"):
        subject.advance(given)


def test_a_timedelta_is_no_watermark_over_integers():
    subject = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts", watermark="manual")
    subject.process({"ts": [1]})
    with pytest.raises(TypeError, match="the watermark is an integer"):
        subject.advance(np.timedelta64(20, "s"))


@pytest.mark.parametrize(
    "given", [np.datetime64(2**50, "Y"), np.datetime64(2**61, "W")], ids=["years", "weeks"]
)
def test_a_watermark_further_away_than_any_column_reaches(given):
    for subject in (operator(), started(SECOND)):
        with pytest.raises(ValueError, match=r"the watermark must lie within 2\^62 seconds of 1970"):
            subject.advance(given)


def test_a_held_watermark_never_goes_back_in_any_unit():
    subject = operator()
    subject.advance(pa.scalar(2**40, SECOND))  # nanoseconds would wrap around
    with pytest.raises(ValueError, match=r"cannot go back from .* to 2500-01-01"):
        subject.advance(FAR)
    subject.advance(pa.scalar(2**40 * 1000, pa.timestamp("ms")))
    with pytest.raises(TypeError, match="of another kind than 5"):
        subject.advance(5)


@pytest.mark.parametrize("given", [np.datetime64("2020"), FAR, pd.Timestamp("2020", tz="UTC"), 7], ids=repr)
def test_a_held_watermark_is_kept_in_a_snapshot(given):
    subject = operator()
    subject.advance(given)
    restored = mt.WindowOperator.restore(subject.snapshot())
    assert restored.watermark == subject.watermark is not None


def test_a_far_watermark_can_be_told():
    subject = started(SECOND)
    subject.advance(pa.scalar(2**60, SECOND))
    with pytest.raises(ValueError, match=r"cannot go back from .*1152921504606846976.* to 2500-01-01"):
        subject.advance(FAR)


# ---- durations and edges ----


def test_a_timedelta_of_pandas_keeps_its_nanoseconds():
    query = mt.tumbling(pd.Timedelta("1500ns")).agg(n=mt.count())
    rows = mt.aggregate({"ts": pa.array([1000, 1400, 1600], NANO)}, query, time="ts")
    assert rows["n"].to_pylist() == [2, 1]


class Edges(mt.ContextFreeWindow):
    """Windows of ten, with one edge that is to be tried."""

    def __init__(self, start=None, end=None, edge=None) -> None:
        self.told = (start, end, edge)

    def windows(self, t):
        start, end, _ = self.told
        return [(t // 10 * 10 if start is None else start, t // 10 * 10 + 10 if end is None else end)]

    def next_edge(self, t):
        return t // 10 * 10 + 10 if self.told[2] is None else self.told[2]


@pytest.mark.parametrize("place", ["start", "end", "edge"])
@pytest.mark.parametrize(
    "wrong",
    [0.5, float("inf"), float("nan"), "x", datetime.datetime(2020, 1, 1)],
    ids=repr,
)
def test_an_edge_that_is_no_tick(place, wrong):
    window = Edges(**{place: wrong})
    subject = mt.WindowOperator(window.agg(n=mt.count()), time="ts")
    with pytest.raises(
        ValueError, match=r"Edges\(\) gives .* about [03]: edges are whole numbers of ticks"
    ) as caught:
        subject.process({"ts": [3]})
    assert repr(wrong) in str(caught.value)
    assert subject.metrics.records_in == 0


@pytest.mark.parametrize("start", [-(10**9), -(2**62)])
def test_the_edges_of_a_window_that_begins_long_ago_are_not_all_asked_for(start):
    rows = mt.aggregate({"ts": [3, 17]}, Edges(start=start).agg(n=mt.count()), time="ts")
    found = rows.select(["window_start", "window_end", "n"]).to_pylist()
    assert found == [
        {"window_start": start, "window_end": 10, "n": 1},
        {"window_start": start, "window_end": 20, "n": 2},
    ]


def test_edges_may_be_numbers_of_any_library():
    rows = mt.aggregate({"ts": [3, 7]}, Edges(np.int32(0), np.float64(10), 10.0).agg(n=mt.count()), time="ts")
    assert rows.select(["window_start", "window_end", "n"]).to_pylist() == [
        {"window_start": 0, "window_end": 10, "n": 2}
    ]


# ---- times as values of Python ----


class Aware(mt.ContextAwareWindow):
    """Windows that look at a column."""

    columns = ("x",)

    def notify(self, edges, record):
        edges.add(record.t, record.t + 1)


@pytest.mark.parametrize(
    "window",
    [
        mt.threshold_frame("x", ">", datetime.datetime(2020, 1, 1)),
        mt.user_window(lambda state, t, row: (state, 1, 0), state=0, columns=["x"]),
        mt.policy_window(lambda held: True, lambda held: 0, columns=["x"]),
        Aware(),
    ],
    ids=lambda window: window.kind,
)
def test_a_time_that_no_datetime_reaches(window):
    subject = mt.WindowOperator(window.agg(n=mt.count()), time="ts")
    with pytest.raises(ValueError, match="column 'x' holds a time that Python's datetime does not reach"):
        subject.process({"ts": [1], "x": pa.array([2**40], SECOND)})
    assert subject.metrics.records_in == 0


# ---- intervals in SQL ----


@pytest.mark.parametrize("amount", ["inf", "-inf", "nan", "x", ""])
def test_an_interval_that_is_none(amount):
    with pytest.raises(ValueError, match=rf"INTERVAL '{amount}' DAY is no interval such as .*line 1, column"):
        mt.expr(f"a + INTERVAL '{amount}' DAY")


@pytest.mark.parametrize("amount", ["106751992", "-99999999999999999999"])
def test_an_interval_that_is_too_long(amount):
    with pytest.raises(ValueError, match=rf"INTERVAL '{amount}' DAY is longer than 2\^63 microseconds"):
        mt.expr(f"a + INTERVAL '{amount}' DAY")


@pytest.mark.parametrize(
    ("amount", "micros"), [("106751991", 106751991 * DAY * 10**6), ("-0.5", -DAY * 10**6 // 2)]
)
def test_intervals_are_exact(amount, micros):
    begin = pa.array([0], pa.timestamp("us"))
    found = mt.expr(f"a + INTERVAL '{amount}' DAY").evaluate({"a": begin})
    assert found.cast(pa.int64()).to_pylist() == [micros]


@pytest.mark.parametrize(
    "length", ["INTERVAL 'inf' DAY", "INTERVAL 'inf'", "'nan s'", "INTERVAL '99999999999' DAY"]
)
def test_a_window_of_no_length(length):
    with pytest.raises(ValueError, match="size of TUMBLE"):
        mt.sql(f"SELECT COUNT(*) AS n FROM TUMBLE(events, ts, {length}) GROUP BY window_start")


# ---- files ----


def far_file(tmp_path) -> str:
    """A file with a time in milliseconds that microseconds do not reach."""
    path = tmp_path / "far.parquet"
    parquet.write_table(pa.table({"ts": pa.array([0, 2**54], pa.timestamp("ms"))}), path)
    return str(path)


def test_a_recording_of_times_that_microseconds_do_not_reach(tmp_path):
    path = far_file(tmp_path)
    with pytest.raises(ValueError, match=r"far\.parquet holds a time that microseconds do not reach"):
        Stored(path, time="ts").between(0, 1)


def test_a_pipeline_over_times_that_microseconds_do_not_reach(tmp_path):
    source = open_source(
        {"path": far_file(tmp_path), "format": "parquet", "per_batch": 10, "types": {}}, "ts"
    )
    with pytest.raises(MistakeError, match=r"far\.parquet .*out of bounds"):
        source.read(0)
