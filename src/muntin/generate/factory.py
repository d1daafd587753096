"""A factory like that of the DEBS 2012 challenge: power on three phases, additives and their valves.

In the recording of the challenge, a machine sends 100 records a second. Power (mf01 to mf03) lies about
13,050, 14,380 and 8,090, wanders by a percent, and surges by up to 40 % within a third of a second when a
motor starts, to fall back within two. The chemical additive sensors (bm05 to bm07) go on and off, and the
valves that they open (bm08 to bm10) follow after a while; how long that takes is what the challenge asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.generate.arrival import TIME_TYPE
from muntin.generate.chance import Floats, Integers, normal, uniform

HERTZ = 100  # records a second of one machine
_START = 1_329_929_188_000_000  # 2012-02-22 16:46:28 UTC, when the recording begins
_SURGES = 20.0  # seconds: each such stretch has a surge, or none
_CYCLE = 8.0  # seconds from one additive to the next
_LEVELS = {"mf01": 13_050.0, "mf02": 14_380.0, "mf03": 8_090.0}
_ANALOG = {"pc13": (70.2, 4.5), "pc14": (189.9, 3.9), "pc15": (152.1, 4.3)}  # mean, deviation


@dataclass(frozen=True)
class Factory:
    """Machines that send their readings 100 times a second each.

    >>> import muntin.generate as gen
    >>> table, times, numbers = gen.Factory(seconds=10, seed=1).between(0, 1_000_000)
    >>> table.num_rows, table.column_names[:4]
    (100, ['ts', 'machine', 'mf01', 'mf02'])
    """

    seconds: float = 60.0
    machines: int = 1
    seed: int = 0
    time: ClassVar[str] = "ts"
    disorder: ClassVar[float] = 0.2  # what it is replayed with unless one says otherwise
    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("ts", TIME_TYPE),
            ("machine", pa.string()),
            *((name, pa.int32()) for name in (*_LEVELS, *_ANALOG)),
            *((f"bm{number:02}", pa.bool_()) for number in range(5, 11)),
        ]
    )

    def __post_init__(self) -> None:
        if self.machines < 1 or self.seconds <= 0:
            raise ValueError("a factory needs at least one machine, and more than zero seconds.")

    @property
    def length(self) -> int:
        """Return how long it lasts, in microseconds."""
        return round(self.seconds * 1e6)

    @property
    def rate(self) -> int:
        """Return the number of records a second."""
        return HERTZ * self.machines

    def between(self, begin: int, end: int) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]:
        """Return the records of a stretch, in order, with their times since the start and their numbers."""
        spacing = 1_000_000 // HERTZ
        first, last = (max(-(-edge * self.machines // spacing), 0) for edge in (begin, min(end, self.length)))
        numbers = np.arange(first, max(last, first))
        times = numbers * spacing // self.machines
        machines = numbers % self.machines
        columns: dict[str, pa.Array] = {
            "ts": pa.array(times + _START).view(TIME_TYPE),
            "machine": pa.array([f"machine {k + 1}" for k in range(self.machines)]).take(pa.array(machines)),
        }
        seconds = times / 1e6
        columns |= {name: pa.array(v) for name, v in self._power(seconds, machines, numbers).items()}
        for name, (mean, deviation) in _ANALOG.items():
            noise = normal(self.seed, name, numbers)
            columns[name] = pa.array(np.rint(mean + deviation * noise).astype(np.int32))
        for additive in range(3):
            sensor, valve = self._additive(seconds, machines, additive)
            columns |= {f"bm{5 + additive:02}": pa.array(sensor), f"bm{8 + additive:02}": pa.array(valve)}
        return pa.table(columns, schema=self.schema), times, numbers

    def _power(self, seconds: Floats, machines: Integers, numbers: Integers) -> dict[str, NDArray[np.int32]]:
        """Return power by phase: phases 1 and 2 carry the same motors, phase 3 has one of its own."""
        stretch = machines * 1_000_003 + (seconds // _SURGES).astype(np.int64)
        power = {}
        for name, level in _LEVELS.items():
            motor = "phase 3" if name == "mf03" else "phases 1 and 2"
            drawn = {what: uniform(self.seed, f"{motor} {what}", stretch) for what in ("is", "at", "high")}
            since = seconds % _SURGES - drawn["at"] * (_SURGES - 5)
            height = np.where(drawn["is"] < 0.6, (0.1 + 0.3 * drawn["high"]) * level, 0)
            slow = 0.006 * level * np.sin(2 * np.pi * (seconds / 16 + 0.3 * machines))
            noise = 0.0015 * level * normal(self.seed, name, numbers)
            power[name] = np.rint(level + slow + noise + height * _surge(since)).astype(np.int32)
        return power

    def _additive(
        self, seconds: Floats, machines: Integers, additive: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return a sensor and its valve: on once in a cycle, the valve up to 0.6 s behind."""
        shifted = seconds + additive * _CYCLE / 3
        cycle = machines * 1_000_003 + (shifted // _CYCLE).astype(np.int64)
        start, long, lag = (
            uniform(self.seed, f"additive {additive} {what}", cycle) for what in ("start", "length", "lag")
        )
        on, off = 0.2 + 1.5 * start, 0.2 + 1.5 * start + 1 + 3 * long
        within, behind = shifted % _CYCLE, 0.1 + 0.5 * lag
        return (on <= within) & (within < off), (on + behind <= within) & (within < off + behind)


def _surge(since: Floats) -> Floats:
    """Return the shape of a surge: up within a third of a second, down with a half-life of 0.3 s."""
    rise = np.clip(since / 0.3, 0, 1)
    fall = np.exp2(-np.maximum(since - 0.3, 0) / 0.3)
    return np.asarray(rise * fall)
