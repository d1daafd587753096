"""Random workloads in which windows of every kind run side by side.

`tests.workloads` says what a workload is and draws its calls, `tests.window_kinds` draws the queries that
look at what records say. Measures come last: they must not go back in the order of the whole stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st

from tests import window_kinds, workloads
from tests.window_types import Record, Spec
from tests.workloads import EXACT, KEYS, Advance, Call, Finish, Process, Setting, Workload

KINDS = (
    "rolling",
    "rolling_rows",
    "feature",
    "last_span",
    "last_n",
    "punctuation",
    "landmark",
    "landmark_until",
)
KINDS += ("landmark_length", "landmark_every", "landmark_until_every", "landmark_length_every")
KINDS += (
    "threshold_frame",
    "delta_frame",
    "aggregate_frame",
    "state_window",
    "on",
    "user_window",
    "own",
    "policy_window",
    "aware",
)


@st.composite
def specs(draw: st.DrawFn, name: str, setting: Setting, kinds: Sequence[str]) -> Spec:
    """A query, two times in three of one of these kinds."""
    if draw(st.sampled_from([True, False, False])):
        return draw(workloads.specs(name, setting))
    spec = draw(window_kinds.specs(name, kinds))
    if setting.lateness or setting.tie or draw(st.sampled_from([True, True, True, False])):
        return spec
    calls = draw(st.lists(st.sampled_from(EXACT), min_size=1, max_size=2, unique=True))
    return replace(spec, aggregates={"_".join(call): call for call in calls}, emit="on_change")


@st.composite
def _records(draw: st.DrawFn, keys: tuple[str, ...], setting: Setting) -> Any:
    """A strategy for records that say how far the clock moves before them, and how far they lag behind it."""
    pool = draw(st.lists(KEYS[keys], min_size=1, max_size=4, unique=True))
    gaps = workloads.GAPS * 2 + [1000, 10**9] if setting.spells else workloads.GAPS
    lags = draw(st.sampled_from(workloads.LAGS))
    return window_kinds.records(pool, gaps, lags, setting.tie)


def _with_measures(calls: list[Call], tie: bool) -> list[Call]:
    """Put measures into all records, which until now say by how much they go on."""
    stream = [record for call in calls if isinstance(call, Process) for record in call.records]
    measured: list[Record] = window_kinds.with_measures(stream, tie)
    done: list[Call] = []
    for call in calls:
        if isinstance(call, Process):
            size = len(call.records)
            done.append(replace(call, records=measured[:size]))
            measured = measured[size:]
        else:
            done.append(call)
    return done


@st.composite
def mixed(draw: st.DrawFn, kinds: Sequence[str] = KINDS) -> Workload:
    """A whole run of the operator, over windows of these kinds and those of `tests.workloads`."""
    setting = draw(workloads.settings_())
    size, more = draw(st.integers(1, 5)), draw(st.integers(0, 2))
    queries = [draw(specs(f"q{place}", setting, kinds)) for place in range(size + more)]
    keys = draw(st.sampled_from(list(KEYS)))
    steps = draw(workloads.steps(draw(_records(keys, setting)), setting.policy == "manual"))
    clock = workloads.Clock(setting.policy, draw(st.sampled_from([0, 7, -1, -20, 100, -(10**9)])))
    calls = workloads.put_together(steps, [spec.name for spec in queries[:size]], queries[size:], clock)
    if draw(st.sampled_from([True] * 9 + [False])):
        calls.append(Finish())
    return Workload(
        queries=queries[:size],
        calls=_with_measures(calls, setting.tie),
        policy=setting.policy,
        lateness=setting.lateness,
        keys=keys,
        tie=setting.tie,
        store=draw(st.sampled_from(["auto", "lazy", "eager", "sliding"])),
        marked=True,
    )


_HOUR = 3600
_SINCE = [
    1_325_000_000,
    1_679_000_000,
    1_698_000_000,
    -2_000_000_000,
    4_000_000_000,
]  # some about clock changes


@st.composite
def calendars(draw: st.DrawFn) -> Workload:
    """A run of the operator over timestamps, most queries of which are calendars."""
    setting = draw(workloads.settings_())
    size, more = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    queries = []
    for place in range(size + more):
        spec = draw(window_kinds.specs(f"q{place}", ["calendar"]))
        if draw(st.sampled_from([True, False, False, False])):
            hours = _HOUR * draw(st.integers(1, 60))
            spec = replace(
                spec,
                **draw(
                    st.sampled_from(
                        [{"kind": "tumbling", "params": (hours, 0)}, {"kind": "session", "params": (hours,)}]
                    )
                ),
            )
        elif draw(st.sampled_from([True, False, False, False])) and not setting.tie:
            spec = replace(spec, emit_empty=True)
        queries.append(spec)
    keys = draw(st.sampled_from(list(KEYS)))
    steps = draw(
        workloads.steps(draw(_records(keys, replace(setting, spells=False))), setting.policy == "manual")
    )
    scale = draw(st.sampled_from([_HOUR, 5 * _HOUR, 24 * _HOUR, 100 * _HOUR]))
    clock = workloads.Clock(setting.policy, draw(st.sampled_from(_SINCE)) // scale)
    calls = workloads.put_together(steps, [spec.name for spec in queries[:size]], queries[size:], clock)
    if draw(st.booleans()):
        calls.append(Finish())
    policy = setting.policy
    return Workload(
        queries=queries[:size],
        calls=[_scaled(call, scale) for call in calls],
        policy=policy if isinstance(policy, str) else policy * scale,
        lateness=setting.lateness * scale,
        keys=keys,
        tie=setting.tie,
        store=draw(st.sampled_from(["auto", "lazy", "eager", "sliding"])),
        seconds=True,
    )


def _scaled(call: Call, scale: int) -> Call:
    """Let times be so many seconds apart; some off the hour."""
    if isinstance(call, Process):
        return replace(call, records=[r._replace(t=r.t * scale) for r in call.records], form="table")
    return replace(call, to=call.to * scale) if isinstance(call, Advance) else call


@st.composite
def mixed_tables(draw: st.DrawFn, kinds: Sequence[str] = KINDS) -> Workload:
    """A finite table in any row order, as the one batch of a workload."""
    setting = Setting("in_order", 0, tie=False, spells=draw(st.booleans()))
    queries = [draw(specs(f"q{place}", setting, kinds)) for place in range(draw(st.integers(1, 5)))]
    keys = draw(st.sampled_from(list(KEYS)))
    drawn = draw(st.lists(draw(_records(keys, setting)), max_size=60))
    clock = workloads.Clock("manual", draw(st.sampled_from([0, 7, -20, -(10**9)])))
    batch = Process([clock.stamp(gap, record) for gap, record in drawn])
    return Workload(queries, [*_with_measures([batch], False), Finish()], "manual", keys=keys, marked=True)
