"""Descriptions that come from outside, read value by value: each is asked for with its type and bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

_SHOWN = 40  # characters of a value


class SnapshotError(ValueError):
    """A snapshot that cannot be read, or a state that cannot be kept in one."""

    found = "value"  # the type of what cannot be kept


def inconsistent(what: str) -> SnapshotError:
    """Return what is said of a snapshot whose checksum fits, but not its content."""
    return SnapshotError(f"this snapshot holds what muntin would not have written: {what}.")


_BROKEN = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError)


@contextlib.contextmanager
def reading(part: str) -> Iterator[None]:
    """Say of whatever breaks off that it is this part of the snapshot, which nothing can be made of."""
    try:
        yield
    except SnapshotError:
        raise
    except _BROKEN as error:  # also those of Arrow, and where something is nested too deeply
        said = " ".join(str(error).split()).rstrip(".")
        raise inconsistent(f"{part} cannot be made ({type(error).__name__}: {said})") from error


class Described:
    """A value of a description, as JSON has it, and where it stands.

    >>> told = Described({"batches": [1, -2]}, "run")
    >>> told["batches"].each()[0].whole()
    1
    >>> told["batches"].each()[1].whole(0)
    Traceback (most recent call last):
    muntin.engine.state.description.SnapshotError: this snapshot holds what muntin would not have written: \
run.batches[1] is -2, not a whole number from 0 on.
    """

    __slots__ = ("value", "where")

    def __init__(self, value: Any, where: str) -> None:
        self.value, self.where = value, where

    def wrong(self, wanted: str) -> NoReturn:
        """Refuse the value, which should have been something else."""
        shown = repr(self.value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        raise inconsistent(f"{self.where} is {shown}, not {wanted}")

    def _of(self, kind: type, wanted: str) -> Any:
        if type(self.value) is not kind:
            self.wrong(wanted)
        return self.value

    # ---- tables and lists ----

    def __getitem__(self, name: str) -> Described:
        table = self.table()
        if name not in table:
            raise inconsistent(f"{self.where} lacks {name!r}")
        return Described(table[name], f"{self.where}.{name}")

    def get(self, name: str, default: Any) -> Described:
        """Return a value that older snapshots lack, or what stands for it there."""
        return self[name] if name in self.table() else Described(default, f"{self.where}.{name}")

    def table(self) -> dict[str, Any]:
        """Return a table as it is."""
        table: dict[str, Any] = self._of(dict, "a table")
        return table

    def items(self) -> list[tuple[str, Described]]:
        """Return the values of a table by name."""
        return [(name, Described(value, f"{self.where}.{name}")) for name, value in self.table().items()]

    def each(self, count: int | None = None) -> list[Described]:
        """Return the values of a list, of which there are so many."""
        values = self._of(list, "a list")
        if count is not None and len(values) != count:
            self.wrong(f"a list of {count}")
        return [Described(value, f"{self.where}[{k}]") for k, value in enumerate(values)]

    # ---- values ----

    @property
    def missing(self) -> bool:
        """Whether there is no value."""
        return self.value is None

    def whole(self, low: int | None = None, high: int | None = None) -> int:
        """Return a whole number within bounds."""
        if type(self.value) is not int or (low is not None and self.value < low):
            self.wrong("a whole number" + ("" if low is None else f" from {low} on"))
        if high is not None and self.value > high:
            self.wrong(f"a whole number up to {high}")
        number: int = self.value
        return number

    def text(self) -> str:
        """Return a text."""
        text: str = self._of(str, "a text")
        return text

    def text_or_none(self) -> str | None:
        """Return a text, if there is one."""
        return None if self.missing else self.text()

    def whole_or_none(self, low: int | None = None, high: int | None = None) -> int | None:
        """Return a whole number within bounds, if there is one."""
        return None if self.missing else self.whole(low, high)

    def flag(self) -> bool:
        """Return a truth."""
        flag: bool = self._of(bool, "true or false")
        return flag

    def one_of(self, choices: Iterable[Any]) -> Any:
        """Return one of some values."""
        listed = list(choices)
        if not any(type(self.value) is type(choice) and self.value == choice for choice in listed):
            self.wrong(f"one of {', '.join(map(repr, listed))}")
        return self.value

    def texts(self) -> list[str]:
        """Return a list of texts."""
        return [told.text() for told in self.each()]

    def wholes(self, low: int | None = None, high: int | None = None) -> list[int]:
        """Return a list of whole numbers within bounds."""
        return [told.whole(low, high) for told in self.each()]
