"""The decision trees, leaf by leaf: Figures 4, 5 and 6 of general stream slicing, written out."""

import itertools
from dataclasses import replace

import pytest

import muntin as mt
from muntin.engine.plan.decisions import (
    Abilities,
    Characteristics,
    Decisions,
    Stream,
    characteristics,
    decide,
    together,
)
from muntin.windows import count_sliding, count_tumbling, cumulate, session, sliding, tumbling

# A session is a forward context free window of its own kind; there is none by count.
# The last three columns: how records are removed if the aggregate is invertible, selective, or neither.
TABLE = """
in order     | context free          | time  | commutative | drop | never          | starts          | never  | never      | never
in order     | context free          | time  | ordered     | drop | never          | starts          | never  | never      | never
in order     | context free          | count | commutative | drop | never          | starts and ends | never  | never      | never
in order     | context free          | count | ordered     | drop | never          | starts and ends | never  | never      | never
in order     | forward context free  | time  | commutative | drop | never          | starts and ends | never  | never      | never
in order     | forward context free  | time  | ordered     | drop | never          | starts and ends | never  | never      | never
in order     | forward context free  | count | commutative | drop | never          | starts and ends | never  | never      | never
in order     | forward context free  | count | ordered     | drop | never          | starts and ends | never  | never      | never
in order     | session               | time  | commutative | drop | never          | gaps            | never  | never      | never
in order     | session               | time  | ordered     | drop | never          | gaps            | never  | never      | never
in order     | forward context aware | time  | commutative | keep | by recomputing | starts and ends | never  | never      | never
in order     | forward context aware | time  | ordered     | keep | by recomputing | starts and ends | never  | never      | never
in order     | forward context aware | count | commutative | keep | by recomputing | starts and ends | never  | never      | never
in order     | forward context aware | count | ordered     | keep | by recomputing | starts and ends | never  | never      | never
out of order | context free          | time  | commutative | drop | never          | starts and ends | never  | never      | never
out of order | context free          | time  | ordered     | keep | never          | starts and ends | never  | never      | never
out of order | context free          | count | commutative | keep | never          | starts and ends | invert | if extreme | recompute
out of order | context free          | count | ordered     | keep | never          | starts and ends | invert | if extreme | recompute
out of order | forward context free  | time  | commutative | keep | by recomputing | starts and ends | never  | never      | never
out of order | forward context free  | time  | ordered     | keep | by recomputing | starts and ends | never  | never      | never
out of order | forward context free  | count | commutative | keep | by recomputing | starts and ends | invert | if extreme | recompute
out of order | forward context free  | count | ordered     | keep | by recomputing | starts and ends | invert | if extreme | recompute
out of order | session               | time  | commutative | drop | in gaps        | gaps            | never  | never      | never
out of order | session               | time  | ordered     | keep | in gaps        | gaps            | never  | never      | never
out of order | forward context aware | time  | commutative | keep | by recomputing | starts and ends | never  | never      | never
out of order | forward context aware | time  | ordered     | keep | by recomputing | starts and ends | never  | never      | never
out of order | forward context aware | count | commutative | keep | by recomputing | starts and ends | invert | if extreme | recompute
out of order | forward context aware | count | ordered     | keep | by recomputing | starts and ends | invert | if extreme | recompute
"""  # noqa: E501
ORDERS = ["in order", "out of order"]
CONTEXTS = ["context free", "forward context free", "session", "forward context aware"]
ALGEBRAS = ["invertible", "selective", "neither"]
FIELDS = ["keep_records", "splits", "removal", "cut_at"]


def rows():
    """Yield the cells that ask, then what is expected: kept, splits, removal, cut at."""
    for line in TABLE.strip().splitlines():
        *asked, kept, splits, cut_at, invertible, selective, neither = [c.strip() for c in line.split("|")]
        for algebra, removal in zip(ALGEBRAS, [invertible, selective, neither], strict=True):
            yield (*asked, algebra), (kept == "keep", splits, removal, cut_at)


def workload(order, context, measure, commutes, algebra):
    return Characteristics(
        in_order=order == "in order",
        context="forward context free" if context == "session" else context,
        session=context == "session",
        measure=measure,
        commutative=commutes == "commutative",
        invertible=algebra in ("invertible", "both"),
        selective=algebra in ("selective", "both"),
    )


def plain(decisions):
    return tuple(getattr(decisions, field) for field in FIELDS)


@pytest.mark.parametrize(("asked", "expected"), [*rows()], ids=lambda row: "-".join(map(str, row)))
def test_decide(asked, expected):
    decisions = decide(workload(*asked))
    assert plain(decisions) == expected
    assert [field for field, _ in decisions.reasons] == FIELDS
    assert all(why[0].isupper() and why.endswith(".") for _, why in decisions.reasons)


def test_the_table_has_every_row():
    every = itertools.product(ORDERS, CONTEXTS, ["time", "count"], ["commutative", "ordered"], ALGEBRAS)
    sensible = [row for row in every if row[1:3] != ("session", "count")]
    assert sorted(asked for asked, _ in rows()) == sorted(sensible)


def test_an_inverse_is_preferred_to_selection():
    assert (
        decide(workload("out of order", "context free", "count", "commutative", "both")).removal == "invert"
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("in order", "forward context aware", "time", "commutative", "neither"), "Later records"),
        (("out of order", "context free", "time", "ordered", "neither"), "depends on their order"),
        (("out of order", "session", "time", "ordered", "neither"), "depends on their order"),
        (("out of order", "forward context free", "time", "commutative", "neither"), "set edges"),
        (("out of order", "forward context aware", "time", "commutative", "neither"), "set edges"),
        (("out of order", "context free", "count", "commutative", "neither"), "other positions"),
        (("in order", "context free", "time", "ordered", "neither"), "in order"),
        (("out of order", "context free", "time", "commutative", "neither"), "in any order"),
        (("out of order", "session", "time", "commutative", "neither"), "only merge"),
    ],
)
def test_the_reason_names_the_condition_of_figure_4(asked, words):
    assert words in dict(decide(workload(*asked)).reasons)["keep_records"]


