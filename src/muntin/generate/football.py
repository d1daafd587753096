"""A football match like that of the DEBS 2013 challenge: sensors in shoes, gloves and balls.

In the recording of the challenge, 42 sensors send about 15,000 positions a second: two in the shoes of each
of 16 players and of the referee, two more in the gloves of the goalkeepers, all 200 times a second, and one
in each of four balls, 2,000 times. Who holds the ball keeps it for about a second. As in the evaluation of
general stream slicing, all sensors fall silent five times a minute, and a fifth of the records comes up to
2 s late.

Positions are sums of sines, so that speed and acceleration are their derivatives, and any stretch of the
match can be had without what comes before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.generate.arrival import TIME_TYPE
from muntin.generate.chance import Floats, Integers, normal, uniform

PLAYERS = 16
SENSORS = 42
BALLS = (4, 8, 10, 12)  # sensors; the first is in play
FIELD = (52.483, 67.925)  # metres
PERIOD, SILENCE = 12.0, 1.5  # seconds: all sensors are silent at the end of each period, five times a minute
_BALL_RECORDS = 10  # of each ball for one of any other sensor
_PER_ROUND = SENSORS - len(BALLS) + len(BALLS) * _BALL_RECORDS
_START = 1_372_514_400_000_000  # 2013-06-29 14:00:00 UTC
_SAMPLE = 0.1  # seconds
_PASSES = 4  # balls played in a period
_SLOT = (PERIOD - SILENCE) / _PASSES
# Metres and seconds of a player's ways over the field, sprints, steps aside, and strides of one foot.
_SWINGS = ((9.0, 61.0), (3.5, 17.0), (0.7, 4.3), (0.22, 0.71))


@dataclass(frozen=True)
class Football:
    """A match; `hertz` is how often a player's sensor sends, 200 in the recording (15,600 records a second).

    `step` is the way since the sensor's last record, in metres, divided by the number of a player's sensors:
    its sum over a player's records is the way that the player went. `way` is how far a player has come since
    the start, whoever of the sensors tells: it never goes back. For balls it is 0.

    >>> import muntin.generate as gen
    >>> table, times, numbers = gen.Football(seconds=60, hertz=5).between(0, 2_000_000)
    >>> table.num_rows, len(set(table["sensor"].to_pylist()))
    (780, 42)
    >>> table.filter(table["has_ball"])["player"].unique().to_pylist()
    ['B5']
    """

    seconds: float = 60.0
    hertz: int = 200
    seed: int = 0
    time: ClassVar[str] = "ts"
    disorder: ClassVar[float] = 0.2  # what it is replayed with unless one says otherwise
    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("ts", TIME_TYPE),
            ("sensor", pa.int32()),
            ("player", pa.string()),
            ("team", pa.string()),
            ("x", pa.float64()),
            ("y", pa.float64()),
            ("speed", pa.float64()),
            ("acceleration", pa.float64()),
            ("step", pa.float64()),
            ("way", pa.float64()),
            ("has_ball", pa.bool_()),
        ]
    )

    def __post_init__(self) -> None:
        if self.hertz < 1 or self.seconds <= 0:
            raise ValueError("a match needs at least one record a second, and more than zero seconds.")

    @property
    def length(self) -> int:
        """Return how long it lasts, in microseconds."""
        return round(self.seconds * 1e6)

    @property
    def rate(self) -> int:
        """Return the number of records a second while sensors are not silent."""
        return _PER_ROUND * self.hertz

    def between(self, begin: int, end: int) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]:
        """Return the records of a stretch, in order, with their times since the start and their numbers."""
        end = min(end, self.length)
        period = round(PERIOD * 1e6)
        per_period = int((PERIOD - SILENCE) * self.rate)
        first = begin // period * per_period
        last = -(-end // period) * per_period
        numbers = np.arange(first, max(last, first))
        times = numbers // per_period * period + numbers % per_period * 1_000_000 // self.rate
        inside = (begin <= times) & (times < end)
        times, numbers = times[inside], numbers[inside]
        places = self._roster.order[numbers % _PER_ROUND]
        return self._table(times, numbers, places), times, numbers

    def _table(self, times: Integers, numbers: Integers, places: Integers) -> pa.Table:
        roster = self._roster
        seconds = times / 1e6
        motion = self._moved(seconds, places)
        slot, holder, held = self._possession(seconds)
        in_play = np.flatnonzero(roster.sensors[places] == BALLS[0])
        self._play_ball(motion, in_play, seconds, slot)
        x, y = (motion[axis, 0] + 0.01 * normal(self.seed, f"noise {axis}", numbers) for axis in (0, 1))
        speed, acceleration = np.hypot(motion[0, 1], motion[1, 1]), np.hypot(motion[0, 2], motion[1, 2])
        hertz = np.where(roster.is_ball[places], self.hertz * _BALL_RECORDS, self.hertz)
        columns = {
            "ts": pa.array(times + _START).view(TIME_TYPE),
            "sensor": pa.array(roster.sensors[places].astype(np.int32)),
            "player": roster.names.take(pa.array(places)),
            "team": roster.teams.take(pa.array(places)),
            "x": pa.array(x),
            "y": pa.array(y),
            "speed": pa.array(speed),
            "acceleration": pa.array(acceleration),
            "step": pa.array(speed / hertz / roster.shares[places]),
            "way": pa.array(self._way(seconds, roster.owners[places])),
            "has_ball": pa.array(held & (roster.owners[places] == holder)),
        }
        return pa.table(columns, schema=self.schema)

    @cached_property
    def _roster(self) -> Roster:
        return Roster(self.seed)

    def _moved(self, seconds: Floats, places: Integers) -> Floats:
        """Return position, velocity and acceleration in both axes: an array [axis, derivative, record]."""
        roster = self._roster
        motion = np.zeros((2, 3, len(seconds)))
        motion[:, 0] = roster.homes[:, places]
        for swing, (width, long) in enumerate(_SWINGS):
            pulse = 2 * np.pi / (long * roster.tempos[swing, places])
            for axis in (0, 1):
                angle = pulse * seconds + roster.phases[axis, swing, places]
                sine, cosine = np.sin(angle), np.cos(angle)
                size = width * roster.moves[places]
                motion[axis, 0] += size * sine
                motion[axis, 1] += size * pulse * cosine
                motion[axis, 2] -= size * pulse**2 * sine
        return motion

    @cached_property
    def _ways(self) -> Floats:
        """Return how far each owner of sensors has come, ten times a second: an array [owner, sample]."""
        seconds = np.arange(int(self.seconds / _SAMPLE) + 2, dtype=np.float64) * _SAMPLE
        ways = np.zeros((int(self._roster.owners.max()) + 1, len(seconds)))
        for place, owner in enumerate(self._roster.owners.tolist()):
            motion = self._moved(seconds[1:], np.full(len(seconds) - 1, place))
            steps = np.hypot(motion[0, 1], motion[1, 1]) * _SAMPLE / self._roster.shares[place]
            ways[owner, 1:] += np.cumsum(steps)
        return ways

    def _way(self, seconds: Floats, owners: Integers) -> Floats:
        sample = (seconds / _SAMPLE).astype(np.int64)
        before, after = self._ways[owners, sample], self._ways[owners, sample + 1]
        between = before + (after - before) * (seconds / _SAMPLE - sample)
        return np.minimum(between, after)  # whatever the rounding, it does not go back

    def _possession(self, seconds: Floats) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        """Return the number of the ball played, who has or had it last, and whether still."""
        slot, within = self._slot(seconds)
        return slot, self._holder(slot), within < self._hold(slot)

    @staticmethod
    def _slot(seconds: Floats) -> tuple[Integers, Floats]:
        within = seconds % PERIOD
        part = np.minimum(within // _SLOT, _PASSES - 1)
        slot = (seconds // PERIOD * _PASSES + part).astype(np.int64)
        return slot, np.asarray(within - part * _SLOT)

    def _hold(self, slot: Integers) -> Floats:
        return 0.5 + 1.1 * uniform(self.seed, "hold", slot)

    def _holder(self, slot: Integers) -> Integers:
        """Return who gets the ball: one of the other half of the players each time, never the same."""
        half = PLAYERS // 2
        return (uniform(self.seed, "holder", slot) * half).astype(np.int64) * 2 + slot % 2

    def _play_ball(self, motion: Floats, at: Integers, seconds: Floats, slot: Integers) -> None:
        """Put the ball to the foot of who has it, or on its straight way to the next one."""
        times, slots = seconds[at], slot[at]
        holder = self._roster.shoes[self._holder(slots)]
        begin = slots // _PASSES * PERIOD + slots % _PASSES * _SLOT
        away = begin + self._hold(slots)
        arrives = (slots + 1) // _PASSES * PERIOD + (slots + 1) % _PASSES * _SLOT
        held = times < away
        kept = self._moved(times, holder)
        source = self._moved(away, holder)[:, 0]
        target = self._moved(arrives, self._roster.shoes[self._holder(slots + 1)])[:, 0]
        share = (times - away) / (arrives - away)
        flown = np.zeros_like(kept)
        flown[:, 0] = source + (target - source) * share
        flown[:, 1] = (target - source) / (arrives - away)
        motion[:, :, at] = np.where(held, kept, flown)


class Roster:
    """Who wears which sensor, and how each moves; places are positions in these arrays."""

    def __init__(self, seed: int) -> None:
        owners = [p for p in range(PLAYERS) for _ in range(4 if p in (0, 8) else 2)]
        owners += [PLAYERS] * 2 + [PLAYERS + 1 + ball for ball in range(len(BALLS))]
        people = [f"{team}{k}" for team in "AB" for k in range(1, 9)]
        names = [*people, "referee", *(f"ball {sensor}" for sensor in BALLS)]
        others = (sensor for sensor in range(13, 13 + SENSORS))
        self.owners = np.array(owners)
        self.is_ball = self.owners > PLAYERS
        ball = iter(BALLS)
        self.sensors = np.array([next(ball) if is_ball else next(others) for is_ball in self.is_ball])
        self.names = pa.array([names[owner] for owner in owners])
        self.teams = pa.array([names[owner][0] if owner < PLAYERS else None for owner in owners])
        self.shares = np.bincount(self.owners)[self.owners].astype(np.float64)
        self.shoes = np.array([owners.index(p) for p in range(PLAYERS)])  # the place of each player's first
        self._set_motion(seed)
        repeats = np.where(self.is_ball, _BALL_RECORDS, 1)
        self.order = np.random.default_rng(seed).permutation(np.repeat(np.arange(SENSORS), repeats))

    def _set_motion(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        people = len(np.unique(self.owners))
        homes = np.stack(
            [rng.uniform(0.3, 0.7, people) * FIELD[0], rng.uniform(0.25, 0.75, people) * FIELD[1]]
        )
        homes[:, PLAYERS + 1 :] = [[-1.0], [0.0]]  # balls that are not in play lie beside the field
        self.homes = homes[:, self.owners]
        self.moves = np.where(self.is_ball, 0.0, rng.uniform(0.7, 1.1, people)[self.owners])
        strides = len(_SWINGS) - 1
        self.phases = rng.uniform(0, 2 * np.pi, (2, len(_SWINGS), people))[:, :, self.owners]
        self.phases[:, strides] += np.pi * (np.arange(SENSORS) % 2)  # left, right
        self.tempos = rng.uniform(0.8, 1.25, (len(_SWINGS), people))[:, self.owners]
