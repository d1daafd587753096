"""The loop: rows of a source as they come, by `for` and `async for`; Ctrl-C, silence and checkpoints."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt

COUNT = mt.tumbling(10).agg(n=mt.count(), total=mt.sum("v"))


def operator(**given):
    return mt.WindowOperator(COUNT, **{"time": "ts", **given})


def records(count, step=1):
    return [{"ts": step * k, "v": k} for k in range(count)]


def whole(tables):
    """The rows of many tables, as they count."""
    return [row for table in tables for row in table.select(["window_start", "n", "total"]).to_pylist()]


def expected(items):
    return mt.aggregate(items, COUNT, time="ts").select(["window_start", "n", "total"]).to_pylist()


# ---- what comes out ----

TABLE = pa.table({"ts": list(range(95)), "v": list(range(95))})
SOURCES = {
    "records": lambda: records(95),
    "a generator": lambda: (record for record in records(95)),
    "tables": lambda: [TABLE.slice(0, 40), TABLE.slice(40)],
    "record batches": lambda: TABLE.to_reader(max_chunksize=7),
    "dicts of arrays": lambda: (
        [{"ts": [k, k + 1], "v": [k, k + 1]} for k in range(0, 94, 2)] + [records(95)[-1:]]
    ),
    "lists": lambda: [records(95)[:50], records(95)[50:]],
    "a mix": lambda: [*records(95)[:5], TABLE.slice(5, 45), None, *records(95)[50:], None],
    "a function": lambda: lambda taken: records(95)[taken:],
}


@pytest.mark.parametrize("batch", [1, 7, 1000, "1ms", "1h"])
@pytest.mark.parametrize("idle", [None, "10s"])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_its_windows(kind, batch, idle):
    op = operator()
    tables = list(op.stream(SOURCES[kind](), batch=batch, idle=idle))
    assert whole(tables) == expected(TABLE)
    assert all(tables)
    assert op.metrics.records_in == 95


def awaited(make, pause=0.0):
    """The items of a source, asynchronously."""

    async def source():
        made = make()
        for item in made(0) if callable(made) else made:
            if pause:
                await asyncio.sleep(pause)
            yield item

    return source()


@pytest.mark.parametrize("batch", [1, 1000, "1ms"])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_its_windows_asynchronously(kind, batch):
    async def read():
        op = operator()
        tables = [rows async for rows in op.stream(awaited(SOURCES[kind]), batch=batch, idle="10s")]
        assert op.metrics.records_in == 95
        return tables

    assert whole(asyncio.run(read())) == expected(TABLE)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1),
    st.sampled_from([1, 3, 1000, "1ms"]),
)
def test_rows_do_not_depend_on_how_a_source_is_cut(steps, batch):
    ts, items, everything = 0, [], []
    for k, piece in enumerate(steps):
        made = []
        for step in piece:
            ts += step
            made.append({"ts": ts, "v": 1})
        everything += made
        items += [made] if k % 3 == 0 else [pa.Table.from_pylist(made)] if k % 3 == 1 else made
    assert whole(operator().stream(items, batch=batch)) == expected(everything)


def test_frames_give_frames():
    (rows,) = operator().stream([pd.DataFrame({"ts": [1], "v": [2]})])
    assert isinstance(rows, pd.DataFrame)


def test_an_endless_source_is_read_as_far_as_rows_are_taken():
    read = []

    def source():
        for k in range(10**9):
            read.append(k)
            yield {"ts": k, "v": k}

    stream = iter(operator().stream(source(), batch=100))
    first = next(stream)
    assert first["n"].to_pylist() == [10] * 9
    assert len(read) == 100
    time.sleep(0.02)
    assert len(read) == 100
    next(stream)
    assert len(read) == 200
    stream.close()


def test_a_thread_that_reads_ahead_is_held_back():
    read = []

    def source():
        for k in range(10**9):
            read.append(k)
            yield {"ts": k, "v": k}

    stream = iter(operator().stream(source(), batch=100, idle="1h"))
    next(stream)
    time.sleep(0.05)
    assert len(read) <= 201
    stream.close()


def test_a_source_of_batches_is_read_one_batch_ahead():
    read = []

    def source():
        for k in range(10**6):
            read.append(k)
            yield {"ts": [10 * k, 10 * k + 1], "v": [1, 1]}

    stream = iter(operator().stream(source(), batch="1h", idle="1h"))
    next(stream)
    time.sleep(0.05)
    assert len(read) <= 3
    stream.close()


def test_late_records_are_handed_over():
    late = []
    op = operator(watermark=5)
    list(op.stream([{"ts": [50, 1], "v": [1, 2]}, records(2), {"ts": 60, "v": 1}], on_late=late.append))
    assert [row for table in late for row in table.to_pylist()] == [
        {"ts": 1, "v": 2},
        {"ts": 0, "v": 0},
        {"ts": 1, "v": 1},
    ]
    assert op.take_late().num_rows == 0
    op = operator(watermark=5)
    list(op.stream([{"ts": [50, 1], "v": [1, 2]}]))
    assert op.take_late().num_rows == 1


# ---- what goes wrong ----


def test_what_is_refused_before_anything_is_read():
    op = operator()
    for wrong, error, says in (
        ({"batch": "soon"}, ValueError, "batch is 'soon', which is no duration"),
        ({"batch": 0}, ValueError, "batch must be above zero"),
        ({"idle": 5}, TypeError, "idle is a duration such as '30s', not 5"),
        ({"every": 5}, TypeError, "every is a duration such as '30s', not 5"),
    ):
        with pytest.raises(error, match=says):
            op.stream([], **wrong)
    with pytest.raises(TypeError, match=r"a source is an iterable of batches or records.*not int"):
        op.stream(5)


def test_the_loop_that_a_source_needs():
    with pytest.raises(TypeError, match="the source is asynchronous: write `async for"):
        list(operator().stream(awaited(lambda: [])))

    async def read():
        return [rows async for rows in operator().stream([])]

    with pytest.raises(TypeError, match="the source is not asynchronous: write `for"):
        asyncio.run(read())
    stream = operator().stream([])
    assert list(stream) == []
    with pytest.raises(RuntimeError, match="a stream is read once"):
        list(stream)


@pytest.mark.parametrize("idle", [None, "1h"])
def test_a_source_that_fails_is_processed_as_far_as_it_came(idle):
    def source():
        yield from records(25)
        raise ConnectionError("gone")

    op, got = operator(), []
    with pytest.raises(ConnectionError, match="gone"):
        got.extend(op.stream(source(), batch=1000, idle=idle))
    assert [row["n"] for row in whole(got)] == [10, 10]
    assert op.metrics.records_in == 25
    assert op.finish()["n"].to_pylist() == [5]


def test_an_asynchronous_source_that_fails():
    async def source():
        for record in records(25):
            yield record
        raise ConnectionError("gone")

    async def read():
        async for rows in op.stream(source()):
            got.extend([rows])

    op, got = operator(), []
    with pytest.raises(ConnectionError, match="gone"):
        asyncio.run(read())
    assert [row["n"] for row in whole(got)] == [10, 10]


def test_a_record_that_is_refused_reaches_the_loop():
    op = operator()
    with pytest.raises(ValueError, match="'ts' is null in row 1"):
        list(op.stream([{"ts": 1, "v": 1}, {"ts": None, "v": 1}], batch=2))
    assert op.metrics.records_in == 0


@pytest.fixture
def plain_handler():
    """Python's own handler of Ctrl-C: that of Spark, where a session is, would stay in its place."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("plain_handler")
