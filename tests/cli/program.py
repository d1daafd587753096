"""The real program in a process of its own, and a small pipeline for it."""

import os
import subprocess
import sys
from pathlib import Path

import muntin.generate as gen
from muntin.cli.commands.generating import generate

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
TICKS = """[source]
format = "csv"
path = "ticks.csv"
per_batch = "4kB"

[stream]
time = "ts"
key = "symbol"
watermark = "1s"
lateness = "500ms"

[[query]]
name = "recent"
window = "sliding('1s', every='500ms')"
[query.aggregates]
mean = "mean(price)"
turnover = "sum(price * volume)"

[[query]]
name = "rises"
window = "threshold_frame(volume, '>', 100, min_records=3)"
[query.aggregates]
trades = "count()"

[sink]
format = "csv"
path = "out.csv"

[checkpoint]
every = "0s"
"""


def command(*arguments):
    return [sys.executable, "-m", "muntin.cli", *map(str, arguments)]


def muntin(*arguments, cwd, **environment):
    """Run the program; return what it said."""
    env = {**os.environ, "COLUMNS": "80", **environment}
    return subprocess.run(
        command(*arguments), cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300
    )


def write_ticks(folder, seconds=60, pipeline=TICKS):
    """Write a recording and a pipeline over it, which drops a few late records."""
    generate("stocks", folder / "ticks.csv", seconds, 3, 0.3, "4s", 0, as_lines=True)
    (folder / "ticks.toml").write_text(pipeline)


def recording(seconds=60):
    return gen.Arrivals(gen.Stocks(seconds=seconds, symbols=3), disorder=0.3, delay="4s").table()
