"""Pipelines on the embedded engine: rows, sinks, and runs that end before their time."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import muntin as mt
from muntin.cli.commands.explaining import explain
from muntin.cli.commands.running import run
from muntin.cli.pipeline.config import load
from muntin.console.mistakes import MistakeError
from tests.cli.program import EXAMPLES, TICKS, command, muntin, recording, write_ticks

SECONDS = 120
# Hundreds of batches, each with a checkpoint: such a run is at work still when a test gets to interrupt it.
LONG = TICKS.replace('"4kB"', '"300B"')
# The same with few checkpoints is sooner done; a run may go on so, since that changes no rows.
CALM = LONG.replace('every = "0s"', 'every = "10s"')


@pytest.fixture
def ticks(tmp_path):
    write_ticks(tmp_path, SECONDS)
    return tmp_path


@pytest.fixture
def long(tmp_path):
    write_ticks(tmp_path, SECONDS, LONG)
    return tmp_path


def undisturbed(folder, pipeline):
    """Return the file of a run that nobody disturbs."""
    write_ticks(folder, SECONDS, pipeline)
    assert run([folder / "ticks.toml"], "embedded", fresh=False, as_lines=True) == 0
    return (folder / "out.csv").read_text()


@pytest.fixture(scope="module")
def want(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), TICKS)


@pytest.fixture(scope="module")
def want_of_long(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), CALM)


def test_rows_are_those_of_the_operator(ticks, want):
    """Without a watermark every record counts; with one, those of batches under Spark's watermark do."""
    text = TICKS.replace('watermark = "1s"\nlateness = "500ms"\n', "")
    (ticks / "ticks.toml").write_text(text.replace('"csv"\npath = "out', '"parquet"\npath = "out'))
    assert run([ticks / "ticks.toml"], "embedded", fresh=False, as_lines=True) == 0
    queries = load(ticks / "ticks.toml").queries
    whole = mt.aggregate(recording(SECONDS), queries, time="ts", key="symbol", columns="all")
    got = pq.read_table(ticks / "out.csv")
    assert got.column_names == [name for name in whole.column_names if name not in ("revision", "change")]
    assert sorted(map(str, got.to_pylist())) == sorted(
        str({name: row[name] for name in got.column_names}) for row in whole.to_pylist()
    )
    rows = list(csv.DictReader(want.splitlines()))
    assert 0 < len(rows) < got.num_rows + 1
    assert rows != [{k: "" if v is None else str(v) for k, v in row.items()} for row in got.to_pylist()]


def test_early_results_are_final_in_the_end(ticks, want):
    text = TICKS.replace('name = "recent"', 'name = "recent"\nearly = "250ms"')
    (ticks / "ticks.toml").write_text(text)
    assert run([ticks / "ticks.toml"], "embedded", fresh=False, as_lines=True) == 0
    found = list(csv.DictReader((ticks / "out.csv").read_text().splitlines()))
    assert {row.pop("final") for row in found} == {"true"}
    assert found == list(csv.DictReader(want.splitlines()))
    (ticks / "ticks.toml").write_text(text.replace('path = "out.csv"', 'path = "changes"\nrows = "changes"'))
    assert run([ticks / "ticks.toml"], "embedded", fresh=False, as_lines=True) == 0
    parts = [
        list(csv.DictReader(part.read_text().splitlines())) for part in (ticks / "changes").glob("*.csv")
    ]
    assert {row["final"] for rows in parts for row in rows} == {"true", "false"}


def test_what_is_no_duration_for_early_results(ticks):
    (ticks / "ticks.toml").write_text(TICKS.replace('name = "recent"', 'name = "recent"\nearly = "soon"'))
    with pytest.raises(MistakeError, match=r"ticks.toml, line 12: early is 'soon', which is no duration"):
        load(ticks / "ticks.toml")


