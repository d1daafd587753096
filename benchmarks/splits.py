"""What it takes to split a slice: both halves are computed anew from their records.

As in Figure 15 of general stream slicing, the time grows linearly with the number of records in the slice.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from benchmarks.timing import best_of
from muntin.algebra.fusion import Field
from muntin.engine.ingest.batch import Values
from muntin.engine.partials.base import FieldPartials
from muntin.engine.partials.factory import make_field

SIZES = [1_000, 10_000, 100_000, 1_000_000, 4_000_000]
LARGE = 100_000  # from here on, calls weigh little
ROUNDS = 7
STEEPEST, FLATTEST = 1.3, 0.7  # p in time ~ size^p
NOTE = """\
Microseconds to compute the partials of both halves of a slice anew, by its number of records. `power` is p in
time ~ size^p from 100,000 records on; 1 is linear, and 0.7 to 1.3 is asked for. `affine` is a user's own
aggregate that does not commute."""


class Affine(mt.Aggregate):
    """The composition of x -> a * x + b: order matters."""

    @staticmethod
    def lift(v: float) -> tuple[float, float]:
        return (v, 1.0)

    @staticmethod
    def combine(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        return (a[0] * b[0], a[1] * b[0] + b[1])

    @staticmethod
    def lower(a: tuple[float, float]) -> float:
        return a[1]


def fields() -> dict[str, FieldPartials]:
    """Return the partials that are computed anew."""
    return {
        "sum": make_field(Field("sum", ("v",)), None, ("f8",), nullable=False),
        "max": make_field(Field("max", ("v",)), None, ("f8",), nullable=False),
        "affine": make_field(Field("affine", ("v",)), Affine("v"), ("f8",), nullable=False),
    }


def split(field: FieldPartials, records: Values) -> None:
    """Compute both halves of a slice anew."""
    field.of_segments(records, np.array([0, records.count // 2, records.count]))


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether time grows linearly."""
    rows, held = [], True
    values = np.random.default_rng(3).random(max(SIZES))
    for name, field in fields().items():
        slices = {str(n): Values((values[:n],), None, n, ("f8",)) for n in SIZES}
        with Console().status(f"splitting slices: {name}"):
            best = best_of({n: partial(split, field, records) for n, records in slices.items()}, ROUNDS)
        large = [n for n in SIZES if n >= LARGE]
        power = float(np.polyfit(np.log10(large), np.log10([best[str(n)] for n in large]), 1)[0])
        holds = FLATTEST <= power <= STEEPEST
        held &= holds
        rows.append([name, *(f"{best[str(n)] * 1e6:,.1f}" for n in SIZES), f"{power:.2f}", verdict(holds)])
    headings = ["aggregate", *(f"{n:,}" for n in SIZES), "power", ""]
    return show("Splitting a slice", headings, rows, NOTE), held


if __name__ == "__main__":
    run()
