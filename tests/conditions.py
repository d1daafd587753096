"""Expressions of the tests as SQL has them, each beside what it means in plain Python; None is null."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is null where an argument is."""
    return lambda *values: None if None in values else function(*values)


def both(a: bool | None, b: bool | None) -> bool | None:
    """AND of three values."""
    return False if a is False or b is False else None if None in (a, b) else True


def either(a: bool | None, b: bool | None) -> bool | None:
    """OR of three values."""
    return True if a is True or b is True else None if None in (a, b) else False


negated = _strict(operator.not_)
above, below = _strict(operator.gt), _strict(operator.lt)
at_least, at_most, equal = _strict(operator.ge), _strict(operator.le), _strict(operator.eq)
_less = _strict(operator.sub)


def _over(a: Any, b: Any) -> float | None:
    return None if None in (a, b) or b == 0 else a / b


def _rest(a: Any, b: Any) -> Any:
    return None if None in (a, b) or b == 0 else type(a)(math.fmod(a, b))


# Conditions on records.
WHERE: dict[str, Callable[[Any], bool | None]] = {
    "w > 0": lambda r: above(r.w, 0),
    "NOT v <= 1": lambda r: negated(at_most(r.v, 1)),
    "p": lambda r: r.p,
    "NOT p": lambda r: negated(r.p),
    "p AND NOT q": lambda r: both(r.p, negated(r.q)),
    "p OR q OR w = 2": lambda r: either(either(r.p, r.q), equal(r.w, 2)),
    "p IS NULL OR w % 2 = 0": lambda r: either(r.p is None, equal(_rest(r.w, 2), 0)),
    "v BETWEEN -1 AND w": lambda r: both(at_least(r.v, -1), at_most(r.v, r.w)),
    "w IN (1, 2, NULL)": lambda r: True if r.w in (1, 2) else None,
    "NOT w IN (-3, 1)": lambda r: negated(None if r.w is None else r.w in (-3, 1)),
    "COALESCE(v, 3) >= w": lambda r: at_least(3 if r.v is None else r.v, r.w),
    "v / w > 0.5": lambda r: above(_over(r.v, r.w), 0.5),
    "CASE WHEN p THEN w > 0 ELSE v IS NOT NULL END": lambda r: above(r.w, 0) if r.p else r.v is not None,
    "t % 5 <> 3": lambda r: r.t % 5 != 3 if r.t >= 0 else _rest(r.t, 5) != 3,
    "w > 9": lambda r: above(r.w, 9),
}

# Values of records.
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "v * 2 - w": lambda r: None if None in (r.v, r.w) else r.v * 2 - r.w,
    "ABS(w)": lambda r: None if r.w is None else abs(r.w),
    "w % 3": lambda r: _rest(r.w, 3),
    "v / w": lambda r: _over(r.v, r.w),
    "-w + 1": lambda r: _less(1, r.w),
    "CASE WHEN p THEN v END": lambda r: r.v if r.p else None,
}
FLAGS: dict[str, Callable[[Any], bool | None]] = {
    "p AND w > 0": lambda r: both(r.p, above(r.w, 0)),
    "w = 1 OR q": lambda r: either(equal(r.w, 1), r.q),
}
COMPUTED = NUMBERS | FLAGS


def having(column: str, call: tuple[str, ...]) -> dict[str, Callable[[Any], bool | None]]:
    """Conditions on rows with this aggregate."""
    quoted = f'"{column}"'
    found: dict[str, Callable[[Any], bool | None]] = {
        "window_end % 3 <> 0": lambda row: _rest(row.end, 3) != 0,
        "window_id IS NULL OR window_id > 0": lambda row: row.id is None or row.id > 0,
        f"{quoted} IS NOT NULL": lambda row: row.values[column] is not None,
        f"{quoted} IS NULL OR window_start < 10": lambda row: row.values[column] is None or row.start < 10,
    }
    if call[0] in ("count", "sum", "min", "max"):
        found |= {
            f"{quoted} > 1": lambda row: above(row.values[column], 1),
            f"NOT {quoted} + 1 > 2": lambda row: negated(above(row.values[column], 1)),
        }
    return found
