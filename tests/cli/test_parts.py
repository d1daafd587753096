"""The parts of the command line by themselves: lines of TOML, calls, folding, batches of files."""

import importlib.metadata
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin as mt
from muntin.cli.commands import doctoring
from muntin.cli.commands.doctoring import Check
from muntin.cli.commands.running import run
from muntin.cli.pipeline.calls import aggregate_of, window_of
from muntin.cli.pipeline.config import load
from muntin.cli.pipeline.folding import fold
from muntin.cli.pipeline.sinks import Parts
from muntin.cli.pipeline.sources import Source, open_source
from muntin.cli.pipeline.toml_lines import Lines
from muntin.cli.reports import Counts, Report
from muntin.console.mistakes import MistakeError

TOML = '''# a comment = "x"
title = """
[not.a.table]
also = "no key"
"""
[a]
list = [
  1,
  2,
]
"quoted name" = 1
b.c = 2
[[query]]
[query.aggregates]
n = "count()"
[[query]]  # the second
sql = """SELECT 1
FROM x"""
[query.aggregates]
n = "count()"
'''


def test_lines():
    lines = Lines(TOML)
    where = {("title",): 2, ("a", "list"): 7, ("a", "quoted name"): 11, ("a", "b", "c"): 12}
    where |= {("query", 0, "aggregates", "n"): 15, ("query", 1): 16, ("query", 1, "aggregates", "n"): 20}
    where |= {("also",): 1, ("query", 1, "aggregates", "m"): 19, ("query", 1, "name"): 16}
    assert {path: lines.of(path) for path in where} == where
    assert lines.first_of_text(("title",)) == 3
    assert lines.first_of_text(("query", 1, "sql")) == 17


def test_calls_mean_what_they_mean_in_python():
    for text, meant in {
        "on(way, tumbling(50))": mt.on("way", mt.tumbling(50)),
        "aggregate_frame(sum(volume), reaches=1e6)": mt.aggregate_frame(mt.sum("volume"), reaches=1e6),
        "calendar('month', tz='Europe/Berlin')": mt.calendar("month", tz="Europe/Berlin"),
        "rolling(rows=3)": mt.rolling(rows=3),
    }.items():
        assert repr(window_of(text)) == repr(meant)
    assert repr(aggregate_of("argmax(speed, car)")) == repr(mt.argmax("speed", "car"))
    assert repr(aggregate_of("max('top speed')")) == repr(mt.max("top speed"))
    assert repr(aggregate_of("sum(abs(v) + 1)")) == repr(mt.sum(mt.expr("ABS(v) + 1")))
    for text in ("__import__('os')", "mean(speed).x", "open('x')", "mean(lambda: 1)", "7", "user_window(f)"):
        with pytest.raises(MistakeError):
            aggregate_of(text)


def test_folding_keeps_the_last_word():
    """Two sessions that a late record bridges are one in the end."""
    query = mt.session(5).agg(n=mt.count(), name="visits")
    op = mt.WindowOperator(query, time="t", key="k", watermark="manual", lateness=100)
    batches = [{"t": [0, 8, 40], "k": ["a", "a", "a"]}, {"t": [4], "k": ["a"]}]
    told = []
    for batch in batches:
        told += [op.process(batch), op.advance(30)]
    told.append(op.finish())
    rows = pa.concat_tables([table.cast(_plain(table.schema)) for table in told if table.num_columns])
    assert "retract" in rows["change"].to_pylist()
    folded = fold(rows, ["k"], {"visits": query})
    assert folded.select(["window_start", "window_end", "n"]).to_pylist() == [
        {"window_start": 0, "window_end": 13, "n": 3},
        {"window_start": 40, "window_end": 45, "n": 1},
    ]


def _plain(schema):
    return pa.schema([f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in schema])


@pytest.mark.parametrize("size", [1, 40, 100, 10**6])
def test_text_is_cut_at_line_ends(tmp_path, size):
    lines = [f"{k},{'x' * (k % 9)}" for k in range(50)]
    (tmp_path / "a.csv").write_text("\n".join(["t,name", *lines[:30]]))  # without a line end at the end
    (tmp_path / "b.csv").write_text("\n".join(["t,name", *lines[30:]]) + "\n")
    source = open_source({"format": "csv", "path": str(tmp_path), "per_batch": size, "types": {}}, "t")
    again = Source.from_description(source.described())
    tables = [again.read(number) for number in range(len(source.batches))]
    assert pa.concat_tables(tables)["t"].to_pylist() == list(range(50))
    assert len(tables) > 1 or size == 10**6


def test_a_file_with_other_values_has_changed(tmp_path):
    """Even where it has as many bytes as before."""
    path = tmp_path / "a.csv"
    path.write_text("t,v\n1,10\n")
    source = open_source({"format": "csv", "path": str(path), "per_batch": 100, "types": {}}, "t")
    again = Source.from_description(json.loads(json.dumps(source.described())))
    assert again == source
    assert again.changed_file() is None
    then = path.stat().st_mtime_ns
    path.write_text("t,v\n1,11\n")
    os.utime(path, ns=(then + 1000, then + 1000))
    assert again.changed_file() == str(path)


