"""The engine: all state of an operator, in ticks and numbers of keys.

The folders are the way of a record. `plan` says what queries ask for and decides how; `ingest` reads a batch
and judges its times by the watermark; `slices` cuts it, with the help of `listers` where records themselves
say where windows begin and end; `store` holds a cell of `partials` for each slice and key, and folds them to
windows; `output` makes tables of them. `state` writes all of it down and reads it back.
"""

from muntin.engine.engine import Engine
from muntin.engine.explain import Explanation
from muntin.engine.rows import FOREVER, NEVER

__all__ = ["FOREVER", "NEVER", "Engine", "Explanation"]
