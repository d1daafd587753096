"""The watermark along a batch: what the times of its records are like, and where each finds the watermark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.columnar import Times
from muntin.engine.ingest import batch_loops


@dataclass(frozen=True)
class Survey:
    """What the times of a batch are like."""

    disordered: bool  # whether a time is less than the one before
    low: int
    high: int
    late: bool  # whether a record is below the watermark


@dataclass(frozen=True)
class Schedule:
    """How the watermark moves while the records of a batch come in."""

    marks: Times | None  # the watermark just before each record; None: no record is late
    after: int
    largest: int  # the largest time so far


def survey_times(times: Times, watermark: int, delay: int) -> Survey:
    """Look at the order of a batch's times; below 0, `delay` says that records do not move the watermark."""
    disordered = len(times) > 1 and batch_loops.run("disordered", times)
    if not disordered and times[0] >= watermark:
        return Survey(False, int(times[0]), int(times[-1]), False)
    low, high, late = batch_loops.run("survey", times, watermark, delay)
    return Survey(disordered, low, high, late > 0)


def along(times: Times, seen: Survey, watermark: int, largest: int, delay: int) -> Schedule:
    """Return the schedule of a watermark that trails the largest time by a delay, record by record."""
    marks = None
    if seen.late:
        marks = np.empty(len(times), np.int64)
        batch_loops.run("watermarks", times, watermark, delay, marks)
    after = watermark if delay < 0 else max(watermark, seen.high - delay)
    return Schedule(marks, after, max(largest, seen.high))


def at_once(times: Times, seen: Survey, watermark: int, largest: int) -> Schedule:
    """Return the schedule of a micro-batch, all records of which are judged by one watermark."""
    marks = np.full(len(times), watermark) if seen.low < watermark else None
    return Schedule(marks, watermark, max(largest, seen.high))
