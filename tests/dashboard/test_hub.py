"""What the hub knows of a stream: windows, lines, lateness, and answers to what pages ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.dashboard import Dashboard, serve
from muntin.dashboard.hub import Hub
from muntin.dashboard.lateness import Lateness
from muntin.dashboard.tap import Tap
from tests.dashboard.pages import SQL, batch, get, operator, page


def watching(op: mt.WindowOperator) -> Hub:
    hub = Hub(op)
    hub.watch()
    return hub


@pytest.fixture
def served() -> Iterator[tuple[mt.WindowOperator, Dashboard]]:
    op = operator()
    with serve(op, port=0, allow_queries=True, title="cars") as dashboard:
        yield op, dashboard


def test_a_late_record_corrects_a_bar() -> None:
    op = operator()
    hub = watching(op)
    op.process(batch([1, 4, 30]))
    hub.update()
    before = hub.bars("tens", 0)
    assert list(zip(before["start"], before["value"], before["revision"], strict=True)) == [(0, 2.0, 0)]
    op.process(batch([5]))
    hub.update()
    after = hub.bars("tens", 0)
    told = [after[name].tolist() for name in ("value", "before", "revision", "change")]
    assert told == [[3.0], [2.0], [1], [1]]
    assert [row["n"] for row in hub.window("tens", 0, 0, 10)] == [2, 3]


def test_a_bridged_session_is_retracted() -> None:
    op = operator()
    hub = watching(op)
    op.process(batch([1, 2, 6, 7, 40]))
    hub.update()
    assert [
        (s, e) for s, e in zip(hub.bars("trips", 0)["start"], hub.bars("trips", 0)["end"], strict=True)
    ] == [
        (1, 5),
        (6, 10),
    ]
    op.process(batch([4]))
    hub.update()
    bars = hub.bars("trips", 0)
    kinds = {
        (int(s), int(e)): int(c) for s, e, c in zip(bars["start"], bars["end"], bars["change"], strict=True)
    }
    assert kinds == {(1, 5): 2, (6, 10): 2, (1, 10): 0}


def test_a_line_follows_retractions() -> None:
    """A retraction that comes alone takes the value of its window off the line."""
    op = operator()
    hub = watching(op)
    op.process(batch([1, 2, 6, 7, 40]))
    hub.update()
    assert hub.slices_of_line("trips", "n", [0])["last"].tolist() == [2.0, 2.0]
    op.process(batch([4]))
    hub.update()
    assert hub.slices_of_line("trips", "n", [0])["last"].tolist() == [5.0]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.dashboard.hub.RECENT", 100)
    monkeypatch.setattr("muntin.dashboard.lanes._TOGETHER", 4)
    op = operator()
    hub = watching(op)
    for start in range(0, 4000, 20):
        op.process(batch(list(range(start, start + 20))))
        hub.update()
    assert 50 < len(hub.recent) <= 130
    assert sum(map(len, hub.recent._blocks.values())) < 30
    assert hub.bars("tens", 0)["end"].max() > 3900
    assert hub.rows_out["tens"] == 399  # all that end by 3,997


def test_open_windows_are_those_not_complete() -> None:
    op = operator()
    hub = watching(op)
    op.process(batch([1, 2, 21, 23]))
    hub.update()
    grid, slid, trips = hub.open_windows([("tens", 0), ("top", 0), ("trips", 0)])
    assert grid == [(20, 30)]
    assert slid == [(5, 25), (10, 30), (15, 35), (20, 40)]
    assert trips == [(21, 26)]
    op.finish()
    hub.update()
    time.sleep(1.1)
    hub.update()
    assert hub.open_windows([("tens", 0)]) == [[]]


def test_slices_and_look_ups() -> None:
    op = operator()
    hub = watching(op)
    op.process(batch([1, 4, 6, 12, 30]))
    hub.update()
    slices = hub.slices("tens", 0, 0, 10)
    base = hub.base or 0
    assert sum(one["records"] for one in slices) == 3
    assert all(0 <= one["first"] + base <= one["last"] + base < 10 for one in slices)
    (row,) = hub.look_up("tens", 0, 0, 10)
    assert (row["n"], row["avg"]) == (3, pytest.approx(11 / 3))


def test_questions_are_answered_between_calls_of_a_busy_operator() -> None:
    op = operator()
    tap = Tap(op, "ts")
    op.watch(tap.saw)
    ended = threading.Event()

    def run() -> None:
        t = 0
        while not ended.is_set():
            op.process(batch([t]))
            t += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while tap.look is None:
            time.sleep(0.01)
        callers = {tap.ask(threading.get_ident) for _ in range(20)}
        assert thread.ident in callers
        assert all(tap.ask(lambda: op.lookup(0, 10, name="tens").num_rows) is not None for _ in range(20))
        with pytest.raises(ZeroDivisionError):
            tap.ask(lambda: 1 // 0)
    finally:
        ended.set()
        thread.join()
    assert tap.ask(threading.get_ident) == threading.get_ident()  # nobody calls any more: it is done here


def test_rows_that_are_too_many_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.dashboard.tap.WAITING", 5)
    op = operator()
    tap = Tap(op, "ts")
    op.watch(tap.saw)
    rows = sum(op.process(batch([t])).num_rows for t in range(0, 300, 10))
    kept = sum(table.num_rows for table in tap.take_rows())
    assert tap.skipped > 0
    assert kept + tap.skipped == rows


def test_lateness_is_how_far_records_come_behind() -> None:
    lateness = Lateness()
    lateness.add(100, np.array([101, 99, 105, 105, 97]))
    told = lateness.described()
    by_bound = {one["upto"]: (one["share"], one["beyond"]) for one in told["buckets"]}
    assert by_bound[0] == (pytest.approx(3 / 5), pytest.approx(2 / 5))
    assert by_bound[2] == (pytest.approx(1 / 5), pytest.approx(1 / 5))
    assert by_bound[8] == (pytest.approx(1 / 5), pytest.approx(0))
    assert told["largest"] == 8


def test_lateness_of_a_stream_is_sampled() -> None:
    op = operator()
    hub = watching(op)
    op.process(batch([100]))
    op.process(batch([90, 101]))
    hub.update()
    assert hub.lateness.seen == 2
    assert hub.lateness.largest == 10


def test_late_records_of_a_sample_are_told() -> None:
    op = operator()
    hub = watching(op)
    op.process(batch([100]))
    op.process(batch([97, 102, 99, 98]))  # behind a watermark of 98: one of them
    assert hub.update().late.tolist() == [97]


def test_queries_that_others_add_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.dashboard.tap.EVERY", 0.0)
    op = operator()
    hub = watching(op)
    op.process(batch([1, 2]))
    op.add(mt.tumbling(7).agg(n=mt.count(), name="sevens"))
    op.remove("top")
    op.process(batch(list(range(3, 60))))
    hub.update()
    assert [query["name"] for query in hub.described()["queries"]] == ["tens", "trips", "line", "sevens"]
    assert hub.columns["sevens"] == {"n": "number"}
    assert hub.explanation is not None
    assert "sevens" in str(hub.explanation)


def test_many_threads_ask_while_the_stream_runs() -> None:
    """What pages ask and what updates change do not get in one another's way."""
    op = operator()
    with serve(op, port=0, allow_queries=True) as dashboard:
        hub, ended, failures = dashboard.server.hubs["muntin"], threading.Event(), []

        def ask(work: Callable[[], object]) -> None:
            try:
                while not ended.is_set():
                    work()
            except Exception as error:
                failures.append(error)

        asked: list[Callable[[], object]] = [
            hub.described,
            hub.span,
            lambda: hub.bars("tens", 0),
            lambda: list(hub.views("line", "line", [0], 0, 10_000, 300)),
            lambda: get(dashboard, "/metrics"),
        ]
        threads = [threading.Thread(target=ask, args=(work,)) for work in asked]
        for thread in threads:
            thread.start()
        for k in range(150):
            op.process(batch(list(range(k * 20, k * 20 + 20)), f"car {k % 7}"))
            if k % 30 == 0:
                op.add(mt.tumbling(3 + k).agg(n=mt.count(), name=f"added {k}"))
        ended.set()
        for thread in threads:
            thread.join()
        assert not failures


