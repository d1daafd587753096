"""Conditions on records and on rows, and expressions for columns: the operator does as the oracle says."""

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given, settings

import muntin as mt
from tests.conditions import FLAGS, NUMBERS, WHERE, having
from tests.mixed_workloads import mixed, mixed_tables
from tests.test_operator import check, check_rows, told
from tests.window_types import Spec
from tests.windows_oracle import one_shot
from tests.workloads import Add, Workload, batch_of, query_of

# ---- random workloads ----

_OVER_NUMBERS = ("count", "sum", "min", "max", "mean", "first", "last", "collect")


@st.composite
def filtered(draw: st.DrawFn, spec: Spec, wheres: list[str | None]) -> Spec:
    """A query with conditions, and with expressions where it had columns."""
    aggregates = dict(spec.aggregates)
    for call in spec.aggregates.values():
        if call[0] in _OVER_NUMBERS and len(call) == 2 and draw(st.booleans()):
            computed = (call[0], draw(st.sampled_from(list(NUMBERS))))
            del aggregates["_".join(call)]
            aggregates["_".join(computed)] = computed
    params = spec.params
    if spec.kind in ("threshold_frame", "delta_frame", "state_window") and draw(st.booleans()):
        params = (draw(st.sampled_from(list(NUMBERS))), *params[1:])
    if spec.kind.startswith(("punctuation", "landmark")) and draw(st.booleans()):
        params = (draw(st.sampled_from(list(FLAGS))), *params[1:])
    condition = None
    if draw(st.booleans()):
        column = draw(st.sampled_from(list(aggregates)))
        condition = (column, draw(st.sampled_from(list(having(column, aggregates[column])))))
    where = draw(st.sampled_from(wheres))
    return replace(spec, aggregates=aggregates, params=params, where=where, having=condition)


@st.composite
def with_conditions(draw: st.DrawFn, drawn: st.SearchStrategy[Workload]) -> Workload:
    """A workload whose queries are under a few conditions."""
    workload = draw(drawn)
    wheres = draw(st.lists(st.sampled_from([None, *WHERE]), min_size=1, max_size=3))
    queries = [draw(filtered(spec, wheres)) for spec in workload.queries]
    calls = [
        Add(draw(filtered(call.spec, wheres))) if isinstance(call, Add) else call for call in workload.calls
    ]
    return replace(workload, queries=queries, calls=calls)


@settings(max_examples=150)
@given(workload=with_conditions(mixed()))
def test_operator_agrees_with_the_oracle(workload):
    check(workload)


@settings(max_examples=30)
@given(workload=with_conditions(mixed_tables()))
def test_aggregate_agrees_with_the_oracle(workload):
    batch = workload.calls[0]
    queries = [query_of(spec) for spec in workload.queries]
    table = batch_of(batch.records, workload.keys, False, batch.form, True)
    got = told(mt.aggregate(table, queries, time="t", key=list(workload.keys) or None), workload.keys)
    want = one_shot(workload.queries, batch.records) if batch.records else []
    check_rows(got, want, workload.queries, "mt.aggregate")
