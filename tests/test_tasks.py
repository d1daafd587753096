"""Tasks of a new user, each in at most eight lines of code: what is between `# task` and `# done`."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import muntin as mt

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(3)
DEVICES = pd.DataFrame(
    {
        "ts": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.sort(RNG.integers(0, 3600, 400)), "s"),
        "device": RNG.choice(["a", "b", "c"], 400),
        "temp": RNG.normal(20, 3, 400),
    }
)


def by_hand(key, length=600, every=60):
    """Sliding means of the devices, window by window, in pandas."""
    seconds = (DEVICES["ts"] - pd.Timestamp("2026-01-01")).dt.total_seconds()
    found = {}
    for end in range(every, 3600 + length + 1, every):
        inside = DEVICES[(seconds >= end - length) & (seconds < end)]
        for device, temps in inside.groupby(key)["temp"]:
            found[pd.Timestamp("2026-01-01") + pd.Timedelta(seconds=end), device] = temps.mean()
    return found


def test_a_sliding_mean_per_device_in_pandas():
    df = DEVICES
    # task
    query = mt.sliding("10m", every="1m").agg(avg=mt.mean("temp"), n=mt.count())
    out = mt.aggregate(df, query, time="ts", key="device")
    # done
    assert isinstance(out, pd.DataFrame)
    assert out["n"].dtype == "int64"
    assert list(out.columns) == ["device", "query", "window_start", "window_end", "avg", "n"]
    assert out.equals(out.sort_values(["window_end", "device"], ignore_index=True))
    want = by_hand("device")
    got = {(row.window_end, row.device): row.avg for row in out.itertuples()}
    assert got == pytest.approx(want)


def test_the_same_in_polars():
    df = pl.from_pandas(DEVICES)
    # task
    query = mt.sliding("10m", every="1m").agg(avg=mt.mean("temp"))
    out = mt.aggregate(df.lazy(), query, time="ts", key="device")
    hottest = out.sort("avg").tail(1)
    # done
    assert isinstance(out, pl.DataFrame)
    assert hottest["avg"].item() == pytest.approx(max(by_hand("device").values()))


def test_several_windows_side_by_side_for_a_model():
    df = DEVICES
    # task
    queries = [
        mt.sliding(f"{n}m", every="1m").agg(avg=mt.mean("temp"), name=f"last_{n}") for n in (5, 10, 30)
    ]
    features = mt.aggregate(df, queries, time="ts", key="device", wide=True)
    # done
    assert list(features.columns) == ["device", "window_end", "last_5_avg", "last_10_avg", "last_30_avg"]
    got = {(row.window_end, row.device): row.last_10_avg for row in features.itertuples()}
    assert {who: avg for who, avg in got.items() if avg == avg} == pytest.approx(by_hand("device"))


CLICKS = """
[source]
format = "csv"
path = "clicks.csv"
[[query]]
sql = "SELECT user, COUNT(*) AS clicks FROM SESSION(clicks, ts, 30) GROUP BY user, window_start"
[sink]
format = "ndjson"
path = "visits.ndjson"
"""


def test_clickstream_sessions_from_the_command_line(tmp_path):
    clicks = pd.DataFrame({"ts": [1, 3, 50, 51], "user": ["x", "x", "x", "y"], "url": ["/"] * 4})
    clicks.to_csv(tmp_path / "clicks.csv", index=False)
    (tmp_path / "clicks.toml").write_text(CLICKS)
    done = muntin(tmp_path, "run", "--engine", "embedded", "clicks.toml")
    assert done.returncode == 0, done.stderr + done.stdout
    visits = pd.read_json(tmp_path / "visits.ndjson", lines=True)
    assert sorted(zip(visits["user"], visits["clicks"], strict=True)) == [("x", 1), ("x", 2), ("y", 1)]


def muntin(folder, *words):
    code = "from muntin.cli.app import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_two_statements_of_sql(tmp_path, monkeypatch):
    DEVICES.to_parquet(tmp_path / "devices.parquet")
    monkeypatch.chdir(tmp_path)
    # task
    top = "SELECT device, MAX(temp) AS top FROM TUMBLE(d, ts, '1 hour') GROUP BY device, window_start"
    n = "SELECT device, COUNT(*) AS n FROM HOP(d, ts, '30 min', '1 hour') GROUP BY device, window_end"
    queries = [*mt.sql(top), *mt.sql(n)]
    out = mt.aggregate("devices.parquet", queries, returns="pandas")
    # done
    assert out["top"].max() == DEVICES["temp"].max()
    assert out["n"].sum() == 2 * len(DEVICES)


OWN = """
class Range(mt.Aggregate):
    commutative = True
    def lift(v): return (v, v)
    def combine(a, b): return (min(a[0], b[0]), max(a[1], b[1]))
    def lower(a): return a[1] - a[0]
out = mt.aggregate(df, mt.tumbling("1d").agg(range=Range("temp")), time="ts", key="device")
"""


def test_an_aggregate_of_ones_own():
    names = {"mt": mt, "df": DEVICES}
    exec(OWN, names)
    temps = DEVICES.groupby("device")["temp"]
    assert names["out"]["range"].tolist() == pytest.approx((temps.max() - temps.min()).tolist())


LIVE = """
import muntin as mt
from sensors import readings

