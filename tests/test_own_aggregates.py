"""Aggregates of one's own whose states are no numbers: order, inverses, snapshots, and workers on Spark."""

from __future__ import annotations

import decimal
import random
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.engine.state.description import SnapshotError
from muntin.spark.combining import Combine
from muntin.spark.job import make_job
from muntin.spark.packing import BUCKET, Pack


@dataclass(frozen=True)
class Run:
    """A state of a kind that no snapshot knows."""

    path: tuple[int, ...]


class Distinct(mt.Aggregate):
    """A set, which a snapshot keeps as it is."""

    commutative = True

    def lift(v):
        return {v}

    def combine(a, b):
        return a | b

    def lower(a):
        return len(a)


class Path(mt.Aggregate):
    """A list in canonical order: not commutative."""

    def lift(v):
        return [v]

    def combine(a, b):
        return a + b

    def lower(a):
        return "-".join(map(str, a))


class Histogram(mt.Aggregate):
    """An array of numbers."""

    commutative = True

    def lift(v):
        return np.bincount([v], minlength=8)

    def combine(a, b):
        return a + b

    def lower(a):
        return "-".join(map(str, a.tolist()))


class Journey(mt.Aggregate):
    """A dataclass, not commutative, which says itself how it is kept."""

    def lift(v):
        return Run((v,))

    def combine(a, b):
        return Run(a.path + b.path)

    def lower(a):
        return "-".join(map(str, a.path))

    def dump(a):
        return bytes(a.path)

    def load(dumped):
        return Run(tuple(dumped))


class Bag(mt.Aggregate):
    """A multiset with an inverse, which counts how often that is used."""

    commutative = True
    inverted: ClassVar[list[int]] = []

    def lift(v):
        return Counter([v])

    def combine(a, b):
        return a + b

    def invert(a, b):
        assert not b - a, "what is taken out was never in"
        Bag.inverted.append(1)
        return a - b

    def lower(a):
        return "-".join(f"{v}:{n}" for v, n in sorted(a.items()))

    @staticmethod
    def dump(a):
        return sorted(a.items())

    @staticmethod
    def load(dumped):
        return Counter(dict(dumped))


PLAIN = {
    Distinct: lambda vs: len(set(vs)),
    Path: lambda vs: "-".join(map(str, vs)),
    Histogram: lambda vs: "-".join(str(vs.count(k)) for k in range(8)),
    Journey: lambda vs: "-".join(map(str, vs)),
    Bag: lambda vs: "-".join(f"{v}:{vs.count(v)}" for v in sorted(set(vs))),
}
WINDOWS = {
    "tumbling": lambda: mt.tumbling(10),
    "sliding": lambda: mt.sliding(12, every=3),
    "session": lambda: mt.session(2),
    "count_tumbling": lambda: mt.count_tumbling(5),
    "count_sliding": lambda: mt.count_sliding(6, every=2),
}


