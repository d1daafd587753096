"""Early results: windows that are shown before they are complete."""

from __future__ import annotations

import itertools
import random
import struct
from collections import Counter

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.engine import transaction
from muntin.techniques import Slicing, Stream, UnsupportedWorkload
from tests.early_workloads import with_early, without_early
from tests.mixed_workloads import calendars, mixed
from tests.oracle import agrees
from tests.test_filters import corrected, with_conditions
from tests.test_interruptions import check_interrupted
from tests.test_operator import check, run_operator
from tests.windows_oracle import Row
from tests.workloads import Add, Workload, workloads

# ---- random workloads ----

RANDOM = [workloads(), mixed(), with_conditions(mixed()), corrected(), calendars()]


@pytest.mark.parametrize("kind", range(len(RANDOM)))
@settings(max_examples=40)
@given(data=st.data())
def test_rows_agree_with_the_oracle(kind, data):
    check(data.draw(with_early(RANDOM[kind])))


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=60)
@given(workload=with_early(with_conditions(mixed())))
def test_final_rows_folded_are_those_without_early(workload):
    check_final(workload)


def check_final(workload: Workload) -> None:
    """The final rows of a workload, folded, are those of the same queries without early results."""
    early, plain = (final_rows(some) for some in (workload, without_early(workload)))
    assert early.keys() == plain.keys()
    for identity, row in plain.items():
        assert row.change == early[identity].change
        assert all(agrees(early[identity].values[name], value, 1e3) for name, value in row.values.items())


def final_rows(workload: Workload) -> dict[tuple, Row]:
    """The last final row of each window, but for retractions."""
    specs = {spec.name: spec for spec in workload.queries}
    found: dict[tuple, Row] = {}
    for call, step in zip(workload.calls, run_operator(workload), strict=True):
        if isinstance(call, Add):
            specs[call.spec.name] = call.spec
        for row in step.rows:
            names = (row.start, row.end, row.id, row.measures)
            if row.final:
                found[row.query, row.key, _identity(specs[row.query].kind, names)] = row
    view = {identity: row for identity, row in found.items() if row.change != "retract"}
    return {identity: row._replace(change="", revision=0) for identity, row in view.items()}


def _identity(kind: str, names: tuple) -> object:
    start, end, number, measures = names
    if measures is not None:
        return measures
    if kind in ("last_n", "landmark_every", "landmark_until_every", "landmark_length_every"):
        return end
    return (end, number) if kind.startswith("rolling") else (start, end) if number is None else number


# ---- worked out by hand ----


def lines(table: pa.Table) -> list[str]:
    """Rows in a line each: change, revision, bounds, whether final, count."""
    return [
        f"{row['change']} {row['revision']}: {row['window_start']}..{row['window_end']} "
        f"{'final' if row['final'] else 'early'} {row['n']}"
        for row in table.to_pylist()
    ]


def over(window: mt.Window, early: int = 5, **more) -> mt.WindowOperator:
    """An operator with one query that counts."""
    return mt.WindowOperator(window.agg(n=mt.count(), early=early), time="ts", **more)


def test_a_window_is_shown_when_the_newest_time_passes_a_multiple():
    op = over(mt.tumbling(20), watermark=0)
    assert lines(op.process({"ts": [1]})) == ["insert 0: 0..20 early 1"]  # the first time counts
    assert lines(op.process({"ts": [2, 4]})) == []
    assert lines(op.process({"ts": [5]})) == ["update 1: 0..20 early 4"]
    assert lines(op.advance(12)) == []
    assert lines(op.process({"ts": [13, 20]})) == ["update 2: 0..20 final 5", "insert 0: 20..40 early 1"]
    assert lines(op.finish()) == ["update 1: 20..40 final 1"]


def test_a_window_with_the_same_records_gives_no_row():
    op = over(mt.tumbling(20), watermark="manual")
    op.process({"ts": [1]})
    assert lines(op.process({"ts": [25]})) == ["insert 0: 20..40 early 1"]


