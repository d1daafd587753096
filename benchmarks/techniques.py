"""Techniques against each other: combines, partials and speed, as in Figures 8 and 9 of the Cutty paper.

Section 7.2: sliding count windows of random ranges and slides. Section 7.3: windows from one change of a
sensor's state to the next, for sensors that change at different rates. Answers are compared with NumPy's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from muntin.techniques import (
    Counts,
    Cutty,
    Marked,
    Naive,
    Pairs,
    PairsPlus,
    ReactiveAggregator,
    Stream,
    Technique,
)

RECORDS = 1_000_000
SIZES = [1, 10, 20, 40, 60, 80, 100]  # queries
SENSORS = [1, 5, 10, 20]
RANGES, SLIDES = (20_000, 80_000), (1_000, 20_000)  # multiples of 10
STATES = (1_000, 20_000)  # how many records a sensor's state lasts, in the mean: spread evenly by ratio
FIGURES = Path(__file__).parent.parent / "docs" / "figures"
MOST_OF_PAIRS = 0.7  # store combines of Cutty, of those of Pairs+
LEAST_TIMES = {1: 10_000, 10: 300, 20: 40, 100: 40}  # those of RA, of those of Cutty

PERIODIC: dict[str, Callable[[], Technique]] = {
    "Cutty": lambda: Cutty("eager"),
    "Cutty lazy": lambda: Cutty("lazy"),
    "Pairs+": PairsPlus,
    "Pairs": Pairs,
    "RA": ReactiveAggregator,
    "RA batched": lambda: ReactiveAggregator(batched=True),
    "Naive": Naive,
}
SESSIONS = {name: PERIODIC[name] for name in ("Cutty", "RA", "RA batched", "Naive")}

NOTE = """\
Store combines (k: thousand, M: million) are all but the one that each record takes to join its slice. Those
of Cutty may be 0.7 times those of Pairs+ at most; RA must take at least 10,000 times as many as Cutty for 1
query, 300 for 10 and 40 for 20 and for 100. Windows are counts of records with ranges in 20,000 to 80,000 and
slides in 1,000 to 20,000; each workload holds the one before it. RA changes its tree with each record, as in
the Cutty paper; RA batched does so when a window ends, as its own paper has it."""
SLIDE_NOTE = """\
One query with a range of 50,000: how far RA is behind depends on the slide, since Cutty's combines are per
slide and those of RA per record."""
SESSION_NOTE = """\
Windows last from one change of a sensor's state to the next; states last 1,000 to 20,000 records in the mean.
With one sensor no two windows overlap, and Cutty never combines what it stores."""


@dataclass(frozen=True)
class Run:
    """What a technique took for one workload."""

    counts: Counts
    seconds: float


Runs = Mapping[int, Mapping[str, Run]]


# ---- workloads ----


def stream(records: int) -> Stream:
    """Return records in order, one at each time."""
    return Stream({"ts": np.arange(records), "v": np.random.default_rng(7).random(records)})


def periodic(size: int) -> list[mt.Query]:
    """Return the first queries of one random sequence."""
    rng = np.random.default_rng(0)
    drawn = [[int(rng.integers(a // 10, b // 10 + 1)) * 10 for a, b in (RANGES, SLIDES)] for _ in range(size)]
    return [mt.count_sliding(n, every=every).agg(mean=mt.mean("v")) for n, every in drawn]


def sensors(size: int, records: int) -> list[mt.Query]:
    """Return a query per sensor: windows from one change of its state to the next."""
    rng = np.random.default_rng(1)
    order = rng.permutation(np.geomspace(*STATES, max(SENSORS)))  # rates in no order
    queries = []
    for mean in order[:size]:
        lengths = 1 + rng.exponential(mean, 10 + int(3 * records / mean)).astype(np.int64)
        changes = np.cumsum(lengths)
        changes = changes[changes < records]
        queries.append(Marked(changes[:-1], changes[1:]).agg(mean=mt.mean("v")))
    return queries


def run_one(technique: Technique, queries: Sequence[mt.Query], over: Stream) -> Run:
    """Run a technique and compare what it gives with NumPy."""
    start = time.perf_counter()
    rows = technique.run(queries, over)
    seconds = time.perf_counter() - start
    prefix: NDArray[Any] = np.append(0.0, np.cumsum(over.batch["v"]))
    begins, ends = np.array([row.start for row in rows]), np.array([row.end for row in rows]) + 1
    means = (prefix[ends] - prefix[begins]) / (ends - begins)
    if not np.allclose([row.values["mean"] for row in rows], means, rtol=1e-9, atol=0):
        raise AssertionError(f"{type(technique).__name__} gives other means than NumPy")
    return Run(technique.counts, seconds)


def run_all(
    techniques: Mapping[str, Callable[[], Technique]],
    workloads: Mapping[int, Sequence[mt.Query]],
    over: Stream,
) -> Runs:
    """Run all techniques over all workloads; once before, so that nothing is compiled in a timed run."""
    first = next(iter(workloads.values()))
    for make in techniques.values():
        make().run(first, over)
    return {
        size: {name: run_one(make(), queries, over) for name, make in techniques.items()}
        for size, queries in workloads.items()
    }


# ---- tables ----


def short(number: int) -> str:
    """Return a number in at most three digits and a sign for thousands or millions."""
    for sign, unit in (("M", 1e6), ("k", 1e3)):
        if number >= unit:
            return f"{number / unit:.{max(0, 2 - int(np.log10(number / unit)))}f}{sign}"
    return str(number)


def combine_table(title: str, runs: Runs, note: str) -> tuple[str, bool]:
    """Return the store combines of all runs, and whether limits hold."""
    names = list(next(iter(runs.values())))
    rows = [[name, *(short(by_name[name].counts.store) for by_name in runs.values())] for name in names]
    times = [ratio(by_name, "RA", "Cutty") for by_name in runs.values()]
    rows.append(["RA / Cutty", *(f"{x:,.0f}" for x in times)])
    holds = [x >= LEAST_TIMES.get(size, 0) for size, x in zip(runs, times, strict=True)]
    if "Pairs+" in names:
        of_pairs = [ratio(by_name, "Cutty", "Pairs+") for by_name in runs.values()]
        rows.append(["Cutty / Pairs+", *(f"{x:.2f}" for x in of_pairs)])
        holds = [held and x <= MOST_OF_PAIRS for held, x in zip(holds, of_pairs, strict=True)]
    rows.append(["limits", *map(verdict, holds)])
    return show(title, ["queries", *map(str, runs)], rows, note), all(holds)


def ratio(by_name: Mapping[str, Run], one: str, other: str) -> float:
    """Return how many times the store combines of another technique one takes."""
    combines = by_name[other].counts.store
    return by_name[one].counts.store / combines if combines else float("inf")


def other_table(title: str, runs: Runs, of: Callable[[Run], str]) -> str:
    """Return one number of each run."""
    names = list(next(iter(runs.values())))
    rows = [[str(size), *(of(by_name[name]) for name in names)] for size, by_name in runs.items()]
    return show(title, ["queries", *names], rows)


def slide_table(over: Stream) -> str:
    """Return RA against Cutty for one query of different slides."""
    rows = []
    for every in (SLIDES[0], SLIDES[1] // 4, SLIDES[1] // 2, SLIDES[1]):
        query = [mt.count_sliding(sum(RANGES) // 2, every=every).agg(mean=mt.mean("v"))]
        cutty, ra = (run_one(t, query, over).counts.store for t in (Cutty("eager"), ReactiveAggregator()))
        rows.append([f"{every:,}", f"{cutty:,}", f"{ra:,}", f"{ra / cutty:,.0f}"])
    return show("RA and Cutty, one query, by its slide", ["slide", "Cutty", "RA", "times"], rows, SLIDE_NOTE)


# ---- figures ----

COUNTED: dict[str, Callable[[Run], float]] = {
    "update": lambda r: r.counts.update,
    "merge": lambda r: r.counts.merge,
}


def draw(path: Path, title: str, y: str, lines: Mapping[str, tuple[Sequence[int], Sequence[float]]]) -> None:
    """Draw lines over the number of queries, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.4), dpi=80)
    for marker, (name, (sizes, numbers)) in zip("os^vD<>*", lines.items(), strict=False):
        axes.plot(sizes, numbers, marker=marker, markersize=4, linewidth=1.2, label=name)
    axes.set(xlabel="queries", ylabel=y, title=title, yscale="log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)


def line(runs: Runs, name: str, of: Callable[[Run], float]) -> tuple[list[int], list[float]]:
    """Return the numbers of one technique; a logarithmic scale has no place for none."""
    points = [(size, of(by_name[name])) for size, by_name in runs.items()]
    return [size for size, number in points if number], [number for _, number in points if number]


def draw_all(periodic_runs: Runs, session_runs: Runs, records: int) -> None:
    """Draw figures like 8b, 8c, 9b and 9d of the paper."""
    every = list(next(iter(periodic_runs.values())))
    draw(
        FIGURES / "techniques-periodic-combines.png",
        "Sliding windows: store combines",
        "combines",
        {name: line(periodic_runs, name, lambda r: r.counts.store) for name in every},
    )
    draw(
        FIGURES / "techniques-periodic-partials.png",
        "Sliding windows: partials or records stored",
        "at the peak",
        {n: line(periodic_runs, n, lambda r: max(r.counts.partials, r.counts.records)) for n in every},
    )
    draw(
        FIGURES / "techniques-sessions-throughput.png",
        "Windows between changes of state: speed",
        "records a second",
        {name: line(session_runs, name, lambda r: records / r.seconds) for name in SESSIONS},
    )
    parts = [("Cutty", "update"), ("Cutty", "merge"), ("RA", "update"), ("RA", "merge")]
    draw(
        FIGURES / "techniques-sessions-combines.png",
        "Windows between changes of state: store combines",
        "combines",
        {f"{name} {part}": line(session_runs, name, COUNTED[part]) for name, part in parts},
    )


def run() -> tuple[str, bool]:
    """Return the tables as Markdown, and whether all limits hold; draw the figures."""
    over = stream(RECORDS)
    with Console().status("techniques: many windows, answers are compared with NumPy's"):
        periodic_runs = run_all(PERIODIC, {size: periodic(size) for size in SIZES}, over)
        session_runs = run_all(SESSIONS, {size: sensors(size, RECORDS) for size in SENSORS}, over)
    title = f"Techniques: store combines, {RECORDS:,} records, sliding windows"
    combines, held = combine_table(title, periodic_runs, NOTE)
    sessions, held_too = combine_table(
        f"Techniques: store combines, {RECORDS:,} records, windows between changes of state",
        session_runs,
        SESSION_NOTE,
    )
    partials = other_table(
        "Techniques: partials or records stored at the peak, sliding windows",
        periodic_runs,
        lambda r: short(max(r.counts.partials, r.counts.records)),
    )
    speed = other_table(
        "Techniques: million records a second, windows between changes of state",
        session_runs,
        lambda r: f"{RECORDS / r.seconds / 1e6:.2f}",
    )
    draw_all(periodic_runs, session_runs, RECORDS)
    return "\n".join([combines, slide_table(over), partials, sessions, speed]), held and held_too


if __name__ == "__main__":
    run()