def stream(nulls: bool, seed: int = 3, count: int = 200) -> list[tuple[int, int | None]]:
    """Records a little out of order, some of equal time."""
    chance = random.Random(seed)
    values = [*range(8), None, None] if nulls else range(8)
    return [(k // 2 + chance.randint(-4, 4) + 10, chance.choice(values)) for k in range(count)]


def batch(records: list[tuple[int, int | None]]) -> pa.Table:
    times, values = zip(*records, strict=True)
    return pa.table({"t": pa.array(times, pa.int64()), "v": pa.array(values, pa.int64())})


def ranges(window: str, ordered: list[tuple[int, int | None]]) -> dict[tuple, list[int | None]]:
    """The values in each window, by its bounds or number."""
    times, values = [t for t, _ in ordered], [v for _, v in ordered]
    if window.startswith("count"):
        size, every = (5, 5) if window == "count_tumbling" else (6, 2)
        places = range((len(values) - size) // every + 1)
        return {(k,): values[k * every : k * every + size] for k in places}
    if window == "session":
        runs: list[list[int]] = []
        for i, t in enumerate(times):
            if runs and t - times[runs[-1][-1]] <= 2:
                runs[-1].append(i)
            else:
                runs.append([i])
        return {(times[run[0]], times[run[-1]] + 2): [values[i] for i in run] for run in runs}
    length, every = (10, 10) if window == "tumbling" else (12, 3)
    starts = range((times[0] - length) // every * every, times[-1] + 1, every)
    found = {(s, s + length): [v for t, v in ordered if s <= t < s + length] for s in starts}
    return {bounds: inside for bounds, inside in found.items() if inside}


def lowered(own: type, values: list[int | None]) -> object:
    present = [v for v in values if v is not None]
    return PLAIN[own](present) if present else None


def last_words(tables: list[pa.Table], column: str) -> dict[tuple, object]:
    """The last answer of each window; retracted ones are gone."""
    found: dict[tuple, object] = {}
    for table in tables:
        for row in table.to_pylist():
            number = row["window_id"]
            window = (row["window_start"], row["window_end"]) if number is None else (number,)
            if row["change"] == "retract":
                found.pop(window)
            else:
                found[window] = row[column]
    return found


@pytest.mark.parametrize("nulls", [False, True], ids=["whole", "nulls"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("own", PLAIN)
def test_any_state_out_of_order_through_snapshots(own, window, nulls):
    records = stream(nulls)
    queries = [WINDOWS[window]().agg(a=own("v"), name="q")]
    operator = mt.WindowOperator(queries, time="t", watermark=3, lateness=20)
    tables = []
    for begin in range(0, len(records), 17):
        tables.append(operator.process(batch(records[begin : begin + 17])))
        operator = mt.WindowOperator.restore(operator.snapshot(), queries=queries)
    tables.append(operator.finish())
    want = ranges(window, sorted(records, key=lambda record: record[0]))
    got = last_words(tables, "a")
    assert {w: a for w, a in got.items() if w in want} == {w: lowered(own, vs) for w, vs in want.items()}
    assert len(got) - len(want) in ((0, 1, 2, 3) if window.startswith("count") else (0,))  # the open ones


def test_a_declared_inverse_takes_records_out_of_count_windows():
    Bag.inverted.clear()
    operator = mt.WindowOperator(mt.count_tumbling(8).agg(a=Bag("v")), time="t", watermark=0, lateness=200)
    records = stream(nulls=False)
    tables = [operator.process(batch([record])) for record in records]
    tables.append(operator.finish())
    ordered = [v for _, v in sorted(records, key=lambda record: record[0])]
    want = {(k,): PLAIN[Bag](ordered[8 * k : 8 * k + 8]) for k in range(len(ordered) // 8)}
    assert last_words(tables, "a") == want
    assert len(Bag.inverted) > 50


def test_queries_come_and_go_beside_the_others():
    records = sorted(stream(nulls=True), key=lambda record: record[0])
    operator = mt.WindowOperator(mt.tumbling(10).agg(a=Journey("v"), name="long"), time="t")
    tables = [operator.process(batch(records[:60]))]
    operator.add(mt.tumbling(5).agg(b=Distinct("v"), name="short"))
    tables.append(operator.process(batch(records[60:120])))
    queries = [q for _, q in operator._queries]
    operator = mt.WindowOperator.restore(operator.snapshot(), queries=queries)
    operator.remove("short")
    tables += [operator.process(batch(records[120:])), operator.finish()]
    rows = [row for table in tables for row in table.to_pylist()]
    got = {(row["window_start"], row["window_end"]): row["a"] for row in rows if row["query"] == "long"}
    assert got == {bounds: lowered(Journey, vs) for bounds, vs in ranges("tumbling", records).items()}
    short = {row["window_start"]: row["b"] for row in rows if row["query"] == "short"}
    origin = records[59][0]
    assert short
    for start, answer in short.items():
        inside = [v for t, v in records if start <= t < start + 5 and t > origin]
        assert start > origin
        assert answer == lowered(Distinct, inside)


@pytest.mark.parametrize("own", PLAIN)
def test_workers_on_spark(own):
    records = sorted(stream(nulls=False), key=lambda record: record[0])
    types = {"t": pa.int64(), "v": pa.int64()}
    query = mt.sliding(12, every=3).agg(a=own("v"))
    job = make_job(query, types.__getitem__, time="t", key=None, tie=None, lateness=0, buckets=1)
    assert job.own_objects()  # their states are not sent ahead: records are
    table = batch(records).append_column(BUCKET, pa.array([0] * len(records), pa.int32()))
    packed = pa.Table.from_batches(list(Pack(job, ticks=False)(iter(table.to_batches(max_chunksize=50)))))
    rows = Combine(job, job.output_schema())(packed)
    want = ranges("sliding", records)
    assert last_words([rows], "a") == {bounds: lowered(own, vs) for bounds, vs in want.items()}


class Opaque(mt.Aggregate):
    """A state that neither a snapshot nor the class itself can keep."""

    commutative = True

    def lift(v):
        return Run((v,))

    def combine(a, b):
        return Run(a.path + b.path)

    def lower(a):
        return len(a.path)


class Halfway(Opaque):
    """What dump gives is no better."""

    def dump(a):
        return [a]


@pytest.mark.parametrize(
    ("own", "what"), [(Opaque, "its state holds a Run"), (Halfway, "what its dump gives")]
)
def test_a_state_that_cannot_be_kept_is_named(own, what):
    operator = mt.WindowOperator(mt.tumbling(10).agg(a=own("v")), time="t")
    operator.process({"t": [1, 2], "v": [3, 4]})
    with pytest.raises(
        SnapshotError, match=rf"{own.__name__}\('v'\) .*{what}.*dump\(state\).*load\(dumped\)"
    ):
        operator.snapshot()
    assert operator.finish().column("a").to_pylist() == [2]


def test_equal_windows_are_folded_once_and_overlaps_shared():
    calls = []

    class Counted(mt.Aggregate):
        commutative = True

        def lift(v):
            return {v}

        def combine(a, b):
            calls.append(1)
            return a | b

        def lower(a):
            return sorted(a)

    queries = [mt.sliding(64, every=1).agg(a=Counted("v"), name=f"q{k}") for k in range(3)]
    out = mt.aggregate({"t": range(256), "v": [k % 50 for k in range(256)]}, queries, time="t")
    for row in out.to_pylist():
        inside = range(max(0, row["window_start"]), min(256, row["window_end"]))
        assert row["a"] == sorted({k % 50 for k in inside})
    assert len(calls) < 319 * 12  # each by itself would take 319 * 63, three times over


def test_an_own_aggregate_may_read_the_time():
    class Latest(mt.Aggregate):
        timed = True

        def lift(v, t):
            return {v: t}

        def combine(a, b):
            return a | b

        def lower(a):
            return str(a)

    out = mt.aggregate(
        {"t": [3, 1, 2, 4], "v": ["b", "a", "a", "c"]}, mt.tumbling(10).agg(x=Latest("v")), time="t"
    )
    assert out.column("x").to_pylist() == ["{'a': 2, 'b': 3, 'c': 4}"]


# ---- errors of a user's functions ----


class Touchy(mt.Aggregate):
    """Fails where a test asks for it; compiled over numbers, on the object path over texts."""

    def lift(v):
        if v == 13:
            raise ValueError("thirteen")
        return v

    def combine(a, b):
        if b == 14:
            raise ValueError("fourteen")
        return a + b

    def lower(a):
        if a == 15:
            raise ValueError("fifteen")
        return a


class Appending(mt.Aggregate):
    """Changes its older argument, which other windows share."""

    def lift(v):
        return [v]

    def combine(a, b):
        a.extend(b)
        return a

    def lower(a):
        return len(a)


@pytest.mark.parametrize("number", [int, float, decimal.Decimal])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (13, r"Touchy\.lift raised ValueError\('thirteen'.*\) at record 2 of the batch, where v is .*13"),
        (14, r"Touchy\.combine raised ValueError\('fourteen'.*\) at record 2 of the batch, where v is .*14"),
        (12, r"Touchy\.lower raised ValueError\('fifteen'"),
    ],
)
def test_an_error_of_a_function_names_it_and_the_record(number, bad, message):
    operator = mt.WindowOperator(mt.tumbling(10).agg(a=Touchy("v")), time="t", watermark="manual")
    batch = {"t": [2, 1, 3], "v": [number(2), number(1), number(bad)]}
    if bad == 12:
        operator.process(batch)
    before = operator.metrics
    with pytest.raises(ValueError, match=message) as caught:
        operator.finish() if bad == 12 else operator.process(batch)
    assert isinstance(caught.value.__cause__, ValueError)
    assert operator.metrics == before


def test_an_error_names_the_record_of_the_batch_also_under_a_condition():
    queries = [mt.tumbling(10).agg(a=Touchy("v"), where="v > 5"), mt.tumbling(10).agg(n=mt.count())]
    operator = mt.WindowOperator(queries, time="t")
    with pytest.raises(ValueError, match=r"Touchy\.lift raised .* at record 3 of the batch"):
        operator.process({"t": [1, 2, 3, 4], "v": [1, 6, 2, 13]})


def test_a_frame_names_the_record_at_which_its_aggregate_fails():
    frame = mt.aggregate_frame(Touchy("v"), reaches=100).agg(n=mt.count())
    with pytest.raises(ValueError, match=r"Touchy\.lift, combine or lower at the record of time 7 raised"):
        mt.aggregate({"t": [5, 7], "v": [decimal.Decimal(1), decimal.Decimal(13)]}, frame, time="t")
    with pytest.raises(ValueError, match=r"Touchy\.lift, combine or lower raised ValueError"):
        mt.aggregate({"t": [5, 7], "v": [1, 13]}, frame, time="t")


def test_states_that_equal_nothing_else_are_not_taken_for_changed():
    class Held:
        """Equal only to itself."""

    class Boxes(mt.Aggregate):
        def lift(v):
            return Held()

        def combine(a, b):
            return a

        def lower(a):
            return 1

    table = {"t": [1, 2, 3], "v": [1, 2, 3]}
    assert mt.aggregate(table, mt.tumbling(10).agg(b=Boxes("v")), time="t")["b"].to_pylist() == [1]


def test_a_combine_that_changes_its_arguments_is_refused():
    operator = mt.WindowOperator(mt.sliding(10, every=5).agg(n=Appending("v")), time="t")
    with pytest.raises(ValueError, match=r"Appending\.combine changes its arguments: .*return a new state"):
        operator.process({"t": [1, 2, 12], "v": [1, 2, 3]})
    assert operator.metrics.records_in == 0
