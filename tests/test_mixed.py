"""Windows of every kind, side by side with the others, give the rows that the semantics page asks for."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import muntin as mt
from tests.mixed_workloads import calendars, mixed, mixed_tables
from tests.test_operator import check, check_rows, told
from tests.windows_oracle import one_shot
from tests.workloads import batch_of, query_of

# Shards are spread over processes; 250 examples each by default, 2500 in the long profile.


@pytest.mark.parametrize("shard", range(5))
@settings(max_examples=settings().max_examples * 5 // 2)
@given(workload=mixed())
def test_operator_agrees_with_the_oracle(shard, workload):
    check(workload)


@given(workload=mixed(("last_n", "last_n", "aware", "policy_window", "punctuation")))
def test_windows_that_split_slices_agree_with_the_oracle(workload):
    check(workload)


@given(workload=calendars())
def test_calendars_agree_with_the_oracle(workload):
    check(workload)


@pytest.mark.parametrize("shard", range(2))
@given(workload=mixed_tables(), shuffle=st.randoms(use_true_random=False))
def test_aggregate_agrees_with_the_oracle(shard, workload, shuffle):
    batch = workload.calls[0]
    # Records of one key and time keep their order: their measures depend on it.
    places = list(range(len(batch.records)))
    shuffle.shuffle(places)
    groups: dict = {}
    for record in batch.records:
        groups.setdefault((record.key, record.t), []).append(record)
    records = [groups[batch.records[p].key, batch.records[p].t].pop(0) for p in places]
    queries = [query_of(spec) for spec in workload.queries]
    table = batch_of(records, workload.keys, False, batch.form, True)
    rows = mt.aggregate(table, queries, time="t", key=list(workload.keys) or None, columns="all")
    got = told(rows, workload.keys)
    check_rows(got, one_shot(workload.queries, records), workload.queries, "mt.aggregate")
    assert all((row.change, row.revision) == ("insert", 0) for row in got)
