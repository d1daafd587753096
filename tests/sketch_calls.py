"""Random workloads whose queries ask for sketches, and what these must answer.

So few values are drawn that every sketch holds them exactly: an answer is then what brute force says, or, for
a blob, right about each value that can be drawn. Nothing here knows how values are hashed or merged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st

import muntin as mt
from tests import windows_oracle, workloads
from tests.workloads import Add, Workload

SHARES = [0.0, 0.25, 0.5, 0.9, 1.0]
MADE: dict[str, Callable[[str], mt.Aggregate]] = {
    "distinct": mt.approx_count_distinct,
    "middle": mt.approx_quantile,
    "ranks": lambda column: mt.approx_quantile(column, SHARES),
    "top": lambda column: mt.approx_top_k(column, 3),
    "counts": mt.count_min_sketch,
    "members": mt.bloom_filter,
}
CALLS = [(name, column) for name in MADE for column in ("v", "w")]
OTHERS = [100.5, -0.25, 17.0]  # never drawn


class Told:
    """What an answer must tell; equal to each one that does."""

    def __init__(self, content: Any, fits: Callable[[Any], bool]) -> None:
        self.content, self.fits = repr(content), fits

    def __eq__(self, answer: object) -> bool:
        if isinstance(answer, Told):
            return self.content == answer.content
        return answer is not None and self.fits(answer)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.content}>"


def order(value: Any) -> tuple[bool, Any]:
    """NaN is the largest value."""
    return value != value, 0 if value != value else value


def tally(values: list[Any]) -> list[tuple[Any, int]]:
    """Each value and how often it occurs; NaN equals NaN, and -0.0 equals 0.0."""
    nan = sum(v != v for v in values)
    counts = sorted(Counter(v + 0 for v in values if v == v).items())
    return [*counts, (math.nan, nan)] if nan else counts


def quantile(values: list[Any], share: float) -> float:
    """The smallest value that a share of all lies at or below."""
    ranked = sorted(values, key=order)
    return float(ranked[max(0, math.ceil(round(share * len(ranked), 6)) - 1)])


def ranks(values: list[Any]) -> Told:
    """The values at several ranks."""
    want = [quantile(values, share) + 0.0 for share in SHARES]  # -0.0 is 0.0
    return Told(want, lambda answer: repr(answer) == repr(want))


def top(values: list[Any]) -> Told:
    """The three most frequent values, of equal counts the smallest."""
    ranked = sorted(tally(values), key=lambda pair: (-pair[1], order(pair[0])))[:3]
    want = [{"value": value, "count": count} for value, count in ranked]
    return Told(want, lambda answer: repr(answer) == repr(want))


def counts(values: list[Any]) -> Told:
    """A count for each value, and none for others."""
    pairs = [*tally(values), *((value, 0) for value in OTHERS)]
    # Some twenty values in 272 buckets of five rows: that one meets others in all five does not happen.
    return Told(
        tally(values), lambda blob: all(mt.count_min_estimate(blob, value) == n for value, n in pairs)
    )


def members(values: list[Any]) -> Told:
    """Each value, and no other."""
    present = [value for value, _ in tally(values)]
    absent = [v for v in (*OTHERS, *range(-8, 9)) if not any(v == p for p in present)]
    return Told(
        present,
        lambda blob: (
            all(mt.bloom_contains(blob, v) for v in present)
            and not any(mt.bloom_contains(blob, v) for v in absent)
        ),
    )


windows_oracle.OWN.update(
    distinct=lambda values: len(tally(values)),
    middle=lambda values: quantile(values, 0.5),
    ranks=ranks,
    top=top,
    counts=counts,
    members=members,
)
windows_oracle.EMPTY["distinct"] = 0
workloads.OWN.update(MADE)  # type: ignore[arg-type]


@st.composite
def sketched(draw: st.DrawFn, drawn: st.SearchStrategy[Workload]) -> Workload:
    """A workload with other aggregates."""
    workload = draw(drawn)

    def changed(spec: Any) -> Any:
        calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=2, unique=True))
        return replace(spec, aggregates={"_".join(call): call for call in calls})

    queries = [changed(spec) for spec in workload.queries]
    calls = [Add(changed(c.spec)) if isinstance(c, Add) else c for c in workload.calls]
    return replace(workload, queries=queries, calls=calls)
