"""Benchmarks check the answers they time; here the same checks run on little data, untimed."""

import numpy as np
import pytest

import muntin as mt
from benchmarks.bloom import Bloom
from benchmarks.comparisons import COMPARISONS, check
from benchmarks.latency import Bits, measure


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda c: c.name)
def test_answers_of_the_comparisons(comparison):
    values = np.random.default_rng(4).normal(size=300)
    check(comparison, values, 32, list(range(300)))
    names = {c.name for c in COMPARISONS} | {"cumsum"}
    assert comparison.against in names


def test_a_wrong_answer_is_noticed():
    wrong = next(c for c in COMPARISONS if c.name == "block sum")
    other = type(wrong)(
        wrong.name, lambda values, window: wrong.run(values, window) + 1e-6, "cumsum", 1, wrong.answer
    )
    with pytest.raises(AssertionError, match="but NumPy gives"):
        check(other, np.arange(10.0), 3, [5])


def test_the_worst_round_is_constant_for_daba_lite_and_linear_for_two_stacks():
    n = 256
    values = [k * 7919 % 1009 for k in range(5 * n)]
    daba = measure(mt.swag.DabaLite(Bits()), values, n, "")
    stacks = measure(mt.swag.TwoStacks(Bits()), values, n, "")
    assert daba.combines.max() <= 6
    assert stacks.combines.max() == n + 2
    assert np.array_equal(daba.answer, stacks.answer)


@pytest.mark.parametrize("cls", [mt.swag.TwoStacksLite, mt.swag.DabaLite])
def test_bloom_by_reference(cls):
    values = np.arange(200) * 31 % 57
    got = cls.slide(Bloom(), values, window=20)
    window = mt.swag.Recalculate(Bloom())
    for i, value in enumerate(values.tolist()):
        window.insert(value)
        if len(window) > 20:
            window.evict()
        assert got[i] == window.query()
