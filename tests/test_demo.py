"""The demo's queries, tables and pictures, over the embedded engine; its run on Spark is in tests/spark."""

import io
import re
from datetime import UTC, datetime
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

import muntin as mt
from muntin.demo import charts
from muntin.demo.page import m4_lines, write_page
from muntin.demo.run import main
from muntin.demo.streams import STREAMS
from muntin.demo.tables import progress_table, show_results
from muntin.generate import GENERATORS, Arrivals
from muntin.spark.progress import BatchMetrics

QUERIES = [query.name for stream in STREAMS for query in stream.queries]


@pytest.fixture(scope="module")
def results():
    """Return what the queries give over half a minute, without Spark."""
    found = {}
    for stream in STREAMS:
        table = Arrivals(GENERATORS[stream.source](seconds=30, **stream.options)).table()
        if stream.where == "team IS NOT NULL":
            table = table.filter(table["team"].is_valid())
        elif stream.where:
            table = table.filter(table[stream.where])
        windows = mt.aggregate(table, stream.queries, time="ts", key=stream.key)
        for query in stream.queries:
            mine = windows.filter(pc.equal(windows["query"].cast(pa.string()), query.name))
            columns = [*stream.key, "window_start", "window_end", *query.aggregates]
            found[query.name] = mine.select(columns).sort_by("window_end")
    return found


def batch(query, number):
    started = datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC)
    observed = {"muntin.windows_emitted": 7, "muntin.state_bytes": 12_000}
    return BatchMetrics(query, "r", number, started, 0.5, 900, 1800.0, 3, 4, started, 2.0, observed)


def printed(*shown):
    console = Console(file=io.StringIO(), width=80)
    for one in shown:
        console.print(one)
    return console.file.getvalue()


def test_a_dozen_queries_with_windows_each(results):
    assert len(QUERIES) >= 12
    assert len(set(QUERIES)) == len(QUERIES)
    assert all(results[name].num_rows > 2 for name in QUERIES)


def test_the_page_stands_alone_and_has_a_picture_for_each_family(results, tmp_path):
    batches = [batch(stream.name, k) for stream in STREAMS for k in range(5)]
    page = write_page(tmp_path / "demo.html", results, batches).read_text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    pictures = [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.S)]
    assert len(pictures) == 12
    for picture in pictures:
        width, height = map(float, picture.get("viewBox").split()[2:])
        marks = [element for element in picture if element.tag.endswith(("rect", "polyline"))]
        assert marks
        for line in (element for element in marks if element.get("points")):
            for point in line.get("points").split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= width
                assert 0 <= y <= height


def test_the_line_of_m4_has_records_for_points_and_reaches_as_far_as_all_of_them(results):
    machines = next(stream for stream in STREAMS if stream.name == "machines")
    table = Arrivals(GENERATORS[machines.source](seconds=30, **machines.options)).table()
    seconds = table["ts"].cast(pa.int64()).to_numpy() / 1e6
    names, values = table["machine"].to_pylist(), table["mf02"].to_pylist()
    lines = m4_lines(results)
    assert sorted(lines) == sorted(set(names))
    for name, points in lines.items():
        mine = [(t - seconds.min(), v) for n, t, v in zip(names, seconds, values, strict=True) if n == name]
        at = {round(t, 4): v for t, v in mine}
        assert 60 < len(points) <= 4 * 61 < len(mine)
        assert all(at[round(t, 4)] == v for t, v in points)
        assert points == sorted(points)
        assert [f(v for _, v in points) for f in (min, max)] == [f(v for _, v in mine) for f in (min, max)]


def test_a_page_of_nothing(tmp_path):
    page = write_page(tmp_path / "demo.html", {}, []).read_text()
    assert page.count("no windows yet") == 9


def test_results_are_printed(results):
    console = Console(file=io.StringIO(), width=100)
    show_results(console, results)
    said = console.file.getvalue()
    assert all(name in said for name in QUERIES)
    assert "14:00:30" in said


def test_progress_fits_a_terminal():
    shown = printed(progress_table(["players", "valves"], [batch("players", k) for k in range(3)], 180))
    assert all(len(line) <= 80 for line in shown.splitlines())
    row = next(line for line in shown.splitlines() if "players" in line)
    assert row.split() == ["players", "2,700", "1,800", "2", "00:00:02", "2.0", "s", "21", "12", "kB"]
    assert "starting" in shown


def test_ticks():
    assert charts.ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert charts.ticks(-3, 12) == [0, 5, 10]
    assert charts.ticks(4, 4) == [4]


def test_names_are_escaped():
    ElementTree.fromstring(charts.bars({"a < b & c": 2.0}, "m"))
    ElementTree.fromstring(charts.lines({"a < b": [(0, 1.0)]}, "<m>"))


def test_no_java(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--out", str(tmp_path)]) == 2
    told = " ".join(capsys.readouterr().out.split())
    assert "there is none: install one" in told
    assert "first.svg" in told  # a picture needs no Java
    lines = ElementTree.parse(tmp_path / "first.svg").getroot().findall(".//{*}polyline")
    assert len(lines) == 5
