"""Benchmarks check the answers they time; here the same checks run on little data, untimed."""

import contextlib
import dataclasses
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import muntin as mt
from benchmarks import __main__ as benchmarks
from benchmarks import (
    aggregates,
    calls,
    every_aggregate,
    fast_paths,
    features,
    frames,
    own_aggregates,
    peers,
    splits,
    stream,
    techniques,
    windows,
)
from benchmarks.bloom import Bloom
from benchmarks.comparisons import COMPARISONS, check
from benchmarks.latency import Bits, measure
from muntin import algebra
from muntin.engine import tuning
from muntin.kernels.modules import cache_directory


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


# ---- windows that records mark off ----


def test_features_are_those_of_pandas_and_polars(monkeypatch):
    table = features.table_of(3_000, 7)
    assert features.check(table, 7) == 30_000
    wrong = table.set_column(2, "v", pa.array(np.arange(3_000.0)))
    right = features.run_muntin
    monkeypatch.setattr(features, "run_muntin", lambda _, keys: right(wrong, keys))
    with pytest.raises(AssertionError, match="mean_5: other means than those of pandas"):
        features.check(table, 7)


def test_the_newest_features_are_those_of_the_last_rows():
    operator, rows = features.online(50)
    features.check_online(operator, rows, range(50))
    with pytest.raises(AssertionError, match=r"key 0: .* are not the features of its last row"):
        features.check_online(operator, rows.slice(0, 300), [0])


@pytest.mark.parametrize("name", frames.CASES)
def test_frames_are_those_of_plain_loops(name):
    queries, _ = frames.CASES[name]
    assert frames.check(queries(), frames.stream(50_000)) >= 25


# ---- the loop ----


def test_the_loop_gives_the_rows_of_lists(monkeypatch):
    assert stream.check(3_000) > 100
    monkeypatch.setattr(stream, "one_by_one", lambda given: stream.by_lists(given[1:]))
    with pytest.raises(AssertionError, match="other rows than lists do"):
        stream.check(3_000)


def test_the_first_row_comes_after_warming_up():
    assert 0 < stream.milliseconds_to_first_row() < 30_000


# ---- windows over one stream ----


@pytest.mark.parametrize("case", windows.CASES, ids=lambda c: c.name)
def test_answers_over_many_lengths(case):
    table = windows.stream(100_000, disordered=case.disordered)
    assert windows.check(case, table) >= 50


def test_the_stream_is_as_the_page_says():
    times = windows.stream(400_000, disordered=False)["ts"].to_numpy()
    assert (np.diff(times) >= 0).all()
    assert set(np.bincount(times)) == {2}
    times = windows.stream(400_000, disordered=True)["ts"].to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert 0 < behind.max() <= windows.DELAY
    assert 0.15 < (behind > 0).mean() < 0.2
    silences = np.diff(np.sort(times))
    minutes = times.max() / 60_000
    assert (silences > windows.GAP).sum() == pytest.approx(5 * minutes, abs=1)
    assert windows.spread(1).tolist() == [1_000]
    assert windows.spread(20).tolist() == list(range(1_000, 20_001, 1_000))
    assert len(set(windows.spread(1_000).tolist())) == 1_000


def without_first(rows):
    return rows.slice(1)


def moved(rows):
    at = rows.column_names.index("window_start")
    starts = rows["window_start"].to_numpy() + (np.arange(len(rows)) == 1)
    return rows.set_column(at, "window_start", pa.array(starts))


def off(rows):
    at = rows.column_names.index("total")
    return rows.set_column(at, "total", pa.array(rows["total"].to_numpy() * (1 + 1e-8)))


def again(rows):
    at = rows.column_names.index("revision")
    return rows.set_column(at, "revision", pa.array(np.ones(len(rows), np.int64)))


@pytest.mark.parametrize("wrong", [without_first, moved, off, again])
def test_a_wrong_window_is_noticed(monkeypatch, wrong):
    right = windows.run_case
    monkeypatch.setattr(windows, "run_case", lambda *arguments: wrong(right(*arguments)))
    with pytest.raises(AssertionError, match="lengths, sessions: "):
        windows.check(windows.CASES[4], windows.stream(10_000, disordered=True))


# ---- polars ----

SMALL = [
    dataclasses.replace(peer, keys=min(peer.keys, 30), span=min(peer.span, 4 * peer.length + 50))
    for peer in peers.PEERS
]


@pytest.mark.parametrize("peer", SMALL, ids=lambda p: p.name)
def test_the_same_windows_as_polars(peer):
    assert peers.check(peer, peers.table_of(3_000, peer)) > 100


