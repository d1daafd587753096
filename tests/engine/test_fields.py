"""The protocol of fields, held by each implementation: its verbs against plain folds of the same records."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.algebra.aggregate import RowAggregate
from muntin.algebra.fusion import Field, fuse
from muntin.engine.ingest.batch import Values
from muntin.engine.partials import FieldPartials, make_field
from muntin.engine.partials.base import States
from muntin.engine.rows import Answers, struct_of
from muntin.engine.store import AggregateStore, Panes
from muntin.engine.store.answers import answers_of
from muntin.engine.store.strategies import STRATEGIES, Ranges, choose
from tests.aggregates import Affine, Concat, Listed, SumOfSquares, Union
from tests.oracle import agrees, answer, ewm, quantile


class Fractions(mt.Aggregate):
    """A sum of fractions: objects, with an inverse."""

    commutative = True

    def lift(v: Any) -> Any:
        return Fraction(v)

    def combine(a: Any, b: Any) -> Any:
        return a + b

    def invert(a: Any, b: Any) -> Any:
        return a - b


class Seen(RowAggregate):
    """Which of a few digits occur, in a row that is combined in place."""

    width, dtype, commutative = 10, "u1", True

    def lift_into(row: Any, v: Any) -> None:
        row[v] = 1

    def combine_into(row: Any, a: Any, b: Any) -> None:
        np.bitwise_or(a, b, row)

    def lower(row: Any) -> list[int]:
        return np.flatnonzero(row).tolist()


@dataclass(frozen=True)
class Case:
    """A field, by the aggregate that it serves and the form that it is in."""

    aggregate: mt.Aggregate
    kinds: tuple[str, ...] | None
    value: st.SearchStrategy[Any]  # of a record: a value, or a tuple of several
    want: Callable[[list[Any]], Any]  # of the values of a window, at least one and none of them null
    nullable: bool = False

    def field(self) -> FieldPartials:
        fusion = fuse([self.aggregate])
        assert len(fusion.fields) == 1
        return make_field(fusion.fields[0], fusion.own.get(0), self.kinds, nullable=self.nullable)

    def records(self, *, nulls: bool | None = None) -> st.SearchStrategy[list[Any]]:
        with_nulls = self.nullable if nulls is None else nulls
        value = st.one_of(st.none(), self.value, self.value) if with_nulls else self.value
        return st.lists(value, min_size=1, max_size=6)

    def expected(self, records: Sequence[Any]) -> Any:
        present = [r for r in records if r is not None] if self.aggregate.skips_nulls else list(records)
        return self.want(present) if present else self.aggregate.empty

    def values(self, field: FieldPartials, records: Sequence[Any]) -> Values:
        """Return records as the engine reads them for a field."""
        inputs = fuse([self.aggregate]).fields[0].columns
        valid = np.array([record is not None for record in records], bool)
        columns = []
        for k in range(len(inputs)):
            column = [record[k] if isinstance(record, tuple) else record for record in records]
            if field.reads_objects or self.kinds is None:
                data = np.empty(len(column), object)
                data[:] = column
            else:
                data = np.array([0 if value is None else value for value in column], self.kinds[k])
            columns.append(data)
        return Values(tuple(columns), None if valid.all() else valid, len(records), field.kinds)

    def answers(self, field: FieldPartials, states: States) -> list[Any]:
        """Return what the partials of a field come to."""
        reads = fuse([self.aggregate]).reads[0]
        return listed(answers_of(AggregateStore({0: field}), self.aggregate, reads, lambda _: states))

    def check(self, field: FieldPartials, states: States, windows: Sequence[Sequence[Any]]) -> None:
        """Hold partials to what the records of each come to."""
        got, want = self.answers(field, states), [self.expected(records) for records in windows]
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert agrees(one, other, scale=100.0), (got, want)


def listed(answers: Answers) -> list[Any]:
    """Return answers as Python's objects, None for null."""
    data, names = answers.data, getattr(answers.data, "dtype", np.dtype(object)).names
    rows = data if isinstance(data, list) else data.tolist()
    rows = [struct_of(record) for record in data] if names else rows
    gone = itertools.repeat(False) if answers.missing is None else answers.missing.tolist()
    return [None if missing else row for row, missing in zip(rows, gone, strict=False)]


