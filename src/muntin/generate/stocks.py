"""A stock exchange: trades of several symbols, with prices that wander and volumes that vary.

Prices are sums of sines and a little noise, so that any stretch can be had without what comes before it; a
few times in a while a burst of trades makes volumes large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.generate.arrival import TIME_TYPE
from muntin.generate.chance import normal, uniform

HERTZ = 5  # trades a second of one symbol
_START = 1_767_261_600_000_000  # 2026-01-01 10:00:00 UTC
_SWINGS = ((0.06, 3600.0), (0.02, 611.0), (0.008, 97.0))  # shares of the price, and seconds
_BURSTS = 30.0  # seconds: in each such stretch a symbol has a burst of large trades, or none


@dataclass(frozen=True)
class Stocks:
    """Trades of some symbols, five a second each.

    >>> import muntin.generate as gen
    >>> table, times, numbers = gen.Stocks(seconds=60, symbols=3).between(0, 2_000_000)
    >>> table.num_rows, table.column_names
    (30, ['ts', 'symbol', 'price', 'volume'])
    """

    seconds: float = 60.0
    symbols: int = 4
    seed: int = 0
    time: ClassVar[str] = "ts"
    disorder: ClassVar[float] = 0.1  # what it is replayed with unless one says otherwise
    schema: ClassVar[pa.Schema] = pa.schema(
        [("ts", TIME_TYPE), ("symbol", pa.string()), ("price", pa.float64()), ("volume", pa.int64())]
    )

    def __post_init__(self) -> None:
        if self.symbols < 1 or self.seconds <= 0:
            raise ValueError("an exchange needs at least one symbol, and more than zero seconds.")

    @property
    def length(self) -> int:
        """Return how long it lasts, in microseconds."""
        return round(self.seconds * 1e6)

    @property
    def rate(self) -> int:
        """Return the number of records a second."""
        return HERTZ * self.symbols

    def between(self, begin: int, end: int) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]:
        """Return the records of a stretch, in order, with their times since the start and their numbers."""
        end = min(end, self.length)
        first, last = (max(edge * self.rate // 1_000_000, 0) for edge in (begin, end))
        numbers = np.arange(first, max(last + 1, first))
        spacing = 1_000_000 / self.rate
        # each trade somewhere in a slot of its own, so that they stay in order
        times = ((numbers + uniform(self.seed, "moment", numbers)) * spacing).astype(np.int64)
        inside = (begin <= times) & (times < end)
        times, numbers = times[inside], numbers[inside]
        symbols = numbers % self.symbols
        seconds = times / 1e6
        level = 20 * 1.7 ** (symbols % 7)
        course = np.ones(len(times))
        for share, long in _SWINGS:
            phase = uniform(self.seed, f"phase {long}", symbols)
            course += share * np.sin(2 * np.pi * (seconds / long + phase))
        noise = 1 + 0.0008 * normal(self.seed, "price", numbers)
        stretch = symbols * 1_000_003 + (seconds // _BURSTS).astype(np.int64)
        since = seconds % _BURSTS - 25 * uniform(self.seed, "burst at", stretch)
        burst = (uniform(self.seed, "burst", stretch) < 0.3) & (0 <= since) & (since < 4)
        volume = np.ceil(100 * np.exp(normal(self.seed, "volume", numbers))) * np.where(burst, 8, 1)
        names = pa.array([_name(k) for k in range(self.symbols)])
        columns = {
            "ts": pa.array(times + _START).view(TIME_TYPE),
            "symbol": names.take(pa.array(symbols)),
            "price": pa.array(np.round(level * course * noise, 2)),
            "volume": pa.array(volume.astype(np.int64)),
        }
        return pa.table(columns, schema=self.schema), times, numbers


def _name(number: int) -> str:
    """Return a symbol: AAA, AAB, ..."""
    return "".join(chr(ord("A") + number // 26**place % 26) for place in (2, 1, 0))
