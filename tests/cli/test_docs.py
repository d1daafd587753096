"""The page about the command line: its pipeline runs, and its message is the one that comes."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from muntin.cli.commands.checking import opened
from muntin.cli.commands.running import run
from muntin.cli.pipeline.config import load
from muntin.console.mistakes import MistakeError

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
PIPELINE = re.search(r"<!-- a pipeline -->\n```toml\n(.*?)```", PAGE, re.S)[1]


def test_the_pipeline_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cars").mkdir()
    for hour in range(2):
        lines = [
            f"2026-01-01T0{hour}:{k // 60:02}:{k % 60:02}Z,{'ab'[k % 2]},{k % 41},{k}" for k in range(600)
        ]
        (tmp_path / "cars" / f"{hour}.csv").write_text("\n".join(["ts,car,speed,seq", *lines]) + "\n")
    (tmp_path / "cars.toml").write_text(PIPELINE)
    assert run([Path("cars.toml")], "embedded", fresh=False, as_lines=True) == 0
    rows = pq.read_table("out/cars.parquet")
    minutes = [row for row in rows.to_pylist() if row["query"] == "each minute"]
    assert [row["n"] for row in minutes] == [30] * 40
    assert {row["top"] for row in rows.to_pylist() if row["query"] == "recent"} <= {38.0, 39.0, 40.0}
    (tmp_path / "cars.toml").write_text(PIPELINE.replace("mean(speed)", "mean(sped)"))
    with pytest.raises(MistakeError) as caught:
        opened(load(Path("cars.toml")))
    assert str(caught.value) in PAGE
