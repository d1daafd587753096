import itertools

import pytest

import muntin as mt
from muntin.algebra.builtin import PROVIDES
from muntin.algebra.fusion import Field, cover, fuse
from tests.aggregates import Affine, SumOfSquares


def parts(*aggregates):
    return sorted(field.part for field in fuse(aggregates).fields)


@pytest.mark.parametrize(
    ("aggregates", "want"),
    [
        ([mt.sum("v"), mt.mean("v")], ["n", "sum"]),
        ([mt.mean("v"), mt.variance("v")], ["spread", "sum"]),
        ([mt.mean("v"), mt.variance("v"), mt.stddev("v"), mt.count("v")], ["spread", "sum"]),
        ([mt.variance("v"), mt.variance("v", ddof=0)], ["spread"]),
        ([mt.max("v"), mt.max_count("v")], ["max_count"]),
        ([mt.min("v"), mt.max("v"), mt.relative_variation("v")], ["max", "min"]),
        ([mt.relative_variation("v"), mt.max_count("v"), mt.min_count("v")], ["max_count", "min_count"]),
        ([mt.max("v"), mt.argmax("v", "w")], ["argmax"]),
        ([mt.geomean("v"), mt.mean("v")], ["logs", "n", "sum"]),
        ([mt.count(), mt.count("v")], ["n", "rows"]),
        ([mt.sum("v"), mt.sum("v")], ["sum"]),
        ([], []),
    ],
)
def test_shares(aggregates, want):
    assert parts(*aggregates) == want
    assert parts(*reversed(aggregates)) == want


def test_columns_are_kept_apart():
    fields = fuse([mt.sum("v"), mt.mean("w")]).fields
    assert set(fields) == {Field("sum", ("v",)), Field("n", ("w",)), Field("sum", ("w",))}
    assert len(fuse([mt.argmax("v", "w"), mt.argmax("v", "x"), mt.max("v")]).fields) == 2


def test_own_aggregates_are_fields_of_their_own():
    fields = fuse([SumOfSquares("v"), SumOfSquares("v"), SumOfSquares("w"), Affine("v"), mt.sum("v")]).fields
    assert len(fields) == 4


def test_reads_point_at_the_right_components():
    aggregates = [mt.mean("v"), mt.variance("v"), mt.max("v"), mt.max_count("v")]
    fusion = fuse(aggregates)
    for aggregate, reads in zip(aggregates, fusion.reads, strict=True):
        names = [PROVIDES[fusion.fields[field].part][number][0] for field, number in reads]
        assert tuple(names) == aggregate.needs


def test_no_smaller_set_exists():
    """Try all sets of parts for all triples of aggregates: the greedy choice is the least, in scalars."""
    names = [
        "count_v",
        "sum",
        "mean",
        "geomean",
        "variance",
        "min",
        "max",
        "min_count",
        "max_count",
        "argmax",
    ]
    make = {"count_v": lambda: mt.count("v"), "argmax": lambda: mt.argmax("v", "w")}
    size = {part: len(components) for part, components in PROVIDES.items()}
    for chosen in itertools.combinations(names, 3):
        aggregates = [make.get(n, lambda n=n: getattr(mt, n)("v"))() for n in chosen]
        needed = {need for a in aggregates for need in a.needs}
        fields, _ = cover([(a.needs, a.columns) for a in aggregates])
        cost = sum(size[f.part] for f in fields)
        relevant = [p for p, components in PROVIDES.items() if needed & {c for c, _ in components}]
        least = min(
            sum(size[p] for p in some)
            for k in range(len(relevant) + 1)
            for some in itertools.combinations(relevant, k)
            if needed <= {c for p in some for c, _ in PROVIDES[p]}
        )
        assert cost == least, chosen
