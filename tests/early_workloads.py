"""Random workloads in which some queries have early results."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st

from tests.window_types import Spec
from tests.windows_oracle import USERS
from tests.workloads import Add, Workload

_EVERY = (1, 3, 5, 12, 40)


def allows_early(spec: Spec) -> bool:
    """Whether a query may have early results at all."""
    return spec.kind not in USERS and not spec.emit_empty and spec.emit == "all"


@st.composite
def with_early(draw: st.DrawFn, drawn: st.SearchStrategy[Workload]) -> Workload:
    """A workload in which most queries have early results, where they may."""
    workload = draw(drawn)
    scale = 3600 if workload.seconds else 1

    def early(spec: Spec) -> Spec:
        every = draw(st.sampled_from([None, *(n * scale for n in _EVERY)]))
        return replace(spec, early=every) if allows_early(spec) else spec

    queries = [early(spec) for spec in workload.queries]
    calls = [Add(early(call.spec)) if isinstance(call, Add) else call for call in workload.calls]
    return replace(workload, queries=queries, calls=calls)


def without_early(workload: Workload) -> Workload:
    """The same workload, in which all windows come when they are complete."""
    queries = [replace(spec, early=None) for spec in workload.queries]
    calls = [
        Add(replace(call.spec, early=None)) if isinstance(call, Add) else call for call in workload.calls
    ]
    return replace(workload, queries=queries, calls=calls)
