"""What the operator keeps and counts: snapshots, memory, combine calls, queries, late records, metrics."""

import dataclasses
import math
import pickle
import random
import struct
import time

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.engine.state.description import SnapshotError

Table = pa.Table


# ---- streams ----


def stream(count: int, *, keys: int = 3, delay: int = 0, pace: float = 1.0, seed: int = 0) -> Table:
    """Records in order, or (with a delay) each put off by less than that; sorted by arrival."""
    rng = np.random.default_rng(seed)
    times = np.floor(np.arange(count) * pace).astype(np.int64)
    arrival = np.argsort(times + rng.uniform(0, delay, count), kind="stable") if delay else np.arange(count)
    columns = {
        "ts": times,
        "k": np.array([f"key {k}" for k in rng.integers(0, keys, count)]),
        "v": rng.integers(-50, 50, count).astype(float),
        "w": rng.integers(-50, 50, count),
    }
    return pa.table(columns).take(pa.array(arrival))


def cut(table: Table, *, size: int) -> list[Table]:
    """A table in batches."""
    return [table.slice(at, size) for at in range(0, table.num_rows, size)]


def told(table: Table) -> list[dict]:
    """Rows as dicts, in an order of their own: that among keys is not defined."""
    return sorted(table.to_pylist(), key=repr)


def run(operator: "mt.WindowOperator", batches: list[Table]) -> int:
    """Take in batches; return the number of rows."""
    return sum(operator.process(batch).num_rows for batch in batches)


# ---- snapshots ----

FAMILIES = {
    "tumbling": mt.tumbling(10, offset=3),
    "sliding": mt.sliding(20, every=7),
    "sparse": mt.sliding(3, every=8),
    "cumulate": mt.cumulate(12, step=4),
    "session": mt.session(2),
    "count_tumbling": mt.count_tumbling(4),
    "count_sliding": mt.count_sliding(5, every=2),
}
SETTINGS = {
    "in order": {},
    "late": {"watermark": 8, "lateness": 10},
    "manual": {"watermark": "manual"},
    "eager": {"watermark": 8, "store": "eager"},
    "sliding": {"store": "sliding"},
}


def families(*names: str) -> list[mt.Query]:
    """A query for each of these families of windows."""
    return [
        FAMILIES[name].agg(total=mt.sum("v"), top=mt.max("v"), n=mt.count(), name=name)
        for name in names or FAMILIES
    ]


def check_restored(queries: list[mt.Query], batches: list[Table], **setting) -> None:
    """An operator that is restored before each batch gives the same rows as one that is not."""
    subject, twin = (mt.WindowOperator(queries, time="ts", key="k", **setting) for _ in range(2))
    for batch in batches:
        subject = mt.WindowOperator.restore(subject.snapshot(), queries)
        assert told(subject.process(batch)) == told(twin.process(batch))
        if setting.get("watermark") == "manual":
            mark = max(batch["ts"].to_pylist()) - 12
            assert told(subject.advance(mark)) == told(twin.advance(mark))
    subject = mt.WindowOperator.restore(subject.snapshot(), queries)
    assert subject.watermark == twin.watermark
    assert told(subject.take_late()) == told(twin.take_late())
    assert told(subject.finish()) == told(twin.finish())
    same = ("records_in", "late_dropped", "windows_emitted", "slices")
    for name in same:
        assert getattr(subject.metrics, name) == getattr(twin.metrics, name), name


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_stream_goes_on_from_a_snapshot(family, setting):
    delay = 12 if "watermark" in SETTINGS[setting] else 0
    batches = cut(stream(60, delay=delay, pace=1.5), size=13)
    check_restored(families(family), batches, **SETTINGS[setting])


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_mix_of_windows_goes_on_from_a_snapshot(setting):
    delay = 12 if "watermark" in SETTINGS[setting] else 0
    batches = cut(stream(60, delay=delay, pace=1.5), size=13)
    check_restored(families(), batches, **SETTINGS[setting])


def test_rows_with_conditions_go_on_from_a_snapshot():
    several = [
        mt.tumbling(2).agg(total=mt.sum("v"), n=mt.count(), emit_empty=True, name="empty"),
        mt.tumbling(4).agg(n=mt.count(), emit="on_change", name="changes"),
        mt.count_sliding(7, every=3).agg(total=mt.sum("v"), emit_partial=True, name="partial"),
    ]
    check_restored(several, cut(stream(60, pace=1.5), size=13))


