"""A checkpoint that is damaged: it is refused and left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.test_spark import GRID, Expected, Files, drawn_batches
from tests.spark.test_workers import check_rows


def flip(path: Path) -> None:
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:half] + bytes([whole[half] ^ 0x55]) + whole[half + 1 :])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE = [
    ("state/0/*/2.changelog", flip, r"CANNOT_LOAD_STATE_STORE.*(?s:.)*Stream is corrupted"),
    ("state/0/*/2.changelog", Path.unlink, r"Error reading streaming state file of .* does not exist"),
    ("offsets/2", cut, r"STREAM_FAILED.*Unexpected end-of-input"),
    ("commits/2", cut, r"STREAM_FAILED.*Unexpected end-of-input"),
    ("commits/2", lambda path: path.write_bytes(b""), r"Failed to read log file .*commits/2"),
]


def test_a_damaged_checkpoint_is_refused_and_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, watermark="300ms", lateness="500ms", buckets=1)
    first, second, third = drawn_batches(3, 60)
    files.write(first)
    files.write(second)
    files.run([GRID])
    assert sorted(files.rows) == [0, 1, 2]
    files.write(third)
    whole = tmp_path / "whole"
    shutil.copytree(files.checkpoint, whole)
    for pattern, damage, said in DAMAGE:
        shutil.rmtree(files.checkpoint)
        shutil.copytree(whole, files.checkpoint)
        damaged = sorted(files.checkpoint.glob(pattern))
        assert damaged
        for path in damaged:
            damage(path)
        before = contents(files.checkpoint)
        with pytest.raises(StreamingQueryException, match=said):
            files.run([GRID])
        assert sorted(files.rows) == [0, 1, 2]
        assert contents(files.checkpoint).items() >= before.items()
    shutil.rmtree(files.checkpoint)
    shutil.copytree(whole, files.checkpoint)
    files.run([GRID])
    expected = Expected([GRID], lateness=500, delay=300)
    for batch in (first, second, [], third, []):
        expected.micro_batch(batch)
    for number, want in enumerate(expected.rows):
        check_rows(files.rows.get(number, []), want, [GRID], f"micro-batch {number}")


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