def folded(aggregate: mt.Aggregate) -> Callable[[list[Any]], Any]:
    """Return the fold of lifted values, one after the other."""
    return lambda values: aggregate.lower(functools.reduce(aggregate.combine, map(aggregate.lift, values)))


def exact_share(values: list[float], q: float) -> float:
    """Return the smallest value that a share of all lies at or below."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


INTEGERS = st.integers(-9, 9)
LARGE = st.integers(-(2**40), 2**40)
HALVES = INTEGERS.map(lambda n: n / 2)
ODD = st.sampled_from([0.5, -1.5, 3.0, 3.0, math.inf, -math.inf, math.nan])
TEXTS = st.text("ab", max_size=2)
DIGITS = st.integers(0, 9)
PAIRS_OF_DECIMALS = st.tuples(INTEGERS.map(Decimal), INTEGERS.map(Decimal))


def oracle(name: str) -> Callable[[list[Any]], Any]:
    return lambda values: answer(name, values)


def own(aggregate: mt.Aggregate, kinds: Any, value: Any, *, nullable: bool = False) -> Case:
    return Case(aggregate, kinds, value, folded(aggregate), nullable)


CASES = {
    "count": Case(mt.count(), (), INTEGERS, len),
    "count of values, nullable": Case(mt.count("v"), ("f8",), HALVES, len, nullable=True),
    "sum of floats": Case(mt.sum("v"), ("f8",), HALVES, oracle("sum")),
    "sum of floats, not all finite": Case(mt.sum("v"), ("f8",), ODD, oracle("sum")),
    "sum of floats, nullable": Case(mt.sum("v"), ("f8",), HALVES, oracle("sum"), nullable=True),
    "sum of integers": Case(mt.sum("v"), ("i8",), LARGE, oracle("sum")),
    "sum of integers, nullable": Case(mt.sum("v"), ("i8",), LARGE, oracle("sum"), nullable=True),
    "sum of decimals": Case(mt.sum("v"), None, INTEGERS.map(Decimal), sum, nullable=True),
    "max of floats": Case(mt.max("v"), ("f8",), ODD, oracle("max")),
    "max of floats, nullable": Case(mt.max("v"), ("f8",), ODD, oracle("max"), nullable=True),
    "max of texts": Case(mt.max("v"), None, TEXTS, oracle("max"), nullable=True),
    "min_count": Case(mt.min_count("v"), ("i8",), INTEGERS, oracle("min_count")),
    "first, nullable": Case(mt.first("v"), ("i8",), INTEGERS, oracle("first"), nullable=True),
    "last of texts": Case(mt.last("v"), None, TEXTS, oracle("last"), nullable=True),
    "argmax": Case(mt.argmax("v", "w"), ("i8", "f8"), st.tuples(INTEGERS, HALVES), oracle("argmax")),
    "variance": Case(mt.variance("v"), ("f8",), HALVES, oracle("variance")),
    "m4": Case(mt.m4("v"), ("i8", "i8"), st.tuples(INTEGERS, INTEGERS), oracle("m4")),
    "covariance": Case(
        mt.covariance("v", "w"), ("f8", "i8"), st.tuples(HALVES, INTEGERS), oracle("covariance")
    ),
    "correlation of decimals": Case(
        mt.correlation("v", "w"), None, PAIRS_OF_DECIMALS, oracle("correlation"), nullable=True
    ),
    "regression": Case(
        mt.regression("v", "w"), ("f8", "f8"), st.tuples(HALVES, HALVES), oracle("regression"), nullable=True
    ),
    "weighted_mean": Case(
        mt.weighted_mean("v", "w"), ("f8", "i8"), st.tuples(ODD, DIGITS), oracle("weighted_mean")
    ),
    "ewm": Case(mt.ewm("v", alpha=0.25), ("f8",), ODD, lambda values: ewm(values, 0.25), nullable=True),
    "median": Case(mt.median("v"), ("i8",), INTEGERS, oracle("median"), nullable=True),
    "quantiles": Case(
        mt.quantile("v", [0.0, 0.3]), ("f8",), HALVES, lambda vs: [quantile(vs, 0.0), quantile(vs, 0.3)]
    ),
    "mode of texts": Case(mt.mode("v"), None, TEXTS, oracle("mode"), nullable=True),
    "count_distinct": Case(mt.count_distinct("v"), ("f8",), ODD, oracle("count_distinct"), nullable=True),
    "collect_distinct": Case(mt.collect_distinct("v"), ("i8",), INTEGERS, oracle("collect_distinct")),
    "collect": Case(mt.collect("v"), ("f8",), ODD, list, nullable=True),
    "concat": Case(mt.concat("v"), None, TEXTS, "".join, nullable=True),
    "approx_count_distinct": own(mt.approx_count_distinct("v"), ("i8",), INTEGERS, nullable=True),
    "approx_quantile": Case(
        mt.approx_quantile("v", 0.4), ("f8",), HALVES, lambda vs: exact_share(vs, 0.4), nullable=True
    ),
    "approx_top_k of texts": own(mt.approx_top_k("v", 2), None, TEXTS, nullable=True),
    "bloom_filter": own(mt.bloom_filter("v"), ("i8",), INTEGERS, nullable=True),
    "user's, compiled": own(Affine("v"), ("i8",), INTEGERS),
    "user's, compiled, nullable": own(Affine("v"), ("i8",), INTEGERS, nullable=True),
    "user's, compiled, commutative": own(SumOfSquares("v"), ("f8",), HALVES),
    "user's texts": own(Concat("v"), None, TEXTS, nullable=True),
    "user's sets": own(Union("v"), ("i8",), INTEGERS),
    "user's lists, with an answer over nothing": own(Listed("v"), None, TEXTS, nullable=True),
    "user's objects with an inverse": own(Fractions("v"), None, INTEGERS),
    "user's rows": own(Seen("v"), ("i8",), DIGITS),
}
every_field = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
few_examples = settings(max_examples=12)


def segments_of(case: Case, data: Any, *, count: int | None = None, nulls: bool | None = None) -> Any:
    """Draw records in segments, none of which is empty."""
    sizes = {"min_size": 1, "max_size": 5} if count is None else {"min_size": count, "max_size": count}
    return data.draw(st.lists(case.records(nulls=nulls), **sizes))


def partials_of(case: Case, field: FieldPartials, segments: Sequence[Sequence[Any]]) -> States:
    """Return the partials of segments of records."""
    records = list(itertools.chain(*segments))
    bounds = np.append(0, np.cumsum([len(segment) for segment in segments]))
    return field.of_segments(case.values(field, records), bounds)


def test_all_forms_of_fields_are_here() -> None:
    made = {type(case.field()).__name__ for case in CASES.values()}
    assert made == {"CompiledField", "ObjectField", "SketchField", "RunsField", "ListField"}
    assert {case.field().form for case in CASES.values()} == {"plain", "nullable", "object"}


@every_field
@few_examples
@given(st.data())
def test_partials_of_segments(case: Case, data: Any) -> None:
    segments, field = segments_of(case, data), case.field()
    states = partials_of(case, field, segments)
    case.check(field, states, segments)
    present = field.present(states)
    holds = [any(record is not None for record in segment) for segment in segments]
    assert (present is None and all(holds)) or present.tolist() == holds


@every_field
def test_room_for_partials_holds_no_value(case: Case) -> None:
    field = case.field()
    room = field.allocate(3)
    assert len(room) == 3
    present = field.present(room)
    assert present is None or not present.any()


@every_field
@few_examples
@given(st.data())
def test_records_are_scattered_over_partials(case: Case, data: Any) -> None:
    field, count = case.field(), 4
    windows: list[list[Any]] = [[] for _ in range(count)]
    states, blank = field.allocate(count), np.ones(count, bool)
    for _ in range(2):
        records = data.draw(case.records())
        at = data.draw(st.lists(st.integers(0, 2), min_size=len(records), max_size=len(records)))
        apart = data.draw(st.booleans())
        field.scatter(case.values(field, records), np.array(at), blank, states, apart=apart)
        for place, record in zip(at, records, strict=True):
            windows[place].append(record)
        assert blank.tolist() == [not window for window in windows]
    touched = np.flatnonzero(~blank)
    case.check(field, states[touched], [windows[place] for place in touched])


@every_field
@few_examples
@given(st.data())
def test_single_records_are_added(case: Case, data: Any) -> None:
    field, records = case.field(), data.draw(case.records())
    states = field.allocate(2)
    for k, record in enumerate(records):
        field.add_one(case.values(field, [record]), states, 1, k == 0)
        case.check(field, states[1:], [records[: k + 1]])


@every_field
@few_examples
@given(st.data())
def test_partials_are_merged_in_turn(case: Case, data: Any) -> None:
    field, older = case.field(), segments_of(case, data, count=2)
    newer = segments_of(case, data)
    at = data.draw(st.lists(st.integers(0, 2), min_size=len(newer), max_size=len(newer)))
    windows, blank = [*map(list, older), []], []
    for place, segment in zip(at, newer, strict=True):
        blank.append(not windows[place])
        windows[place] += segment
    states = field.allocate(3)
    states[:2] = partials_of(case, field, older)
    others = partials_of(case, field, newer)
    field.merge(states, np.array(at), np.array(blank), others)
    filled = [place for place in range(3) if windows[place]]
    case.check(field, states[filled], [windows[place] for place in filled])
    case.check(field, others, newer)  # what was merged is as it was


@every_field
@few_examples
@given(st.data())
def test_ranges_are_folded_each_by_itself(case: Case, data: Any) -> None:
    field, segments = case.field(), segments_of(case, data)
    states, ranges = partials_of(case, field, segments), some_ranges(data, len(segments))
    low, high = np.array(ranges).T
    windows = [list(itertools.chain(*segments[begin:end])) for begin, end in ranges]
    for fold in (field.each_range, field.each_window):
        out, combines = fold(states, low, high)
        case.check(field, out, windows)
        assert 0 <= combines <= int((high - low).sum()) - len(low)
    case.check(field, states, segments)


def some_ranges(data: Any, count: int) -> list[tuple[int, int]]:
    """Draw ranges of some things, none of which is empty."""
    begins = st.integers(0, count - 1)
    pairs = begins.flatmap(lambda begin: st.tuples(st.just(begin), st.integers(begin + 1, count)))
    return data.draw(st.lists(pairs, min_size=1, max_size=6))


@every_field
@few_examples
@given(st.data())
def test_partials_are_followed_by_those_of_records(case: Case, data: Any) -> None:
    field, segments, records = case.field(), segments_of(case, data), data.draw(case.records())
    states = field.followed(partials_of(case, field, segments), case.values(field, records))
    case.check(field, states, [*segments, *([record] for record in records)])
    alone = field.followed(field.allocate(0), case.values(field, records))
    case.check(field, alone, [[record] for record in records])


# A null may come in any column. Integers that 64 bits do not hold come as objects, as decimals never do.
CONVERTED = {
    f"{name}: {form}": (case, form == "objects")
    for name, case in CASES.items()
    for form in ("a null", "objects")
    if (case.kinds if form == "a null" else (case.kinds or ("f8",))[0] == "i8")
}


@pytest.mark.parametrize(("case", "objects"), CONVERTED.values(), ids=CONVERTED)
@few_examples
@given(st.data())
def test_partials_are_converted_for_values_of_another_form(case: Case, objects: bool, data: Any) -> None:
    field, older = case.field(), segments_of(case, data)
    states = partials_of(case, field, older)
    newer = segments_of(case, data, count=len(older), nulls=True)
    records = list(itertools.chain(*newer))
    read = case.values(make_field_of_objects(case) if objects else field, records)
    kinds = None if objects else field.kinds
    new = field.accept(Values(read.columns, read.valid, read.count, kinds))
    if new is not field:
        states = field.converted(states, new)
    case.check(new, states, older)
    assert new.accept(case.values(new, records)) is new
    added = partials_of(case, new, newer)
    new.merge(states, np.arange(len(older)), np.zeros(len(older), bool), added)
    case.check(new, states, [[*one, *other] for one, other in zip(older, newer, strict=True)])


def make_field_of_objects(case: Case) -> FieldPartials:
    fusion = fuse([case.aggregate])
    return make_field(fusion.fields[0], fusion.own.get(0), None, nullable=True)


REMOVING = {name: case for name, case in CASES.items() if case.field().removes_exactly}
SELECTIVE = {name: case for name, case in CASES.items() if case.field().selective}


@pytest.mark.parametrize("case", REMOVING.values(), ids=REMOVING)
@few_examples
@given(st.data())
def test_records_are_taken_out_of_partials(case: Case, data: Any) -> None:
    field, kept = case.field(), segments_of(case, data)
    leaving = segments_of(case, data, count=len(kept))
    whole = [[*one, *other] for one, other in zip(kept, leaving, strict=True)]
    states = partials_of(case, field, whole)
    case.check(field, field.without(states, partials_of(case, field, leaving)), kept)
    case.check(field, states, whole)


@pytest.mark.parametrize("case", SELECTIVE.values(), ids=SELECTIVE)
@few_examples
@given(st.data())
def test_partials_tell_whether_they_select_a_record_that_leaves(case: Case, data: Any) -> None:
    field, kept = case.field(), segments_of(case, data)
    leaving = segments_of(case, data, count=len(kept))
    states = partials_of(case, field, [[*one, *other] for one, other in zip(kept, leaving, strict=True)])
    selected = field.selected(states, partials_of(case, field, leaving)).tolist()
    for one, other, chosen in zip(kept, leaving, selected, strict=True):
        if not chosen:
            assert agrees(case.expected([*one, *other]), case.expected(one))
    # Where the extreme is among those that stay alone, nothing is selected.
    without_odd = [v for v in itertools.chain(*kept) if v == v]
    if case.aggregate == mt.max("v") and math.inf not in without_odd:
        highest = partials_of(case, field, [[math.inf, 0.5]])
        assert field.selected(highest, partials_of(case, field, [[0.5]])).tolist() == [False]


def test_fields_that_remove_and_select_are_here() -> None:
    assert {"count", "sum of integers", "user's objects with an inverse"} == set(REMOVING)
    assert {"max of floats", "min_count"} == set(SELECTIVE)
    for case in (CASES["max of texts"], CASES["approx_quantile"], CASES["median"]):
        field = case.field()
        with pytest.raises(TypeError, match=r"cannot take 2 partials out of 2"):
            FieldPartials.without(field, field.allocate(2), field.allocate(2))
        with pytest.raises(TypeError, match=r"does not select among 2 partials"):
            field.selected(field.allocate(2), field.allocate(2))


@every_field
@few_examples
@given(st.data())
def test_partials_that_somebody_holds_are_packed(case: Case, data: Any) -> None:
    field, segments = case.field(), segments_of(case, data)
    before = field.nbytes
    states = partials_of(case, field, segments)
    partials_of(case, field, segments)  # nobody holds these
    held = np.flatnonzero([data.draw(st.booleans()) for _ in segments])
    grown = field.nbytes
    one, other = field.pack([states[held], states[:0]])
    assert len(other) == 0
    case.check(field, one, [segments[k] for k in held.tolist()])
    assert before == 0
    assert field.nbytes <= grown // 2
    assert not field.crowded
    assert field.packs or grown == 0


@pytest.mark.parametrize("name", ["sum of integers", "sum of integers, nullable"])
@few_examples
@given(st.data())
def test_sums_of_integers_are_bounded(name: str, data: Any) -> None:
    case = CASES[name]
    field, segments = case.field(), segments_of(case, data)
    assert field.adds_integers
    bound = field.sum_bound(partials_of(case, field, segments))
    assert bound >= sum(abs(case.expected(segment) or 0) for segment in segments)


def test_only_sums_of_integers_add_integers() -> None:
    adding = [name for name, case in CASES.items() if case.field().adds_integers]
    assert adding == ["sum of integers", "sum of integers, nullable"]
    objects = make_field(Field("sum", ("v",)), None, None, nullable=True)
    assert not objects.adds_integers
    with pytest.raises(TypeError, match=r"adds up no integers"):
        objects.sum_bound(objects.allocate(1))


def test_fields_without_components_say_so() -> None:
    field = CASES["median"].field()
    with pytest.raises(TypeError, match=r"holds no components"):
        field.components(field.allocate(1), floats=False)


# ---- fold strategies: ranges of the cells of several keys ----

FOLDED = [
    (case, strategy.name)
    for case in CASES.values()
    for strategy in STRATEGIES
    if strategy.name in case.field().folds
]
BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}
KEYS, QUERIES = 2, 3


class Cells:
    """A store with cells of several keys, and the records of each."""

    def __init__(self, case: Case) -> None:
        self.case, self.field = case, case.field()
        self.store = AggregateStore({0: self.field})
        self.records: list[list[list[Any]]] = [[] for _ in range(KEYS)]  # by key, then time
        self.start = 0

    def add(self, segments: Sequence[Sequence[Any]]) -> None:
        """Add a cell of each key in turn."""
        keys = np.arange(len(segments)) % KEYS
        for key, segment in zip(keys.tolist(), segments, strict=True):
            self.records[key].append(list(segment))
        start = self.start + 10 * np.arange(len(segments))
        self.start += 10 * len(segments)
        rows = np.array([len(segment) for segment in segments])
        states = {0: partials_of(self.case, self.field, segments)}
        self.store.add(Panes(keys, start, start, start, rows, states))

    def check(self, name: str, data: Any) -> None:
        """Fold ranges of keys' cells for some queries by a strategy."""
        low, high, query, windows = [], [], [], []
        for number in range(QUERIES):
            before = 0
            for cells in self.records:
                for begin, end in some_ranges(data, len(cells)) if cells else ():
                    low.append(before + begin)
                    high.append(before + end)
                    query.append(number)
                    windows.append(list(itertools.chain(*cells[begin:end])))
                before += len(cells)
        ranges = Ranges(self.store, np.array(low), np.array(high), np.array(query), QUERIES)
        states, combines = BY_NAME[name].fold(0, ranges)
        self.case.check(self.field, states, windows)
        assert combines >= 0
        assert BY_NAME[name].cost(self.field, ranges) >= 0


