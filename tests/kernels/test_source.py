import math

import numpy as np
import pytest

import muntin as mt
from muntin.kernels.source import NoSourceError, literal, write_out

SCALE = 3
OFFSETS = (1, 2.5)


def helper(x):
    return math.sqrt(x) * SCALE


def user(v: float, w: float = 2.0) -> float:
    """A docstring, an annotation and a decorator are left out."""
    return helper(v) + OFFSETS[0] + np.abs(w)


def run(text):
    namespace = {"njit": lambda f: f}
    exec(text, namespace)
    return namespace


def test_writes_out_everything_that_is_used():
    text = write_out({"lift": user}, "@njit")
    assert run(text)["lift"](16.0) == user(16.0)
    assert "SCALE = 3" in text
    assert "docstring" not in text
    assert text.count("def helper") == 1


def test_closures_over_constants():
    def make(k):
        def inner(x):
            return x + k

        return inner

    assert run(write_out({"f": make(5)}, "@njit"))["f"](1) == 6
    with pytest.raises(NoSourceError, match="two things are called 'k'"):
        write_out({"f": make(5), "g": make(6)}, "@njit")
    run(write_out({"f": make(5), "g": make(5)}, "@njit"))


def test_the_same_text_whatever_the_comments():
    def a(x):
        # one remark
        return x + 1

    first = write_out({"f": a}, "@njit")

    def a(x):
        return x + 1  # another

    assert write_out({"f": a}, "@njit") == first


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x, "not defined with def"),
        (eval("lambda x: x"), "no source|not defined with def"),
    ],
)
def test_what_cannot_be_written_out(function, why):
    with pytest.raises(NoSourceError, match=why):
        write_out({"f": function}, "@njit")


def test_more_that_cannot():
    table = np.arange(3)

    def uses_array(x):
        return table[x]

    def recursive(x):
        return recursive(x - 1) if x else 0

    def computed(x, y=len(OFFSETS)):  # noqa: B008
        return x + y

    for function, why in [
        (uses_array, "not a constant"),
        (recursive, "calls itself"),
        (computed, "computed defaults"),
    ]:
        with pytest.raises(NoSourceError, match=why):
            write_out({"f": function}, "@njit")


EDITED = """
import math

def lift(v):
    return math.sqrt(v) + 1

def outer(k):
    def lift(v):
        return v + k
    return lift
"""


def test_a_file_that_changed_after_it_was_loaded_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "edited_module.py"
    path.write_text(EDITED)
    import edited_module

    for function in (edited_module.lift, edited_module.outer(3)):
        assert run(write_out({"lift": function}, "@njit"))["lift"](4.0) == function(4.0)
    path.write_text(EDITED.replace("+ 1", "- 1").replace("+ k", "- k"))
    for function in (edited_module.lift, edited_module.outer(3)):
        with pytest.raises(NoSourceError, match="is not what it was made from"):
            write_out({"lift": function}, "@njit")


@pytest.mark.parametrize("value", [0, -1.5, True, "text", math.inf, -math.inf, (1, (2.0, False)), (3,), ()])
def test_literals_read_back(value):
    assert eval(literal(value)) == value


def test_nan_reads_back():
    assert math.isnan(eval(literal(math.nan)))


BUILT_IN = [
    "count", "sum", "product", "mean", "geomean", "min", "max", "min_count", "max_count",
    "variance", "stddev", "relative_variation", "first", "last", "argmin", "argmax",
    "covariance", "correlation", "regression", "weighted_mean", "rate",
]  # fmt: skip


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_aggregates_can_be_written_out(name):
    """Or else their kernels would compile anew in each process."""
    aggregate = getattr(mt, name)()
    for kind in ("f8", "i8"):
        for inverting in (False, True):
            algebra = aggregate.algebra((kind,) * aggregate.arity, inverting=inverting)
            functions = [algebra.lift, algebra.combine, algebra.lower, algebra.invert, algebra.error_step]
            functions += [algebra.error_limit, algebra.lower_pair]
            text = write_out({f"f{k}": f for k, f in enumerate(functions) if f}, "@njit")
            run(text)
