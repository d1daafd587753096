"""What is wrong with a statement: one sentence with its line, its column and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


class SqlError(ValueError):
    """A statement that cannot be read or is not supported; it knows its line and column, from 1.

    >>> SqlError("SELECT 1\\nFORM x", 9, "FROM is missing.")
    SqlError('line 2, column 1: FROM is missing.')
    """

    def __init__(self, text: str, at: int, message: str) -> None:
        before = text[:at]
        self.line = before.count("\n") + 1
        self.column = at - (before.rfind("\n") + 1) + 1
        self.reason = message
        super().__init__(f"line {self.line}, column {self.column}: {message}")

    def __reduce__(self) -> tuple[object, ...]:
        """Let it be pickled: it is made of its place, not of its text."""
        return (_again, (self.line, self.column, self.reason))


def _again(line: int, column: int, reason: str) -> SqlError:
    before = "\n" * (line - 1) + " " * (column - 1)
    return SqlError(before, len(before), reason)


def nearest(name: str, known: Iterable[str], hints: Mapping[str, str] | None = None) -> str:
    """Return the end of a sentence that names what is nearest to a name, or all there is.

    >>> nearest("AVGG", ["AVG", "SUM"]), nearest("RANK", ["AVG", "SUM"])
    ('the nearest is AVG', 'there are AVG and SUM')
    """
    hint = (hints or {}).get(name.upper())
    if hint is not None:
        return hint
    names = sorted(known)
    close = difflib.get_close_matches(name.upper(), names, n=1, cutoff=0.6)
    if close:
        return f"the nearest is {close[0]}"
    return f"there are {', '.join(names[:-1])} and {names[-1]}"
