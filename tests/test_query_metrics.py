"""What each query accounts for: slices, bytes and combines."""

import pytest

import muntin as mt


def operator() -> mt.WindowOperator:
    return mt.WindowOperator(
        [
            mt.sliding(30, every=10).agg(total=mt.sum("v"), name="sums"),
            mt.sliding(20, every=10).agg(top=mt.max("v"), name="tops"),
            mt.session(5).agg(n=mt.count(), name="visits"),
        ],
        time="ts",
        store="lazy",
    )


def test_slices_and_bytes_are_those_that_serve_a_query() -> None:
    op = operator()
    assert {name: told.slices for name, told in op.query_metrics.items()} == dict.fromkeys(op.queries, 0)
    op.process({"ts": [1, 12, 25, 31], "v": [1, 2, 3, 4]})
    told = op.query_metrics
    assert told["sums"].slices == told["tops"].slices == 4 - told["visits"].slices
    assert told["sums"].state_bytes + told["visits"].state_bytes < op.metrics.state_bytes
    assert told["visits"].slices == 1


def test_combines_add_up_to_those_of_all_windows() -> None:
    op = operator()
    for start in range(0, 1000, 50):
        op.process({"ts": list(range(start, start + 50, 3)), "v": [1] * 17})
    told = op.query_metrics
    assert sum(one.combines for one in told.values()) == pytest.approx(op.metrics.final_combines, abs=2)
    assert told["sums"].combines > told["tops"].combines > 0
    before = told["sums"].combines
    for t in range(1000, 1100):  # one record a call
        op.process({"ts": [t], "v": [1]})
    assert op.query_metrics["sums"].combines > before
    assert sum(one.combines for one in op.query_metrics.values()) == pytest.approx(
        op.metrics.final_combines, abs=2
    )


def test_a_look_up_and_a_refused_call_count_for_nothing() -> None:
    op = operator()
    op.process({"ts": list(range(100)), "v": [1] * 100})
    told = op.query_metrics
    op.lookup(70, 100, name="sums")
    with pytest.raises(ValueError, match="null"):
        op.process({"ts": [200, None], "v": [1, 1]})
    assert op.query_metrics == told