def test_a_loop_that_is_left_lets_go():
    before = signal.getsignal(signal.SIGINT)
    for idle in (None, "1h"):
        for _ in operator().stream(records(50), batch=10, idle=idle):
            break
        gc.collect()
        assert signal.getsignal(signal.SIGINT) is before
    with operator() as op:
        stream = iter(op.stream(records(50), batch=15))
        next(stream)
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert list(stream) == []
    assert op.finish()["n"].to_pylist() == [5]  # what was processed is there


# ---- silence ----

START = datetime(2026, 1, 1)
MINUTE = mt.tumbling("1m").agg(n=mt.count())


def test_a_pause_ends_a_batch():
    """Without idle, a record after a pause is processed at once, with those that waited."""
    read, op = [], operator()

    def source():
        for record in records(30):
            if record["ts"] in (15, 20):
                time.sleep(0.05)
            yield record
            read.append(record)

    tables = list(op.stream(source(), batch="30ms"))
    assert whole(tables) == expected(records(30))
    assert len(tables) == 3


def test_silence_moves_event_time():
    op = mt.WindowOperator(MINUTE, time="ts", watermark="1s")
    stop = threading.Event()

    def source():
        yield {"ts": START}
        yield {"ts": START + timedelta(seconds=58.99)}
        stop.wait(10)

    rows = next(iter(op.stream(source(), batch="10ms", idle="50ms")))
    stop.set()
    assert rows["n"].to_pylist() == [2]
    assert (
        timedelta(seconds=1) <= op.watermark.as_py() - (START + timedelta(seconds=59)) < timedelta(seconds=9)
    )