def test_nulls_and_objects_go_on_from_a_snapshot():
    several = [
        mt.sliding(10, every=4).agg(total=mt.sum("v"), top=mt.max("s"), who=mt.argmax("v", "s"), name="grid"),
        mt.count_sliding(4, every=2).agg(total=mt.sum("v"), last=mt.last("s"), name="count"),
    ]
    table = stream(60, delay=12, pace=1.5)
    rng = random.Random(1)
    values = [None if rng.random() < 0.3 else v for v in table["v"].to_pylist()]
    texts = [None if rng.random() < 0.3 else str(v) for v in table["v"].to_pylist()]
    table = table.set_column(2, "v", pa.array(values, pa.float64())).append_column("s", pa.array(texts))
    check_restored(several, cut(table, size=13), watermark=8, lateness=10)


def test_nothing_yet_goes_on_from_a_snapshot():
    empty = mt.WindowOperator(families("sliding"), time="ts", key="k", watermark="manual")
    empty.advance(7)
    restored = mt.WindowOperator.restore(empty.snapshot())
    assert restored.watermark == 7
    batch = {"ts": [3, 9], "k": ["a", "a"], "v": [1.0, 2.0]}
    assert told(restored.process(batch)) == told(empty.process(batch))
    assert told(restored.finish()) == told(empty.finish())


def test_the_end_is_kept_in_a_snapshot():
    operator = mt.WindowOperator(families("tumbling"), time="ts", key="k")
    run(operator, [stream(5)])
    operator.finish()
    restored = mt.WindowOperator.restore(operator.snapshot())
    assert restored.finish().num_rows == 0
    with pytest.raises(RuntimeError, match="finish"):
        restored.process(stream(5))


def test_queries_come_and_go_after_a_snapshot():
    first, *rest = cut(stream(60, pace=1.5), size=13)
    subject = mt.WindowOperator(families("sliding", "session"), time="ts", key="k")
    subject.process(first)
    subject.add(mt.tumbling(5).agg(low=mt.min("w"), name="waiting"))  # nothing has told the type of w yet
    twin, subject = subject, mt.WindowOperator.restore(subject.snapshot())
    for operator in (subject, twin):
        assert operator.add(mt.tumbling(10).agg(n=mt.count())) == "q3"
        operator.remove("session")
    for batch in rest:
        assert told(subject.process(batch)) == told(twin.process(batch))
    assert told(subject.finish()) == told(twin.finish())


def test_a_snapshot_leaves_the_operator_as_it_is():
    subject, twin = (mt.WindowOperator(families(), time="ts", key="k") for _ in range(2))
    for batch in cut(stream(60, pace=1.5), size=13):
        assert subject.snapshot() == subject.snapshot()
        assert told(subject.process(batch)) == told(twin.process(batch))
    assert told(subject.finish()) == told(twin.finish())


# ---- snapshots that are no good ----


@pytest.fixture(scope="module")
def blob() -> bytes:
    """A snapshot in mid-stream."""
    operator = mt.WindowOperator(families(), time="ts", key="k", watermark=8, lateness=10)
    run(operator, cut(stream(60, delay=12), size=13))
    return operator.snapshot()


HEAD = 8 + 4 + 8 + 32  # magic, version, length, digest


