"""The names that templates are written over; the generator defines them for each aggregate.

Only names and types: a template is text, it is never imported itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

lift: Callable[..., Any]
"""lift(columns, valid, i): the state of record i."""

value: Callable[..., Any]
"""value(columns, valid, i): what is folded; the state of record i, unless the template defines another."""

present: Callable[..., bool]
"""present(valid, i): whether record i has a value at all."""

combine: Callable[..., Any]
"""combine(a, b): the older state first."""

invert_oldest: Callable[..., Any]
"""invert_oldest(a, b): take b out of the older end of a."""

no_error: Any
"""What rounding has added up to in a state that was just computed."""

error_grown: Callable[..., Any]
"""error_grown(error, state): the same after one more step, which gave this state."""

error_borne: Callable[..., bool]
"""error_borne(error, state): whether the state is still exact enough."""

same: Callable[..., bool]
"""same(a, b): whether two states are equal, NaN with NaN."""

lower: Callable[..., None]
"""lower(state, out, missing, i): write the answer for record i."""

lower_pair: Callable[..., None]
"""lower_pair(a, b, out, missing, i): write the answer of two states combined."""

one: Any
"""The identity."""

load: Callable[..., Any]
"""load(memory, at): a state."""

store: Callable[..., None]
"""store(memory, at, state)."""

lift_into: Callable[..., None]
"""lift_into(row, columns, valid, i): by reference, for large partials."""

combine_into: Callable[..., None]
"""combine_into(row, a, b): by reference; row may be a or b."""