def test_silence_moves_event_time_asynchronously():
    async def source():
        yield {"ts": START}
        yield {"ts": START + timedelta(seconds=59.95)}
        await asyncio.sleep(10)

    async def read():
        op = mt.WindowOperator(MINUTE, time="ts")
        with op:
            async for rows in op.stream(source(), batch="10ms", idle="50ms"):
                return rows

    began = time.monotonic()
    assert asyncio.run(read())["n"].to_pylist() == [2]
    assert time.monotonic() - began < 5


def test_silence_flushes_the_delay_of_integer_times():
    op = operator(watermark=20)
    stop = threading.Event()

    def source():
        yield from records(21)
        stop.wait(10)

    rows = next(iter(op.stream(source(), batch="10ms", idle="30ms")))
    stop.set()
    assert rows["n"].to_pylist() == [10, 10]


def test_silence_in_processing_time():
    op = mt.WindowOperator(mt.tumbling("100ms").agg(n=mt.count()), time=mt.PROCESSING_TIME)
    stop = threading.Event()

    def source():
        yield {"v": 1}
        stop.wait(10)

    rows = next(iter(op.stream(source(), batch="1ms", idle="20ms")))
    stop.set()
    assert rows["n"].to_pylist() == [1]


def test_nothing_at_all_is_no_silence():
    assert list(operator().stream([None, None], idle="1ms")) == []


# ---- Ctrl-C ----

PRESSED = """
import os, signal, sys, threading, time
import muntin as mt

op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
op.process({"ts": -5})
def source():
    for k in range(25):
        yield {"ts": k}
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    time.sleep(30)
    yield {"ts": 99}
began = time.monotonic()
"""
SYNCHRONOUS = """
for rows in op.stream(source(), batch=1000, idle=IDLE):
    print(rows["n"].to_pylist())
"""
ASYNCHRONOUS = """
import asyncio
async def wires():
    for k in range(25):
        yield {"ts": k}
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    await asyncio.sleep(30)
async def main():
    async for rows in op.stream(wires(), batch=1000):
        print(rows["n"].to_pylist())
asyncio.run(main())
"""
AFTER = """
print(op.finish()["n"].to_pylist(), time.monotonic() - began < 20)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "loop",
    [SYNCHRONOUS.replace("IDLE", "None"), SYNCHRONOUS.replace("IDLE", "'1h'"), ASYNCHRONOUS],
    ids=["for", "for, in a thread", "async for"],
)
def test_ctrl_c_drains(loop):
    done = run(PRESSED + loop + AFTER)
    assert done.stdout.splitlines() == ["[1, 10, 10]", "[5] True", "True"], done.stderr
    assert done.returncode == 0


def test_ctrl_c_while_rows_are_taken_ends_the_loop_after_them():
    code = """