def test_a_window_that_becomes_final_is_updated_though_nothing_changed():
    op = over(mt.tumbling(20), watermark="manual")
    op.process({"ts": [1]})
    assert lines(op.advance(20)) == ["update 1: 0..20 final 1"]


def test_a_session_that_grew_is_retracted_at_once():
    op = over(mt.session(4), watermark=0)
    assert lines(op.process({"ts": [1]})) == ["insert 0: 1..5 early 1"]
    assert lines(op.process({"ts": [2]})) == ["retract 1: 1..5 early None"]
    assert lines(op.process({"ts": [5]})) == ["insert 0: 1..9 early 3"]


def test_a_final_window_that_is_open_again_waits_for_the_next_time():
    op = over(mt.session(4), watermark="manual", lateness=50)
    op.process({"ts": [1]})
    assert lines(op.advance(6)) == ["update 1: 1..5 final 1"]
    # The record takes the session on to 7 > W; newest 3 passes no multiple of 5.
    assert lines(op.process({"ts": [3]})) == ["retract 2: 1..5 final None"]
    assert lines(op.process({"ts": [30]})) == ["insert 0: 1..7 early 2", "insert 0: 30..34 early 1"]


def test_a_record_before_others_moves_count_windows():
    op = over(mt.count_tumbling(2), watermark="manual")
    rows = op.process({"ts": [10, 11, 12, 13]})
    assert lines(rows) == ["insert 0: 10..11 early 2", "insert 0: 12..13 early 2"]
    # One record comes first: all windows have other records, though as many as before.
    rows = op.process({"ts": [1, 20]})
    assert lines(rows) == ["update 1: 1..10 early 2", "update 1: 11..12 early 2", "insert 0: 13..20 early 2"]


def test_having_applies_to_early_rows():
    query = mt.tumbling(20).agg(n=mt.count(), early=1, having="n <> 2")
    op = mt.WindowOperator(query, time="ts", watermark="manual")
    assert lines(op.process({"ts": [1]})) == ["insert 0: 0..20 early 1"]
    assert lines(op.process({"ts": [2]})) == ["retract 1: 0..20 early None"]
    assert lines(op.process({"ts": [3]})) == ["update 2: 0..20 early 3"]
    assert lines(op.advance(20)) == ["update 3: 0..20 final 3"]


def test_a_final_row_that_fails_takes_an_early_one_back():
    query = mt.tumbling(20).agg(n=mt.count(), early=1, having="n < 2")
    op = mt.WindowOperator(query, time="ts", watermark="manual")
    op.process({"ts": [1]})
    op.process({"ts": [0]})
    assert lines(op.advance(20)) == ["retract 1: 0..20 early None"]


def test_rows_of_other_queries_are_final():
    plain, early = mt.tumbling(5).agg(n=mt.count()), mt.tumbling(20).agg(n=mt.count(), early=5)
    for where in (None, "ts >= 0"):  # the same lane, and another
        other = mt.tumbling(5).agg(n=mt.count(), where=where)
        op = mt.WindowOperator([other, early], time="ts")
        rows = op.process({"ts": [1, 7]})
        assert rows.column_names[-2:] == ["final", "n"]
        assert dict(zip(rows["query"].to_pylist(), rows["final"].to_pylist(), strict=True)) == {
            "q0": True,
            "q1": False,
        }
    assert "final" not in mt.WindowOperator(plain, time="ts").process({"ts": [1, 7]}).column_names


def test_aggregate_gives_final_rows_only():
    query = mt.tumbling(20).agg(n=mt.count(), early=5)
    assert lines(mt.aggregate({"ts": [25, 1, 3]}, query, time="ts", columns="all")) == [
        "insert 0: 0..20 final 2",
        "insert 0: 20..40 final 1",
    ]