@pytest.mark.parametrize("wrong", [without_first, off])
def test_other_windows_than_those_of_polars_are_noticed(monkeypatch, wrong):
    right = peers.run_muntin
    monkeypatch.setattr(peers, "run_muntin", lambda *arguments: wrong(right(*arguments)))
    with pytest.raises(AssertionError, match="30 keys, 60 s: other "):
        peers.check(SMALL[-1], peers.table_of(3_000, SMALL[-1]))


# ---- calls ----


@pytest.mark.parametrize("some", calls.CALLS_IN_A_ROW, ids=lambda c: c.name)
def test_rows_of_the_calls(some):
    calls.check_calls(some, 30)


def test_other_rows_than_a_call_must_give_are_noticed():
    some = dataclasses.replace(calls.CALLS_IN_A_ROW[0], rows=1)
    with pytest.raises(AssertionError, match="other numbers of rows than 1 a batch"):
        calls.check_calls(some, 5)


def test_queries_together_give_the_rows_of_each_alone():
    assert calls.check_building(len(calls.WINDOWS) * len(calls.AGGREGATES)) == (0, 0)  # and compile nothing
    names = {(type(query.window), *query.aggregates) for query in calls.mixed_queries(100)}
    assert len(names) == len(calls.WINDOWS) * len(calls.AGGREGATES)


def test_compilations_are_counted(monkeypatch, tmp_path):
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path))

    class New(mt.Aggregate):
        commutative = True

        def lift(v):
            return v * 1.25

        def combine(a, b):
            return a + b

        def lower(a):
            return a

    def together(queries, batch, right=calls._all_rows):
        if len(queries) > 1:
            mt.aggregate(batch, mt.tumbling(10).agg(total=New("v")), time="ts")
        return right(queries, batch)

    calls.check_building(2)
    assert calls.check_building(2) == (0, 0)
    monkeypatch.setattr(calls, "_all_rows", together)
    compiled, kept = calls.check_building(2)
    assert compiled > 0
    assert kept > 0


def test_the_first_rows_of_a_process(tmp_path):
    assert calls.seconds_to_start(str(cache_directory() or tmp_path)) > 0


# ---- the page ----


@pytest.mark.parametrize("held", [True, False])
def test_techniques_are_compared_and_drawn(monkeypatch, tmp_path, held):
    monkeypatch.setattr(techniques, "RECORDS", 20_000)
    monkeypatch.setattr(techniques, "RANGES", (400, 1600))
    monkeypatch.setattr(techniques, "SLIDES", (20, 400))
    monkeypatch.setattr(techniques, "STATES", (50, 900))
    monkeypatch.setattr(techniques, "SIZES", [1, 4])
    monkeypatch.setattr(techniques, "SENSORS", [1, 3])
    monkeypatch.setattr(techniques, "LEAST_TIMES", {4: 2 if held else math.inf})
    monkeypatch.setattr(techniques, "MOST_OF_PAIRS", 0.9)
    monkeypatch.setattr(techniques, "FIGURES", tmp_path / "figures")
    section, all_held = techniques.run()
    assert all_held == held
    assert ("LOST" in section) == (not held)
    assert techniques.NOTE in section
    assert len(list((tmp_path / "figures").glob("*.png"))) == 4


def test_a_wrong_technique_is_noticed(monkeypatch):
    right = techniques.Cutty.run

    def wrong(self, queries, stream):
        return [row._replace(values={"mean": 0.0}) for row in right(self, queries, stream)]

    monkeypatch.setattr(techniques.Cutty, "run", wrong)
    with pytest.raises(AssertionError, match="Cutty gives other means"):
        techniques.run_one(techniques.Cutty(), techniques.periodic(1), techniques.stream(100_000))


@pytest.mark.parametrize("held", [True, False])
def test_splits_are_timed(monkeypatch, held):
    monkeypatch.setattr(splits, "SIZES", [10, 100])
    monkeypatch.setattr(splits, "LARGE", 10)
    monkeypatch.setattr(splits, "ROUNDS", 1)
    monkeypatch.setattr(splits, "FLATTEST", -math.inf)
    monkeypatch.setattr(splits, "STEEPEST", math.inf if held else -math.inf)
    section, all_held = splits.run()
    assert all_held == held
    assert ("LOST" in section) == (not held)


def test_sets_as_states_are_those_of_loops_by_hand(monkeypatch):
    values = own_aggregates.stream(30)[:20_000]
    assert own_aggregates.check(values) > 500
    monkeypatch.setattr(own_aggregates.Distinct, "lower", staticmethod(lambda a: len(a) + 1))
    with pytest.raises(AssertionError, match="differ from those written by hand"):
        own_aggregates.check(values)


