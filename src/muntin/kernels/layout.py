"""How a state lies in memory: a plain array for a scalar, rows of floats, or records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ZERO = {"f": 0.0, "i": 0, "b": False}


@dataclass(frozen=True)
class Layout:
    """The scalars of a state, by type code: "f8", "i8" or "b1"."""

    fields: tuple[str, ...]

    @property
    def scalar(self) -> bool:
        """Whether the state is one scalar, not a tuple."""
        return len(self.fields) == 1

    @property
    def _rows(self) -> bool:
        return not self.scalar and set(self.fields) == {"f8"}

    def allocate(self, length: int) -> NDArray[Any]:
        """Return room for so many states."""
        if self.scalar:
            return np.zeros(length, self.fields[0])
        if self._rows:
            return np.zeros((length, len(self.fields)))
        record = np.dtype([(f"f{k}", code) for k, code in enumerate(self.fields)], align=True)
        return np.zeros(length, record)

    def zero(self) -> Any:
        """Return a state that means nothing: what fills the room of an empty one."""
        zeros = tuple(_ZERO[code[0]] for code in self.fields)
        return zeros[0] if self.scalar else zeros

    def optional(self) -> Layout:
        """Return the layout with a flag before it that says whether there is a state at all."""
        return Layout(("b1", *self.fields))

    def source(self) -> str:
        """Return the text of `load` and `store`."""
        if self.scalar:
            cells = ["memory[at]"]
        elif self._rows:
            cells = [f"memory[at, {k}]" for k in range(len(self.fields))]
        else:
            cells = [f"memory[at].f{k}" for k in range(len(self.fields))]
        loaded = cells[0] if self.scalar else "(" + ", ".join(cells) + ")"
        stores = (
            ["memory[at] = state"]
            if self.scalar
            else [f"{cell} = state[{k}]" for k, cell in enumerate(cells)]
        )
        lines = ["@njit", "def load(memory, at):", f"    return {loaded}"]
        lines += ["@njit", "def store(memory, at, state):", *(f"    {store}" for store in stores)]
        return "\n".join(lines)