def test_an_added_query_is_shown_when_the_time_passes_a_multiple_and_a_removed_one_not_taken_back():
    op = mt.WindowOperator(mt.tumbling(1000).agg(n=mt.count(), name="long"), time="ts")
    op.process({"ts": [12]})
    op.add(mt.tumbling(10).agg(n=mt.count(), name="short", early=10))
    assert op.process({"ts": [13]}).column_names[-2:] == ["final", "n"]  # 13 is of no window it sees whole
    assert lines(op.process({"ts": [21]})) == ["insert 0: 20..30 early 1"]
    op.remove("short")
    rows = op.process({"ts": [35]})
    assert (rows.num_rows, "final" in rows.column_names) == (0, False)


# ---- what is refused ----


def end_of(state, t, row):
    """A discretizer."""
    return state, 1, 0


REFUSED = [
    (lambda: mt.user_window(end_of).agg(n=mt.count(), early=5), "early is not for a user_window"),
    (
        lambda: mt.policy_window(mt.policies.every(2), mt.policies.keep(3)).agg(n=mt.count(), early=5),
        "early is not for a policy_window",
    ),
    (lambda: mt.tumbling(5).agg(n=mt.count(), early=5, emit="on_change"), "early and emit='on_change'"),
    (lambda: mt.tumbling(5).agg(n=mt.count(), early=5, emit_empty=True), "early and emit_empty"),
    (lambda: mt.tumbling(5).agg(n=mt.count(), early=0), "early must be above zero"),
    (lambda: mt.tumbling(5).agg(n=mt.count(), early="soon"), "early is 'soon', which is no duration"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_where_there_are_no_early_results(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_techniques_emit_windows_once():
    query = mt.tumbling(5).agg(n=mt.count(), early=5)
    with pytest.raises(UnsupportedWorkload, match="each window that has records, once"):
        Slicing().run([query], Stream({"ts": [1, 7]}, time="ts"))


def test_final_is_a_reserved_name_where_a_query_has_early_results():
    named = mt.tumbling(5).agg(final=mt.count())
    early = mt.tumbling(5).agg(n=mt.count(), early=5)
    op = mt.WindowOperator(named, time="ts")
    assert op.process({"ts": [1, 7]})["final"].to_pylist() == [1]
    with pytest.raises(ValueError, match="an aggregate of query 'q0' is named so"):
        op.add(early)
    assert op.process({"ts": [12]})["final"].to_pylist() == [1]
    for queries, key in (([named, early], None), ([early], "final")):
        with pytest.raises(ValueError, match="is named so: rename that one"):
            mt.WindowOperator(queries, time="ts", key=key)
        with pytest.raises(ValueError, match="is named so: rename that one"):
            mt.aggregate({"ts": [1], "final": [1]}, queries, time="ts", key=key)


def test_a_duration_that_the_clock_does_not_have_changes_nothing():
    op = mt.WindowOperator(mt.tumbling(5).agg(n=mt.count()), time="ts")
    op.process({"ts": [1]})
    with pytest.raises(TypeError, match="early is '5s', but the time column holds integers"):
        op.add(mt.tumbling(5).agg(n=mt.count(), early="5s"))
    assert list(op.queries) == ["q0"]
    assert op.process({"ts": [7]})["n"].to_pylist() == [1]


# ---- snapshots ----


def format_of(snapshot: bytes) -> int:
    """The number of the format of a snapshot."""
    return struct.unpack_from("<I", snapshot, 8)[0]


def test_snapshots_say_that_they_hold_early_results():
    op = over(mt.tumbling(20), watermark="manual")
    assert format_of(op.snapshot()) == 2  # also before the first record
    op.process({"ts": [1]})
    snapshot = op.snapshot()
    assert format_of(snapshot) == 2
    restored = mt.WindowOperator.restore(snapshot)
    assert restored.queries == op.queries
    assert lines(restored.process({"ts": [3]})) == []  # the newest time came along
    assert lines(restored.advance(20)) == ["update 1: 0..20 final 2"]


def test_snapshots_without_early_results_are_as_they_were():
    op = mt.WindowOperator(mt.tumbling(20).agg(n=mt.count()), time="ts")
    op.process({"ts": [1]})
    assert format_of(op.snapshot()) == 1
    assert b"early" not in op.snapshot()


# ---- what it costs ----


def test_explain_says_what_early_results_cost():
    for window, taken_back in (
        (mt.tumbling(20), False),
        (mt.session(4), True),
        (mt.count_tumbling(2), False),
    ):
        for op in (over(window), over(window, watermark=3)):
            facts = op.explain().as_dict()["early"]
            assert "q0 each 5" in facts["each time"]
            assert ("in between" in facts) == taken_back
            assert "Early results:" in op.explain()
            assert "early 5" in op.explain()
    frames = mt.state_window("v")
    assert "in between" not in over(frames).explain().as_dict()["early"]
    assert "in between" in over(frames, watermark=3).explain().as_dict()["early"]
    plain = mt.WindowOperator(mt.tumbling(20).agg(n=mt.count()), time="ts")
    assert "early" not in plain.explain().as_dict()


# ---- calls that break off ----


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=20)
@given(workload=with_early(with_conditions(mixed())), seed=st.integers(0, 2**32))
def test_calls_broken_off_at_any_line_change_nothing(workload, seed):
    check_interrupted(workload, random.Random(seed), Counter(), [])


@pytest.mark.parametrize(
    "window", [mt.tumbling(20), mt.session(4), mt.count_tumbling(2), mt.state_window("v")]
)
def test_a_call_that_breaks_off_in_a_trial_changes_nothing(window, monkeypatch):
    batches = [{"ts": [t, t + 1], "v": [t // 3, t // 4]} for t in range(0, 40, 2)]
    calm, broken = (over(window, watermark=3, lateness=10) for _ in range(2))
    for place, batch in enumerate(batches):
        for fails in (1, 2):
            count = itertools.count(1)

            def breaking(*arguments, fails=fails, count=count, end=transaction._end_trial):
                if next(count) == fails:
                    raise KeyboardInterrupt
                return end(*arguments)

            with monkeypatch.context() as patched:
                patched.setattr(transaction, "_end_trial", breaking)
                before = broken.snapshot()
                try:
                    broken.process(batch)
                except KeyboardInterrupt:
                    assert broken.snapshot() == before
                else:
                    broken = mt.WindowOperator.restore(before)
        assert broken.process(batch).equals(calm.process(batch)), place


@pytest.mark.parametrize("window", [mt.tumbling(20), mt.session(3)])
def test_records_one_by_one_take_the_short_way_to_the_same_rows(window):
    short, long = (over(window, early=7, watermark=2, key="k", store=s) for s in ("auto", "eager"))
    for t in range(60):
        batch = {"ts": [t], "k": [t % 3]}
        assert short.process(batch).equals(long.process(batch)), t
    assert short.finish().equals(long.finish())


def test_folding_drops_early_rows_of_queries_that_were_removed():
    kept, gone = (mt.tumbling(20).agg(n=mt.count(), early=5, name=name) for name in ("kept", "gone"))
    op = mt.WindowOperator([kept, gone], time="ts")
    tables = [op.process({"ts": [1, 7]})]
    op.remove("gone")
    tables += [op.process({"ts": [25]}), op.finish()]
    assert mt.fold(tables)["query"].to_pylist() == ["kept", "gone", "kept"]
    folded = mt.fold(tables, queries=op.queries)
    assert folded.select(["query", "window_start", "final", "n"]).to_pylist() == [
        {"query": "kept", "window_start": 0, "final": True, "n": 2},
        {"query": "kept", "window_start": 20, "final": True, "n": 1},
    ]


def test_folded_rows_of_tables_without_early_queries_are_final():
    early, plain = mt.tumbling(20).agg(n=mt.count(), early=5, name="e"), mt.tumbling(20).agg(m=mt.count())
    op = mt.WindowOperator([early, plain], time="ts")
    tables = [op.process({"ts": [1, 7]})]
    op.remove("e")
    tables += [op.process({"ts": [25]}), op.finish()]
    rows = mt.fold(tables, queries=op.queries)
    assert rows["final"].to_pylist() == [True, True]
