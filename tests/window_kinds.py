"""Random queries of the windows beyond grids, sessions and counts, and records to run them over.

`tests.workloads` draws what every part of a workload is; here are the kinds that look at more columns.
Measures are put in at the end, since they must not go back in canonical order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa

from tests.packed import as_often, packed
from tests.user_functions import DISCRETIZERS
from tests.window_types import Key, Record, Spec
from tests.workloads import CALLS, HALVES, SMALL

_lengths = st.integers(1, 12)
_few = st.integers(1, 5)
_predicates = st.sampled_from(["p", "q"])
_both = st.permutations(["p", "q"])
_halves = st.sampled_from(HALVES)
_columns = st.sampled_from(["v", "w"])

_parts = st.tuples(st.integers(0, 9), st.integers(1, 15)).map(lambda p: (p[0], p[0] + p[1]))
OWN = st.tuples(st.just(10), st.lists(_parts, min_size=1, max_size=3, unique=True).map(tuple))
MEASURED = st.one_of(
    st.tuples(st.just("tumbling"), st.tuples(_lengths, st.integers(-5, 5))),
    st.tuples(st.just("sliding"), st.tuples(_lengths, _lengths, st.integers(-5, 5))),
    st.tuples(st.just("cumulate"), st.tuples(_few, _few).map(lambda p: (p[0] * p[1], p[0]))),
)
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu"]

# What an aggregate frame may wait for, with bounds that are reached now and then.
REACHED = st.one_of(
    st.tuples(st.just(("count",)), _few),
    st.tuples(st.just(("sum", "v")), _halves.map(lambda x: 2 * x)),
    st.tuples(st.just(("sum", "w")), st.integers(-2, 12)),
    st.tuples(st.sampled_from([("max", "v"), ("mean", "v"), ("last", "v")]), _halves),
)

WINDOWS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "own": OWN,
    "rolling": st.tuples(_lengths),
    "rolling_rows": st.tuples(_few),
    "feature": st.tuples(
        st.sampled_from(["rows", "rolling", "tumbling"]),
        _few,
        st.sampled_from(["right", "left"]),
        st.integers(0, 2),
    ),
    "last_span": st.tuples(_lengths, _few),
    "last_n": st.tuples(_few, _lengths),
    "punctuation": st.one_of(st.tuples(_predicates, st.none()), _both.map(tuple)),
    "landmark": st.tuples(_predicates),
    "landmark_until": _both.map(tuple),
    "landmark_length": st.tuples(_predicates, _lengths),
    "landmark_every": st.tuples(_predicates, _lengths),
    "landmark_until_every": st.tuples(_both, _lengths).map(lambda p: (*p[0], p[1])),
    "landmark_length_every": st.tuples(_predicates, _lengths, _lengths),
    "threshold_frame": st.tuples(
        _columns, st.sampled_from([">", ">=", "<", "<=", "==", "!="]), st.integers(-2, 2), st.integers(1, 3)
    ),
    "delta_frame": st.tuples(_columns, st.integers(0, 5)),
    "aggregate_frame": REACHED,
    "state_window": st.tuples(st.sampled_from(["s", "w", "v", "p"])),
    "on": MEASURED.map(lambda grid: ("m", *grid)),
    "user_window": st.tuples(st.sampled_from(list(DISCRETIZERS))),
    "aware": st.tuples(_few, _lengths),
    "policy_window": st.tuples(
        st.one_of(st.tuples(st.just("every"), _few), st.tuples(st.just("when"), _predicates)),
        st.one_of(
            st.tuples(st.just("keep"), _few),
            st.tuples(st.just("within"), _lengths),
            st.tuples(st.just("delta"), _columns, st.integers(0, 5)),
            st.tuples(st.just("when"), _predicates),
        ),
    ),
}
# Over times that are seconds, with steps between records of hours and days.
CALENDAR = st.tuples(
    st.sampled_from(["day", "week", "month", "quarter", "year"]), st.sampled_from(ZONES), st.just("s")
)


@st.composite
def specs(draw: st.DrawFn, name: str, kinds: Iterable[str] = tuple(WINDOWS)) -> Spec:
    """A query of one of these kinds under this name, that emits all its windows with records."""
    kind = draw(st.sampled_from(list(kinds)))
    params = draw(CALENDAR if kind == "calendar" else WINDOWS[kind])
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=2, unique=True))
    return Spec(name, kind, params, {"_".join(call): call for call in calls})


_FLAGS = [True, False, False, None]
_VALUES = as_often(HALVES, [math.nan, math.inf, -math.inf, 0.0, -0.0, None])
_STATES = [0.0, -0.0, 1.0, math.nan, None]


def records(
    keys: Sequence[Key], gaps: Sequence[int], lags: Sequence[int], tie: bool = False
) -> st.SearchStrategy[tuple[int, Record]]:
    """Records with all columns but the measure, each with a gap; what is in `t` is a lag.

    The caller turns both into a time. `w` has no nulls, since discretizers and arguments of argmax read it.
    """
    ties = range(4) if tie else [0]
    drawn = packed(gaps, lags, _VALUES, SMALL, keys, ties, _FLAGS, _FLAGS, _STATES, [0, 0, 1, 2, 5])
    return drawn.map(lambda parts: (parts[0], Record(*parts[1:])))


def with_measures(stream: list[Record], tie: bool = False) -> list[Record]:
    """The whole stream of a workload, in the order of arrival, with measures that never go back.

    Until now `m` says by how much the measure of a record exceeds that of the one before it of its key.
    """
    order = sorted(range(len(stream)), key=lambda i: (stream[i].t, stream[i].tie if tie else 0, i))
    reached: dict[Any, Any] = defaultdict(int)
    measured = list(stream)
    for place in order:
        record = stream[place]
        reached[record.key] += record.m
        measured[place] = record._replace(m=reached[record.key])
    return measured


def columns_of(stream: list[Record]) -> dict[str, pa.Array]:
    """The columns that `tests.workloads.batch_of` leaves out."""
    return {
        "p": pa.array([r.p for r in stream], pa.bool_()),
        "q": pa.array([r.q for r in stream], pa.bool_()),
        "s": pa.array([r.s for r in stream], pa.float64()),
        "m": pa.array([r.m for r in stream], pa.int64()),
    }
