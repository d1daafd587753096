"""Windows that users rebuild with `mt.ContextAwareWindow` are those that are built in."""

import numpy as np
import pytest

import muntin as mt


class Tumbling(mt.ContextAwareWindow):
    """Windows of ten, end to end."""

    memory = 10

    def notify(self, edges, record):
        start = record.t // 10 * 10
        if (start, start + 10) not in edges.windows:
            edges.add(start, start + 10)


class Session(mt.ContextAwareWindow):
    """Runs of records at most five apart: one at exactly five still joins, so that windows end after it."""

    memory = 6

    def notify(self, edges, record):
        for start, end in edges.windows:
            if record.t < end:
                edges.move((start, end), (start, record.t + 6))
                return
        edges.add(record.t, record.t + 6)


class LastThree(mt.ContextAwareWindow):
    """At each multiple of ten, the last three records: the start is set in hindsight, and moves."""

    memory = 1000

    def notify(self, edges, record):
        times = [*(edges.state or []), record.t][-3:]
        edges.state = times
        end = record.t // 10 * 10 + 10
        for window in edges.windows:
            if window[1] == end:
                edges.move(window, (times[0], end))
                return
        edges.add(times[0], end)


REBUILT = [
    (Tumbling(), mt.tumbling(10), 0, 0),
    (Session(), mt.session(5), 0, 1),
    (LastThree(), mt.last_n(3, every=10), 0, 0),
]


def stream(seed):
    """Batches of records with distinct times within a key, out of order by up to 15."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([1, 1, 2, 3, 8, 25], 120))
    arrival = np.argsort(times + rng.integers(0, 15, len(times)), kind="stable")
    keys = np.array(["a", "b", "c"])[rng.integers(0, 3, len(times))]
    values = rng.integers(-5, 5, len(times))
    for part in np.array_split(arrival, 9):
        yield {"t": times[part], "k": keys[part], "w": values[part]}


def last_words(op, batches, restore=None):
    """The last revision of each window, without those retracted."""
    folded = {}
    for number, batch in enumerate([*batches, None]):
        if number == 4 and restore is not None:
            op = mt.WindowOperator.restore(op.snapshot(), queries=restore)
        table = op.finish() if batch is None else op.process(batch)
        for row in table.to_pylist():
            folded[row["k"], row["window_start"], row["window_end"]] = (row["change"], row["s"], row["l"])
    return {who: values[1:] for who, values in folded.items() if values[0] != "retract"}


@pytest.mark.parametrize("lateness", [0, 20])
@pytest.mark.parametrize(("mine", "built_in", "starts", "ends"), REBUILT, ids=lambda w: repr(w))
def test_rebuilt_windows_are_those_built_in(mine, built_in, starts, ends, lateness):
    for seed in range(15):
        aggregates = {"s": mt.sum("w"), "l": mt.last("w")}
        setting = {"time": "t", "key": "k", "watermark": 15, "lateness": lateness}
        query = mine.agg(**aggregates)
        got = last_words(mt.WindowOperator(query, **setting), stream(seed), [query] if seed % 2 else None)
        want = last_words(mt.WindowOperator(built_in.agg(**aggregates), **setting), stream(seed))
        shifted = {(k, start - starts, end - ends): values for (k, start, end), values in got.items()}
        assert shifted == want


def test_records_are_kept_as_long_as_they_are_remembered():
    op = mt.WindowOperator(Tumbling().agg(n=mt.count()), time="t")
    for begin in range(0, 10_000, 100):
        op.process({"t": range(begin, begin + 100)})
    assert op.metrics.slices <= 20


class Failing(mt.ContextAwareWindow):
    """Removes a window that is not there."""

    columns = ("w",)

    def notify(self, edges, record):
        if record.w == 3:
            edges.remove(0, 5)


def test_a_window_that_fails_is_told_where_and_leaves_no_trace():
    op = mt.WindowOperator([Failing().agg(n=mt.count()), mt.tumbling(5).agg(n=mt.count())], time="t")
    op.process({"t": [1], "w": [1]})
    before = op.snapshot()
    message = r"Failing.notify raised ValueError\('there is no window from 0 to 5'\), at record 2 of its key"
    with pytest.raises(ValueError, match=message):
        op.process({"t": [2, 9], "w": [2, 3]})
    assert op.snapshot() == before


def test_edges_refuse_what_makes_no_sense():
    class Late(mt.ContextAwareWindow):
        def notify(self, edges, record):
            edges.add(0, 5)

    op = mt.WindowOperator(Late().agg(n=mt.count()), time="t")
    with pytest.raises(ValueError, match="there is a window from 0 to 5 already"):
        op.process({"t": [1, 2]})
    op.process({"t": [1]})
    op.advance(7)
    with pytest.raises(ValueError, match="it is 8 already: no window can end at 5 any more"):
        op.process({"t": [8]})