@pytest.mark.parametrize(
    ("case", "name"), FOLDED, ids=[f"{n}: {s}" for n, c in CASES.items() for s in c.field().folds]
)
@few_examples
@given(st.data())
def test_strategies_fold_ranges_as_cells_come(case: Case, name: str, data: Any) -> None:
    cells = Cells(case)
    for _ in range(2):
        cells.add(segments_of(case, data, count=data.draw(st.integers(2, 6))))
        cells.check(name, data)


@every_field
def test_each_field_can_do_what_it_says(case: Case) -> None:
    folds = case.field().folds
    assert folds
    assert set(folds) <= set(BY_NAME)


def ranges_of(cells: int, length: int, queries: int = 1) -> Ranges:
    """Return windows over so many cells of one key, each of a length, one further than the one before."""
    store = AggregateStore({})
    store.count = cells
    low = np.tile(np.arange(cells - length + 1), queries)
    query = np.repeat(np.arange(queries), cells - length + 1)
    return Ranges(store, low, low + length, query, queries)


ASKED = [
    ("auto", "sum of floats", ranges_of(100, 3), "each"),  # too short to share anything
    ("auto", "sum of floats", ranges_of(100, 4), "prefix"),
    ("auto", "sum of floats", ranges_of(100, 100), "each"),  # one window alone
    ("auto", "max of floats", ranges_of(100, 4), "each"),
    ("auto", "max of floats", ranges_of(100, 20), "slide"),
    ("auto", "max of floats", ranges_of(100, 20, queries=17), "levels"),
    ("auto", "user's, compiled", ranges_of(100, 20, queries=17), "slide"),
    ("auto", "approx_quantile", ranges_of(100, 50), "levels"),
    ("auto", "approx_quantile", ranges_of(100, 4), "each"),
    ("auto", "user's texts", ranges_of(100, 50), "each"),
    ("auto", "median", ranges_of(100, 50), "ranges"),
    ("lazy", "sum of floats", ranges_of(100, 50), "each"),
    ("lazy", "approx_quantile", ranges_of(100, 50), "each"),
    ("lazy", "median", ranges_of(100, 50), "ranges"),
    ("eager", "sum of floats", ranges_of(100, 3), "tree"),
    ("eager", "max of floats", ranges_of(100, 50), "tree"),
    ("eager", "approx_quantile", ranges_of(100, 50), "levels"),
    ("sliding", "sum of floats", ranges_of(100, 100), "prefix"),
    ("sliding", "max of floats", ranges_of(100, 2, queries=17), "slide"),
    ("sliding", "user's texts", ranges_of(100, 50), "each"),
]


@pytest.mark.parametrize(("store", "name", "ranges", "want"), ASKED)
def test_the_strategy_that_was_asked_for_or_costs_least_is_taken(
    store: Any, name: str, ranges: Ranges, want: str
) -> None:
    assert choose(store, CASES[name].field(), ranges).name == want
