import functools
import math

import hypothesis.strategies as st
import pytest
from hypothesis import given

import muntin as mt
from muntin.algebra.aggregate import NO_IDENTITY
from tests.oracle import OVER_VALUES, agrees, answer

# Squares of values below 1e-150 leave the normal floats, and with them their digits.
finite = st.floats(-1e6, 1e6).map(lambda x: x if abs(x) > 1e-100 else 0.0)
numbers = st.one_of(st.integers(-1000, 1000), finite)


def over(aggregate, values, algebra=None):
    algebra = algebra or aggregate.algebra()
    states = [algebra.lift(*v) if aggregate.arity > 1 else algebra.lift(v) for v in values]
    return algebra.lower(functools.reduce(algebra.combine, states))


def over_tree(aggregate, values, cut):
    """Combine in another grouping: every grouping must give the same."""
    algebra = aggregate.algebra()

    def fold(items):
        if len(items) == 1:
            return algebra.lift(items[0])
        middle = 1 + cut % (len(items) - 1)
        return algebra.combine(fold(items[:middle]), fold(items[middle:]))

    return algebra.lower(fold(values))


@pytest.mark.parametrize("name", OVER_VALUES)
@given(values=st.lists(numbers, min_size=1, max_size=30), cut=st.integers(0, 100))
def test_equals_its_definition_in_any_grouping(name, values, cut):
    aggregate = getattr(mt, name)()
    scale = math.fsum(map(abs, values))
    want = answer(name, values)
    assert agrees(over(aggregate, values), want, scale)
    assert agrees(over_tree(aggregate, values, cut), want, scale)


@pytest.mark.parametrize("name", sorted(set(OVER_VALUES) - {"geomean", "product"}))
@given(
    values=st.lists(
        st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.0]), min_size=1, max_size=8
    )
)
def test_nan_and_infinity(name, values):
    if name == "mean" and len({math.inf, -math.inf} & set(values)) == 2:
        return  # the oracle's own sum depends on the order there
    assert agrees(over(getattr(mt, name)(), values), answer(name, values))


@given(values=st.lists(st.tuples(numbers, st.text(max_size=3)), min_size=1, max_size=20))
def test_arguments_of_extremes_take_the_first(values):
    assert over(mt.argmax(), values) == answer("argmax", values)
    assert over(mt.argmin(), values) == answer("argmin", values)


def test_largest_nan_comes_with_its_argument():
    assert over(mt.argmax(), [(1.0, "a"), (math.nan, "b"), (math.nan, "c")]) == "b"
    assert over(mt.argmin(), [(math.nan, "a"), (1.0, "b"), (1.0, "c")]) == "b"


def test_integers_stay_integers():
    assert over(mt.sum(), [2**62, -(2**62), 5]) == 5
    assert isinstance(over(mt.sum(), [1, 2]), int)
    assert isinstance(over(mt.max(), [1, 2]), int)


@pytest.mark.parametrize("kinds", [None, ("i8",)])
def test_a_sum_beyond_64_bits_raises_and_never_wraps(kinds):
    algebra = mt.sum().algebra(kinds)
    with pytest.raises(OverflowError, match="64-bit range"):
        over(mt.sum(), [2**62, 2**62], algebra)
    assert over(mt.sum(), [2**62, 2**62 - 1], algebra) == 2**63 - 1
    assert over(mt.sum(), [-(2**62), -(2**62)], algebra) == -(2**63)


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_limbs_are_exact_whatever_overflows_on_the_way(values):
    algebra = mt.sum().algebra(("i8",))
    total = sum(values)
    if -(2**63) <= total < 2**63:
        assert over(mt.sum(), values, algebra) == total
    else:
        with pytest.raises(OverflowError):
            over(mt.sum(), values, algebra)
    mean = mt.mean().algebra(("i8",))
    assert math.isclose(over(mt.mean(), values, mean), total / len(values), rel_tol=1e-12, abs_tol=1e3)


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_variance_keeps_its_digits_far_from_zero(offset, n):
    values = [offset + (k * 7919 % 101) / 50 for k in range(n)]
    want = answer("variance", values)
    assert math.isclose(over(mt.variance(), values), want, rel_tol=1e-12)
    assert math.isclose(over_tree(mt.variance(), values, 17), want, rel_tol=1e-12)


