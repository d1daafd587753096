"""The demo on Spark: a small run, and one that Ctrl-C ends."""

import io
import os
import signal
import threading

from rich.console import Console

from muntin.demo.run import INTERRUPTED, run
from muntin.demo.streams import STREAMS

POSSESSION = STREAMS[1]


def test_a_small_run(spark, tmp_path):
    console = Console(file=io.StringIO(), width=100)
    assert run(console, spark, [POSSESSION], 24, tmp_path, played_in=2) == 0
    said = console.file.getvalue()
    assert "ball possession" in said
    assert "Done: 32,760 records" in said, said
    assert (tmp_path / "demo.html").read_text().count("<svg") == 12
    assert (tmp_path / "demo" / "progress.jsonl").stat().st_size
    assert spark.streams.active == []


def test_control_c_stops_the_queries_and_shows_what_there_is(spark, tmp_path):
    console = Console(file=io.StringIO(), width=100)
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        assert run(console, spark, [POSSESSION], 600, tmp_path, played_in=600) == INTERRUPTED
    finally:
        timer.cancel()
    assert "Interrupted after" in console.file.getvalue()
    assert (tmp_path / "demo.html").exists()
    assert spark.streams.active == []
    assert signal.getsignal(signal.SIGINT) is before
