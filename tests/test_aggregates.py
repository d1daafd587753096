"""Every aggregate in every kind of window gives the rows that the semantics page asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.mixed_workloads import mixed
from tests.test_operator import check
from tests.window_types import Spec
from tests.workloads import HOLISTIC, Add, Workload, workloads

# Shards are spread over processes; 750 examples each by default.


@st.composite
def holistic(draw: st.DrawFn) -> Workload:
    """A whole run of the operator, whose queries ask for what grows with the records."""
    workload = draw(st.one_of(workloads(), mixed()))

    def asking(spec: Spec) -> Spec:
        calls = draw(st.lists(st.sampled_from(HOLISTIC), min_size=1, max_size=2, unique=True))
        return replace(spec, aggregates={"_".join(call): call for call in calls})

    calls: list[Any] = [Add(asking(c.spec)) if isinstance(c, Add) else c for c in workload.calls]
    return replace(workload, queries=[asking(spec) for spec in workload.queries], calls=calls)


@pytest.mark.parametrize("shard", range(2))
@settings(max_examples=settings().max_examples * 15 // 2)
@given(workload=holistic())
def test_operator_agrees_with_the_oracle(shard: int, workload: Workload) -> None:
    check(workload)