op = mt.WindowOperator(mt.tumbling("1s").agg(avg=mt.mean("temp")), time="ts", key="sensor", watermark="100ms")
for rows in op.stream(readings(), batch="50ms", checkpoint="state"):
    print(rows.num_rows, flush=True)
"""
SENSORS = """
import os, signal, threading, time
from datetime import datetime, timedelta
def readings():
    for k in range(40):
        at = datetime(2026, 1, 1) + timedelta(milliseconds=100 * k)
        yield {"ts": at, "sensor": "ab"[k % 2], "temp": 20.0 + k}
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    time.sleep(60)
"""


def test_a_live_stream_with_ctrl_c(tmp_path):
    assert len([line for line in LIVE.splitlines() if line]) <= 8
    (tmp_path / "sensors.py").write_text(SENSORS)
    (tmp_path / "live.py").write_text(LIVE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "live.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert sum(map(int, done.stdout.split())) == 6  # three whole seconds of two sensors
    assert mt.WindowOperator.restore((tmp_path / "state").read_bytes()).metrics.records_in == 40


def test_corrections():
    batches = [{"ts": [1, 12, 25], "v": [1, 2, 4]}, {"ts": [8, 31], "v": [8, 16]}]
    # task
    op = mt.WindowOperator(mt.tumbling(10).agg(total=mt.sum("v")), time="ts", watermark=0, lateness=20)
    tables = list(op.stream(batches))
    last_word = mt.fold(tables)
    # done
    assert sum(map(len, tables)) == 5
    assert last_word["total"].to_pylist() == [9, 2, 4, 16]


def test_a_snapshot_in_another_process(tmp_path):
    records, path = [{"ts": t, "v": t} for t in range(15)], tmp_path / "state"
    # task
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
    for rows in op.stream(records, checkpoint=path):
        print(rows)
    # done
    code = f"""
import muntin as mt
op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
for rows in op.stream(({{"ts": t, "v": t}} for t in range(15, 22)), checkpoint={str(path)!r}):
    print(rows["n"].to_pylist())
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[10]", "[2]"]


def test_an_iterator():
    records = ({"ts": t, "car": "ab"[t % 2], "v": t} for t in range(35))
    # task
    op = mt.WindowOperator(mt.tumbling(10).agg(total=mt.sum("v")), time="ts", key="car")
    totals = [row["total"] for rows in op.stream(records) for row in rows.to_pylist()]
    # done
    assert sum(totals) == sum(range(35))
    assert len(totals) == 8


def test_features_of_each_row():
    alone = DEVICES.drop_duplicates(["device", "ts"])
    df = alone.sample(frac=1, random_state=1)  # in any order
    # task
    wanted = {
        "avg_10m": mt.rolling("10m").agg(mt.mean("temp")),
        "n_20": mt.rolling(rows=20).agg(mt.count()),
        "before": mt.features.lag("temp"),
    }
    out = mt.features(df, wanted, time="ts", key="device")
    # done
    assert out.index.equals(df.index)
    out, by_device = out.sort_index(), alone.groupby("device")
    assert out["before"].equals(by_device["temp"].shift().rename("before"))
    assert out["n_20"].tolist() == np.minimum(by_device.cumcount() + 1, 20).tolist()
    means = [own.rolling("10min", on="ts")["temp"].mean() for _, own in by_device]
    assert np.allclose(out["avg_10m"], pd.concat(means).sort_index())


def test_a_plot_of_many_points_by_m4():
    df = pd.DataFrame({"ts": np.arange(100_000), "v": RNG.normal(size=100_000).cumsum()})
    # task
    width = 800
    query = mt.tumbling(len(df) // width).agg(line=mt.m4("v"))
    lines = mt.aggregate(df, query, time="ts", returns="pyarrow")["line"].to_pylist()
    names = ("first", "min", "max", "last")
    points = sorted((line[f"{name}_time"], line[name]) for line in lines for name in names)
    # done
    assert len(points) == 4 * width
    values = df["v"].to_numpy().reshape(width, -1)
    drawn = np.array([v for _, v in points]).reshape(width, 4)
    assert np.array_equal(drawn.min(axis=1), values.min(axis=1))
    assert np.array_equal(drawn.max(axis=1), values.max(axis=1))


def test_results_before_a_window_is_complete():
    records = ({"ts": t, "v": 1} for t in range(0, 3600, 60))
    # task
    query = mt.tumbling(3600).agg(total=mt.sum("v"), early=600)
    op = mt.WindowOperator(query, time="ts")
    so_far = [row["total"] for rows in op.stream(records, batch=1) for row in rows.to_pylist()]
    # done
    assert so_far == [1, 11, 21, 31, 41, 51, 60]


def test_each_task_takes_at_most_eight_lines():
    tasks = inspect.getsource(sys.modules[__name__]).split("    # task\n")[1:]
    codes = [task.split("    # done\n")[0] for task in tasks] + [CLICKS, OWN, LIVE]
    lines = [len([line for line in code.splitlines() if line]) for code in codes]
    assert len(lines) == 13
    assert max(lines) <= 8, lines
