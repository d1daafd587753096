"""The state of a bucket with digests that fit and a content that does not: refused, or a run like others."""

from __future__ import annotations

import hashlib
import random
import warnings
from typing import Any

import pyarrow as pa
import pytest

import muntin as mt
from muntin.engine.ingest import read_batch, reader
from muntin.engine.rows import FOREVER
from muntin.engine.state.description import SnapshotError
from muntin.engine.state.envelope import pack, unpack
from muntin.engine.state.incremental import HEAD, Head, dump_parts, load_parts
from muntin.spark.combining import Bucket
from muntin.spark.job import Job, make_job
from tests.snapshot_cases import WINDOWS, about_the_stream, changed_table, changed_tree, records

AGGREGATES = {"total": mt.sum("v"), "top": mt.max("w"), "half": mt.median("v"), "last": mt.max("s")}
EACH = 6  # changes of each state


def job_of(*queries: mt.Query) -> Job:
    types = {field.name: field.type for field in records(0, 0, disorder=9).schema}
    return make_job(list(queries), types.__getitem__, time="ts", key="k", tie=None, lateness=5, buckets=1)


def take(bucket: Bucket, table: pa.Table, watermark: int) -> None:
    """Let a bucket take in records, as Spark would hand them over, under a watermark."""
    engine, job = bucket.engine, bucket.job
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    times = reader.read_times(columns[job.time], job.time)
    batch = read_batch(engine, bucket.keys, columns, times, job.time, job.tie)
    engine.ingest_at(watermark, batch, bucket.keys)


def parts_of(job: Job) -> dict[str, bytes]:
    bucket = Bucket.new(job)
    take(bucket, records(1, 0, disorder=9), -(2**62))
    take(bucket, records(2, 30, disorder=9), 35)
    return dump_parts(bucket.engine, bucket.keys, job.setting(), job.queries)


def restored(job: Job, parts: dict[str, bytes]) -> Bucket:
    bucket = Bucket(job, job.engine(empty=True), job.key_table())
    load_parts(Head(parts[HEAD]), parts.get, bucket.engine, bucket.keys, job.queries, None)
    bucket.engine.types |= job.types
    return bucket


def changed(rng: random.Random, parts: dict[str, bytes]) -> tuple[dict[str, bytes], str]:
    """Return a state with one thing changed and digests that fit, and what was changed."""
    head, tables = unpack(parts[HEAD])
    name = rng.choice(list(parts))
    if name == HEAD or rng.random() < 0.4:
        if rng.random() < 0.8:
            tree, what = changed_tree(rng, {k: v for k, v in head.items() if k != "setting"})
            return {**parts, HEAD: pack({**tree, "setting": head["setting"]}, tables)}, what
        which = rng.choice(list(tables))
        table, what = changed_table(rng, tables[which])
        return {**parts, HEAD: pack(head, {**tables, which: table})}, f"{which}: {what}"
    table, what = changed_table(rng, unpack(parts[name])[1]["part"])
    part = pack({}, {"part": table})
    digests = {**head["digests"], name: hashlib.sha256(part).hexdigest()}
    return {**parts, name: part, HEAD: pack({**head, "digests": digests}, tables)}, f"{name}: {what}"


def outcome(job: Job, parts: dict[str, bytes]) -> str:
    """Return what comes of a state: "refused" in one sentence, "ran", or what went wrong."""
    try:
        bucket = restored(job, parts)
    except SnapshotError as error:
        return f"says {error}" if "\n" in str(error) else "refused"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            take(bucket, records(3, 60, disorder=9), max(60, min(bucket.engine.watermark, 2**61)))
            bucket.engine.advance(FOREVER, bucket.keys)
    except Exception as error:
        return "ran" if about_the_stream(error) else f"breaks off: {error!r}"
    return "ran"


# Functions of one's own are given by the job, and do not come with the state.
KINDS = [name for name in WINDOWS if "own" not in name and "user" not in name and "aware" not in name]


@pytest.mark.parametrize("part", range(4))
def test_one_thing_is_changed(part: int) -> None:
    found: dict[Any, str] = {}
    for name in KINDS[part::4]:
        job = job_of(WINDOWS[name].agg(**AGGREGATES))
        parts = parts_of(job)
        assert outcome(job, parts) == "ran"
        for number in range(EACH):
            other, what = changed(random.Random(f"{name} {number}"), parts)
            found[name, number, what] = outcome(job, other)
    assert not {who: what for who, what in found.items() if what not in ("refused", "ran")}
    assert list(found.values()).count("refused") > 8


def test_a_head_that_lacks_something() -> None:
    job = job_of(mt.tumbling(10).agg(n=mt.count()))
    parts = parts_of(job)
    head, tables = unpack(parts[HEAD])
    for name in head:
        torn = pack({n: v for n, v in head.items() if n != name}, tables)
        with pytest.raises(SnapshotError, match=f"head lacks '{name}'"):
            Head(torn)
    with pytest.raises(SnapshotError, match="table 'types' is missing"):
        Head(pack(head, {}))
