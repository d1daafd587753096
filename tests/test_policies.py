"""Policies that users write themselves do as the built-in ones do."""

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt


def marked(held):
    return held[-1].p is True


def all_but_three(held):
    return max(0, len(held) - 3)


def older_than_ten(held):
    return sum(row.t <= held[-1].t - 10 for row in held)


def far_from_the_newest(held):
    newest = held[-1].v
    if newest is None:
        return 0
    near = [row.v is None or abs(row.v - newest) <= 2 for row in held]
    return near.index(True)


def before_a_mark(held):
    return len(held) - 1 if held[-1].q is True else 0


EVICTIONS = [
    (mt.policies.keep(3), all_but_three),
    (mt.policies.within(10), older_than_ten),
    (mt.policies.delta("v", by=2), far_from_the_newest),
    (mt.policies.when("q"), before_a_mark),
]
COLUMNS = ["p", "q", "v"]


def batches(seed):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0, 1, 2, 7], 90))
    arrival = np.argsort(times + rng.integers(0, 12, len(times)), kind="stable")

    def some(values):
        return pa.array([None if rng.random() < 0.2 else v for v in values])

    table = pa.table(
        {
            "t": times,
            "k": np.array(["a", "b"])[rng.integers(0, 2, len(times))],
            "p": some((rng.random(len(times)) < 0.3).tolist()),
            "q": some((rng.random(len(times)) < 0.2).tolist()),
            "v": some(rng.integers(-4, 5, len(times)).astype(float).tolist()),
        }
    )
    return [table.take(pa.array(part)) for part in np.array_split(arrival, 7)]


def run(window, seed, lateness):
    """All rows, with the operator replaced by its snapshot on the way."""
    query = window.agg(n=mt.count(), last=mt.last("v"))
    op = mt.WindowOperator(query, time="t", key="k", watermark=12, lateness=lateness)
    rows = []
    for number, batch in enumerate(batches(seed)):
        if number == 3:
            op = mt.WindowOperator.restore(op.snapshot(), queries=[query])
        rows += op.process(batch).to_pylist()
    rows += op.finish().to_pylist()
    return sorted(map(repr, rows))


@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize(("evict", "own"), EVICTIONS, ids=lambda e: getattr(e, "__name__", repr(e)))
def test_own_policies_do_as_the_built_in_ones(evict, own, lateness):
    when, every = mt.policies.when("p"), mt.policies.every(3)
    for seed in range(8):
        want = run(mt.policy_window(when, evict), seed, lateness)
        assert want
        assert run(mt.policy_window(marked, own, columns=COLUMNS), seed, lateness) == want
        assert run(mt.policy_window(marked, evict, columns=["p"]), seed, lateness) == want
        assert run(mt.policy_window(when, own, columns=["q", "v"]), seed, lateness) == want
        in_turn = run(mt.policy_window(every, evict), seed, lateness)
        assert run(mt.policy_window(every, own, columns=COLUMNS), seed, lateness) == in_turn


def too_many(held):
    return len(held) + 1 if held[-1].t == 9 else 0


def divides(held):
    return 0 * (1 // (held[-1].t - 9))


@pytest.mark.parametrize(
    ("evict", "message"),
    [
        (too_many, "too_many lets go of 3 records where 2 are held, at record 1 of its key, of time 9"),
        (divides, r"divides raised ZeroDivisionError\(.*\), at record 1 of its key, of time 9"),
    ],
)
def test_a_function_that_fails_is_told_where_and_leaves_no_trace(evict, message):
    op = mt.WindowOperator(mt.policy_window(mt.policies.every(2), evict).agg(n=mt.count()), time="t")
    op.process({"t": [1]})
    before = op.snapshot()
    with pytest.raises(ValueError, match=message):
        op.process({"t": [9]})
    assert op.snapshot() == before


def test_all_may_be_let_go_of():
    op = mt.WindowOperator(mt.policy_window(lambda held: True, len).agg(n=mt.count()), time="t")
    assert op.process({"t": [1, 2]}).num_rows == 0
