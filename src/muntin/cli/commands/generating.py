"""muntin generate: recordings like those of the papers, as files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from rich.console import Console
from rich.progress import Progress

from muntin.cli.pipeline.sinks import as_json, as_line
from muntin.console.mistakes import OK, MistakeError, full_disk, one_line
from muntin.files import write_whole
from muntin.generate import GENERATORS, Arrivals

_NAMES = {"debs12": ("factory", "machines"), "debs13": ("football", "hertz"), "stocks": ("stocks", "symbols")}
_STRETCH = 5_000_000  # microseconds that are made at a time


def generate(
    recording: str,
    out: Path,
    seconds: float,
    size: int | None,
    disorder: float | None,
    delay: str,
    seed: int,
    *,
    as_lines: bool,
) -> int:
    """Write a recording in the order in which its records arrive; return the exit code."""
    name, scale = _NAMES[recording]
    writer = _WRITERS.get(out.suffix.lower())
    if writer is None:
        raise MistakeError(f"{out} must end in {', '.join(_WRITERS)}: that says how it is written.")
    arguments = {"seconds": seconds, "seed": seed} | ({} if size is None else {scale: size})
    try:
        arrivals = Arrivals(GENERATORS[name](**arguments), disorder=disorder, delay=delay, seed=seed)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise MistakeError(one_line(error)) from error
    began, written = time.monotonic(), 0

    def write(file: BinaryIO) -> None:
        nonlocal written
        with writer(file, arrivals.recording.schema) as take:
            for table in _tables(arrivals, quiet=as_lines):
                take(table)
                written += table.num_rows

    try:
        write_whole(out, write)
    except OSError as error:
        why = "there is no room left on its disk" if full_disk(error) else (error.strerror or str(error))
        raise MistakeError(f"{out} cannot be written: {why}.") from error
    took = time.monotonic() - began
    facts = {"event": "end", "path": str(out), "records": written, "seconds": round(took, 3)}
    print(as_json(facts) if as_lines else f"{written:,} records in {out}, in {took:.1f} s.", flush=True)
    return OK


def _tables(arrivals: Arrivals, *, quiet: bool) -> Iterator[pa.Table]:
    end = arrivals.length + 1
    console = Console(stderr=True)
    with Progress(console=console, disable=quiet or not console.is_terminal) as bar:
        for begin in bar.track(range(0, end, _STRETCH), description="Generating"):
            yield arrivals.between(begin, min(begin + _STRETCH, end))


Take = Callable[[pa.Table], None]


@contextmanager
def _to_parquet(file: BinaryIO, schema: pa.Schema) -> Iterator[Take]:
    with pq.ParquetWriter(file, schema) as writer:
        yield writer.write_table


@contextmanager
def _to_csv(file: BinaryIO, schema: pa.Schema) -> Iterator[Take]:
    with csv.CSVWriter(file, schema) as writer:
        yield writer.write_table


@contextmanager
def _to_ndjson(file: BinaryIO, schema: pa.Schema) -> Iterator[Take]:
    del schema

    def take(table: pa.Table) -> None:
        file.writelines(as_line(row) for row in table.to_pylist())

    yield take


_WRITERS: dict[str, Callable[[BinaryIO, pa.Schema], Any]] = {
    ".parquet": _to_parquet,
    ".csv": _to_csv,
    ".ndjson": _to_ndjson,
}
