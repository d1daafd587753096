"""The bounds that windows were last shown with, for rows that a condition (HAVING) takes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices
from muntin.engine.rows import INSERT, NEVER, NO_BOUND, RETRACT, Emission, concatenated, filled_in
from muntin.engine.transaction import Transactional
from muntin.settings import MEASURES


class LastShown(Transactional):
    """The bounds of the last row of each window, where that was a retraction; the window may have others now.

    All other windows were last shown as they were before the call, which their rows say.
    """

    def __init__(self) -> None:
        self.bounds: dict[tuple[int, ...], tuple[int, int]] = {}  # by query, key and identity

    def keep(self, needed: Callable[[tuple[int, ...]], bool]) -> None:
        """Forget all other windows."""
        self.bounds = {identity: bounds for identity, bounds in self.bounds.items() if needed(identity)}

    def renumber(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one."""
        self.bounds = {(n, int(codes[code]), *rest): b for (n, code, *rest), b in self.bounds.items()}

    def take_back(
        self,
        emission: Emission,
        at: Indices,
        failed: NDArray[np.bool_],
        identities: Mapping[int, Sequence[str]],
    ) -> tuple[Indices, Indices] | None:
        """Return the bounds that rows, at these places of an emission, come out with; None: their own.

        Those that failed have the bounds last shown. `identities` has the columns that tell windows apart, of
        queries whose windows stay the same when their bounds change.
        """

        def column(parts: Sequence[NDArray[Any] | None], fill: int) -> NDArray[Any]:
            found = filled_in(parts, emission.query, fill)
            return np.full(len(at), fill) if found is None else found[at]

        def side(pairs: Sequence[tuple[Indices, Indices] | None], k: int) -> NDArray[Any]:
            return column([None if pair is None else pair[k] for pair in pairs], NO_BOUND)

        query, gone = concatenated(emission.query)[at], column(emission.change, INSERT) == RETRACT
        later = np.isin(query, list(identities)) & (gone | (column(emission.revision, 0) > 0))
        if not later.any():
            return None
        code, start, end = (
            concatenated(parts)[at] for parts in (emission.code, emission.start, emission.end)
        )
        columns = {"window_start": start, "window_end": end, "window_id": column(emission.id, NEVER)}
        columns |= {name: side(emission.measure, k) for k, name in enumerate(MEASURES)}
        old_start, old_end = side(emission.was, 0), side(emission.was, 1)
        for i in np.flatnonzero(later).tolist():
            number = int(query[i])
            who = (number, int(code[i]), *(int(columns[name][i]) for name in identities[number]))
            if failed[i] and who in self.bounds:
                start[i], end[i] = self.bounds[who]
            elif failed[i] and old_start[i] != NO_BOUND:
                start[i], end[i] = old_start[i], old_end[i]
            self.overwrite_item(self.bounds, who)
            if failed[i] or gone[i]:
                self.bounds[who] = int(start[i]), int(end[i])
            else:
                self.bounds.pop(who, None)
        return start, end
