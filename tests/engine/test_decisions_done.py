"""What `explain()` says is what is done: decisions compared with what was seen to happen to the slices."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from tests.aggregates import Affine, SumOfSquares
from tests.workloads import Reaching

SIZE, BATCH = 160, 8


class Taken(mt.Aggregate):
    """A set with counts, on the object path, with an inverse."""

    commutative = True

    def lift(v):
        return {v: 1}

    def combine(a, b):
        return {k: a.get(k, 0) + b.get(k, 0) for k in a.keys() | b.keys()}

    def invert(a, b):
        return {k: n for k in a if (n := a[k] - b.get(k, 0))}

    def lower(a):
        return len(a)


def each_tenth(state, t, row):
    return state + 1, int(state % 10 == 0), int(state % 10 == 0 and state > 0)


WINDOWS = {
    "tumbling": mt.tumbling(20),
    "sliding": mt.sliding(30, every=20),
    "calendar-like": mt.cumulate(40, step=10),
    "session": mt.session(2),
    "count_tumbling": mt.count_tumbling(3),
    "count_sliding": mt.count_sliding(4, every=3),
    "rolling": mt.rolling(15),
    "rolling rows": mt.rolling(rows=9),
    "last_span": mt.last_span(15, every=4),
    "last_n": mt.last_n(13, every=10),
    "punctuation": mt.punctuation(when="flag"),
    "landmark": mt.landmark(when="flag", every=10),
    "threshold": mt.threshold_frame("v", ">", 3),
    "state": mt.state_window("flag"),
    "on": mt.on("m", mt.tumbling(30)),
    "user": mt.user_window(each_tenth, state=0),
    "policy": mt.policy_window(trigger=mt.policies.every(5), evict=mt.policies.keep(12)),
    "context aware": Reaching(4, 7),
}
AGGREGATES = {
    "count": mt.count(),
    "sum": mt.sum("v"),
    "mean": mt.mean("v"),
    "max": mt.max("v"),
    "min_count": mt.min_count("v"),
    "first": mt.first("v"),
    "median": mt.median("v"),
    "own": SumOfSquares("v"),
    "ordered": Affine("v"),
    "inverse": Taken("v"),
}
STREAMS: dict[str, dict[str, Any]] = {
    "in order": {},
    "out of order": {"watermark": 10},
    "late": {"watermark": 4, "lateness": 20},
    "tied": {"watermark": 4, "lateness": 20, "tie": "o"},
}
TYPES = ("int", "float", "nullable")


def combinations(window: str) -> list[tuple[str, str, str]]:
    """Every aggregate, order and type; where windows look at records, the aggregates that differ."""
    looks = WINDOWS[window].family == "position"
    aggregates = ("sum", "max", "first", "inverse") if looks else AGGREGATES
    return [*itertools.product(aggregates, STREAMS, TYPES)]


def stream(order: str, kind: str) -> pa.Table:
    """Records in bursts, so that sessions end, with a measure that never goes back."""
    chance = np.random.default_rng(3)
    times = np.cumsum(chance.choice([0, 1, 1, 5], SIZE))
    arrival = np.argsort(
        times if order == "in order" else times + chance.integers(0, 10, SIZE), kind="stable"
    )
    values = chance.integers(0, 8, SIZE)
    column = pa.array(values, pa.float64() if kind == "float" else pa.int64())
    if kind == "nullable":
        column = pa.array(values, mask=values == 5)
    table = pa.table(
        {"ts": times, "v": column, "flag": values < 2, "p": values < 2, "m": times, "o": np.arange(SIZE)}
    )
    return table.take(pa.array(arrival))


def watch(operator: mt.WindowOperator, table: pa.Table) -> dict[str, Any]:
    """Run a stream, and return what was seen to happen."""
    kept, broken, sizes = 0, False, set()
    for begin in range(0, SIZE, BATCH):
        operator.process(table.slice(begin, BATCH))
        kept = max(kept, operator.metrics.records_kept)
        slices = operator._engine.slices
        broken |= any(
            not store.in_order for store in (family.store for family in slices.of_kind("session").values())
        )
        for positions in slices.of_kind("position").values():
            sizes.update(positions.store.ordered().rows.tolist())
    fields = {number: str(plan) for number, plan in operator._engine.plan.fields.items()}
    removed = [pair for counts in slices.of_kind("count").values() for pair in counts.removed]
    split = sum(positions.settled.split_records for positions in slices.of_kind("position").values())
    return {
        "keep_records": kept > 0,
        "splits": "by recomputing" if split else "in gaps" if broken else "never",
        "removal": {fields[number]: how for number, how in removed},
        "each record": sizes == {1},
    }


@pytest.mark.parametrize("window", WINDOWS)
def test_explain_says_what_is_done(window):
    for aggregate, order, kind in combinations(window):
        query = WINDOWS[window].agg(a=AGGREGATES[aggregate])
        operator = mt.WindowOperator(query, time="ts", **STREAMS[order])
        seen = watch(operator, stream(order, kind))
        says = operator.explain().as_dict()["queries"][0]["decisions"]
        where = f"{window}, {aggregate}, {order}, {kind}"
        assert says["keep_records"]["decision"] == seen["keep_records"], where
        assert says["splits"]["decision"] == seen["splits"], where
        removal = says["removal"]
        by_field = removal.get("by field", dict.fromkeys(seen["removal"], removal["decision"]))
        assert by_field == seen["removal"], where
        assert (removal["decision"] == "never") == (not seen["removal"]), where
        assert (says["cut_at"]["decision"] == "each record") == seen["each record"], where


def test_more_than_a_thousand_combinations_are_compared():
    assert sum(len(combinations(window)) for window in WINDOWS) > 1000


def test_a_window_that_looks_back_makes_each_record_a_slice_for_others_too():
    queries = [mt.last_n(13, every=10).agg(n=mt.count()), mt.rolling(15).agg(n=mt.count())]
    operator = mt.WindowOperator(queries, time="ts")
    seen = watch(operator, stream("in order", "int"))
    decisions = [query["decisions"] for query in operator.explain().as_dict()["queries"]]
    assert [d["splits"]["decision"] for d in decisions] == ["never", "never"]
    assert [d["cut_at"]["decision"] for d in decisions] == ["each record", "each record"]
    assert (seen["splits"], seen["keep_records"], seen["each record"]) == ("never", False, True)


def test_a_null_changes_how_records_leave_a_slice():
    operator = mt.WindowOperator(
        mt.count_tumbling(5).agg(s=mt.sum("v"), t=Taken("v")), time="ts", watermark=6, lateness=8
    )
    ways = []
    for kind in ("int", "nullable"):
        table = stream("late", kind)
        operator.process(table.set_column(0, "ts", pa.array(np.asarray(table["ts"]) + 10_000 * len(ways))))
        ways.append(operator.explain().as_dict()["decisions"]["removal"]["decision"])
    assert ways == ["invert", "recompute"]


def test_slices_in_order_are_merged_at_ends_that_have_passed():
    operator = mt.WindowOperator(mt.sliding(30, every=20).agg(n=mt.count()), time="ts")
    operator.process({"ts": np.arange(1000)})
    assert operator.explain().as_dict()["decisions"]["cut_at"]["decision"] == "starts"
    operator.snapshot()  # evicts what is out of reach, and merges the rest
    starts = operator._engine.slices.of_kind("grid")[None].store.column("start")
    assert set((starts % 20).tolist()) == {0}