import os, signal
import muntin as mt

op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
for rows in op.stream(({"ts": k} for k in range(10**9)), batch=25):
    os.kill(os.getpid(), signal.SIGINT)
    print("taken", rows["n"].to_pylist())
print(op.metrics.records_in)
"""
    assert run(code).stdout.splitlines() == ["taken [10, 10]", "25"]


def test_ctrl_c_twice_is_an_interrupt():
    code = """
import os, signal
import muntin as mt

op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
try:
    for rows in op.stream(({"ts": k} for k in range(10**9)), batch=25):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        print("not reached")
except KeyboardInterrupt:
    print("interrupted", op.metrics.records_in)
"""
    assert run(code).stdout.splitlines() == ["interrupted 25"]


def test_a_handler_of_the_user_is_left_alone():
    before, own = signal.getsignal(signal.SIGINT), lambda *_: None
    signal.signal(signal.SIGINT, own)
    try:
        for _ in operator().stream(records(30), batch=15):
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_stream_in_another_thread():
    got = []
    thread = threading.Thread(target=lambda: got.extend(operator().stream(records(25), idle="1h")))
    thread.start()
    thread.join(30)
    assert whole(got) == expected(records(25))


# ---- checkpoints ----


def test_a_stream_goes_on_from_its_checkpoint(tmp_path):
    """Whatever rows were taken before a crash, all are there in the end, and none is wrong."""
    path, everything, got = tmp_path / "state", records(100), []
    for crash in (30, 55, 80, None):
        op = operator()

        def source(taken, crash=crash):
            for record in everything[taken:]:
                if record["ts"] == crash:
                    raise ConnectionError
                yield record

        try:
            got.extend(op.stream(source, batch=7, checkpoint=path, every="1ns"))
        except ConnectionError:
            assert op.metrics.records_in == crash
    assert whole(got) == expected(everything)


def test_an_asynchronous_stream_goes_on_from_its_checkpoint(tmp_path):
    async def source(taken):
        for record in records(25 if taken == 0 else 45)[taken:]:
            yield record

    async def read():
        return [rows async for rows in operator().stream(source, batch=100, checkpoint=tmp_path / "state")]

    first, second = asyncio.run(read()), asyncio.run(read())
    assert [row["n"] for row in whole(first)] == [10, 10, 5]
    assert [row["n"] for row in whole(second)] == [10, 10, 5]  # those that the first run ended by finish()


def test_rows_that_were_not_taken_come_again(tmp_path):
    path = tmp_path / "state"
    stream = iter(
        operator().stream(lambda taken: records(100)[taken:], batch=25, checkpoint=path, every="1ns")
    )
    assert [row["window_start"] for row in whole([next(stream)])] == [0, 10]
    next(stream)
    stream.close()  # in the midst of the second batch
    again = whole(operator().stream(lambda taken: records(100)[taken:], checkpoint=path))
    assert again == expected(records(100))[2:]


def test_a_checkpoint_is_a_snapshot(tmp_path):
    list(operator().stream(records(25), checkpoint=tmp_path / "state"))
    restored = mt.WindowOperator.restore((tmp_path / "state").read_bytes())
    assert restored.finish()["n"].to_pylist() == [5]


def test_a_checkpoint_is_written_when_it_is_time(tmp_path):
    for rows in operator().stream(records(100), batch=20, checkpoint=tmp_path / "state", every="1h"):
        if rows["window_start"][0].as_py() < 70:
            assert not (tmp_path / "state").exists()
    assert (tmp_path / "state").exists()


def test_own_functions_in_a_checkpoint(tmp_path):
    class Total(mt.Aggregate):
        commutative = True

        def lift(v):
            return v

        def combine(a, b):
            return a + b

        def lower(a):
            return a

    query = mt.tumbling(10).agg(t=Total("v"))
    path = tmp_path / "state"
    for part in (records(15), records(30)[15:]):
        op = mt.WindowOperator(query, time="ts")
        tables = list(op.stream(part, checkpoint=path))
    assert [t for table in tables for t in table["t"].to_pylist()] == [145, 245]


def test_checkpoints_of_others_are_refused(tmp_path):
    path = tmp_path / "state"
    list(operator().stream(records(5), checkpoint=path))
    other = mt.WindowOperator(mt.tumbling(20).agg(n=mt.count()), time="ts")
    with pytest.raises(ValueError, match="has a query 'q0' that is none of those given"):
        list(other.stream([], checkpoint=path))
    with pytest.raises(ValueError, match="of an operator with other settings"):
        list(operator(watermark=5).stream([], checkpoint=path))
    used = operator()
    used.process(records(1))
    with pytest.raises(ValueError, match="a checkpoint is for a new operator"):
        list(used.stream([], checkpoint=path))
    assert used.metrics.records_in == 1
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match="snapshot"):
        list(operator().stream([], checkpoint=path))


def test_an_operator_that_goes_on_is_whole(tmp_path):
    """It keeps its watcher, rolls back, and takes further calls."""
    path, seen = tmp_path / "state", []
    list(operator().stream(records(15), checkpoint=path))
    op = operator()
    op.watch(lambda batch, rows, nanoseconds: seen.append(rows.num_rows))
    stream = iter(op.stream([records(25)[15:], {"ts": "x"}], checkpoint=path))
    assert next(stream)["n"].to_pylist() == [10]
    with pytest.raises(TypeError):
        next(stream)
    assert op.metrics.records_in == 25
    assert seen == [1]
    assert op.finish()["n"].to_pylist() == [5]


# ---- warming up ----

KINDS = {
    "grids": [mt.sliding("10m", every="1m").agg(a=mt.mean("v"), b=mt.max("v"), n=mt.count())],
    "sessions": [mt.session("30s").agg(a=mt.sum("v"), first=mt.first("s"))],
    "rows": [mt.rolling(rows=5).agg(a=mt.median("v")), mt.count_tumbling(3).agg(b=mt.sum("v"))],
    "frames": [mt.threshold_frame("v", ">", 3).agg(n=mt.count()), mt.state_window("s").agg(m=mt.m4("v"))],
    "others": [
        mt.calendar("month", tz="Europe/Berlin").agg(d=mt.count_distinct("s"), emit_empty=True),
        mt.on("way", mt.tumbling(3)).agg(c=mt.collect("v"), where="b"),
        mt.punctuation(when="b").agg(n=mt.variance("v")),
    ],
}
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "car": pa.dictionary(pa.int32(), pa.string()),
        "v": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "way": pa.int64(),
        "unread": pa.struct({"x": pa.int64()}),
    }
)


@pytest.mark.parametrize("given", [{}, {"watermark": "5s", "lateness": "1m"}, {"watermark": "manual"}])
@pytest.mark.parametrize("kind", KINDS)
def test_warming_up_changes_nothing(kind, given):
    op = mt.WindowOperator(KINDS[kind], time="ts", key="car", **given)
    before = op.snapshot()
    op.warm_up(SCHEMA)
    assert op.snapshot() == before
    assert op.metrics.records_in == 0


def test_after_warming_up_nothing_is_compiled():
    code = """
