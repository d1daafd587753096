"""Slices that windows split in hindsight: few, of a size that follows what splits cost, and their records."""

import numpy as np
import pytest

import muntin as mt
from muntin.engine.slices.position.splitting import Size

COUNT, EVERY = 1000, 50


def stream(batch, keys=3, count=20_000):
    """Records one tick apart, in batches of this size."""
    times = np.arange(count)
    rng = np.random.default_rng(1)
    values, names = rng.integers(-9, 9, count), rng.integers(0, keys, count)
    for begin in range(0, count, batch):
        part = slice(begin, begin + batch)
        yield {"t": times[part], "k": names[part], "w": values[part]}


def latest(**more):
    query = mt.last_n(COUNT, every=EVERY).agg(s=mt.sum("w"), f=mt.first("w"), hi=mt.max("w"))
    return mt.WindowOperator(query, time="t", key="k", **more)


def expected():
    """The last records of each key at each step in which it has one."""
    (whole,) = stream(20_000)
    rows = {}
    for k in range(3):
        at = np.flatnonzero(whole["k"] == k)
        for end in range(EVERY, 20_001, EVERY):
            inside = at[at < end]
            if len(inside) and inside[-1] >= end - EVERY:
                values = whole["w"][inside[-COUNT:]]
                rows[k, end] = (values.sum(), values[0], values.max())
    return rows


@pytest.mark.parametrize("store", ["auto", "lazy", "eager"])
@pytest.mark.parametrize("batch", [7, 500, 20_000])
def test_windows_begin_within_slices(batch, store):
    op, rows, slices = latest(store=store), {}, []
    for number, records in enumerate(stream(batch)):
        if number == 19:
            op = mt.WindowOperator.restore(op.snapshot())
        for row in op.process(records).to_pylist():
            rows[row["k"], row["window_end"]] = (row["s"], row["f"], row["hi"])
        slices.append(op.metrics.slices if number % 50 == 0 else 0)
    for row in op.finish().to_pylist():
        rows[row["k"], row["window_end"]] = (row["s"], row["f"], row["hi"])
    assert rows == expected()
    assert max(slices) < 3 * COUNT / 2  # there would be as many as records
    assert op.metrics.records_kept <= 3 * (COUNT + 512) * 2 + 512  # twice what windows reach back to


def test_the_size_of_slices_follows_the_cost_of_splits():
    size = Size()
    first = size.most
    size.weigh(split=0, merged=100)
    assert size.most == 2 * first  # slices that are never split may be larger
    size.weigh(split=1000, merged=10)
    size.weigh(split=1000, merged=10)
    assert size.most == first // 2
    size.weigh(split=10, merged=10)
    assert size.most == first // 2  # both cost the same
    for _ in range(40):
        size.weigh(split=1000, merged=1)
    assert size.most == 1  # records by themselves, which are never split


def test_slices_grow_while_splits_cost_less_than_merges():
    op = mt.WindowOperator(mt.last_n(COUNT, every=613).agg(s=mt.sum("w")), time="t")
    for records in stream(200, keys=1):
        op.process(records)
    (slices,) = op._engine.slices.of_kind("position").values()
    assert 8 <= slices.settled.size.most <= 512  # about the root of the records in a window


def test_records_are_kept_only_while_something_may_split_their_slice():
    op = latest()
    op.add(mt.punctuation("p").agg(n=mt.count(), name="marks"))
    for records in stream(500, count=2000):
        op.process({**records, "p": records["t"] % 100 == 0})
    assert op.metrics.records_kept > 0
    op.remove("q0")
    assert op.metrics.records_kept == 0
