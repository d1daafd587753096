"""State as bytes, and back: snapshots of operators; on Spark also parts and panes, each by itself."""

from muntin.engine.state.description import Described, SnapshotError, inconsistent
from muntin.engine.state.envelope import pack, unpack
from muntin.engine.state.incremental import HEAD, Head, dump_parts, load_parts
from muntin.engine.state.panes import cut, dump_panes, load_panes

__all__ = [
    "HEAD",
    "Described",
    "Head",
    "SnapshotError",
    "cut",
    "dump_panes",
    "dump_parts",
    "inconsistent",
    "load_panes",
    "load_parts",
    "pack",
    "unpack",
]
