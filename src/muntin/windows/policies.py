"""When a policy window comes out, and which records it has let go of by then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.windows.base import Inputs, PositionWindow, Window, column_name
from muntin.windows.count import record_count
from muntin.windows.durations import Clock, Duration
from muntin.windows.frames import delta_frame
from muntin.windows.grid import plain


@dataclass(frozen=True)
class Policy:
    """A trigger or an eviction: what it is called, and what it was given."""

    name: str
    amount: Any = None  # a number of records, a Duration, or a difference
    column: str | None = None

    def ticks(self, clock: Clock) -> Policy:
        """Return it in ticks of a clock."""
        if not isinstance(self.amount, Duration):
            return self
        return Policy(self.name, self.amount.ticks(clock, "length"))

    def inputs(self) -> Inputs:
        """Return the column it looks at."""
        if self.column is None:
            return ()
        return ((self.column, "flag" if self.name == "when" else "number"),)

    def plain(self) -> tuple[Any, ...]:
        """Return what it was made of."""
        amount = plain(self.amount) if isinstance(self.amount, Duration) else self.amount
        return (self.name, *(part for part in (self.column, amount) if part is not None))

    def __repr__(self) -> str:
        name, *given = self.plain()
        return f"{name}({', '.join(map(repr, given))})"


def every(n: int) -> Policy:
    """Trigger at each n-th record of a key.

    >>> every(10)
    every(10)
    """
    return Policy("every", record_count(n, "n"))


def when(column: str) -> Policy:
    """Trigger at records where a column is true; or let go, at such a record, of all before it.

    >>> when("is_full")
    when('is_full')
    """
    return Policy("when", None, column_name(column, "when"))


def keep(n: int) -> Policy:
    """Let go of all but the last n records.

    >>> keep(100)
    keep(100)
    """
    return Policy("keep", record_count(n, "n"))


def within(length: Any) -> Policy:
    """Let go of records that are `length` or more before the newest.

    >>> within("10s")
    within('10s')
    """
    return Policy("within", Duration.of(length, "length"))


def delta(column: str, by: float) -> Policy:
    """Let go of the oldest records, up to the first whose value is within `by` of the newest one's.

    A record without a value counts as near, and lets go of nothing.

    >>> delta("pos", by=5.0)
    delta('pos', 5.0)
    """
    delta_frame(column, by)  # refuses what is no difference
    return Policy("delta", by, column)


MAKERS = {maker.__name__: maker for maker in (every, when, keep, within, delta)}
TRIGGERS, EVICTIONS = ("every", "when"), ("keep", "within", "delta", "when")


@dataclass(frozen=True)
class Policies:
    """A trigger and an eviction, in ticks."""

    trigger: Policy
    evict: Policy


@dataclass(frozen=True, repr=False)
class PolicyWindow(PositionWindow):
    """What eviction has left, at each record that triggers."""

    trigger: Policy
    evict: Policy
    kind = "policy_window"
    context = "forward context aware"

    def resolved(self, clock: Clock) -> Policies:
        """Return both in ticks."""
        return Policies(self.trigger.ticks(clock), self.evict.ticks(clock))

    def inputs(self) -> Inputs:
        """Return the columns that they look at."""
        return (*self.trigger.inputs(), *self.evict.inputs())

    def parameters(self) -> dict[str, Any]:
        """Return trigger and eviction."""
        return {"trigger": self.trigger.plain(), "evict": self.evict.plain()}

    def __repr__(self) -> str:
        return f"policy_window(trigger={self.trigger!r}, evict={self.evict!r})"


def policy_window(trigger: Any, evict: Any) -> Window:
    """At each record that triggers, what eviction has left of the records up to it.

    Each record of a key is taken in, then the oldest ones are let go of, then the trigger is asked: in
    canonical order, once nothing can come before it. Policies are in `muntin.policies`.

    >>> import muntin as mt
    >>> policy_window(trigger=mt.policies.every(10), evict=mt.policies.within("1m"))
    policy_window(trigger=every(10), evict=within('1m'))
    """
    return PolicyWindow(_policy(trigger, "trigger", TRIGGERS), _policy(evict, "evict", EVICTIONS))


def _policy(value: Any, what: str, names: tuple[str, ...]) -> Policy:
    if isinstance(value, (tuple, list)) and value and value[0] in MAKERS:  # as a snapshot has it
        value = MAKERS[value[0]](*value[1:])
    if not isinstance(value, Policy) or value.name not in names:
        allowed = ", ".join(f"mt.policies.{name}" for name in names)
        raise TypeError(f"{what} is one of {allowed}, not {value!r}.")
    return value


__all__ = ["Policy", "delta", "every", "keep", "when", "within"]