import pyarrow as pa, muntin as mt
from datetime import datetime, timedelta
from numba.core import event

queries = [
    mt.sliding("10s", every="5s").agg(a=mt.mean("v"), b=mt.max("v"), n=mt.count()),
    mt.session("3s").agg(c=mt.sum("v"), name="visits"),
    mt.rolling("7s").agg(d=mt.sum("v"), name="rolling"),
]
op = mt.WindowOperator(queries, time="ts", key="car")
op.warm_up(pa.schema({"ts": pa.timestamp("us"), "car": pa.string(), "v": pa.float64()}))
start = datetime(2026, 1, 1)
with event.install_recorder("numba:compile") as recorder:
    for k in range(30):
        v = None if k == 20 else k * 0.5
        op.process({"ts": start + timedelta(seconds=2 * k), "car": "ab"[k % 2], "v": v})
    later = [{"ts": start + timedelta(seconds=60 + k), "car": "abc"[k % 3], "v": 1.0} for k in range(50)]
    op.process(later)
    op.finish()
print(len(recorder.buffer))
"""
    assert run(code).stdout.strip() == "0"


def test_warming_up_with_records():
    def strict(v):
        if v not in (5.0, 6.0):
            raise ValueError("never")
        return v

    class Strict(mt.Aggregate):
        commutative = True
        lift = staticmethod(strict)

        def combine(a, b):
            return a + b

        def lower(a):
            return a

    op = mt.WindowOperator(mt.tumbling(10).agg(t=Strict("v")), time="ts")
    with pytest.raises(ValueError, match="never"):
        op.warm_up(pa.schema({"ts": pa.int64(), "v": pa.float64()}))
    op.warm_up([{"ts": 1, "v": 5.0}, {"ts": 12, "v": 6.0}])
    assert op.metrics.records_in == 0


ODD = {
    "processing time": ({"time": mt.PROCESSING_TIME}, {"v": pa.decimal128(2, 2)}),
    "small integers": ({"time": "ts"}, {"ts": pa.int8(), "v": pa.uint8()}),
    "a tie": ({"time": "ts", "tie": "v", "watermark": 5}, {"ts": pa.uint64(), "v": pa.int32()}),
    "times of day": ({"time": "ts"}, {"ts": pa.timestamp("ns", "UTC"), "v": pa.time32("s")}),
    "lists": ({"time": "ts"}, {"ts": pa.timestamp("s"), "v": pa.list_(pa.float64())}),
}


@pytest.mark.parametrize("kind", ODD)
def test_warming_up_for_other_types(kind):
    settings, fields = ODD[kind]
    length = "1m" if pa.types.is_timestamp(fields.get("ts", pa.timestamp("us"))) else 6
    op = mt.WindowOperator(mt.tumbling(length).agg(n=mt.count("v"), last=mt.last("v")), **settings)
    op.warm_up(pa.schema(fields))
    assert op.metrics.records_in == 0


def test_warming_up_says_what_is_missing():
    with pytest.raises(KeyError, match="no column 'v'; it has 'ts'"):
        operator().warm_up(pa.schema({"ts": pa.int64()}))


def test_silence_does_not_pass_by_records_that_wait_for_their_batch():
    def source():
        yield {"ts": datetime(2026, 1, 1, 0, 0, 0)}
        yield {"ts": datetime(2026, 1, 1, 0, 0, 0, 100_000)}
        time.sleep(0.6)

    for batch in ("10s", 2, 1000):
        op = mt.WindowOperator(mt.tumbling("1h").agg(n=mt.count()), time="ts")
        counts = [n for rows in op.stream(source(), batch=batch, idle="100ms") for n in rows["n"].to_pylist()]
        assert (counts, op.metrics.late_dropped) == ([2], 0), batch


def test_idle_time_processes_what_waits_for_a_full_batch():
    async def source():
        for t in (1, 12):
            yield {"ts": t, "v": 1}
        await asyncio.sleep(0.5)
        yield {"ts": 13, "v": 1}

    async def first():
        op, began = operator(), time.monotonic()
        async for _ in op.stream(source(), batch=1000, idle="50ms"):
            return time.monotonic() - began
        return None

    assert asyncio.run(first()) < 0.4