def test_late_records_are_counted(ticks, capsys):
    assert run([ticks / "ticks.toml"], "embedded", fresh=False, as_lines=True) == 0
    *steps, end = map(json.loads, capsys.readouterr().out.splitlines())
    steps = [step for step in steps if step.get("pipeline")]
    assert [step["event"] for step in steps] == ["progress"] * len(steps)
    assert len(steps) == end["batches"] == end["of"] > 10
    assert end["event"] == "end"
    assert end["records"] == recording(SECONDS).num_rows
    assert 0 < end["late"] < 100
    assert not (ticks / "out.csv.checkpoint").exists()


def test_all_changes(ticks, want):
    text = TICKS.replace('path = "out.csv"', 'path = "changes"\nrows = "changes"').replace(
        '"csv"\npath = "ch', '"parquet"\npath = "ch'
    )
    (ticks / "ticks.toml").write_text(text)
    for _ in range(2):  # the second replaces the rows of the first
        assert run([ticks / "ticks.toml"], "embedded", fresh=False, as_lines=True) == 0
        tables = [pq.read_table(path) for path in sorted((ticks / "changes").iterdir())]
        assert len(tables) > 5
        rows = pa.concat_tables(tables)
        assert {"insert", "update"} <= set(rows["change"].to_pylist())
        assert (
            len(want.splitlines()) - 1
            == rows.num_rows - pc.sum(pc.not_equal(rows["change"], "insert")).as_py()
        )


@pytest.mark.parametrize("kind", ["parquet", "ndjson"])
def test_sources_of_other_formats_give_the_same_rows(ticks, want, kind):
    table = recording(SECONDS)
    folder = ticks / "in"
    folder.mkdir()
    size = 300
    for number, begin in enumerate(range(0, table.num_rows, size)):
        some, path = table.slice(begin, size), folder / f"{number:03}.{kind}"
        if kind == "parquet":
            pq.write_table(some, path)
        else:
            path.write_text(
                "".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in some.to_pylist())
            )
    text = TICKS.replace('watermark = "1s"\nlateness = "500ms"\n', "")  # where batches end does not matter
    (ticks / "csv.toml").write_text(text)
    (ticks / "other.toml").write_text(
        text.replace('"csv"', f'"{kind}"', 1).replace("ticks.csv", "in").replace("out.csv", "other.csv")
    )
    assert run([ticks / "csv.toml", ticks / "other.toml"], "embedded", fresh=False, as_lines=True) == 0
    assert (ticks / "other.csv").read_text() == (ticks / "out.csv").read_text()