@pytest.mark.parametrize("held", [True, False])
def test_sets_as_states_are_timed(monkeypatch, held):
    monkeypatch.setattr(own_aggregates, "COUNT", 5_000)
    monkeypatch.setattr(own_aggregates, "IDS", (5, 7))
    monkeypatch.setattr(own_aggregates, "LIMIT", math.inf if held else 0.0)
    section, all_held = own_aggregates.run()
    assert all_held == held
    assert ("LOST" in section) == (not held)


def test_numbers_are_short():
    assert [techniques.short(n) for n in (0, 999, 1_234, 45_678, 123_456, 9_127_967)] == [
        "0",
        "999",
        "1.23k",
        "45.7k",
        "123k",
        "9.13M",
    ]


@pytest.mark.parametrize("held", [True, False])
def test_lost_limits_are_reported(monkeypatch, held):
    most, least = (math.inf, 0) if held else (0, math.inf)
    monkeypatch.setattr(windows, "RECORDS", 4_000)
    monkeypatch.setattr(windows, "CASES", [dataclasses.replace(c, limit=most) for c in windows.CASES[::4]])
    monkeypatch.setattr(peers, "ROWS", 1_000)
    monkeypatch.setattr(peers, "PEERS", [dataclasses.replace(p, limit=least) for p in SMALL[-2:]])
    monkeypatch.setattr(calls, "CALLS", 100)
    some = [dataclasses.replace(c, limit=most) for c in calls.CALLS_IN_A_ROW[:1]]
    monkeypatch.setattr(calls, "CALLS_IN_A_ROW", some)
    monkeypatch.setattr(calls, "QUERIES", 4)
    monkeypatch.setattr(calls, "seconds_to_build", lambda count, rounds: least)
    monkeypatch.setattr(calls, "compilations", lambda count: (0, 0))
    monkeypatch.setattr(calls, "seconds_cold_and_warm", lambda cold, warm: (7.0, 1.0, 2.0))
    for module in (windows, peers, calls):
        monkeypatch.setattr(module, "ROUNDS", 1)
        section, all_held = module.run()
        assert all_held == held
        assert ("LOST" in section) == (not held)
        assert module.NOTE in section


@pytest.mark.parametrize("lost", [None, *benchmarks.MODULES])
def test_the_page_is_written_and_a_lost_limit_fails_the_run(monkeypatch, tmp_path, lost):
    for module in benchmarks.MODULES:
        section = (f"### {module.__name__}\n", module is not lost)
        monkeypatch.setattr(module, "run", lambda section=section: section)
    monkeypatch.setattr(benchmarks, "PAGE", tmp_path / "page.md")
    assert benchmarks.main() == (0 if lost is None else 1)
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# Benchmarks")
    assert page.count("### benchmarks.") == len(benchmarks.MODULES)


# ---- aggregates that grow with the records ----


@pytest.mark.parametrize("distinct", [5, 10_000])
def test_medians_of_many_lengths(distinct):
    case = aggregates.Case(10, distinct, 1)
    assert aggregates.check(case, aggregates.stream(100_000, distinct)) > 10


def test_other_medians_are_noticed(monkeypatch):
    case, run = aggregates.Case(1, 5, 1), aggregates.run_case

    def wrong(case, table):
        rows = run(case, table)
        at = rows.schema.get_field_index("a")
        return rows.set_column(at, "a", pc.add(rows["a"], 1.0))

    monkeypatch.setattr(aggregates, "run_case", wrong)
    with pytest.raises(AssertionError, match="where NumPy gives"):
        aggregates.check(case, aggregates.stream(50_000, 5))


@pytest.mark.parametrize("disordered", [False, True])
@pytest.mark.parametrize("name", aggregates.EXTREMES)
def test_extremes_of_many_lengths(monkeypatch, name, disordered):
    monkeypatch.setattr(aggregates, "M4_LENGTHS", 20)
    table = windows.stream(60_000, disordered=disordered)
    assert aggregates.check_extremes(name, table, disordered=disordered) > 100
    times, values = aggregates.in_canonical_order(table)
    monkeypatch.setattr(aggregates, "in_canonical_order", lambda table: (times, values[::-1]))
    with pytest.raises(AssertionError, match="where NumPy gives"):
        aggregates.check_extremes(name, table, disordered=disordered)


