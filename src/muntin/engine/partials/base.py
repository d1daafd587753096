"""The protocol of fields: partials of one fused part over columns, and what is done with arrays of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Absent, Aggregate, Kinds
from muntin.algebra.parts import Part
from muntin.columnar import Indices
from muntin.engine.ingest.batch import Values
from muntin.engine.rows import Answers
from muntin.engine.transaction import Transactional

States = NDArray[Any]
ABSENT = Absent("ABSENT")  # what an object field holds where there is no value


class FieldPartials(Transactional, ABC):
    """The verbs of a field, over arrays of its partials.

    Who has a field asks it what it can do, and never which class it is of. `make_field` alone knows the
    classes; tests/engine/test_fields.py holds all of them to what is said here. Values come in the order of
    their records. A field changes no partials but those that it is told to put records or partials into.
    What its partials come to depends on the records alone, not on how they were cut into segments and merged
    (but for the rounding of floats, and within the bounds of sketches).
    """

    often: ClassVar[tuple[str, ...] | None] = ()

    # ---- what it holds ----
    part: Part | None = None  # whose components it holds; None: it is the only field of its aggregates
    kinds: Kinds | None = None  # of the numbers that it reads; None: objects
    nullable: bool  # a partial may hold no value
    opaque: bool = False  # partials are known to a user's functions alone
    adds_integers: bool = False  # partials are sums of integers, of which `sum_bound` tells how large
    counts_records: bool = False  # partials are numbers of records
    loads_any_form: ClassVar[bool] = False  # partials dumped in any form are loaded as they are
    packs: ClassVar[bool] = False  # partials point to values, which `pack` keeps together

    # ---- what can be done with it ----
    invertible: bool  # a fold over a range of slices can be the difference of two
    removes_exactly: bool = False  # the newest records can be taken out of a partial again
    selective: bool = False  # a partial is that of one record, which `selected` tells
    folds: tuple[str, ...] = ("each",)  # the strategies that there are verbs for: see store/strategies.py
    folds_in_any_order: bool = False  # windows of several queries may come mixed
    merges_slowly: bool = False  # a merge of two partials takes longer than all else

    def accept(self, values: Values) -> FieldPartials:
        """Return the field that holds what these values need: this one, or one in another form."""
        del values
        return self

    def converted(self, states: States, new: FieldPartials) -> States:
        """Return partials in the form of the field that took this one's place: they hold no value yet."""
        return new.allocate(len(states))

    def without(self, states: States, gone: States) -> States:
        """Return partials without those of records that leave, where `removes_exactly`."""
        raise TypeError(f"{self!r} cannot take {len(gone)} partials out of {len(states)}.")

    def selected(self, states: States, gone: States) -> NDArray[np.bool_]:
        """Return which partials select a record among those that leave, where it is `selective`."""
        raise TypeError(f"{self!r} does not select among {len(gone)} partials and {len(states)}.")

    @property
    def form(self) -> str:
        """What partials can hold: numbers, also none, or anything."""
        return "object" if self.kinds is None else "nullable" if self.nullable else "plain"

    @property
    def reads_objects(self) -> bool:
        """Whether columns must come as objects."""
        return self.kinds is None

    @abstractmethod
    def allocate(self, count: int) -> States:
        """Return room for so many partials."""

    @abstractmethod
    def of_segments(self, values: Values, bounds: Indices) -> States:
        """Return the partials of neighbouring records, from one bound to the next."""

    def followed(self, states: States, values: Values) -> States:
        """Return partials, followed by those of records, each by itself."""
        alone = self.of_segments(values, np.arange(values.count + 1))
        return np.concatenate([states, alone]) if len(states) else alone

    @abstractmethod
    def scatter(
        self, values: Values, at: Indices, blank: NDArray[np.bool_], states: States, *, apart: bool
    ) -> None:
        """Put record i behind the state at[i]; blank ones, which hold nothing yet, are then no longer.

        `apart` says that hardly ever two neighbours have one state, which makes no difference but in time.
        """

    @abstractmethod
    def add_one(self, values: Values, states: States, at: int, new: bool) -> None:
        """Put a single record behind the state at a place, if there is one."""

    @abstractmethod
    def merge(self, states: States, at: Indices, blank: NDArray[np.bool_], others: States) -> None:
        """Put each of the others behind the state at its place, in turn; blank ones are just set."""

    @abstractmethod
    def each_range(self, states: States, low: Indices, high: Indices) -> tuple[States, int]:
        """Return the partials of ranges, none empty, each folded by itself, and the number of combines."""

    def each_window(self, states: States, low: Indices, high: Indices) -> tuple[States, int]:
        """Return what `answers` takes for windows over ranges: partials, unless answers are smaller."""
        return self.each_range(states, low, high)

    def components(self, states: States, *, floats: bool) -> Sequence[Any]:
        """Return each component of the part as a column: numbers, or a list with None for no value."""
        raise TypeError(f"{self!r} holds no components in {len(states)} partials ({floats=}).")

    @abstractmethod
    def answers(self, states: States, aggregate: Aggregate) -> Answers:
        """Return the answers of an aggregate that no other field serves."""

    @abstractmethod
    def present(self, states: States) -> NDArray[np.bool_] | None:
        """Return which partials hold a value; None if all do."""

    def sum_bound(self, states: States) -> int:
        """Return what no sum of these partials can be larger than, where `adds_integers`."""
        raise TypeError(f"{self!r} adds up no integers in {len(states)} partials.")

    # ---- values that partials point to ----

    @property
    def crowded(self) -> bool:
        """Whether it is time to pack."""
        return False

    @property
    def nbytes(self) -> int:
        """The bytes of values that partials point to."""
        return 0

    def pack(self, held: Sequence[States]) -> list[States]:
        """Let go of all values but those of partials that somebody holds; return these as they then are."""
        return list(held)