def test_a_byte_that_has_changed(blob):
    spots = [12, 19, 20, HEAD - 1, HEAD, HEAD + 8, HEAD + 100, len(blob) // 2, len(blob) - 1]
    for spot in spots:
        for mask in (1, 128):
            bad = blob[:spot] + bytes([blob[spot] ^ mask]) + blob[spot + 1 :]
            with pytest.raises(SnapshotError, match="damaged"):
                mt.WindowOperator.restore(bad)


def test_a_snapshot_that_was_cut_off_or_goes_on(blob):
    for bad in (blob[:-1], blob[: len(blob) // 2], blob[:HEAD], blob + b"\0", blob + blob):
        with pytest.raises(SnapshotError, match="damaged"):
            mt.WindowOperator.restore(bad)


def test_what_is_no_snapshot(blob):
    for bad in (b"", b"MUN", blob[: HEAD - 1], b"x" + blob[1:], b"PAR1" * 50, pickle.dumps({"a": 1}) * 9):
        with pytest.raises(SnapshotError, match="no snapshot"):
            mt.WindowOperator.restore(bad)
    for bad in (None, "text", 5, [blob]):
        with pytest.raises(TypeError, match="a snapshot is bytes"):
            mt.WindowOperator.restore(bad)


def test_a_snapshot_of_another_version(blob):
    (version,) = struct.unpack_from("<I", blob, 8)
    for other in (version + 2, 99):
        bad = blob[:8] + struct.pack("<I", other) + blob[12:]
        with pytest.raises(SnapshotError, match=rf"format {other}.* reads format {version}"):
            mt.WindowOperator.restore(bad)


def test_bytes_of_every_kind(blob):
    for same in (bytearray(blob), memoryview(blob)):
        assert told(mt.WindowOperator.restore(same).finish()) == told(
            mt.WindowOperator.restore(blob).finish()
        )


def test_nothing_is_pickled(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pickled")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    operator = mt.WindowOperator(families(), time="ts", key="k", watermark=8, lateness=10)
    run(operator, cut(stream(30, delay=12), size=13))
    blob = operator.snapshot()
    assert blob[:1] != b"\x80"
    assert told(mt.WindowOperator.restore(blob).finish()) == told(operator.finish())


class Longest(mt.Aggregate):
    """The longest text: an aggregate of one's own, whose state is no number."""

    def combine(a, b):
        return a if len(a) >= len(b) else b


class Doubled(mt.Aggregate):
    """Twice the sum: an aggregate of one's own."""

    commutative = True

    def lift(v):
        return 2.0 * v

    def combine(a, b):
        return a + b


def own_queries(every: int = 4) -> list[mt.Query]:
    """Queries with aggregates of one's own."""
    return [
        mt.sliding(10, every=every).agg(own=Doubled("v"), name="grid"),
        mt.count_sliding(5, every=2).agg(who=Longest("k"), n=mt.count()),
    ]


def test_aggregates_of_ones_own_go_on_from_a_snapshot():
    check_restored(own_queries(), cut(stream(60, delay=12, keys=30), size=13), watermark=8, lateness=10)


def own_snapshot() -> bytes:
    """A snapshot of an operator with aggregates of one's own."""
    operator = mt.WindowOperator(own_queries(), time="ts", key="k")
    operator.process(stream(20))
    return operator.snapshot()


def test_aggregates_of_ones_own_must_be_given():
    match = r"query .grid. has aggregates or functions of your own.*queries="
    with pytest.raises(SnapshotError, match=match):
        mt.WindowOperator.restore(own_snapshot())


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (own_queries(every=5), "has a query 'grid' that is none of those given"),
        (own_queries()[:1], "has a query 'q1' that is none of those given"),
        ([*own_queries(), mt.tumbling(5).agg(n=mt.count())], "has 2 queries, but 3 were given"),
        ([own_queries()[0], mt.count_sliding(5, every=2).agg(n=mt.count())], "a query 'q1'"),
        ([], "a query 'grid'"),
    ],
    ids=["window", "missing", "surplus", "aggregates", "none"],
)
def test_other_queries_than_those_of_the_snapshot(given, match):
    with pytest.raises(SnapshotError, match=match):
        mt.WindowOperator.restore(own_snapshot(), given)


def test_a_state_that_no_snapshot_can_keep():
    class Boxed(mt.Aggregate):
        def lift(v):
            return object()

        def combine(a, b):
            return a

        def lower(a):
            return 1.0

    operator = mt.WindowOperator(mt.tumbling(10).agg(own=Boxed("v"), n=mt.count()), time="ts")
    operator.process({"ts": [1], "v": [1.0]})
    with pytest.raises(
        SnapshotError, match=r"Boxed\('v'\) .* since its state holds a object: give its class dump"
    ):
        operator.snapshot()
    operator.process({"ts": [2], "v": [1.0]})
    assert operator.finish()["n"].to_pylist() == [2]


# ---- memory ----


def fed(queries, table: Table, size: int = 1000, **setting) -> "mt.WindowOperator":
    """An operator that has taken in a table."""
    operator = mt.WindowOperator(queries, **{"time": "ts", "key": "k", **setting})
    run(operator, cut(table, size=size))
    return operator


GRIDS = ("tumbling", "sliding", "cumulate")


@pytest.mark.parametrize("setting", [{}, {"watermark": 20, "lateness": 30}], ids=["in order", "late"])
def test_a_snapshot_goes_with_slices_not_records(setting):
    queries = families(*GRIDS, "session")
    few, many = (fed(queries, stream(n, pace=200 / n), **setting) for n in (6000, 60_000))
    assert few.metrics.slices == many.metrics.slices
    assert len(many.snapshot()) <= 1.05 * len(few.snapshot())


def test_a_snapshot_of_counts_in_order_goes_with_slices_not_records():
    few, many = (fed(families("count_sliding"), stream(count)) for count in (600, 6000))
    assert len(many.snapshot()) < 1.2 * len(few.snapshot())


@pytest.mark.parametrize("setting", [{}, {"watermark": 20, "lateness": 30}], ids=["in order", "late"])
def test_the_state_of_grids_does_not_grow_with_the_records(setting):
    few, many = (fed(families(*GRIDS), stream(n, pace=200 / n), **setting) for n in (6000, 60_000))
    assert few.metrics.records_kept == many.metrics.records_kept == 0
    assert few.metrics.state_bytes == many.metrics.state_bytes


@pytest.mark.parametrize("setting", [{}, {"watermark": 20, "lateness": 30}], ids=["in order", "late"])
@pytest.mark.parametrize("family", [*GRIDS, "session"])
def test_the_state_does_not_grow_with_time(family, setting):
    short, long = (fed(families(family), stream(count, pace=3.0), 100, **setting) for count in (1000, 10_000))
    assert long.metrics.slices <= short.metrics.slices + 20
    per_slice = short.metrics.state_bytes / short.metrics.slices
    assert long.metrics.state_bytes == per_slice * long.metrics.slices
    assert len(long.snapshot()) < 1.2 * len(short.snapshot())


@pytest.mark.parametrize("lateness", [0, 30])
@pytest.mark.parametrize("family", ["count_tumbling", "count_sliding"])
def test_counts_under_disorder_keep_only_records_within_reach(family, lateness):
    operator = fed(families(family), stream(3000, delay=20), 100, watermark=20, lateness=lateness)
    assert 0 < operator.metrics.records_kept <= 20 + lateness + 1
    assert operator.metrics.slices <= 3 * 10
    operator.finish()
    assert operator.metrics.records_kept == 0


def test_counts_in_order_keep_no_records():
    assert fed(families("count_sliding"), stream(3000)).metrics.records_kept == 0


def test_an_order_that_matters_keeps_only_records_within_reach():
    query = mt.sliding(20, every=5).agg(last=mt.last("v"))
    assert fed(query, stream(3000)).metrics.records_kept == 0
    operator = fed(query, stream(3000, delay=20), 100, watermark=20, lateness=30)
    assert 0 < operator.metrics.records_kept <= 20 + 30 + 20 + 5


@pytest.mark.parametrize("lateness", [0, 40])
@pytest.mark.parametrize("family", [*GRIDS, "session"])
def test_a_key_leaves_nothing_behind(family, lateness):
    operator = fed(families(family), stream(3000, keys=1000, delay=20), 500, watermark=20, lateness=lateness)
    blank = fed(families(family), stream(1), watermark=20, lateness=lateness)
    for each in (operator, blank):
        each.advance(10**6)
    assert operator.metrics.slices == 0
    assert operator.metrics.keys == 0
    assert operator.metrics.state_bytes <= blank.metrics.state_bytes + 1000
    assert len(operator.snapshot()) <= len(blank.snapshot()) + 1000


@pytest.mark.parametrize("family", ["sliding", "session"])
def test_keys_that_come_and_go_do_not_pile_up(family):
    operator = mt.WindowOperator(families(family), time="ts", key="k")
    for t in range(0, 20_000, 100):
        times, keys = np.full(50, t), [f"{t} {k}" for k in range(50)]
        operator.process({"ts": times, "k": keys, "v": np.ones(50)})
    assert operator.metrics.keys <= 100
    assert operator.metrics.slices <= 100


def test_a_key_that_comes_back_begins_anew():
    operator = mt.WindowOperator(families("session"), time="ts", key="k")
    operator.process({"ts": [1] * 100, "k": [str(k) for k in range(100)], "v": [1.0] * 100})
    operator.advance(1000)
    assert operator.metrics.keys == 0
    operator.process({"ts": [1000, 1001], "k": ["7", "7"], "v": [2.0, 4.0]})
    (row,) = operator.finish().to_pylist()
    assert (row["k"], row["total"], row["revision"]) == ("7", 6.0, 0)


# ---- silent spells ----

FAR = 10**15


def rows_over(window, policy, batches: list[list[int]]) -> list[dict]:
    """The rows of a count over batches of times."""
    operator = mt.WindowOperator(window.agg(n=mt.count()), time="ts", watermark=policy)
    tables = [operator.process({"ts": times}) for times in batches]
    return [row for table in [*tables, operator.finish()] for row in table.to_pylist()]


@pytest.mark.parametrize("policy", ["in_order", "manual", 10])
@pytest.mark.parametrize(
    "window", [mt.tumbling(1), mt.sliding(7, every=3), mt.cumulate(4, step=1), mt.session(2)], ids=repr
)
def test_silent_spells_cost_nothing(window, policy):
    times = [-FAR, -FAR, 0, FAR, FAR + 1, 3 * FAR]
    rows_over(window, policy, [[0], [5]])  # kernels are there now
    begin = time.perf_counter()
    rows = rows_over(window, policy, [times])
    assert rows_over(window, policy, [[t] for t in times]) == rows
    assert time.perf_counter() - begin < 1.0
    held = [[t for t in times if row["window_start"] <= t < row["window_end"]] for row in rows]
    assert [row["n"] for row in rows] == [len(some) for some in held]
    assert {t for some in held for t in some} == set(times)


def test_silent_spells_of_many_keys():
    times, keys = np.arange(1000) * 10**12, [str(k % 7) for k in range(1000)]
    operator = mt.WindowOperator(mt.tumbling(1).agg(n=mt.count()), time="ts", key="k", watermark=5 * 10**12)
    begin = time.perf_counter()
    rows = operator.process({"ts": times, "k": keys}).num_rows + operator.finish().num_rows
    assert rows == 1000
    assert time.perf_counter() - begin < 5.0


# ---- combine calls ----


@pytest.mark.parametrize("size", [1, 7, 3000])
@pytest.mark.parametrize("keys", [1, 20])
@pytest.mark.parametrize("store", ["auto", "lazy", "sliding"])
def test_updates_in_order_take_one_combine_a_record(store, keys, size):
    table = stream(min(300 * size, 3000), keys=keys, pace=0.3)
    operator = fed(families(*GRIDS), table, size, store=store)
    assert operator.metrics.update_combines <= table.num_rows


TREES = {"watermark": "manual", "store": "eager"}  # under a manual watermark, all slices stay


def allowed(records: int, slices: int) -> int:
    """The combines that updates of a tree may take: one for the slice, and one for each level above it."""
    return records * (1 + math.ceil(math.log2(slices)))


@pytest.mark.parametrize("size", [1, 7, 256])
def test_updates_of_slices_that_are_there_take_the_height_of_their_tree(size):
    query = mt.sliding(64, every=1).agg(top=mt.max("v"))
    operator, twin = (fed(query, stream(256, keys=1), **TREES) for _ in range(2))
    run(operator, cut(stream(256, keys=1, delay=256, seed=1), size=size))
    assert operator.metrics.slices == 256
    more = operator.metrics.update_combines - twin.metrics.update_combines
    assert more <= allowed(256, 256)


@pytest.mark.parametrize("size", [1, 7, 3000])
@pytest.mark.parametrize("keys", [1, 5])
@pytest.mark.parametrize("pace", [0.2, 4.0], ids=["crowded", "sparse"])
def test_updates_of_trees_out_of_order_take_the_height_of_the_tree(pace, keys, size):
    table = stream(min(300 * size, 3000), keys=keys, delay=50, pace=pace)
    query = mt.sliding(64, every=1).agg(top=mt.max("v"))
    metrics = fed(query, table, size, **TREES).metrics
    assert metrics.update_combines <= allowed(table.num_rows, metrics.slices)


def test_updates_of_trees_whose_oldest_slices_go_take_the_height_of_the_tree():
    table = stream(2000, keys=1, delay=50)
    query = mt.sliding(64, every=1).agg(top=mt.max("v"))
    metrics = fed(query, table, 7, watermark=50, store="eager").metrics
    assert metrics.update_combines <= allowed(2000, 512)  # there are so many before some are let go


def final_combines_per_window(queries, delay: int, keys: int, size: int) -> float:
    """The mean number of combines that a window takes when it ends, with the sliding store."""
    table = stream(min(400 * size, 1500), keys=keys, delay=delay)
    policy = {"watermark": delay} if delay else {}
    operator = mt.WindowOperator(queries, time="ts", key="k", store="sliding", **policy)
    windows = run(operator, cut(table, size=size)) + operator.finish().num_rows
    assert windows == operator.metrics.windows_emitted
    return operator.metrics.final_combines / windows


STEPS = {
    "each tick": mt.sliding(64, every=1),
    "each ten": mt.sliding(60, every=10),
    "odd": mt.sliding(20, every=7),
}
AGGREGATES = {"floats": mt.sum("v"), "integers": mt.sum("w"), "max": mt.max("v")}


@pytest.mark.parametrize("size", [1, 7, 3000])
@pytest.mark.parametrize("delay", [0, 30], ids=["in order", "disorder"])
@pytest.mark.parametrize("keys", [1, 5])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("aggregate", ["floats", "max"])
def test_windows_that_slide_take_three_combines_each(aggregate, step, keys, delay, size):
    query = STEPS[step].agg(x=AGGREGATES[aggregate])
    assert final_combines_per_window(query, delay, keys, size) <= 3


@pytest.mark.parametrize("size", [1, 7, 3000])
def test_windows_of_several_lengths_that_slide_take_three_combines_each(size):
    for aggregate in AGGREGATES.values():
        queries = [mt.sliding(length, every=5).agg(x=aggregate) for length in (10, 40, 100)]
        assert final_combines_per_window(queries, 0, 3, size) <= 3


def test_looking_at_the_metrics_takes_no_combines():
    query = mt.sliding(64, every=1).agg(top=mt.max("v"))
    for store in ("eager", "sliding"):
        seen, unseen = (mt.WindowOperator(query, time="ts", key="k", store=store) for _ in range(2))
        for batch in cut(stream(300, keys=1), size=7):
            seen.process(batch)
            unseen.process(batch)
            assert seen.metrics.records_in > 0
        assert seen.metrics.combines == unseen.metrics.combines, store


def test_windows_end_to_end_take_no_combine():
    operator = fed(mt.tumbling(10).agg(total=mt.sum("v")), stream(1000), 50, store="lazy")
    assert operator.metrics.final_combines == 0


def test_fused_aggregates_take_no_more_combines():
    one = fed(mt.sliding(20, every=5).agg(a=mt.mean("v")), stream(1000), 50)
    several = fed(
        mt.sliding(20, every=5).agg(a=mt.mean("v"), b=mt.sum("v"), c=mt.count("v")), stream(1000), 50
    )
    assert one.metrics.combines == several.metrics.combines


def test_equal_windows_are_computed_once():
    queries = [mt.sliding(20, every=5).agg(total=mt.sum("v"), name=name) for name in "abc"]
    one, several = fed(queries[:1], stream(1000), 50), fed(queries, stream(1000), 50)
    assert several.metrics.update_combines == one.metrics.update_combines
    assert several.metrics.final_combines == one.metrics.final_combines


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("delay", [0, 12])
def test_many_queries_share_pairs_of_slices(keys, delay):
    aggregates = {"top": mt.max("v"), "at": mt.argmin("v", "w"), "end": mt.last("w"), "var": mt.variance("v")}
    queries = [mt.sliding(20 + 3 * k, every=2 + k % 5).agg(**aggregates) for k in range(24)]
    table = stream(600, keys=keys, delay=delay)
    found = {}
    for store in ("auto", "lazy"):
        operator = mt.WindowOperator(queries, time="ts", key="k", watermark=20, store=store)
        rows = [*map(operator.process, cut(table, size=250)), operator.finish()]
        found[store] = pa.concat_tables(rows).drop_columns("var"), operator.metrics
    assert told(found["auto"][0]) == told(found["lazy"][0])
    assert found["auto"][1].final_combines < found["lazy"][1].final_combines / 2


# ---- queries that come and go ----


def test_slices_are_merged_when_finer_edges_go():
    coarse, fine = mt.tumbling(100).agg(total=mt.sum("v")), mt.sliding(100, every=5).agg(total=mt.sum("v"))
    both = fed([coarse, fine], stream(90, keys=1), watermark="manual")
    alone = fed([coarse], stream(90, keys=1), watermark="manual")
    assert both.metrics.slices == 18
    both.remove("q1")
    assert both.metrics.slices == alone.metrics.slices == 1
    assert both.metrics.state_bytes <= alone.metrics.state_bytes + 200
    more = {"ts": [95, 110], "k": ["key 0", "key 0"], "v": [1.0, 2.0]}
    assert told(both.process(more)) == told(alone.process(more))
    assert told(both.finish()) == told(alone.finish())


@pytest.mark.parametrize("family", ["session", "count_tumbling"])
def test_what_only_a_removed_query_needed_is_freed(family):
    setting = {"watermark": "manual"}
    both = fed(families("tumbling", family), stream(500), **setting)
    alone = fed(families("tumbling"), stream(500), **setting)
    assert both.metrics.state_bytes > alone.metrics.state_bytes
    both.remove(family)
    for name in ("slices", "records_kept", "state_bytes"):
        assert getattr(both.metrics, name) == getattr(alone.metrics, name), name
    assert told(both.finish()) == told(alone.finish())


def test_fields_that_only_a_removed_query_read_are_freed():
    total = mt.tumbling(10).agg(total=mt.sum("v"))
    other = mt.tumbling(10).agg(top=mt.max("w"), n=mt.count("w"))
    both, alone = (fed(some, stream(500), watermark="manual") for some in ([total, other], [total]))
    before = both.metrics.state_bytes
    both.remove("q1")
    assert both.metrics.state_bytes < before
    assert both.metrics.state_bytes == alone.metrics.state_bytes
    rows = both.process({"ts": [501], "k": ["key 0"], "v": [1.0]})  # w is not asked for any more
    assert "top" not in rows.column_names
    assert told(both.finish()) == told(alone.process({"ts": [501], "k": ["key 0"], "v": [1.0]})) + told(
        alone.finish()
    )


def test_records_are_not_kept_once_no_order_matters():
    queries = [mt.tumbling(100).agg(total=mt.sum("v")), mt.tumbling(100).agg(last=mt.last("v"))]
    operator = fed(queries, stream(500, delay=10), watermark=10)
    assert operator.metrics.records_kept > 0
    operator.remove("q1")
    assert operator.metrics.records_kept == 0


def test_an_added_query_cuts_finer_slices():
    operator = mt.WindowOperator(mt.tumbling(100).agg(total=mt.sum("v")), time="ts", watermark="manual")
    operator.process({"ts": list(range(0, 50, 5)), "v": [1.0] * 10})
    assert operator.metrics.slices == 1
    operator.add(mt.tumbling(5).agg(total=mt.sum("v"), name="fine"))
    operator.process({"ts": list(range(50, 100, 5)), "v": [1.0] * 10})
    assert operator.metrics.slices == 11
    rows = operator.finish().to_pylist()
    assert [row["total"] for row in rows if row["query"] == "q0"] == [20.0]
    assert [row["window_start"] for row in rows if row["query"] == "fine"] == list(range(50, 100, 5))


# ---- late records ----


def test_late_records_come_out_as_they_went_in():
    operator = mt.WindowOperator(families("tumbling"), time="ts", key="k", watermark=5)
    assert operator.take_late().num_rows == 0
    table = pa.table({"ts": [100, 1, 99, 2], "k": list("abcd"), "v": [1.0, 2.0, 3.0, 4.0], "note": [*"wxyz"]})
    operator.process(table)
    assert operator.metrics.late_dropped == 2
    late = operator.take_late()
    assert late.schema == table.schema
    assert late.to_pylist() == table.take([1, 3]).to_pylist()
    assert operator.take_late().num_rows == 0
    assert operator.metrics.late_dropped == 2


def late_twice(first, second) -> "mt.WindowOperator":
    """An operator that has dropped a record of each of two batches, which have these columns, too."""
    operator = mt.WindowOperator(families("tumbling"), time="ts", key="k", watermark=0)
    for note in (first, second):
        operator.process({"ts": [100, 1], "k": ["a", "b"], "v": [1.0, 2.0], **note})
    assert operator.metrics.late_dropped == 2
    return operator


def test_late_records_of_batches_with_other_columns():
    late = late_twice({"note": ["x", "y"]}, {"remark": [1, 2]}).take_late()
    assert late.select(["ts", "note", "remark"]).to_pylist() == [
        {"ts": 1, "note": "y", "remark": None},
        {"ts": 1, "note": None, "remark": 2},
    ]


def test_late_records_of_batches_with_other_types():
    late = late_twice({"note": ["x", "y"]}, {"note": [1, 2]}).take_late()
    assert late.select(["ts", "k"]).to_pylist() == [{"ts": 1, "k": "b"}] * 2


def test_late_records_are_kept_in_a_snapshot():
    operator = late_twice({"note": ["x", "y"]}, {"note": ["z", "w"]})
    restored = mt.WindowOperator.restore(operator.snapshot())
    assert restored.metrics.late_dropped == 2
    assert restored.take_late().to_pylist() == operator.take_late().to_pylist()
    assert restored.take_late().num_rows == 0


def test_records_that_count_for_one_window_are_not_late():
    several = [
        mt.tumbling(10).agg(n=mt.count(), name="short"),
        mt.tumbling(100).agg(n=mt.count(), name="long"),
    ]
    operator = mt.WindowOperator(several, time="ts", watermark="manual")
    operator.advance(50)
    operator.process({"ts": [5, 55]})
    assert operator.metrics.late_dropped == 0
    rows = operator.finish().to_pylist()
    assert [(row["query"], row["n"]) for row in rows] == [("short", 1), ("long", 2)]


# ---- metrics ----


def test_metrics_before_the_first_record():
    metrics = mt.WindowOperator(families(), time="ts", key="k").metrics
    assert set(dataclasses.asdict(metrics).values()) == {0}


def test_metrics_are_what_they_say():
    operator = mt.WindowOperator(families("tumbling", "count_tumbling"), time="ts", key="k", watermark=5)
    table = stream(200, delay=12)
    emitted = run(operator, cut(table, size=17))
    metrics = operator.metrics
    assert dataclasses.is_dataclass(metrics)
    assert metrics.records_in == 200
    assert metrics.late_dropped == operator.take_late().num_rows > 0
    assert metrics.windows_emitted == emitted
    assert metrics.combines == metrics.update_combines + metrics.final_combines > 0
    assert metrics.keys == 3
    assert metrics.slices > 0
    assert metrics.state_bytes > 0
    assert metrics.records_kept > 0
    assert operator.metrics == metrics
    rest = operator.finish().num_rows
    assert operator.metrics.windows_emitted == emitted + rest


def test_rows_that_are_left_out_are_not_counted():
    operator = mt.WindowOperator(mt.tumbling(1).agg(n=mt.count(), emit="on_change"), time="ts")
    operator.process({"ts": [1, 2, 3, 4]})
    assert operator.finish().num_rows == 0
    assert operator.metrics.windows_emitted == 1


def test_metrics_go_on_from_a_snapshot():
    operator = fed(families(), stream(200, delay=12), 17, watermark=8, lateness=10)
    before, after = operator.metrics, mt.WindowOperator.restore(operator.snapshot()).metrics
    for field in dataclasses.fields(before):
        if field.name != "state_bytes":
            assert getattr(after, field.name) == getattr(before, field.name), field.name


def test_revisions_of_count_windows_are_forgotten_once_they_are_final():
    operator = mt.WindowOperator(mt.count_tumbling(2).agg(n=mt.count()), time="ts", watermark=0, lateness=10)
    for t in range(0, 4000, 20):
        operator.process({"ts": [t, t + 8]})
        operator.process({"ts": [t + 4]})
    engine = operator._engine
    engine.evict(operator._keys)
    assert operator.metrics.windows_emitted > 300
    assert len(engine.windows.revisions) < 5


# ---- many rows of one call ----


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("spell", [0, 10**6])
@pytest.mark.parametrize("delay", [0, 40])
def test_many_rows_of_a_call_come_in_order(step, spell, delay):
    table = stream(3000, keys=1, delay=delay)
    times = table["ts"].to_numpy()
    times = times * step + np.where(times > 1500, spell, 0)
    table = table.set_column(0, "ts", pa.array(times))
    windows = [
        mt.tumbling(3 * step),
        mt.sliding(8 * step, every=2 * step),
        mt.cumulate(9 * step, step=3 * step),
    ]
    windows += [mt.tumbling(n * step) for n in (2, 5, 4)] + [mt.session(step)]
    queries = [window.agg(n=mt.count(), total=mt.sum("w")) for window in windows]
    found = []
    for size in (3000, 50):
        operator = mt.WindowOperator(queries, time="ts", watermark=50 * step)
        parts = [*map(operator.process, cut(table, size=size)), operator.finish()]
        found.append(told(pa.concat_tables(parts)))
        for part in parts:
            names = [f"q{k}" for k in range(len(queries))]
            order = [(r["window_end"], r["window_start"], names.index(r["query"])) for r in part.to_pylist()]
            assert order == sorted(order)
    assert found[0] == found[1]
    assert len(found[0]) > 4096