@pytest.mark.parametrize("held", [True, False])
def test_m4_is_timed(monkeypatch, held):
    monkeypatch.setattr(aggregates, "M4_LENGTHS", 10)
    monkeypatch.setattr(aggregates, "M4_LIMIT", math.inf if held else 0.0)
    monkeypatch.setattr(aggregates, "ROUNDS", 1)
    monkeypatch.setattr(windows, "RECORDS", 20_000)
    section, all_held = aggregates.m4()
    assert all_held == held
    assert ("LOST" in section) == (not held)


def test_sliding_medians_are_those_of_river_and_polars():
    values = aggregates.easily_filled(500, 50)
    assert len(values) == 550
    _, rivers = aggregates.river(values, 500, 50)
    aggregates.agree(aggregates.ours(values, 500)[1][-50:], rivers, "River")
    aggregates.agree(aggregates.as_column(values, 500)[-50:], rivers, "River")
    aggregates.agree(aggregates.ours(values, 20)[1], aggregates.polars(values, 20), "Polars")
    with pytest.raises(AssertionError, match="River"):
        aggregates.agree(aggregates.ours(values, 20)[1], aggregates.polars(values, 21), "River")


def test_sliding_medians_are_timed(monkeypatch):
    for name, value in {"LONG": 500, "SHORT": 20, "SLIDING": 1_000, "UPDATES": 50, "ROUNDS": 1}.items():
        monkeypatch.setattr(aggregates, name, value)
    section, held = aggregates.slides()
    assert section.count("River") + section.count("Polars") >= 4
    assert ("LOST" in section) == (not held)


# ---- every aggregate ----


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr(every_aggregate, "BATCH", 3_000)
    monkeypatch.setattr(every_aggregate, "LENGTHS", [1_000, 1_500])
    monkeypatch.setattr(every_aggregate, "SAMPLE", 1)


def test_no_aggregate_is_left_out():
    no_aggregates = {"Aggregate", "LawViolation", "bloom_contains", "check_aggregate", "count_min_estimate"}
    timed = {name.split()[0] for name in every_aggregate.AGGREGATES}
    assert timed == set(algebra.__all__) & set(mt.__all__) - no_aggregates
    assert "sum without inverse" in every_aggregate.AGGREGATES


@pytest.mark.usefixtures("_small")
def test_every_aggregate_is_timed_and_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(every_aggregate, "RECORDS", 9_000)
    monkeypatch.setattr(every_aggregate, "ROUNDS", 1)
    monkeypatch.setattr(every_aggregate, "FIGURES", tmp_path / "figures")
    section, held = every_aggregate.run()
    assert held
    assert section.count("|\n") == 2 + len(every_aggregate.AGGREGATES)
    assert every_aggregate.NOTE in section
    assert [path.name for path in (tmp_path / "figures").iterdir()] == [every_aggregate.FIGURE]


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", every_aggregate.AGGREGATES)
def test_a_wrong_answer_of_any_aggregate_is_noticed(monkeypatch, name):
    table, right = every_aggregate.stream(9_000), every_aggregate.run_one
    kept = table.filter(pa.array(np.arange(9_000) != 4_000))  # or else counts were right
    same = {"v": 17.0, "factor": 1.0, "id": -1, "text": "x"}
    wrong = pa.table({"ts": kept["ts"], **{column: [value] * 8_999 for column, value in same.items()}})
    monkeypatch.setattr(every_aggregate, "run_one", lambda name, kind, _: right(name, kind, wrong))
    with pytest.raises(AssertionError, match=r"time windows: .* does not fit records"):
        every_aggregate.check(name, "time windows", table)
    with pytest.raises(AssertionError, match="count windows: "):
        every_aggregate.check(name, "count windows", table)


@pytest.mark.parametrize("path", fast_paths.FAST_PATHS, ids=lambda path: path.place)
def test_rows_are_the_same_without_a_fast_path(path):
    ways = [contextlib.nullcontext, path.off]
    assert len(fast_paths.measured(path.workload, ways, 1, 0.002 if path.workload.size > 100 else 0.05)) == 2


def test_every_threshold_is_measured_or_says_why_not():
    names = {name for name in vars(tuning) if name.isupper()}
    left_out = {"LARGEST_SIZE", "FEW_SKETCHED", "WORTH_COMPACTING_OBJECTS", "GRID_PARTS", "PART_QUERIES"}
    assert names == set(fast_paths.THRESHOLDS) | left_out


def test_other_rows_are_noticed():
    workload = fast_paths.SINGLE
    _, rows = workload.run(workload.records(0.05))
    with pytest.raises(AssertionError):
        fast_paths.check(workload, rows, rows[:-1])