@pytest.mark.parametrize(
    ("kind", "rows"), [("csv", "t,u,v\n1,x,{}\n"), ("ndjson", '{{"t": 1, "u": "x", "v": {}}}\n')]
)
def test_who_said_a_type_is_not_told_to_say_it(tmp_path, kind, rows):
    (tmp_path / f"1.{kind}").write_text(rows.format(1))
    (tmp_path / f"2.{kind}").write_text(rows.format('"many"'))
    for types, hint in (({}, True), ({"u": "string"}, True), ({"v": "int64"}, False)):
        spec = {"format": kind, "path": str(tmp_path), "per_batch": 1000, "types": types}
        source = open_source(spec, "t").only(["t", "v"])
        with pytest.raises(MistakeError, match=rf"2\.{kind} cannot be read: ") as caught:
            source.read(0)
        assert ("say the type of its column in [source.types]" in str(caught.value)) == hint


def test_row_groups_are_cut_into_batches(tmp_path):
    pq.write_table(
        pa.table({"t": range(1000), "v": pa.array(range(1000), pa.uint32())}),
        tmp_path / "a.parquet",
        row_group_size=100,
    )
    spec = {"format": "parquet", "path": str(tmp_path / "*.parquet"), "per_batch": 5000, "types": {}}
    source = open_source(spec, "t").only(["v"])
    assert 2 < len(source.batches) < 10
    values = pa.concat_tables([source.read(number) for number in range(len(source.batches))])
    assert values.schema == pa.schema([("v", pa.int64())])
    assert values["v"].to_pylist() == list(range(1000))


KAFKA = """[source]
format = "kafka"
options = { subscribe = "cars" }
[source.types]
ts = "timestamp"
speed = "float64"
[stream]
time = "ts"
watermark = "5s"
[[query]]
window = "tumbling('1m')"
aggregates = { top = "max(speed)" }
"""


def test_what_is_said_of_kafka_is_checked(tmp_path):
    path = tmp_path / "cars.toml"
    for text, engine, told in (
        (KAFKA, "embedded", "line 2: Kafka is read on Spark only"),
        (
            KAFKA.replace('watermark = "5s"', ""),
            "spark",
            "line 7: a stream that does not end needs a watermark",
        ),
        (KAFKA.replace("max(speed)", "max(sped)"), "spark", "line 12: there is no column 'sped'"),
        (KAFKA.replace('"float64"', '"double"'), "spark", "line 6: there is no type 'double'; "),
    ):
        path.write_text(text)
        with pytest.raises(MistakeError, match=told):
            run([path], engine, fresh=False, as_lines=True)


def test_names_in_brackets_are_shown_as_they_are(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    report = Report("[blue]cars", as_lines=False)
    report.rows(pa.table({"[bold]": ["[/x]", "[red]", ":car:"] * 20}))
    report.resumed(Counts())
    report.end(Counts(), 3, "[/out].csv", interrupted=False, checkpoint=None)
    shown = capsys.readouterr().out
    assert [line.strip() for line in shown.splitlines()[:4]] == ["[bold]", "[/x]", "[red]", ":car:"]
    assert "[blue]cars: goes on after 0 batches.\n[blue]cars: done: 0 records in " in shown
    assert shown.endswith(" s, 3 rows in [/out].csv.\n")
    report.end(Counts(null_times=4), 3, None, interrupted=False, checkpoint=None)
    assert capsys.readouterr().out.endswith(" 3 rows. 4 records had no time, and were left out.\n")
    monkeypatch.setattr(doctoring, "_checks", lambda: [Check("pyspark", "amiss", "[/x]", "muntin[spark]")])
    assert doctoring.doctor(as_lines=False) == 2
    assert capsys.readouterr().out.splitlines()[1].split() == ["pyspark", "amiss", "[/x]", "muntin[spark]"]


def test_packages_that_pip_did_not_install(monkeypatch):
    """Spark's own folder has a pyspark that no metadata tells the version of."""

    def unknown(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", unknown)
    checks = {check.name: check for check in doctoring._checks()}
    assert {checks[name].state for name in ("numpy", "pyspark", "pandas", "sketches")} == {"ok"}
    assert checks["pyspark"].found == "not by pip"
    for version, state in (("4.2.0", "ok"), ("4.10.1", "ok"), ("4.1.3", "amiss"), ("3.5.0", "amiss")):
        monkeypatch.setattr(importlib.metadata, "version", lambda _, version=version: version)
        assert doctoring._package("pyspark", "").state == state
    for version, state in (("2.3.3", "ok"), ("3.0.0", "amiss"), ("10.0.0", "amiss")):
        monkeypatch.setattr(importlib.metadata, "version", lambda _, version=version: version)
        assert doctoring._package("pandas", "").state == state


def test_changes_of_one_run_go_into_one_folder(tmp_path):
    """A run does not go on where the folder of its changes is another; one file is written anew."""
    path = tmp_path / "cars.toml"
    digests = {}
    for rows in ("changes", "folded"):
        for place in ("out", "./out", "other"):
            sink = f'[sink]\nformat = "csv"\nrows = "{rows}"\npath = "{place}"\n'
            path.write_text(KAFKA + sink + '[checkpoint]\npath = "state"\n')
            digests[rows, place] = load(path).digest
    assert digests["changes", "out"] == digests["changes", "./out"] != digests["changes", "other"]
    assert digests["folded", "out"] == digests["folded", "other"]


def test_a_folder_with_files_of_others_is_refused(tmp_path):
    (tmp_path / "part-000001.parquet").touch()
    Parts(tmp_path, "parquet").check()
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(MistakeError, match=r"holds 'thesis\.txt', which is no part of a run"):
        Parts(tmp_path, "parquet").check()