def test_keys_of_any_type_have_numbers() -> None:
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count(), name="q"), time="t", key=["a", "b"])
    hub = watching(op)
    op.process({"t": [1, 2, 3, 40], "a": ["x", None, "x", "x"], "b": [1.5, float("nan"), 2.0, 1.5]})
    op.finish()
    hub.update()
    assert sorted(hub.keys.shown()) == ["null, nan", "x, 1.5", "x, 2.0"]
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count(), name="q"), time="t", key="a")
    nested = watching(op)
    op.process({"t": [1, 2, 3], "a": pa.array([[1], [2], [1]])})
    op.finish()
    nested.update()
    assert nested.keys.shown() == ["[1]", "[2]"]
    code = hub.keys.shown().index("x, 1.5")
    assert hub.bars("q", code)["value"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("s")])
def test_times_of_all_units(kind: pa.DataType) -> None:
    op = mt.WindowOperator(mt.tumbling("10s").agg(v=mt.m4("v"), name="q"), time="t")
    hub = watching(op)
    seconds = [1_700_000_001, 1_700_000_004, 1_700_000_015]
    times = pa.array([s * 10**9 for s in seconds], pa.timestamp("ns")).cast(kind)
    op.process({"t": times, "v": [1.0, 3.0, 2.0]})
    op.finish()
    hub.update()
    assert hub.unit == {"ns": 1, "us": 1000, "s": 10**9}[kind.unit]
    bars = hub.bars("q", 0)
    assert (bars["end"] - bars["start"]).tolist() == [10 * 10**9 // hub.unit] * 2
    assert hub.since_base(bars["start"])[0] < 2**53
    low, high = hub.span() or (0, 0)
    ((last, view),) = hub.views("q", "v", [0], low, high + 1, 1000)
    assert last
    assert view.value.tolist() == [1.0, 3.0, 2.0]


def test_a_page_sees_windows_come_and_change(served: tuple[mt.WindowOperator, Dashboard]) -> None:
    op, dashboard = served
    op.process(batch([1, 4, 30]))
    while not len(dashboard.server.hubs["cars"].keys):
        time.sleep(0.05)
    with page(dashboard) as one:
        hello, _ = one.read("hello")
        assert (hello["title"], hello["streams"], hello["keys"]) == ("cars", ["cars"], ["a"])
        one.say(
            type="watch",
            lanes=[{"query": "tens", "key": 0}],
            line={"query": "line", "column": "line", "keys": [0]},
        )
        op.process(batch([3, 50]))
        header, arrays = one.until("update", lambda header, _: header["lanes"] and header["lanes"][0][2] > 0)
        assert arrays["bar_revision"].tolist() == [1.0, 0.0]
        assert header["line"]["revised"]
        assert header["state"]["metrics"]["records_in"] >= 3
        _, bars = one.ask(type="lanes", query="tens", key=0)
        assert bars["before"][0] == 2.0
        assert one.ask(type="slices", query="tens", key=0, start=0 - 100, end=100)[0]["slices"]
        start = int(hello["base"])
        (found,) = one.ask(type="lookup", query="tens", key=0, start=0 - start, end=10 - start)[0]["rows"]
        assert found["n"] == 3


def test_a_query_is_added_and_removed_by_a_page(served: tuple[mt.WindowOperator, Dashboard]) -> None:
    op, dashboard = served
    op.process(batch([1, 4, 12]))
    with page(dashboard) as one:
        one.read("hello")
        added, _ = one.ask(type="add", sql=SQL, name="added")
        assert added["name"] == "added"
        assert "added" in op.queries
        op.process(batch([20, 25, 45, 61]))
        one.until(
            "changed", lambda header, _: any(q["name"] == "added" and q["columns"] for q in header["queries"])
        )
        assert one.ask(type="remove", name="added")[0]["type"] == "remove"
        one.until("changed", lambda header, _: all(q["name"] != "added" for q in header["queries"]))
        assert one.ask(type="remove", name="added")[0]["type"] == "error"
    assert list(op.queries) == ["tens", "top", "trips", "line"]


def test_rows_are_exported(served: tuple[mt.WindowOperator, Dashboard]) -> None:
    op, dashboard = served
    rows = op.process(batch([1, 4, 30]))
    with page(dashboard) as one:
        one.until("update", lambda header, _: sum(header["state"]["rows"].values()) == rows.num_rows)
        _, arrays = one.ask(type="export", format="parquet", query="")
        table = pa.parquet.read_table(pa.BufferReader(arrays["file"].tobytes()))
        assert table.num_rows == rows.num_rows
        assert set(table.column_names) == set(rows.column_names)
        _, arrays = one.ask(type="export", format="csv", query="line")
        text = arrays["file"].tobytes().decode()
        assert "line_min_time" in text.splitlines()[0]
        assert one.ask(type="export", format="../../etc/passwd", query="")[0]["type"] == "error"


def test_measures_for_machines(served: tuple[mt.WindowOperator, Dashboard]) -> None:
    op, dashboard = served
    assert get(dashboard, "/healthz")[::2] == (200, "ok\n")
    op.process(batch([1, 4, 30]))
    op.process(batch([5]))
    until = time.monotonic() + 5
    while 'muntin_records_total{stream="cars"} 4.0' not in get(dashboard, "/metrics")[2]:
        assert time.monotonic() < until
        time.sleep(0.1)
    status, headers, text = get(dashboard, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    for line in (
        'muntin_records_total{stream="cars"} 4.0',
        'muntin_rows_total{query="tens",stream="cars"} 2.0',
        'muntin_changes_total{change="update",stream="cars"}',
        'muntin_call_seconds_bucket{le="+Inf",stream="cars"} 2.0',
        "muntin_state_bytes",
        'muntin_query_state_bytes{query="tens",stream="cars"}',
        'muntin_query_combines_total{query="tens",stream="cars"}',
        "muntin_slices",
        "muntin_late_dropped_total",
    ):
        assert line in text, text


def test_a_stopped_dashboard_watches_no_more() -> None:
    op = operator()
    dashboard = op.dashboard(port=0)
    assert op._watcher is not None
    dashboard.stop()
    assert op._watcher is None
    with pytest.raises(OSError, match="refused"):
        get(dashboard, "/healthz")


def test_a_second_dashboard_is_refused_and_leaves_the_first_one_alone() -> None:
    op = operator()
    with op.dashboard(port=0) as first:
        watcher = op._watcher
        with pytest.raises(RuntimeError, match="watched already: stop its dashboard"):
            op.dashboard(port=0)
        assert op._watcher is watcher
        assert get(first, "/healthz")[0] == 200
    with op.dashboard(port=0) as second:
        assert get(second, "/healthz")[0] == 200


@pytest.mark.parametrize(
    "aggregate", [mt.sum("nosuch"), mt.sum("text")], ids=["no such column", "no numbers"]
)
def test_a_query_that_batches_do_not_fit_is_refused_and_the_stream_goes_on(aggregate: mt.Aggregate) -> None:
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
    hub = watching(op)
    with pytest.raises(ValueError, match="once there are records"):
        hub.add(mt.tumbling(5).agg(m=mt.count()))
    op.process({"ts": [1], "v": [1.0], "text": ["a"]})
    with pytest.raises((KeyError, TypeError), match=r"nosuch|text"):
        hub.add(mt.tumbling(5).agg(wrong=aggregate))
    assert hub.add(mt.tumbling(5).agg(total=mt.sum("v"), name="new")) == "new"
    assert op.process({"ts": [12], "v": [2.0], "text": ["b"]}).num_rows > 0


def test_keys_that_are_not_there_have_no_slices() -> None:
    op = operator()
    hub = watching(op)
    op.process(batch([1, 2, 6, 40]))
    hub.update()
    assert hub.slices("trips", 0, 0, 100)
    assert hub.slices("trips", 999_999, 0, 100) == []
    assert hub.open_windows([("trips", 999_999)]) == [[]]


def test_answered_questions_are_not_kept() -> None:
    op = operator()
    tap = Tap(op, "ts")
    for _ in range(3):
        assert tap.ask(lambda: 7) == 7  # nobody calls the operator: the asker does it
    assert not tap._questions


def test_ctrl_c_while_a_question_is_answered_reaches_both() -> None:
    tap = Tap(operator(), "ts")

    def broken_off() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tap.ask(broken_off)