def test_variance_of_an_outlier_first():
    values = [1e12] + [float(k % 3) for k in range(1000)]
    assert math.isclose(over(mt.variance(), values), answer("variance", values), rel_tol=1e-9)


def test_degrees_of_freedom():
    assert over(mt.variance(ddof=0), [5.0]) == 0.0
    assert over(mt.variance(), [5.0]) is None
    assert over(mt.stddev(ddof=2), [1.0, 2.0]) is None
    assert over(mt.stddev(ddof=0), [1.0, 3.0]) == 1.0


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12),
    cut=st.integers(0, 9),
)
def test_products_overflow_only_if_the_result_does(values, cut):
    want = answer("product", values)
    assert math.isclose(over_tree(mt.product(), values, cut), want, rel_tol=1e-12, abs_tol=1e-320)


@given(values=st.lists(st.floats(min_value=0, allow_nan=False), min_size=1, max_size=10))
def test_geomean_over_the_whole_range(values):
    assert agrees(over(mt.geomean(), values), answer("geomean", values), 1e-300)


def test_geomean_of_a_negative_value_is_nan():
    assert math.isnan(over(mt.geomean(), [2.0, -1.0]))


TRAITS = {  # as in the papers' tables: invertible, commutative, selective
    "count": (True, True, False),
    "sum": (True, True, False),
    "mean": (True, True, False),
    "geomean": (True, True, False),
    "variance": (True, True, False),
    "stddev": (True, True, False),
    "product": (False, True, False),
    "min": (False, True, True),
    "max": (False, True, True),
    "min_count": (False, True, False),
    "max_count": (False, True, False),
    "relative_variation": (False, True, False),
    "argmin": (False, False, True),
    "argmax": (False, False, True),
    "first": (False, False, True),
    "last": (False, False, True),
}


@pytest.mark.parametrize("name", TRAITS)
def test_traits(name):
    aggregate = getattr(mt, name)()
    assert (aggregate.invertible, aggregate.commutative, aggregate.selective) == TRAITS[name]
    assert aggregate.kind in ("distributive", "algebraic")


@pytest.mark.parametrize("name", TRAITS)
@pytest.mark.parametrize("kind", ["f8", "i8"])
def test_declared_fields_are_what_the_functions_give(name, kind):
    """Kernels trust these types; a wrong one would truncate silently."""
    aggregate = getattr(mt, name)()
    kinds = (kind,) * aggregate.arity
    value = 3 if kind == "i8" else 3.5
    for inverting in (False, True):
        algebra = aggregate.algebra(kinds, inverting=inverting)
        state = algebra.combine(algebra.lift(*[value] * len(kinds)), algebra.lift(*[value] * len(kinds)))
        scalars = state if isinstance(state, tuple) else (state,)
        codes = {int: "i8", float: "f8"}
        assert tuple(codes[type(s)] for s in scalars) == algebra.fields
        answered = algebra.lower(state)
        assert codes[type(answered)] == algebra.result
        if algebra.identity is not NO_IDENTITY:
            assert type(algebra.identity) is type(state)


def test_binding_and_equality():
    assert mt.mean("v") == mt.mean("v") != mt.mean("w")
    assert len({mt.variance("v"), mt.variance("v"), mt.variance("v", ddof=0)}) == 2
    assert repr(mt.mean("v")) == "mean('v')"
    assert repr(mt.argmax("v", "w")) == "argmax('v', 'w')"
    assert repr(mt.max_count()) == "max_count()"
    assert repr(mt.stddev("v", ddof=0)) == "stddev('v', ddof=0)"
    assert mt.mean("v").columns == ("v",)
    assert mt.mean() != "mean()"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mt.mean(3), "takes column names, not 3"),
        (lambda: mt.argmax("v"), r"reads 2 column\(s\), but 1"),
        (lambda: mt.variance("v", ddof=-1), "ddof is a whole number"),
        (lambda: type("Half", (mt.Aggregate,), {})(), r"Half has no combine\(a, b\)"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
