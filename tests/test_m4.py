"""M4: the extremes and the ends of a window with their times, wherever windows are computed."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.techniques import Slicing, Stream
from tests.oracle import agrees, answer

PAIRS = [(3.0, 1), (None, 2), (5.0, 3), (1.0, 4), (5.0, 5), (1.0, 6), (float("nan"), 7), (2.0, 8)]


@pytest.mark.parametrize(
    "name", ["Recalculate", "TwoStacks", "TwoStacksLite", "Daba", "DabaLite", "FlatFit", "BInt"]
)
def test_tuples_of_value_and_time_in_sliding_windows(name):
    window = getattr(mt.swag, name)(mt.m4())
    for k, pair in enumerate(PAIRS):
        window.insert(pair)
        if k >= 3:
            window.evict()
        assert agrees(window.query(), answer("m4", PAIRS[max(0, k - 2) : k + 1]))


def test_whole_columns():
    values, times = np.array([3.0, 1.0, 2.0, 1.0]), np.array([1, 2, 3, 4])
    got = mt.swag.slide(mt.m4(), (values, times), window=3).tolist()
    pairs = list(zip(values.tolist(), times.tolist(), strict=True))
    assert got == [answer("m4", pairs[max(0, k - 2) : k + 1]) for k in range(4)]


def test_fields_are_shared_with_those_that_m4_holds():
    operator = mt.WindowOperator(
        mt.tumbling(10).agg(m=mt.m4("v"), low=mt.min("v"), end=mt.last("v"), best=mt.max("w")), time="t"
    )
    assert operator.explain().as_dict()["fields"] == ["m4(v)", "max(w)"]
    out = operator.process({"t": [1, 5, 12], "v": [2.0, 1.0, 7.0], "w": [1, 2, 3]}).to_pylist()
    assert (out[0]["m"]["min"], out[0]["low"], out[0]["end"], out[0]["best"]) == (1.0, 1.0, 1.0, 2)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2.0, 5.0, None, 1.0]),
        pa.array([True, False, None, True]),
        pa.array([3, 7, None, 5], pa.date32()),
        pa.array([3, 7, None, 5], pa.timestamp("us")),
        pa.array(["b", "a", None, "c"]),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("s")], ids=str)
def test_beside_aggregates_that_hold_its_ends_with_texts(values, kind):
    """They are objects then, and the others numbers of machines."""
    batch = {"t": pa.array([1, 2, 12, 33]).cast(kind), "v": values, "s": ["a", "b", "c", "d"]}
    window = mt.tumbling(10 if kind == pa.int64() else "10s")
    want = mt.aggregate(batch, window.agg(m=mt.m4("v")), time="t")["m"].to_pylist()
    assert want[1] is None
    assert want[0]["max_time"] is not None
    for other in (mt.argmax("v", "s"), mt.argmin("v", "s")):
        assert mt.aggregate(batch, window.agg(o=other, m=mt.m4("v")), time="t")["m"].to_pylist() == want


def test_variation_beside_an_argument_that_is_a_text():
    query = mt.tumbling(10).agg(at=mt.argmax("v", "s"), share=mt.relative_variation("v"))
    batch = {"t": [1, 2, 12], "v": pa.array([2.0, 8.0, None]), "s": ["a", "b", "c"]}
    got = mt.aggregate(batch, query, time="t")
    assert got.select(["at", "share"]).to_pylist() == [
        {"at": "b", "share": 0.75},
        {"at": None, "share": None},
    ]


def test_only_changes():
    query = mt.tumbling(10).agg(m=mt.m4("v"), emit="on_change")
    operator = mt.WindowOperator(query, time="t")
    nan = float("nan")
    tables = [operator.process({"t": [1, 11], "v": pa.array([None, nan], pa.float64())})]
    operator = mt.WindowOperator.restore(operator.snapshot())
    tables += [
        operator.process({"t": [21, 31], "v": pa.array([None, None], pa.float64())}),
        operator.finish(),
    ]
    assert [row["window_start"] for table in tables for row in table.to_pylist()] == [0, 10, 20]


def test_empty_windows_and_look_ups():
    operator = mt.WindowOperator(mt.tumbling(10).agg(m=mt.m4("v"), emit_empty=True), time="t")
    rows = operator.process({"t": [1, 31, 33], "v": [4, 5, 2]}).to_pylist()
    assert [row["m"] and row["m"]["max"] for row in rows] == [4, None, None]
    (found,) = operator.lookup(30, 40).to_pylist()
    assert found["m"] == answer("m4", [(5, 31), (2, 33)])


def test_out_of_order_with_keys_ties_and_single_records():
    chance = random.Random(5)
    records = [(k // 3 + chance.randint(0, 8), chance.choice("ab"), chance.randint(0, 4)) for k in range(300)]
    query = mt.sliding(12, every=4).agg(m=mt.m4("v"))
    operator = mt.WindowOperator(query, time="t", key="k", watermark=12)
    tables = [operator.process({"t": [t], "k": [k], "v": [v]}) for t, k, v in records[:150]]
    t, k, v = zip(*records[150:], strict=True)
    tables += [operator.process({"t": t, "k": k, "v": v}), operator.finish()]
    rows = [row for table in tables for row in table.to_pylist()]
    assert len(rows) > 40
    for row in rows:
        mine = sorted((r for r in records if r[1] == row["k"]), key=lambda r: r[0])
        inside = [(v, t) for t, _, v in mine if row["window_start"] <= t < row["window_end"]]
        assert row["m"] == answer("m4", inside)


def test_processing_time():
    operator = mt.WindowOperator(mt.tumbling("1h").agg(m=mt.m4("v")), time=mt.PROCESSING_TIME)
    operator.process({"v": [1, 3, 2]})
    found = operator.finish().column("m")[-1].as_py()
    assert [found[name] for name in ("min", "max", "first", "last")] == [1, 3, 1, 2]
    assert len({found[f"{name}_time"] for name in ("min", "max", "first", "last")}) == 1


def test_techniques_to_compare_with():
    stream = Stream({"t": [1, 2, 12], "v": [2.0, 5.0, 1.0]}, time="t")
    rows = Slicing().run(mt.tumbling(10).agg(m=mt.m4("v")), stream)
    assert [row.values["m"] for row in rows] == [
        answer("m4", [(2.0, 1), (5.0, 2)]),
        answer("m4", [(1.0, 12)]),
    ]


def test_what_m4_cannot_be_is_refused():
    with pytest.raises(TypeError, match=r"but m4\('v'\) reads times"):
        mt.aggregate_frame(mt.m4("v"), reaches=3)
    with pytest.raises(TypeError, match=r"M4 reads 1 column\(s\), but 2 were named"):
        type(mt.m4())("v", "w")
    with pytest.raises(ValueError, match=r"does not say which column it is over"):
        mt.tumbling(10).agg(m=mt.m4())
