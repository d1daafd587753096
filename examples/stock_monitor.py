"""A stock monitor whose windows follow the price: the motivating example of Cutty (CIKM 2016), Figure 1.

A trader wants the volume-weighted average price of the last 10 minutes, every 5 minutes. While the stock
costs 10 dollars or less, the last 5 minutes are wanted, every 2 minutes. Run this file: it prints the reports
and, with Matplotlib, draws them into `stock_monitor.png`.

How first in, first out is kept when the slide changes in mid-window: each window keeps the range that it
began with. The next one begins when it was due, or one new slide after the change if that is sooner. A short
window that begins while long ones are open would end before them; it ends together with the last of them
instead. So for up to 5 minutes after a fall, reports hold more than the last 5 minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import muntin as mt

MINUTE = 60
CHEAP = 10.0
LONG, SHORT = (5 * MINUTE, 10 * MINUTE), (2 * MINUTE, 5 * MINUTE)  # slide and range, in seconds
PICTURE = Path("stock_monitor.png")

# Room for the windows that are open at once: they last 10 minutes at the most, and begin 2 apart.
OPEN = 6
# The state: whether the stock was cheap, when the next window begins, how many are open, and when they end.
START = (False, 0, 0, *(2**62,) * OPEN)


def monitor(state: Any, t: int, row: Any) -> Any:
    """Say how many windows begin with a trade, and how many of the oldest end before it."""
    was_cheap, following, count, e0, e1, e2, e3, e4, e5 = state
    ends = 0
    while count > 0 and e0 <= t:
        ends += 1
        count -= 1
        e0, e1, e2, e3, e4, e5 = e1, e2, e3, e4, e5, 2**62
    cheap = row.price <= 10.0
    slide, length = (120, 300) if cheap else (300, 600)
    if cheap != was_cheap:
        following = min(following, t + slide)
    begins = 0
    if t >= following and count < 6:
        begins = 1
        late = (t - following) % slide if following > 0 else 0
        following = t - late + slide
        last = max(e0 if count == 1 else 0, e1 if count == 2 else 0, e2 if count == 3 else 0)
        last = max(last, e3 if count == 4 else 0, e4 if count == 5 else 0)
        end = max(t + length, last)  # never before an older one: first in, first out
        if count == 0:
            e0 = end
        elif count == 1:
            e1 = end
        elif count == 2:
            e2 = end
        elif count == 3:
            e3 = end
        elif count == 4:
            e4 = end
        else:
            e5 = end
        count += 1
    return (cheap, following, count, e0, e1, e2, e3, e4, e5), begins, ends


class Vwap(mt.Aggregate):
    """The volume-weighted average price: sums of price times volume, and of volume."""

    commutative = True

    @staticmethod
    def lift(price: float, volume: float) -> tuple[float, float]:
        """Return both sums of one trade."""
        return price * volume, volume

    @staticmethod
    def combine(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        """Add them up."""
        return a[0] + b[0], a[1] + b[1]

    @staticmethod
    def lower(a: tuple[float, float]) -> float:
        """Return the price of a unit."""
        return a[0] / a[1]


def trades(minutes: int = 60, seed: int = 4) -> pa.Table:
    """Return made-up trades: about one each 5 seconds, below 10 dollars from the 25th minute to the 40th."""
    rng = np.random.default_rng(seed)
    times = np.unique(rng.integers(0, minutes * MINUTE, minutes * 12))
    course = np.interp(times / MINUTE, [0, 20, 25, 32, 40, 60], [12.0, 11.2, 9.99, 9.0, 10.01, 11.5])
    wobble = np.where(np.abs(course - CHEAP) > 0.3, rng.normal(0, 0.08, len(times)), 0.0)
    return pa.table(
        {"t": times, "price": course + wobble, "volume": rng.integers(1, 500, len(times)).astype(float)}
    )


def reports(table: pa.Table) -> pa.Table:
    """Return a row per report: when its window begins and ends, and the average price."""
    window = mt.user_window(monitor, state=START, columns=["price"])
    query = window.agg(vwap=Vwap("price", "volume"), trades=mt.count(), name="monitor")
    op = mt.WindowOperator(query, time="t")
    return pa.concat_tables([op.process(table), op.finish()])


def draw(table: pa.Table, rows: pa.Table, path: Path) -> None:
    """Draw prices, windows and reports as in the paper's Figure 1."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(9, 6), height_ratios=(3, 2))
    starts, ends = (rows[name].to_numpy() / MINUTE for name in ("window_start", "window_end"))
    above.plot(table["t"].to_numpy() / MINUTE, table["price"].to_numpy(), color="0.7", label="price")
    above.plot(ends, rows["vwap"].to_numpy(), "o-", color="C0", markersize=4, label="report")
    above.axhline(CHEAP, color="C3", linewidth=1)
    above.set_ylabel("dollars")
    above.legend()
    for start in starts:
        above.axvline(start, color="0.9", linestyle="--", linewidth=1, zorder=0)  # where slices begin
    below.hlines(range(len(starts)), starts, ends, color="C0")
    below.invert_yaxis()
    below.set_ylabel("windows")
    below.set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Print the reports, and draw them if Matplotlib is there."""
    table = trades()
    rows = reports(table)
    for row in rows.to_pylist():
        start, end = (
            f"{row[name] // MINUTE:2d}:{row[name] % MINUTE:02d}" for name in ("window_start", "window_end")
        )
        print(f"{start} to {end}  {row['trades']:4d} trades  {row['vwap']:.2f} dollars")
    try:
        draw(table, rows, PICTURE)
    except ImportError:
        print("There is no Matplotlib to draw a picture with.")
    else:
        print(f"Drawn into {PICTURE}.")


if __name__ == "__main__":
    main()