def test_killed_at_many_moments(long, want_of_long):
    (long / "warmup.toml").write_text(CALM.replace("out.csv", "warmup.csv"))
    (long / "calm.toml").write_text(CALM)
    checkpoint = long / "out.csv.checkpoint" / "embedded.checkpoint"
    files = [str(path) for path in (checkpoint, long / "warmup.toml", long / "calm.toml")]
    script = [sys.executable, "-m", "tests.cli.killed", *files]
    arguments = ["run", "--engine", "embedded", "--json", str(long / "ticks.toml")]
    done = subprocess.run([*script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (kills,) = [int(line) for line in lines if line.isdigit()]
    assert kills >= 3
    assert sum('"event": "resumed"' in line for line in lines) >= kills
    assert (long / "out.csv").read_text() == want_of_long


@contextlib.contextmanager
def started(folder):
    """The program at work: a checkpoint with rows is written."""
    program = command("run", "--engine", "embedded", "--json", "ticks.toml")
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        steps = map(json.loads, process.stdout)
        assert next(step for step in steps if step["windows"])["event"] == "progress"
        assert next(steps)["event"] == "progress"
        yield process


def test_control_c_writes_a_checkpoint_and_the_next_run_goes_on(long, want_of_long):
    with started(long) as program:
        program.send_signal(signal.SIGINT)
        *_, last = map(json.loads, program.stdout.read().splitlines())
        assert program.wait() == 130
    assert last["event"] == "interrupted"
    assert last["checkpoint"] == "out.csv.checkpoint"
    assert last["batches"] < last["of"]
    assert (long / "out.csv").exists()  # what there is
    # what was interrupted holds to its engine and its pipeline
    with pytest.raises(MistakeError, match=r"--engine embedded was interrupted, .* begin anew with --fresh"):
        run([long / "ticks.toml"], "spark", fresh=False, as_lines=True)
    (long / "ticks.toml").write_text(LONG.replace("mean(price)", "max(price)"))
    with pytest.raises(MistakeError, match=r"has changed since the run .* begin anew with --fresh"):
        run([long / "ticks.toml"], "embedded", fresh=False, as_lines=True)
    (long / "ticks.toml").write_text(CALM)
    done = muntin("run", "--engine", "embedded", "ticks.toml", cwd=long)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"ticks: goes on after {last['batches']} batches.")
    assert (long / "out.csv").read_text() == want_of_long


def test_files_that_changed_and_damaged_checkpoints_are_refused(long, want_of_long):
    with started(long) as program:
        os.kill(program.pid, signal.SIGKILL)
    checkpoint = long / "out.csv.checkpoint" / "embedded.checkpoint"
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-9])
    with pytest.raises(MistakeError, match=r"is damaged .* restore it from a copy"):
        run([long / "ticks.toml"], "embedded", fresh=False, as_lines=True)
    checkpoint.write_bytes(whole)
    records = (long / "ticks.csv").read_text()
    (long / "ticks.csv").write_text(records + records.splitlines()[-1] + "\n")
    with pytest.raises(MistakeError, match=r"ticks.csv has changed since the run was interrupted"):
        run([long / "ticks.toml"], "embedded", fresh=False, as_lines=True)
    (long / "ticks.csv").write_text(records)
    (long / "ticks.toml").write_text(CALM)
    assert run([long / "ticks.toml"], "embedded", fresh=True, as_lines=True) == 0
    assert (long / "out.csv").read_text() == want_of_long


def test_one_run_at_a_time(long):
    with started(long) as program:
        os.kill(program.pid, signal.SIGSTOP)
        try:
            with pytest.raises(MistakeError, match=r"another run of .*ticks\.toml is at work"):
                run([long / "ticks.toml"], "embedded", fresh=False, as_lines=True)
        finally:
            program.kill()


def test_examples_on_the_console(tmp_path):
    """The examples run, and explain themselves, from wherever they are."""
    for path in sorted(EXAMPLES.glob("*.toml")):
        text = path.read_text()
        text = text.replace('path = "data/', f'path = "{EXAMPLES}/data/')
        (tmp_path / path.name).write_text(text[: text.index("[sink]")] + '[sink]\nformat = "console"\n')
    files = sorted(tmp_path.glob("*.toml"))
    assert len(files) >= 5
    done = muntin("run", "--engine", "embedded", *(path.name for path in files), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for path in files:
        assert f"{path.stem}: done: " in done.stdout
    assert sorted(tmp_path.glob("*")) == files  # no checkpoint is left


def test_each_example_explains_itself(capsys):
    for path in sorted(EXAMPLES.glob("*.toml")):
        assert explain(str(path), as_lines=False) == 0
        told = capsys.readouterr().out
        for name, query in load(path).named_queries().items():
            assert f"  {name}: {query.window!r} (" in told
        assert "Decisions:\n  keep records: " in told


def test_explain_names_decisions(tmp_path):
    explained = muntin("explain", EXAMPLES / "machines.toml", cwd=tmp_path)
    assert explained.returncode == 0, explained.stderr
    assert "surges: threshold_frame('mf01', '>', 14000, min_records=10)" in explained.stdout
    statement = "SELECT car, AVG(speed) AS avg FROM TUMBLE(cars, ts, '1 minute') GROUP BY car, window_start"
    told = json.loads(muntin("explain", "--json", statement, cwd=tmp_path).stdout)
    assert told["queries"][0]["aggregates"] == {"avg": "mean('speed')"}
