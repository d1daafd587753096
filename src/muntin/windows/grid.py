"""Windows on a time grid: tumbling, sliding, cumulate. All keys share their edges.

Windows of a grid are numbered so that ends lie evenly and starts never go back: window k ends at
`k * pitch + first_end`. The numbers of the windows that hold a time are one range, `low(t)` to `high(t)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from muntin.windows.base import Window
from muntin.windows.durations import Clock, Duration

Ticks = Any  # an integer or an array of them


class Lattice(NamedTuple):
    """Points `every` so many ticks, numbered; it counts those up to a time.

    The difference between a time and point 0 may not fit 64 bits, so that another point is subtracted: the
    one in (-every, 0], which is `phase`.

    >>> Lattice.of(10, 25).up_to(35), Lattice.of(10, 25).up_to(34)
    (1, 0)
    """

    every: int
    phase: int
    skipped: int  # how far the numbers lie behind those that count from `phase`

    @classmethod
    def of(cls, every: int, first: int) -> Lattice:
        """Return the points of which number 0 lies at `first`."""
        phase = -(-first % every)
        return cls(every, phase, (phase - first) // every)

    def up_to(self, t: Ticks) -> Ticks:
        """Return the last point at or before a time."""
        return (t - self.phase) // self.every + self.skipped


@dataclass(frozen=True)
class SlidingGrid:
    """Windows [k * pitch + offset, k * pitch + offset + length)."""

    length: int
    pitch: int
    offset: int

    steps = 1
    irregular = False
    listed = False

    @cached_property
    def starts(self) -> Lattice:
        """Where windows start."""
        return Lattice.of(self.pitch, self.offset)

    @cached_property
    def ends(self) -> Lattice:
        """Where windows end."""
        return Lattice.of(self.pitch, self.first_end)

    @property
    def period(self) -> int:
        """How far apart starts lie."""
        return self.pitch

    @property
    def first_end(self) -> int:
        """Where window 0 ends."""
        return self.offset + self.length

    def start(self, k: Ticks) -> Ticks:
        """Return where window k starts."""
        return k * self.pitch + self.offset

    def low(self, t: Ticks) -> Ticks:
        """Return the first window that ends after t."""
        return self.ends.up_to(t) + 1

    def high(self, t: Ticks) -> Ticks:
        """Return the last window that starts at or before t."""
        return self.starts.up_to(t)

    def progressions(self) -> list[tuple[int, int]]:
        """Return period and phase of the starts, then of the ends."""
        return [(self.pitch, self.offset % self.pitch), (self.pitch, self.first_end % self.pitch)]


@dataclass(frozen=True)
class CumulatingGrid:
    """Windows [p * length, p * length + j * pitch) for j = 1..steps."""

    length: int
    pitch: int
    offset = 0
    irregular = False
    listed = False

    @cached_property
    def starts(self) -> Lattice:
        """Where windows start."""
        return Lattice.of(self.length, 0)

    @cached_property
    def ends(self) -> Lattice:
        """Where windows end."""
        return Lattice.of(self.pitch, self.pitch)

    @property
    def period(self) -> int:
        """How far apart starts lie."""
        return self.length

    @property
    def steps(self) -> int:
        """How many windows begin at one start."""
        return self.length // self.pitch

    @property
    def first_end(self) -> int:
        """Where window 0 ends."""
        return self.pitch

    def start(self, k: Ticks) -> Ticks:
        """Return where window k starts."""
        return k // self.steps * self.length

    def low(self, t: Ticks) -> Ticks:
        """Return the first window that ends after t."""
        return t // self.pitch

    def high(self, t: Ticks) -> Ticks:
        """Return the last window that starts at or before t."""
        return (t // self.length + 1) * self.steps - 1

    def progressions(self) -> list[tuple[int, int]]:
        """Return period and phase of the starts, then of the ends."""
        return [(self.length, 0), (self.pitch, 0)]


Grid = SlidingGrid | CumulatingGrid


def end(grid: Any, k: Ticks) -> Ticks:
    """Return where window k ends."""
    return grid.end(k) if grid.irregular else k * grid.pitch + grid.first_end


def last_ended(grid: Any, watermark: Ticks) -> Ticks:
    """Return the last window that ends at or before the watermark."""
    return grid.last_ended(watermark) if grid.irregular else grid.ends.up_to(watermark)


class _GridWindow(Window):
    """What the windows on a grid share."""

    family = "grid"
    context = "context free"


@dataclass(frozen=True, repr=False)
class Tumbling(_GridWindow):
    """Windows end to end."""

    length: Duration
    offset: Duration
    kind = "tumbling"

    def resolved(self, clock: Clock) -> Grid:
        """Return the grid in ticks."""
        length = self.length.ticks(clock, "length")
        return SlidingGrid(length, length, self.offset.ticks(clock, "offset") % length)

    def parameters(self) -> dict[str, Any]:
        """Return length and offset."""
        return {"length": plain(self.length), "offset": plain(self.offset)}


@dataclass(frozen=True, repr=False)
class Sliding(_GridWindow):
    """Windows of one length, one every so often."""

    length: Duration
    every: Duration
    offset: Duration
    kind = "sliding"

    def resolved(self, clock: Clock) -> Grid:
        """Return the grid in ticks."""
        length, every = self.length.ticks(clock, "length"), self.every.ticks(clock, "every")
        return SlidingGrid(length, every, self.offset.ticks(clock, "offset") % every)

    def parameters(self) -> dict[str, Any]:
        """Return length, every and offset."""
        return {"length": plain(self.length), "every": plain(self.every), "offset": plain(self.offset)}


@dataclass(frozen=True, repr=False)
class Cumulate(_GridWindow):
    """Windows that grow by a step, and start anew after each length."""

    length: Duration
    step: Duration
    kind = "cumulate"

    def resolved(self, clock: Clock) -> Grid:
        """Return the grid in ticks."""
        return CumulatingGrid(self.length.ticks(clock, "length"), self.step.ticks(clock, "step"))

    def parameters(self) -> dict[str, Any]:
        """Return length and step."""
        return {"length": plain(self.length), "step": plain(self.step)}


def plain(duration: Duration) -> Any:
    """Return a duration as it was written; no offset as 0."""
    return duration.plain


def tumbling(length: Any, offset: Any = 0) -> Window:
    """Windows end to end: [k * length + offset, (k + 1) * length + offset).

    >>> tumbling("1h", offset="15m")
    tumbling('1h', offset='15m')
    """
    return Tumbling(Duration.of(length, "length"), Duration.of(offset, "offset", least=None))


def sliding(length: Any, every: Any, offset: Any = 0) -> Window:
    """Windows of one length, one `every` so often; neither need divide the other.

    >>> sliding("10m", every="1m")
    sliding('10m', every='1m')
    """
    return Sliding(
        Duration.of(length, "length"),
        Duration.of(every, "every"),
        Duration.of(offset, "offset", least=None),
    )


def cumulate(length: Any, step: Any) -> Window:
    """Windows that grow by `step` up to `length`, then start anew.

    >>> cumulate("1d", step="1h")
    cumulate('1d', step='1h')
    """
    whole, part = Duration.of(length, "length"), Duration.of(step, "step")
    if not whole.same_unit(part):
        raise TypeError(f"length and step must be of one kind, not {length!r} and {step!r}.")
    if whole.amount % part.amount:
        raise ValueError(f"step must divide length, but {length!r} is no multiple of {step!r}.")
    return Cumulate(whole, part)
