"""When a policy window comes out, and which records it has let go of by then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.windows.base import Inputs, PositionWindow, Window, column_name, field_names
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


Own = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Policies:
    """A trigger and an eviction, in ticks."""

    trigger: Policy
    evict: Policy


@dataclass(frozen=True)
class OwnPolicies:
    """A trigger and an eviction of which one at least is a user's function, and the columns it sees."""

    trigger: Policy | Own
    evict: Policy | Own
    columns: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class PolicyWindow(PositionWindow):
    """What eviction has left, at each record that triggers."""

    trigger: Policy | Own
    evict: Policy | Own
    columns: tuple[str, ...]
    kind = "policy_window"
    settled_only = True
    each_record = True
    context = "forward context aware"

    def _each(self) -> tuple[Policy | Own, Policy | Own]:
        return self.trigger, self.evict

    def resolved(self, clock: Clock) -> Policies | OwnPolicies:
        """Return both in ticks."""
        trigger, evict = (p.ticks(clock) if isinstance(p, Policy) else p for p in self._each())
        if isinstance(trigger, Policy) and isinstance(evict, Policy):
            return Policies(trigger, evict)
        names = tuple(dict.fromkeys(name for name, _ in self.inputs()))
        return OwnPolicies(trigger, evict, names)

    def inputs(self) -> Inputs:
        """Return the columns that they look at."""
        seen = [use for p in self._each() if isinstance(p, Policy) for use in p.inputs()]
        return (*((name, "any") for name in self.columns), *seen)

    def parameters(self) -> dict[str, Any]:
        """Return trigger, eviction and columns."""
        trigger, evict = (p.plain() if isinstance(p, Policy) else p for p in self._each())
        return {"trigger": trigger, "evict": evict, "columns": self.columns}

    def __repr__(self) -> str:
        names = [repr(p) if isinstance(p, Policy) else getattr(p, "__name__", repr(p)) for p in self._each()]
        columns = f", columns={list(self.columns)!r}" if self.columns else ""
        return f"policy_window(trigger={names[0]}, evict={names[1]}{columns})"


def policy_window(trigger: Any, evict: Any, columns: Sequence[str] = ()) -> Window:
    """At each record that triggers, what eviction has left of the records up to it.

    Each record of a key is taken in, then the oldest ones are let go of, then the trigger is asked: in
    canonical order, once nothing can come before it. Policies are in `muntin.policies`. Functions of one's
    own get the list of records held, as named tuples of the time `t` and of `columns`: `evict(held)` returns
    how many of the oldest go, `trigger(held)` whether the rest comes out.

    >>> import muntin as mt
    >>> policy_window(trigger=mt.policies.every(10), evict=mt.policies.within("1m"))
    policy_window(trigger=every(10), evict=within('1m'))
    """
    return PolicyWindow(
        _policy(trigger, "trigger", TRIGGERS),
        _policy(evict, "evict", EVICTIONS),
        field_names(columns, with_time=True),
    )


def _policy(value: Any, what: str, names: tuple[str, ...]) -> Policy | Own:
    if callable(value) and not isinstance(value, Policy):
        own: Own = value
        return own
    if isinstance(value, (tuple, list)) and value and value[0] in MAKERS:  # as a snapshot has it
        value = MAKERS[value[0]](*value[1:])
    if not isinstance(value, Policy) or value.name not in names:
        allowed = ", ".join(f"mt.policies.{name}" for name in names)
        raise TypeError(f"{what} is one of {allowed}, or a function of one's own, not {value!r}.")
    return value


__all__ = ["Policy", "delta", "every", "keep", "when", "within"]
