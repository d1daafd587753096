"""Combine calls and stored partials, exactly as the theorems have them."""

import math
import random

import pytest

import muntin as mt

SWAG = mt.swag
PATTERNS = ["steady", "fill and drain", "random"]


def operations(pattern, n, rounds=400):
    """Yield "insert", "evict" and "query" so that the window stays at n, or moves about it."""
    random.seed(n)
    size = 0
    if pattern == "fill and drain":
        for _ in range(3):
            yield from [*["insert", "query"] * n, *["evict", "query"] * n]
        return
    while size < n:
        yield "insert"
        size += 1
    for _ in range(rounds):
        if pattern == "steady":
            yield from ("evict", "insert", "query")
        else:
            step = random.choice(["insert", "evict"]) if size else "insert"
            size += 1 if step == "insert" else -1
            yield from (step, "query")


def count(w, pattern, n):
    """Run the pattern; return for each operation the combine calls, and the window's size before it."""
    calls = {"insert": [], "evict": [], "query": []}
    for step in operations(pattern, n):
        before, size = w.combines, len(w)
        w.insert(size) if step == "insert" else getattr(w, step)()
        calls[step].append((w.combines - before, size))
    return calls


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
@pytest.mark.parametrize("cls", [SWAG.TwoStacks, SWAG.TwoStacksLite])
def test_two_stacks(cls, n, pattern):
    """Theorems 3 and 7: query 1, insert 1, evict at most n and amortized 1."""
    calls = count(cls(mt.max()), pattern, n)
    assert {c for c, _ in calls["query"]} == {1}
    assert {c for c, _ in calls["insert"]} == {1}
    assert all(c <= size for c, size in calls["evict"])
    assert sum(c for c, _ in calls["evict"]) <= len(calls["insert"])


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
@pytest.mark.parametrize(("cls", "insert", "evict"), [(SWAG.Daba, 4, 3), (SWAG.DabaLite, 3, 2)])
def test_daba(cls, insert, evict, n, pattern):
    """Theorems 10 and 13: query 1, insert at most 4 (3), evict at most 3 (2)."""
    calls = count(cls(mt.max()), pattern, n)
    assert {c for c, _ in calls["query"]} == {1}
    assert max(c for c, _ in calls["insert"]) <= insert
    assert max(c for c, _ in calls["evict"]) <= evict


@pytest.mark.parametrize("n", [2, 7, 64, 1000])
@pytest.mark.parametrize(("cls", "together"), [(SWAG.Daba, 4), (SWAG.DabaLite, 3)])
def test_daba_on_average(cls, together, n):
    """On average 2.5 + 1.5 (2 + 1) for an insert and an evict, once whole cycles have passed."""
    w = cls(mt.max())
    for k in range(n):
        w.insert(k)
    for _ in range(2 * n):  # settle into the cycle of a steady window
        w.evict()
        w.insert(0)
    before, rounds = w.combines, 6 * n
    for _ in range(rounds):
        w.evict()
        w.insert(0)
    assert (w.combines - before) / rounds == together


@pytest.mark.parametrize(
    ("cls", "stored"),
    [
        (SWAG.TwoStacks, lambda n: 2 * n),
        (SWAG.TwoStacksLite, lambda n: n + 1),
        (SWAG.Daba, lambda n: 2 * n),
        (SWAG.DabaLite, lambda n: n + 2),
        (SWAG.FlatFit, lambda n: n),
    ],
)
def test_stored_partials(cls, stored):
    w = cls(mt.sum())
    for step in operations("random", 130, rounds=600):
        w.insert(1) if step == "insert" else getattr(w, step)()
        assert w.stored_partials == stored(len(w))


def test_bint_bounds():
    w = SWAG.BInt(mt.sum())
    calls = count(w, "steady", 100)
    assert max(c for c, _ in calls["query"]) <= 2 * math.log2(100)
    assert sum(c for c, _ in calls["insert"]) <= len(calls["insert"])
    assert {c for c, _ in calls["evict"]} == {0}
    assert w.stored_partials < 2 * len(w)


def test_slick_deque_bounds():
    calls = count(SWAG.SlickDeque(mt.max()), "random", 100)
    assert sum(c for c, _ in calls["insert"]) <= 2 * len(calls["insert"])
    assert {c for c, _ in calls["evict"] + calls["query"]} == {0}


def test_flatfit_is_amortized_constant_when_each_round_is_queried():
    w = SWAG.FlatFit(mt.sum())
    calls = count(w, "steady", 500)
    assert sum(c for c, _ in calls["query"]) <= 3 * (len(calls["insert"]) + 1)
    assert {c for c, _ in calls["insert"] + calls["evict"]} == {0}


@pytest.mark.parametrize("cls", [SWAG.TwoStacksLite, SWAG.Daba, SWAG.DabaLite, SWAG.FlatFit, SWAG.BInt])
def test_what_has_left_the_window_is_freed(cls):
    import tracemalloc

    w = cls(mt.max())
    for k in range(100):
        w.insert(k)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for k in range(20_000):
        w.insert(k)
        w.query()
        w.evict()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000


@pytest.mark.parametrize("cls", [SWAG.Daba, SWAG.DabaLite])
def test_no_insert_copies_the_window(cls):
    """Constant time, not only constant combines: an insert allocates at most one chunk, at any size."""
    import tracemalloc

    w = cls(mt.max())
    worst = 0
    tracemalloc.start()
    for k in range(20_000):
        before = tracemalloc.get_traced_memory()[0]
        w.insert(k)
        worst = max(worst, tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    assert worst < 4096