def of(window, aggregate, in_order=False):
    return decide(characteristics(window, Abilities.of(aggregate), Stream(in_order)))


@pytest.mark.parametrize(
    ("window", "context", "is_session", "measure"),
    [
        (tumbling("1m"), "context free", False, "time"),
        (sliding("1m", "10s"), "context free", False, "time"),
        (cumulate("1m", "10s"), "context free", False, "time"),
        (session("30s"), "forward context free", True, "time"),
        (count_tumbling(10), "context free", False, "count"),
        (count_sliding(10, 3), "context free", False, "count"),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("aggregate", "algebra"),
    [
        (mt.sum("v"), (True, True, False)),
        (mt.max("v"), (True, False, True)),
        (mt.max_count("v"), (True, False, False)),
        (mt.first("v"), (False, False, True)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("in_order", [True, False])
def test_characteristics(window, context, is_session, measure, aggregate, algebra, in_order):
    found = characteristics(window, Abilities.of(aggregate), Stream(in_order))
    assert found == Characteristics(in_order, context, is_session, measure, *algebra)


class Joined(mt.Aggregate):
    """Strings end to end: not commutative."""

    def combine(a, b):
        return a + b


class NewestLeaves(Joined):
    def invert(a, b):
        return a.removesuffix(b)


class OldestLeaves(Joined):
    def invert_oldest(a, b):
        return a.removeprefix(b)


@pytest.mark.parametrize(
    ("aggregate", "removal"),
    [
        (mt.sum("v"), "invert"),
        (mt.max("v"), "if extreme"),
        (mt.first("v"), "if extreme"),
        (mt.max_count("v"), "recompute"),
        (Joined("v"), "recompute"),
        (NewestLeaves("v"), "invert"),
        (OldestLeaves("v"), "recompute"),  # its inverse is for the other end
    ],
    ids=repr,
)
def test_the_newest_record_of_a_slice_is_removed(aggregate, removal):
    assert of(count_sliding(10, 3), aggregate).removal == removal


def test_together_takes_the_strongest_of_each():
    queries = [of(tumbling("1m"), mt.sum("v"), in_order=True), of(session("30s"), mt.sum("v"))]
    assert plain(together(queries)) == (False, "in gaps", "never", "starts")
    queries.append(of(count_tumbling(5), mt.max("v")))
    assert plain(together(queries)) == (True, "in gaps", "if extreme", "starts and ends")
    queries.append(decide(workload("in order", "forward context aware", "time", "commutative", "neither")))
    assert plain(together(queries)) == (True, "by recomputing", "if extreme", "starts and ends")
    queries.append(of(count_tumbling(5), mt.max_count("v")))
    assert plain(together(queries)) == (True, "by recomputing", "recompute", "starts and ends")
    for order in itertools.permutations(queries):
        assert plain(together(order)) == plain(together(queries))


def test_together_gives_the_reasons_of_the_deciding_query():
    plainly, by_count = of(tumbling("1m"), mt.sum("v")), of(count_tumbling(5), mt.sum("v"))
    reasons = dict(together([plainly, by_count]).reasons)
    assert list(reasons) == FIELDS
    assert reasons["keep_records"] == dict(by_count.reasons)["keep_records"]
    assert reasons["removal"] == dict(by_count.reasons)["removal"]
    # Among equals, the first.
    gap = of(session("30s"), mt.sum("v"), in_order=True)
    assert together([plainly, gap]).splits == together([gap, plainly]).splits == "never"
    assert dict(together([gap, plainly]).reasons)["splits"] == dict(gap.reasons)["splits"]
    assert dict(together([plainly, gap]).reasons)["splits"] == dict(plainly.reasons)["splits"]


def test_together_of_one_and_of_none():
    one = of(session("30s"), mt.first("v"))
    assert together(iter([one])) == one
    none = together([])
    assert plain(none) == (False, "never", "never", "gaps")
    assert dict(none.reasons) == dict.fromkeys(FIELDS, "There are no queries.")


def test_decisions_are_values():
    assert of(tumbling("1m"), mt.sum("v")) == of(tumbling("2h"), mt.mean("v"))
    assert len({of(tumbling("1m"), mt.sum("v")), of(sliding("1m", "7s"), mt.max("v"))}) == 1
    assert of(tumbling("1m"), mt.sum("v")) != of(tumbling("1m"), mt.first("v"))
    assert isinstance(hash(Decisions(True, "never", "never", "starts")), int)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("context", ["forward context free", "forward context aware"])
def test_slices_of_one_record_are_never_split(in_order, context):
    asked = workload("in order" if in_order else "out of order", context, "time", "commutative", "neither")
    decisions = decide(replace(asked, settles=True, each_record=True))
    assert plain(decisions) == (not in_order, "never", "never", "each record")


def test_what_settles_first_is_neither_split_nor_removed():
    asked = workload("out of order", "forward context free", "count", "commutative", "neither")
    assert plain(decide(replace(asked, settles=True)))[:3] == (True, "never", "never")
    aware = workload("out of order", "forward context aware", "time", "commutative", "neither")
    assert decide(replace(aware, settles=True)).splits == "by recomputing"
    late, final = Stream(False, corrects=True), Stream(False, corrects=False)
    by_stream = [
        decide(characteristics(count_tumbling(5), Abilities.of(mt.max("v")), s)) for s in (late, final)
    ]
    assert [d.removal for d in by_stream] == ["if extreme", "never"]
