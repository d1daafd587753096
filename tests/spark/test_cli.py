"""The program on Spark: the examples give the rows of the embedded engine, also when a run is killed."""

import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import nullcontext

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from pyarrow import json as ndjson
from pyspark.errors import StreamingQueryException

from muntin.cli.commands import running
from muntin.cli.commands.running import run
from muntin.cli.pipeline.config import load
from muntin.cli.pipeline.on_spark import SparkRun
from muntin.cli.pipeline.outlets import Outlet
from muntin.cli.pipeline.sources import open_source
from muntin.console.mistakes import MistakeError
from tests.cli.program import EXAMPLES, TICKS, command, write_ticks
from tests.cli.test_checkpoint import cut, empty, remove

READERS = {".csv": csv.read_csv, ".parquet": parquet.read_table, ".ndjson": ndjson.read_json}
NAMES = ["speed", "possession", "machines", "stocks", "ticks"]  # the first is killed


def same(one, other):
    """Tell whether values are equal, floats up to what the order of additions changes."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.fixture
def folders(tmp_path):
    """Return two copies of the examples, of which the first has run on the embedded engine."""
    for name in ("embedded", "spark"):
        shutil.copytree(EXAMPLES, tmp_path / name, ignore=shutil.ignore_patterns("out"))
    files = sorted((tmp_path / "embedded").glob("*.toml"))
    assert {file.stem for file in files} == set(NAMES)
    assert run(files, "embedded", fresh=False, as_lines=True) == 0
    return tmp_path / "embedded", tmp_path / "spark"


def until_a_micro_batch(program, end):
    """Start the program, and end it after its next micro-batch; return its exit code, and its last event."""
    options = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
        "text": True,
        "start_new_session": True,
    }
    with subprocess.Popen(program, **options) as process:
        told = []
        for line in process.stdout:
            told.append(json.loads(line))
            if told[-1]["event"] == "progress":
                break
        end(process.pid)
        told += map(json.loads, process.stdout)
    return process.returncode, told


def test_the_examples_on_both_engines(folders):
    """Interrupt a run, kill the next with its JVM and workers; the third goes on from there to the end."""
    embedded, spark = folders
    program = command("run", "--json", *(spark / f"{name}.toml" for name in NAMES))
    code, told = until_a_micro_batch(program, lambda pid: os.kill(pid, signal.SIGINT))
    assert code == 130
    assert told[-1]["event"] == "interrupted"
    assert told[-1]["checkpoint"] == str(spark / "out" / "speed.csv.checkpoint")
    code, told = until_a_micro_batch(program, lambda pid: os.killpg(pid, signal.SIGKILL))
    assert code == -signal.SIGKILL
    assert told[0]["event"] == "resumed"
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[0]["event"] == "resumed"
    assert told[0]["pipeline"] == "speed"
    assert [step["pipeline"] for step in told if step["event"] == "end"] == NAMES
    for path in sorted((embedded / "out").iterdir()):
        want, got = (READERS[path.suffix](folder / "out" / path.name) for folder in (embedded, spark))
        assert got.schema == want.schema
        assert got.num_rows == want.num_rows > 10, path.name
        for name in want.column_names:
            pairs = zip(got[name].to_pylist(), want[name].to_pylist(), strict=True)
            assert not [pair for pair in pairs if not same(*pair)], (path.name, name)
    assert sorted(p.name for p in (spark / "out").iterdir()) == sorted(
        p.name for p in (embedded / "out").iterdir()
    )


FEW = TICKS.replace('"4kB"', '"10kB"')
DAMAGE = [
    ("parts", remove, "parts holds 0 files with rows and not 2"),
    ("parts/part-000001.parquet", cut, "a file in parts is not as it was written"),
    ("written.json", remove, "written.json is missing"),
    ("run.json", remove, "run.json is missing"),
    ("spark", remove, "spark is missing"),
    ("spark/commits/2", remove, "spark/commits/2 is missing"),  # the next batch is planned already
    ("spark/commits/2", empty, "cannot be read by Spark .*Failed to read log file"),
    ("spark/metadata", cut, "cannot be read by Spark .*Unexpected end-of-input"),
    ("spark/state/0/0/1.zip", remove, "cannot be read by Spark .*CANNOT_LOAD_STATE_STORE"),
]


def test_a_checkpoint_that_is_not_whole_is_refused(spark, tmp_path, monkeypatch):
    """Kill a run in its fourth micro-batch; whatever is done to its checkpoint, no row is lost unseen."""
    write_ticks(tmp_path, pipeline=FEW.replace("out.csv", "want.csv"))
    pipeline, checkpoint = tmp_path / "ticks.toml", tmp_path / "out.csv.checkpoint"
    assert run([pipeline], "embedded", fresh=False, as_lines=True) == 0
    pipeline.write_text(FEW)
    monkeypatch.setattr(running, "_session", lambda engine: nullcontext(spark))

    def killed(outlet, number, rows, write=Outlet.write):
        if number == 3:
            raise ZeroDivisionError
        write(outlet, number, rows)

    with monkeypatch.context() as patched:
        patched.setattr(Outlet, "write", killed)
        with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
            run([pipeline], "spark", fresh=False, as_lines=True)
    shutil.copytree(checkpoint, tmp_path / "whole")
    for name, damage, told in DAMAGE:
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / "whole", checkpoint)
        damage(checkpoint / name)
        with pytest.raises(MistakeError, match=rf"^the checkpoint in .*{told}.*, or begin anew with --fresh"):
            run([pipeline], "spark", fresh=False, as_lines=True)
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "whole", checkpoint)
    assert run([pipeline], "spark", fresh=False, as_lines=True) == 0
    want, got = (csv.read_csv(tmp_path / name) for name in ("want.csv", "out.csv"))
    assert got.select(["query", "window_start", "trades"]) == want.select(["query", "window_start", "trades"])


def test_a_run_has_measures(spark, tmp_path, monkeypatch):
    """Those of micro-batches can be read while the next one is written."""
    write_ticks(tmp_path, pipeline=FEW)
    monkeypatch.setattr(running, "_session", lambda engine: nullcontext(spark))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    read = []

    def step(report, counts):
        until = time.monotonic() + 10
        while counts.batches == counts.of and time.monotonic() < until:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                read.append(answer.read().decode())
            if "muntin_micro_batch_records" in read[-1]:
                break
            time.sleep(0.1)

    monkeypatch.setattr("muntin.cli.reports.Report.step", step)
    assert run([tmp_path / "ticks.toml"], "spark", fresh=False, as_lines=True, metrics_port=port) == 0
    assert re.search(r'muntin_micro_batch_records\{stream="ticks"\} [1-9]', read[-1]), read[-1]


class Nothing:
    """Stands for what a run has no use for before its source is opened."""

    resumes = False

    def begin(self, after):
        """Take note of nothing."""

    def committed(self):
        """Return how many micro-batches were done."""
        return 0

    def write(self, number, rows):
        """Fail: nothing is to be written."""
        raise AssertionError(f"step {number} wrote {rows.num_rows} rows")


@pytest.mark.parametrize("watermark", ["", 'watermark = "5s"'])
def test_a_record_without_a_time_is_a_mistake_in_a_file_as_it_is_for_the_embedded_engine(
    spark, tmp_path, watermark
):
    times = pa.array([1_700_000_000_000_000, None], pa.timestamp("us", "UTC"))
    parquet.write_table(pa.table({"ts": times, "speed": [1.0, 2.0]}), tmp_path / "cars.parquet")
    (tmp_path / "cars.toml").write_text(
        f'[source]\nformat = "parquet"\npath = "cars.parquet"\n[stream]\ntime = "ts"\n{watermark}\n'
        '[[query]]\nwindow = "tumbling(\'1m\')"\naggregates = { top = "max(speed)" }\n'
    )
    pipeline = load(tmp_path / "cars.toml")
    with pytest.raises(MistakeError, match=r"cars\.toml: the time column 'ts' is null in row 1"):
        run([pipeline.path], "embedded", fresh=False, as_lines=True)
    state = Nothing()
    state.spark = tmp_path / "state"
    spark_run = SparkRun(spark, pipeline, open_source(pipeline.source, "ts"), state, Nothing(), None)
    with pytest.raises(MistakeError, match=r"cars\.toml: the time column 'ts' is null in 1 record"):
        spark_run.run(threading.Event())


def test_kafka_needs_its_connector(spark, tmp_path):
    """Say what to do where the connector is missing: it is in no package of Python."""
    (tmp_path / "cars.toml").write_text(
        '[source]\nformat = "kafka"\n'
        'options = { "kafka.bootstrap.servers" = "nowhere:9092", subscribe = "cars" }\n'
        '[source.types]\nts = "timestamp"\nspeed = "float64"\n[stream]\ntime = "ts"\nwatermark = "5s"\n'
        '[[query]]\nwindow = "tumbling(\'1m\')"\naggregates = { top = "max(speed)" }\n'
    )
    pipeline = load(tmp_path / "cars.toml")
    with pytest.raises(MistakeError, match="Kafka needs Spark's connector"):
        SparkRun(spark, pipeline, None, Nothing(), Nothing(), None).run(None)
